"""A corpus that a teacher of transformers wrote: a tiny M2M-100 with random weights, made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pmd_corpora.taught import Teacher, build, main
from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.errors import UserError
from tests.marian_files import spm, texts, transformers

CODES = {"fra": "fr", "deu": "de", "eng": "en"}
WORDS = [f"{language}={code}" for language, code in CODES.items()]


@pytest.fixture(scope="module")
def place(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two pairs and a teacher."""
    folder, corpus = tmp_path_factory.mktemp("taught"), tiny_corpus.only(["fra-eng", "deu-eng"])
    write_corpus(corpus, folder / "corpus")
    model = spm([*texts(corpus, 0), *texts(corpus, 1)], 120)
    (folder / "pieces.spm").write_bytes(model)
    import sentencepiece

    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(sp.id_to_piece(i) for i in range(3, sp.get_piece_size()))]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}), encoding="utf-8")
    tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "pieces.spm"))
    config = transformers.M2M100Config(
        vocab_size=1 + max(len(tokenizer), *map(tokenizer.get_lang_id, CODES.values())),
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    teacher = transformers.M2M100ForConditionalGeneration(config).eval()
    for parameter in teacher.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    teacher.generation_config.forced_eos_token_id = None
    teacher.save_pretrained(folder / "teacher")
    tokenizer.save_pretrained(folder / "teacher")
    return folder


@pytest.mark.slow
def test_the_teacher_writes_the_training_targets_alone(place: Path, tmp_path: Path) -> None:
    words = [str(place / "corpus"), "--teacher", str(place / "teacher"), "--beam", "2", "--out", str(tmp_path / "out")]
    assert main([*words, "--batch", "7", "--codes", *WORDS]) == 0
    before, after = load_corpus(place / "corpus"), load_corpus(tmp_path / "out")
    assert all(list(getattr(after, name)[pair]) == list(getattr(before, name)[pair])
               for name in ("valid", "test") for pair in before.pairs)  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(place / "teacher")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(place / "teacher").eval()
    different = 0
    for pair in before.pairs:
        assert [src for src, _ in after.train[pair]] == [src for src, _ in before.train[pair]]
        for (src, trg), (_, found) in list(zip(before.train[pair], after.train[pair], strict=True))[:4]:
            tokenizer.src_lang = CODES[pair.split("-")[0]]
            batch = tokenizer(src, return_tensors="pt")
            ids = model.generate(**batch, num_beams=2, forced_bos_token_id=tokenizer.get_lang_id("en"),
                                 max_new_tokens=2 * batch["input_ids"].shape[1] + 20, max_length=None)  # fmt: skip
            assert ids[0, 1] == tokenizer.get_lang_id("en")
            expected = " ".join(tokenizer.decode(ids[0], skip_special_tokens=True).split()) or trg
            different += found != trg
            # In a batch the limit follows its longest source, so a translation that does not end may be longer there.
            assert found == expected or found.startswith(expected[:10])
    assert different > 4
    said = (tmp_path / "out" / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "whose licence holds for them too" in said


def test_an_interrupted_teacher_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty translation leaves the reference; another teacher begins anew."""
    calls: list[int] = []

    def translate(self: Teacher, lines: list[str], pair: str) -> list[str]:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(len(lines))
        return ["" if "a" in line else line.upper() for line in lines]

    monkeypatch.setattr(Teacher, "translate", translate)
    words: dict[str, Any] = {"teacher": str(place / "teacher"), "codes": WORDS, "batch": 10}
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", place / "corpus", **words)
    (work,) = (tmp_path / "out.work").iterdir()
    with (work / "fra-eng.txt").open("a", encoding="utf-8") as stream:
        stream.write("half a li")
    done = list(calls)
    calls[:] = [0] * 4
    corpus = load_corpus(build(tmp_path / "out", place / "corpus", **words))
    before = load_corpus(place / "corpus")
    assert sum(done) + sum(calls) == sum(before.sizes)
    for pair in before.pairs:
        expected = [(src, trg if "a" in src else src.upper()) for src, trg in before.train[pair]]
        assert list(corpus.train[pair]) == expected
    build(tmp_path / "out", place / "corpus", **{**words, "beam": 2}, overwrite=True)
    assert len(list((tmp_path / "out.work").iterdir())) == 2


def test_what_cannot_teach_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no language 'fra_Latn' for fra. Give its name of it: --codes fra="):
        build(tmp_path / "out", place / "corpus", teacher=str(place / "teacher"), codes=[*WORDS, "fra=fra_Latn"])
    with pytest.raises(UserError, match="codes for fr, but the corpus has deu, eng, fra"):
        build(tmp_path / "out", place / "corpus", teacher=str(place / "teacher"), codes=[*WORDS, "fr=fr"])
    with pytest.raises(UserError, match="transformers cannot load this teacher"):
        build(tmp_path / "out", place / "corpus", teacher=str(place / "corpus"))
    assert not (tmp_path / "out").exists()
