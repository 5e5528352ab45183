"""Exported students: the same logits in transformers, the same translations in CTranslate2, and the way back."""

from __future__ import annotations

import functools
import io
import itertools
import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pmd_lite.api import train
from pmd_lite.cli import arguments
from pmd_lite.config import PRESETS, preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, train_tokenizer
from pmd_lite.errors import UserError
from pmd_lite.evaluation import translation
from pmd_lite.exchange.ctranslate2 import CTranslate2, save_ctranslate2
from pmd_lite.exchange.export import huggingface_tokenizer
from pmd_lite.exchange.huggingface import from_huggingface, shape_of, to_huggingface
from pmd_lite.exchange.marian import Imported
from pmd_lite.model.decoding import Hypothesis, translate_batch
from pmd_lite.model.transformer import Transformer
from pmd_lite.run import Run

VOCAB = 40
NAMES = ["<pad>", "<unk>", "<s>", "</s>", *(f"w{i}" for i in range(SPECIALS, VOCAB))]
SIZES: dict[str, Any] = {
    "d_model": 24, "heads": 4, "encoder_layers": 1, "decoder_layers": 2, "ffn": 40, "max_len": 64, "pad": PAD,
}  # fmt: skip
SHAPES = list(itertools.product(["pre", "post"], ["all", "decoder", "none"], [False, True]))
BIASES = [False, True]
FOUR = [("pre", "all", False), ("pre", "decoder", True), ("post", "none", False), ("post", "all", True)]
SEARCHES = [(1, 1.0), (5, 1.0), (5, 0.6)]  # beam, length penalty
MAX_LEN = 40


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="not installed: pip install -r requirements-export.txt")


@pytest.fixture
def ctranslate2() -> Any:
    return pytest.importorskip("ctranslate2", reason="not installed: pip install -r requirements-export.txt")


def random_model(norm: str = "pre", tie: str = "all", embedding_norm: bool = False, **shape: Any) -> Transformer:
    """Weights large enough that any mistake shows in the logits."""
    torch.manual_seed(0)
    model = Transformer(VOCAB, **{**SIZES, "norm": norm, "tie": tie, "embedding_norm": embedding_norm, **shape}).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
    return model


def sentences(count: int, seed: int = 1) -> Tensor:
    """Sources of 2 to 8 random tokens and EOS, padded: [count, 9]."""
    src = torch.randint(SPECIALS, VOCAB, (count, 9), generator=torch.Generator().manual_seed(seed))
    for row in range(count):
        src[row, 2 + row % 7] = EOS
        src[row, 3 + row % 7 :] = PAD
    return src


@functools.cache
def copier(norm: str, tie: str, embedding_norm: bool) -> Transformer:
    """A model that has begun to learn to copy, so its translations differ and end.

    One column is then used to make PAD, UNK and BOS all but impossible: CTranslate2 leaves forbidden tokens out of the
    softmax, we do not, so only without them can scores be equal.
    """
    torch.manual_seed(0)
    model = Transformer(VOCAB, **SIZES, norm=norm, tie=tie, embedding_norm=embedding_norm, dropout=0.0)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(80):
        src = sentences(16, seed=step + 2)
        trg_in = torch.cat([torch.full((16, 1), BOS), src[:, :-1]], dim=1)
        loss = F.cross_entropy(model(src, trg_in).transpose(1, 2), src, ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    last: Any = model.decoder_norm if norm == "pre" else model.decoder[-1].ffn_residual.norm
    table = (model.output or model.embedding).weight
    with torch.no_grad():
        last.weight[5], last.bias[5] = 0.0, 10.0
        table[:, 5] = 0.0
        table[[PAD, UNK, BOS], 5] = -5.0
    return model.eval()


# ------------------------------------------------------------------------------------------------- Hugging Face


@pytest.mark.slow
@pytest.mark.parametrize("output_bias", BIASES)
@pytest.mark.parametrize(("norm", "tie", "embedding_norm"), SHAPES)
def test_transformers_gives_the_same_logits_and_the_weights_back(
    norm: str, tie: str, embedding_norm: bool, output_bias: bool, transformers: Any, tmp_path: Path
) -> None:
    rates: dict[str, Any] = {"dropout": 0.2, "attention_dropout": 0.1}
    model = random_model(norm, tie, embedding_norm, output_bias=output_bias, **rates)
    before = torch.get_rng_state()
    to_huggingface(model, bos=BOS, eos=EOS).save_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    src = sentences(8)
    trg_in = torch.randint(SPECIALS, VOCAB, (8, 7), generator=torch.Generator().manual_seed(2))
    trg_in[:, 0] = BOS
    with torch.no_grad():
        expected = model(src, trg_in)
        logits = theirs(input_ids=src, attention_mask=src.ne(PAD), decoder_input_ids=trg_in).logits
    assert expected.std(dim=(0, 1)).max() > 0.5  # logits that are alike everywhere would prove little
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)

    back = from_huggingface(tmp_path)
    assert shape_of(back) == shape_of(model)
    assert not back.training
    weights = model.state_dict()
    assert back.state_dict().keys() == weights.keys()
    assert all(torch.equal(weights[name], value) for name, value in back.state_dict().items())


