"""A Marian checkpoint as on the hub (`marian_files`): the same pieces, logits and translations with our ids."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from pmd_lite.errors import UserError
from pmd_lite.exchange.marian import NEVER, RARELY, Imported, import_marian
from pmd_lite.model.decoding import translate_batch
from tests.marian_files import checkpoint, texts, transformers


@pytest.fixture(scope="module")
def corpus(three_pairs: Corpus) -> Corpus:
    return three_pairs


def their_names(tokenizer: Any, ids: list[int]) -> list[str]:
    return [str(name) for name in tokenizer.convert_ids_to_tokens(ids)]


def our_names(tokenizer: Tokenizer, ids: list[int], known: set[str]) -> list[str]:
    """The names of these ids; a piece that the checkpoint does not know is named UNK, as the checkpoint reads it."""
    return [name if (name := tokenizer.piece(i)) in known else "<unk>" for i in ids]


def test_the_same_pieces_as_marians_own_tokenizer(one_target: Path, imported: Imported, corpus: Corpus) -> None:
    theirs, ours, pair = transformers.AutoTokenizer.from_pretrained(one_target), imported.tokenizer, corpus.pairs[1]
    known, unknown = set(json.loads((one_target / "vocab.json").read_text(encoding="utf-8"))), 0
    for side, name in enumerate(("source", "target")):
        lines = [*texts(corpus, side)[:60], "\u4e2d unseen \u00e9", "  spaces  "]
        sp = sentencepiece.SentencePieceProcessor(model_file=str(one_target / f"{name}.spm"))
        own_pieces = {sp.id_to_piece(i) for i in range(sp.get_piece_size())}
        batch = theirs(lines) if side == 0 else theirs(text_target=lines)
        found = ours.encode(lines, pair, "src" if side == 0 else "trg")
        for ids, own in zip(batch["input_ids"], found, strict=True):
            names = our_names(ours, own[1 - side :], known)  # a source has its tag
            # A character that this side's model lacks is UNK, also where it is a piece of the other side's.
            assert names == [name if name in own_pieces else "<unk>" for name in their_names(theirs, ids)]
            unknown += names.count("<unk>")
    assert unknown > 5, "the example needs pieces that vocab.json does not list"


def rows_of(imported: Imported, folder: Path) -> tuple[list[int], list[int]]:
    """(our id, the checkpoint's id) of each name in vocab.json that we have too."""
    names = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    tokenizer = imported.tokenizer
    ours = {tokenizer.piece(i): i for i in range(tokenizer.vocab_size)}
    shared = [name for name in names if name in ours]
    assert len(shared) >= len(names) - 3
    return [ours[name] for name in shared], [names[name] for name in shared]


@pytest.mark.slow
@pytest.mark.parametrize(("share", "bias"), [(True, True), (False, True), (True, False)])
def test_the_same_logits_for_every_id_that_both_have(share: bool, bias: bool, corpus: Corpus, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "opus", corpus, share=share, bias=bias)
    marian = transformers.MarianMTModel.from_pretrained(folder)
    if not bias:  # as most of the hub's lie there: a pickle, which is read as tensors alone
        torch.save(marian.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    found = import_marian(folder, tmp_path / "out", corpus.pairs)
    model = found.model()
    ours, theirs = rows_of(found, folder)
    there = dict(zip(ours, theirs, strict=True))
    compared = [(a, b) for a, b in there.items() if a != PAD]  # which none of ours may predict
    ids = [i for i in ours if i not in (PAD, EOS)]
    src, trg = (torch.tensor(random.Random(seed).choices(ids, k=24)).view(3, 8) for seed in (1, 2))
    src[1, 5:], trg[:, 0] = PAD, BOS
    start = marian.config.decoder_start_token_id
    their_src = src.clone().apply_(lambda i: there[i])
    their_trg = trg.clone().apply_(lambda i: start if i == BOS else there[i])
    with torch.no_grad():
        expected = marian(input_ids=their_src, attention_mask=src.ne(PAD), decoder_input_ids=their_trg).logits
        logits = model(src, trg)
    assert expected.std(dim=(0, 1)).max() > 1
    ours, theirs = ([pair[side] for pair in compared] for side in (0, 1))
    torch.testing.assert_close(logits[..., ours], expected[..., theirs], atol=1e-5, rtol=1e-5)
    everything_else = torch.ones(model.vocab_size, dtype=torch.bool).index_fill_(0, torch.tensor(ours), False)
    assert logits.softmax(-1)[..., everything_else].sum(-1).max() < 1e-3, "unpredicted ids take no probability"
    assert not bias or expected.softmax(-1)[..., marian.config.pad_token_id].mean() > 0.8


def test_what_the_checkpoint_never_predicted_starts_out_of_reach(one_target: Path, imported: Imported) -> None:
    model, tokenizer = imported.model(), imported.tokenizer
    names = json.loads((one_target / "vocab.json").read_text(encoding="utf-8"))
    missing = [i for i in range(EOS + 1, tokenizer.vocab_size) if tokenizer.piece(i) not in names]
    tags = list(tokenizer.tags.values())
    pieces = sorted(set(missing) - set(tags))
    assert len(pieces) == 5
    table, bias = model.embedding.weight.detach(), model.output_bias.detach()  # type: ignore[union-attr]
    for i, like, least in [*((i, PAD, NEVER) for i in (PAD, BOS, *tags)), *((i, UNK, bias[UNK]) for i in pieces)]:
        assert torch.equal(table[i], table[like])
        assert bias[i].item() == pytest.approx(float(least) - (RARELY if like == UNK else 0))


@pytest.mark.slow
def test_a_checkpoint_for_several_targets_translates_as_marian_does(corpus: Corpus, tmp_path: Path) -> None:
    """With its codes (>>aaa<<) as our tags, every step from text to text equals the checkpoint's."""
    turned = corpus.reversed()
    targets = [pair.split("-")[1] for pair in turned.pairs]
    codes = {language: f"{language}_X" for language in targets}
    folder = checkpoint(tmp_path / "opus", turned, codes=tuple(codes.values()))
    said = {language: f">>{code}<<" for language, code in codes.items()}  # as it stands in vocab.json
    found = import_marian(folder, tmp_path / "out", turned.pairs, said)
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), found.model()
    marian = transformers.MarianMTModel.from_pretrained(folder)
    known, ends = set(json.loads((folder / "vocab.json").read_text(encoding="utf-8"))), 0
    seen = set()
    for pair, language in zip(turned.pairs, targets, strict=True):
        lines = [src for src, _ in turned.train[pair][:12]]
        batch = tokenizer([f">>{codes[language]}<< {line}" for line in lines], return_tensors="pt", padding=True)
        generated = marian.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=13, bad_words_ids=[
            [marian.config.pad_token_id], [tokenizer.unk_token_id], *([tokenizer.convert_tokens_to_ids(f">>{c}<<")]
                                                                      for c in codes.values())])  # fmt: skip
        sources = found.tokenizer.encode(lines, pair, "src")
        src = torch.full((len(sources), max(map(len, sources))), PAD)
        for row, ids in enumerate(sources):
            src[row, : len(ids)] = torch.tensor(ids)
        never = [UNK, *found.tokenizer.tags.values()]
        never += [i for i in range(EOS + 1, found.tokenizer.vocab_size) if found.tokenizer.piece(i) not in known]
        ours = translate_batch(model, src, beam=1, max_len=12, bos=BOS, eos=EOS, pad=PAD, banned=sorted(set(never)))
        for row, hypothesis in zip(generated.tolist(), ours, strict=True):
            names = their_names(tokenizer, row[1:])
            ended = "</s>" in names
            names = names[: names.index("</s>")] if ended else names[:12]
            assert our_names(found.tokenizer, hypothesis.tokens, known) == names
            ends += ended
            seen.add(tuple(names))
    assert len(seen) > 5
    assert ends > 3


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.fixture
def copy(one_target: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "copy"
    shutil.copytree(one_target, folder)
    yield folder
    assert {path.name for path in tmp_path.iterdir()} <= {"copy"}, "a refusal leaves nothing behind"


@pytest.mark.slow
def test_what_is_no_checkpoint_is_refused_by_name(copy: Path, corpus: Corpus) -> None:
    out = copy.parent / "out"

    def refused(message: str, pairs: Any = corpus.pairs, codes: Any = None) -> None:
        with pytest.raises(UserError, match=message):
            import_marian(copy, out, pairs, codes)

    refused("name the pairs", pairs=[])
    refused("name the pairs", pairs=["fr"])
    refused("name the pairs", pairs=["a/b-en"])
    refused("en on both sides", pairs=["fr-en", "en-de"])
    refused("codes for xx, but the target languages are eng", codes={"xx": "y"})
    refused("no target language 'y'; it has one, without a code", codes={"eng": "y"})
    (copy / "target_vocab.json").write_text("{}", encoding="utf-8")
    refused("a vocabulary for each side")
    (copy / "target_vocab.json").unlink()
    names = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    for bad in ("[1", "[]", json.dumps({"a": 1}), json.dumps({**names, "a": "b"})):
        (copy / "vocab.json").write_text(bad, encoding="utf-8")
        refused("vocab.json is not a vocabulary of Marian")
    (copy / "vocab.json").write_text(json.dumps({**names, "more": len(names)}), encoding="utf-8")
    refused("ids up to .* do not belong together")
    (copy / "vocab.json").write_text(json.dumps(dict.fromkeys(names, 0)), encoding="utf-8")
    refused("ids up to 0, .* do not belong together")
    strange = {name if name[0] in "<>" else f"{name}{i}": i for name, i in names.items()}
    (copy / "vocab.json").write_text(json.dumps(strange), encoding="utf-8")
    refused("vocab.json lists 0 of the .* do not belong together")
    (copy / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    refused("transformers cannot load a model from it")
    weights.unlink()
    for bad in ({"model.shared.weight": Path(copy / "touched")}, [1]):  # the first is a pickle with a call in it
        torch.save(bad, copy / "pytorch_model.bin")
        refused("transformers cannot load a model from it")
    (copy / "pytorch_model.bin").write_bytes(b"")
    refused("transformers cannot load a model from it")
    for bad_model in (b"nothing of the kind", b""):
        (copy / "source.spm").write_bytes(bad_model)
        refused("source.spm or target.spm is not a sentencepiece model")
    (copy / "source.spm").unlink()
    refused("it lacks source.spm")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eos_token_id": 10**6}, "eos_token_id is 1000000, not one of"),
        ({"pad_token_id": None}, "pad_token_id|transformers cannot load"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id"),
        ({"d_model": "wide"}, "transformers cannot load"),
        ({"encoder_layers": 2}, "missing: model.encoder.layers.1"),
        ({"decoder_layers": 1}, "unexpected: model.decoder.layers.1"),
    ],
)
def test_a_configuration_that_does_not_fit_its_weights_is_refused(
    changes: dict[str, Any], message: str, copy: Path, corpus: Corpus
) -> None:
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        import_marian(copy, copy.parent / "out", corpus.pairs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.slow
def test_a_checkpoint_in_half_precision_is_read_in_full(dtype: torch.dtype, one_target: Path, corpus: Corpus,
                                                        tmp_path: Path) -> None:  # fmt: skip
    folder = tmp_path / "half"
    shutil.copytree(one_target, folder)
    transformers.MarianMTModel.from_pretrained(one_target).to(dtype).save_pretrained(folder)
    model = import_marian(folder, tmp_path / "out", corpus.pairs).model()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_name_on_the_hub_is_read_from_its_cache(
    one_target: Path, imported: Imported, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layout of huggingface_hub: refs/main names a snapshot, whose files are links to blobs."""
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    name, commit = "Helsinki-NLP/opus-mt-xx-yy", "0123456789abcdef0123456789abcdef01234567"
    calls: list[dict[str, Any]] = []
    real = hub.snapshot_download

    def offline(*args: Any, **words: Any) -> str:
        calls.append(words)
        if not words.get("local_files_only"):
            raise ConnectionError("no route to the hub")
        return str(real(*args, **words))

    monkeypatch.setattr(hub, "snapshot_download", offline)
    with pytest.raises(UserError, match=r"cannot be downloaded \(no route to the hub\).*hf download Helsinki-NLP/opus"):
        import_marian(name, tmp_path / "out", corpus.pairs)
    cache = tmp_path / "hub" / "models--Helsinki-NLP--opus-mt-xx-yy"
    for folder in ("blobs", "refs", f"snapshots/{commit}"):
        (cache / folder).mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit, encoding="utf-8")
    for number, file in enumerate(sorted(one_target.iterdir())):
        shutil.copy(file, cache / "blobs" / str(number))
        (cache / "snapshots" / commit / file.name).symlink_to(f"../../blobs/{number}")
    calls.clear()
    found = import_marian(name, tmp_path / "out", corpus.pairs)
    assert len(calls) == 1 and found.tokenizer.fingerprint == imported.tokenizer.fingerprint
    assert all(torch.equal(weight, imported.weights()[key]) for key, weight in found.weights().items())
    about = json.loads((tmp_path / "out" / "imported.json").read_text(encoding="utf-8"))
    assert about["source"] == name
    (cache / "snapshots" / commit / "source.spm").unlink()  # a download that was cut short
    monkeypatch.setenv("PMD_OFFLINE", "1")
    with pytest.raises(UserError, match=r"cannot be downloaded \(PMD_OFFLINE forbids it\)"):
        import_marian(name, tmp_path / "other", corpus.pairs)


def test_a_target_without_a_code_is_asked_for(corpus: Corpus, tmp_path: Path) -> None:
    turned = corpus.reversed()
    folder = checkpoint(tmp_path / "opus", turned, codes=("fra_Latn", "deu_Latn"))
    with pytest.raises(UserError, match=re.escape("it has deu_Latn, fra_Latn. Name the one for")):
        import_marian(folder, tmp_path / "out", turned.pairs)