@pytest.mark.parametrize("activation", ["gelu", "swish"])
def test_activations_survive_both_ways(activation: str, transformers: Any) -> None:
    model = random_model(activation=activation)
    back = from_huggingface(to_huggingface(model, bos=BOS, eos=EOS))
    src, trg_in = sentences(4), torch.full((4, 3), BOS)
    assert torch.equal(back(src, trg_in), model(src, trg_in))
    assert not torch.equal(random_model()(src, trg_in), model(src, trg_in))


@pytest.mark.parametrize("name", PRESETS)
def test_the_architecture_of_every_preset_fits(name: str, transformers: Any, ctranslate2: Any, tmp_path: Path) -> None:
    small = replace(PRESETS[name].model, d_model=16, heads=2, ffn=32, encoder_layers=1, decoder_layers=1, max_len=32)
    model = Transformer(VOCAB, **asdict(small), pad=PAD).eval()
    src, trg_in = sentences(4), torch.full((4, 3), BOS)
    theirs = to_huggingface(model, bos=BOS, eos=EOS)
    with torch.no_grad():
        logits = theirs(input_ids=src, attention_mask=src.ne(PAD), decoder_input_ids=trg_in).logits
        torch.testing.assert_close(logits, model(src, trg_in), atol=1e-5, rtol=1e-5)
    assert theirs.config.model_type == ("mbart" if PRESETS[name].model.embedding_norm else "pegasus")
    save_ctranslate2(model, NAMES, tmp_path, unk=UNK, bos=BOS, eos=EOS)
    assert ctranslate2.Translator(str(tmp_path)).score_batch([["w5", "</s>"]], [["w6"]])


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "length_penalty"), SEARCHES)
@pytest.mark.parametrize(("norm", "tie", "embedding_norm"), FOUR)
def test_transformers_finds_the_same_translations(
    norm: str, tie: str, embedding_norm: bool, beam: int, length_penalty: float, transformers: Any
) -> None:
    model, src = copier(norm, tie, embedding_norm), sentences(14)
    beams = {"length_penalty": length_penalty, "early_stopping": "never"} if beam > 1 else {}
    found = to_huggingface(model, bos=BOS, eos=EOS).generate(
        input_ids=src, attention_mask=src.ne(PAD), num_beams=beam, do_sample=False, max_new_tokens=MAX_LEN + 1,
        bad_words_ids=[[PAD], [UNK], [BOS]], **beams,
    )  # fmt: skip
    ours = translations(model, src, beam, length_penalty, stop="bound")
    check_equal([row[1:] for row in found.tolist()], ours)


def translations(model: Transformer, src: Tensor, beam: int, length_penalty: float, stop: str) -> list[Hypothesis]:
    return translate_batch(
        model, src, beam=beam, max_len=MAX_LEN, length_penalty=length_penalty, bos=BOS, eos=EOS, pad=PAD, banned=[UNK],
        stop=stop,  # type: ignore[arg-type]
    )  # fmt: skip


def check_equal(theirs: list[list[int]], ours: list[Hypothesis]) -> None:
    """Check that translations that ended are equal; those that never end are cut off differently."""
    ended = [ids[: ids.index(EOS)] if EOS in ids else None for ids in theirs]
    assert sum(ids is not None for ids in ended) >= 10
    for ids, hypothesis in zip(ended, ours, strict=True):
        assert ids is None or hypothesis.tokens == ids
    assert len({tuple(hypothesis.tokens) for hypothesis in ours}) > 5


def of_theirs(transformers: Any, **changes: Any) -> Any:
    """A tiny model of transformers, which can be converted unless `changes` prevent it."""
    config: Any = {
        "vocab_size": VOCAB, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 16,
        "scale_embedding": True, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2,
        "forced_eos_token_id": None, "activation_function": "relu",
    }  # fmt: skip
    kind = changes.pop("kind", "marian")
    config = transformers.AutoConfig.for_model(kind, **{**config, **changes})
    return transformers.AutoModelForSeq2SeqLM.from_config(config)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scale_embedding": False}, "scale_embedding=False"),
        ({"decoder_attention_heads": 4}, "attention_heads is 2 in the encoder and 4"),
        ({"decoder_ffn_dim": 4}, "ffn_dim is 8 in the encoder and 4"),
        ({"activation_function": "tanh"}, "activation_function='tanh'"),
        ({"decoder_vocab_size": 30, "share_encoder_decoder_embeddings": False}, "vocabularies of 40 and 30"),
        ({"kind": "m2m_100"}, "'m2m_100' cannot be converted"),
        ({"kind": "bart"}, "embed_positions of the encoder are not sinusoidal"),
    ],
)
def test_what_ours_cannot_be_is_refused_by_name(changes: dict[str, Any], named: str, transformers: Any) -> None:
    with pytest.raises(UserError, match=re.escape(named)):
        from_huggingface(of_theirs(transformers, **changes))


def test_a_place_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a directory"):
        from_huggingface(tmp_path / "nothing")


# -------------------------------------------------------------------------------------------------- CTranslate2


def translator_of(model: Transformer, folder: Path, ctranslate2: Any) -> Any:
    save_ctranslate2(model, NAMES, folder, unk=UNK, bos=BOS, eos=EOS)
    return ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=1)


def named(src: Tensor) -> list[list[str]]:
    return [[NAMES[token] for token in row if token != PAD] for row in src.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "tie", "embedding_norm"), SHAPES)
@pytest.mark.parametrize(("activation", "output_bias"), [("relu", False), ("gelu", False), ("swish", True)])
def test_ctranslate2_gives_the_same_probabilities(
    norm: str, tie: str, embedding_norm: bool, activation: str, output_bias: bool, ctranslate2: Any, tmp_path: Path
) -> None:
    model = random_model(norm, tie, embedding_norm, activation=activation, output_bias=output_bias)
    src, trg = sentences(6), sentences(6, seed=9)
    scored = translator_of(model, tmp_path, ctranslate2).score_batch(named(src), [row[:-1] for row in named(trg)])
    logp = model(src, torch.cat([torch.full((6, 1), BOS), trg[:, :-1]], dim=1)).log_softmax(-1)
    expected = logp.gather(2, trg[:, :, None])[:, :, 0]
    for row, result in enumerate(scored):
        found = torch.tensor(result.log_probs)
        torch.testing.assert_close(found, expected[row, : len(found)].detach(), atol=2e-4, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "length_penalty"), SEARCHES)
@pytest.mark.parametrize(("norm", "tie", "embedding_norm"), FOUR)
def test_ctranslate2_finds_the_same_translations(
    norm: str, tie: str, embedding_norm: bool, beam: int, length_penalty: float, ctranslate2: Any, tmp_path: Path
) -> None:
    model, src = copier(norm, tie, embedding_norm), sentences(14)
    found = translator_of(model, tmp_path, ctranslate2).translate_batch(
        named(src), beam_size=beam, length_penalty=length_penalty, max_decoding_length=MAX_LEN + 1,
        min_decoding_length=0, return_end_token=True, return_scores=True,
        suppress_sequences=[["<pad>"], ["<unk>"], ["<s>"]],
    )  # fmt: skip
    ours = translations(model, src, beam, length_penalty, stop="full")
    theirs = [[NAMES.index(name) for name in result.hypotheses[0]] for result in found]
    check_equal(theirs, ours)
    for ids, hypothesis, result in zip(theirs, ours, found, strict=True):
        if EOS in ids:
            assert result.scores[0] == pytest.approx(hypothesis.score, abs=1e-4)


# -------------------------------------------------------------------------------------------------- whole runs

QUICK: dict[str, Any] = {
    "d_model": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 64, "dropout": 0.0, "max_len": 64,
    "vocab_size": 90, "steps": 80, "tokens": 400, "eval_every": 40, "lr": 5e-3, "warmup": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def paper_run(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Many to one, a tag before the source, beams of 3; one joint tokenizer without bytes."""
    out = tmp_path_factory.mktemp("paper") / "run"
    return train(three_pairs, "tau=1", "toy", out=out, show="off", score=False, beam=3, **QUICK)


def two_ways(corpus: Corpus) -> Corpus:
    return corpus.reversed().only(["eng-fra", "eng-deu"])


@pytest.fixture(scope="module")
def released_run(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One to many, tags on both sides, greedy; a tokenizer for each language. All translations have one limit."""
    out, few = tmp_path_factory.mktemp("released") / "run", {**QUICK, "vocab_size": 400, "max_len": 40}
    return train(two_ways(tiny_corpus), "tau=1", "toy", out=out, show="off", score=False, beam=1, tags="released",
                 kind="per-language", byte_fallback=True, embedding_norm=True, tie="decoder", **few)  # fmt: skip


def snippet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the Python code in the README of an exported directory defines, run there as the README says."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "<<" not in readme
    (code,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def check_translations(run: Run, corpus: Corpus, translate: Any) -> None:
    distinct = set()
    for pair in run.pairs:
        lines = [src for src, _ in corpus.test[pair]][:4]
        lines += [f"  {lines[0]} ", f"</s> {lines[1]} <pad>", f"__eng__ {lines[2]}", f"{lines[3]} \u00e9\U0001f642"]
        expected = run.translate(lines, pair)
        assert translate(lines, pair) == expected
        distinct |= set(expected)
    assert len(distinct) > 3


@pytest.mark.slow
def test_the_readme_for_transformers_translates_as_the_run_does(
    paper_run: Run, three_pairs: Corpus, transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = paper_run.export("hf", tmp_path / "new" / "hf")
    check_translations(paper_run, three_pairs, snippet(folder, monkeypatch)["translate"])
    assert shape_of(from_huggingface(folder)) == shape_of(paper_run.model())


def with_rules_of_ctranslate2(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as it does. README names both differences: when a search ends, and what is forbidden has no share."""
    monkeypatch.setattr(translation, "translate_batch", functools.partial(translate_batch, stop="full"))
    project, never = Transformer.project, torch.tensor([PAD, UNK, BOS, *run.tokenizer.tags.values()])
    monkeypatch.setattr(
        Transformer, "project", lambda self, hidden: project(self, hidden).index_fill(-1, never, -torch.inf)
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", ["paper_run", "released_run"])
def test_the_readme_for_ctranslate2_translates_as_the_run_does(
    which: str, tiny_corpus: Corpus, ctranslate2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    run: Run = request.getfixturevalue(which)
    folder = run.export("ctranslate2", tmp_path / "ct2")
    translate = snippet(folder, monkeypatch)["translate"]
    if which == "released_run":
        check_translations(run, two_ways(tiny_corpus), translate)
        assert (folder / "eng.spm").exists()
        return
    with_rules_of_ctranslate2(run, monkeypatch)
    check_translations(run, tiny_corpus, translate)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["paper_run", "released_run"])
def test_the_engine_translates_as_we_do(
    which: str, tiny_corpus: Corpus, ctranslate2: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Beam 4: most translations at once, with its rules all but a tie or two; greedily behind a forced tag: all."""
    run: Run = request.getfixturevalue(which)
    corpus, beam = (tiny_corpus, 4) if which == "paper_run" else (two_ways(tiny_corpus), 1)
    model = run.translator(engine="ctranslate2")
    assert isinstance(model, CTranslate2)
    lines = {pair: ["", *(src for src, _ in (*corpus.test[pair], *corpus.train[pair][:6]))] for pair in run.pairs}
    theirs = [line for pair in run.pairs for line in run.translate(lines[pair], pair, beam=beam, model=model)]
    ours = [line for pair in run.pairs for line in run.translate(lines[pair], pair, beam=beam)]
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert len(set(theirs)) > 5
    if beam == 1:
        assert same == len(ours)
        return
    assert same > 0.5 * len(ours)
    with_rules_of_ctranslate2(run, monkeypatch)
    ours = [line for pair in run.pairs for line in run.translate(lines[pair], pair, beam=beam)]
    # Two hypotheses of one score to the last digit: either may be the one that leaves a beam.
    assert sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 2


def test_where_the_engine_cannot_translate_we_do_and_say_why(
    paper_run: Run, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch, ctranslate2: Any
) -> None:
    text, pair = [src for src, _ in tiny_corpus.test["fra-eng"]][:3], "fra-eng"
    with pytest.warns(UserWarning, match="our own beam search translates: CTranslate2 .* not with an ensemble"):
        together = paper_run.translator(ensemble=[paper_run], engine="ctranslate2")
    assert paper_run.translate(text, pair, model=together) == paper_run.translate(text, pair)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.warns(UserWarning, match="our own beam search translates: the package ctranslate2 is not installed"):
        assert isinstance(paper_run.translator(engine="ctranslate2"), Transformer)


@pytest.mark.slow
def test_an_answer_comes_before_the_next_sentence(
    paper_run: Run, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As from somebody who types; the last line has no end, and a bad one is named by its number in the whole text."""
    text = [src for src, _ in tiny_corpus.test["fra-eng"]][:4]
    pieces: list[bytes] = []
    answers: list[str] = []

    class Typed(io.BytesIO):
        def read1(self, *args: object) -> bytes:  # type: ignore[override]
            answers.append(capsys.readouterr().out)
            return pieces.pop(0) if pieces else b""

    def typed(*given: str) -> int:
        pieces[:], answers[:] = [part.encode("latin-1") for part in given], []
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Typed()))
        status = arguments.main(["translate", str(paper_run.path), "--pair", "fra-eng"])
        answers.append(capsys.readouterr().out)
        return status

    assert typed(f"{text[0]}\n{text[1][:3]}", f"{text[1][3:]}\n\n{text[2]}\n", text[3]) == 0
    lines = [f"{line}\n" for line in paper_run.translate([*text[:2], "", *text[2:]], "fra-eng")]
    assert answers == ["", lines[0], "".join(lines[1:4]), "", lines[4]]
    monkeypatch.setattr(Typed, "read1", lambda self, *args: pieces.pop(0) if pieces else b"")
    assert typed("a\nb\n", "c\n", "\u00e9\n") == 2  # Latin-1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n\xe9\n")))
    assert arguments.main(["translate", str(paper_run.path), "--pair", "fra-eng"]) == 2
    assert "standard input:3: byte 1 of the line, 0xe9, is not UTF-8" in capsys.readouterr().err


def test_scores_say_which_engine_translated(
    released_run: Run, tiny_corpus: Corpus, ctranslate2: Any, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: two_ways(tiny_corpus))
    other = "ctranslate2"
    asked = (([], "ours"), (["--engine", other], other), (["--metrics", "ter"], other), (["--beam", "1"], "ours"))
    for words, engine in asked:
        assert arguments.main(["evaluate", str(released_run.path), *words]) == 0
        assert json.loads((released_run.path / "scores.json").read_text(encoding="utf-8"))["engine"] == engine


@pytest.fixture(scope="module")
def marian_run(imported: Imported, three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that started from an opus-mt: two sentencepiece models, one for each side. It translates greedily, so that
    a translation without end, cut at another length by transformers, begins with the same words."""
    out, words = tmp_path_factory.mktemp("marian") / "run", {"steps": 60, "tokens": 400, "eval_every": 30, "lr": 5e-3}
    run = train(three_pairs, "tau=1", "toy", out=out, init=imported.path, show="off", score=False, beam=1, warmup=4,
                max_len=80, **words)  # fmt: skip
    weights = run.model().state_dict()
    weights["output_bias"][EOS] -= 3  # so few updates teach it to say nothing
    run.dir.save_best(0, weights, run.finished["step"])
    return run


@pytest.mark.slow
def test_a_run_that_started_from_an_opus_mt_goes_back(
    marian_run: Run, three_pairs: Corpus, transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = marian_run.export("hf", tmp_path / "hf"), marian_run
    marian = transformers.MarianMTModel.from_pretrained(folder)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    assert type(transformers.AutoTokenizer.from_pretrained(folder)) is type(tokenizer)
    model, translate = run.model(), snippet(folder, monkeypatch)["translate"]
    for pair in run.pairs:
        texts = [src for src, _ in three_pairs.train[pair][:12]]
        ids = run.tokenizer.encode(texts, pair, "src")
        assert tokenizer([f">>{pair.split('-')[1]}<< {text}" for text in texts])["input_ids"] == ids
        refs = [trg for _, trg in three_pairs.train[pair][:12]]
        assert tokenizer(text_target=refs)["input_ids"] == run.tokenizer.encode(refs, pair, "trg")
        batch = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        trg_in = torch.tensor([[BOS, *ids[0][:4]]] * len(ids))
        with torch.no_grad():
            expected = model(batch["input_ids"], trg_in)
            torch.testing.assert_close(marian(**batch, decoder_input_ids=trg_in).logits, expected, atol=1e-4, rtol=1e-5)
        found = run.translate(texts, pair)
        theirs = translate(texts, pair)
        assert all(a[:20] == b[:20] for a, b in zip(theirs, found, strict=True))
        assert sum(map(bool, found)) > len(found) / 2, found
    assert shape_of(from_huggingface(folder)) == shape_of(model)


@pytest.mark.slow
def test_a_tokenizer_per_language_is_refused_for_transformers(released_run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.kind='per-language'"):
        released_run.export("hf", tmp_path / "hf")
    assert not list(tmp_path.iterdir())


def test_refusals_leave_everything_as_it_was(
    paper_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "out.part").mkdir()
    with pytest.raises(UserError, match="exists"):
        paper_run.export("hf", tmp_path / "mine")
    with pytest.raises(UserError, match="choose 'hf' or 'ctranslate2'"):
        paper_run.export("onnx", tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="student 1"):
        paper_run.export("hf", tmp_path / "out", student=1)
    for package, to in (("transformers", "hf"), ("ctranslate2", "ctranslate2")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(UserError, match=f"{package} is not installed: pip install .pmd_lite.export."):
            paper_run.export(to, tmp_path / "out")  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out.part"]


@pytest.mark.slow
def test_the_command_line_exports(
    paper_run: Run, ctranslate2: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    out = tmp_path / "out"
    words = ["export", str(paper_run.path), "--to", "ctranslate2", "--out", str(out)]
    assert arguments.main(words) == 0
    assert capsys.readouterr().out.strip() == str(out / "README.md")
    assert arguments.main([*words[:-1], str(tmp_path / "other"), "--student", "3"]) == 2
    assert "--student 3: this run has 1" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- tokenizer


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_the_tokenizer_gives_the_same_ids_and_the_text_back(
    byte_fallback: bool, tiny_corpus: Corpus, transformers: Any, tmp_path: Path
) -> None:
    config = preset("toy", vocab_size=400 if byte_fallback else 90, byte_fallback=byte_fallback).tokenizer
    ours, pair = train_tokenizer(tiny_corpus, config), tiny_corpus.pairs[0]
    huggingface_tokenizer(ours, 64).save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [side for text in tiny_corpus.train.values() for line in text[:20] for side in line]
    texts += [
        "",
        " ",
        "  a  b ",
        "na\u00efve \U0001f642\u0301 \t x",
        "a\u2581b \u2585 \ufdd0 \ufdd01",
        "\u2581",
        "\ufdd0" * 3,
    ]
    texts += ["<s></s><pad><unk>", "__eng__ __fra__", "<0x41> \u00e9", "".join(texts[:3])]
    expected = ours.encode(texts, pair, "src")
    assert theirs(texts)["input_ids"] == [ids[1:] for ids in expected]
    assert len(theirs) == ours.vocab_size
    assert [theirs.convert_tokens_to_ids(f"__{language}__") for language in ours.languages] == [*ours.tags.values()]
    known = [ids for ids in expected if UNK not in ids]
    assert len(known) == len(texts) or not byte_fallback
    assert theirs.batch_decode(known, skip_special_tokens=True) == [ours.decode(ids) for ids in known]
    long = " ".join(texts[:30])
    assert [ours.encoder_tag(pair), *theirs(long, truncation=True)["input_ids"]] == [
        *ours.encode_src(long, pair)[:63], EOS,
    ]  # fmt: skip


def test_a_piece_that_reads_like_a_tag_is_refused(tiny_corpus: Corpus, transformers: Any) -> None:
    tokenizer = train_tokenizer(tiny_corpus, preset("toy", vocab_size=90).tokenizer)
    tokenizer._names[20] = "__eng__"
    with pytest.raises(UserError, match="two ids are called '__eng__'"):
        huggingface_tokenizer(tokenizer, 64)
