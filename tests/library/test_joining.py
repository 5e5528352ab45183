"""Students that start from a run or an export of ours; languages that join a trained model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pmd_lite as pmd
from pmd_lite.comparing.compare import compare
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.joining import extended
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.errors import UserError
from pmd_lite.exchange.start import OwnStart, start_from
from pmd_lite.run import Run
from pmd_lite.training.trainer import Trainer
from tests.conftest import SHORT

WORLD: dict[str, Any] = {"head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3,
                         "homonyms": 1, "false_friends": 1}  # fmt: skip
SIZES = ("d_model", "heads", "encoder_layers", "decoder_layers", "ffn", "vocab_size")
QUICK = {key: value for key, value in SHORT.items() if key not in SIZES}


@pytest.fixture(scope="module")
def four(tiny_corpus: Corpus) -> Corpus:
    return tiny_corpus.only(tiny_corpus.pairs[:4])


@pytest.fixture(scope="module")
def parent(four: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two students of four languages."""
    config = preset("toy", **SHORT)
    return pmd.train(four, "bi-pmd", config, out=tmp_path_factory.mktemp("parent") / "r", show="off", score=False)


def child(corpus: Corpus, method: str, out: Path, init: str | Path, **more: Any) -> Run:
    return pmd.train(corpus, method, "toy", out=out, init=init, show="off", score=False, **{**QUICK, **more})


class Begun(Exception):
    """Raised where training would begin."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Trainer]]:
    """The trainers that runs of this test have made; none of them trains."""
    trainers: list[Trainer] = []

    def run(self: Trainer) -> str:
        trainers.append(self)
        raise Begun

    monkeypatch.setattr(Trainer, "run", run)
    yield trainers


def same(weights: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return weights.keys() == other.keys() and all(torch.equal(weights[name], other[name]) for name in weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "student", "expected"),
    [("bi-pmd", "", [0, 1]), ("bi-pmd", ":2", [1, 1]), ("tau=1", "", [0]), ("tau=5", "", [1]), ("tau=5", ":1", [0])],
)
def test_a_student_starts_from_the_model_of_its_seat_or_from_the_one_that_is_named(
    parent: Run, four: Corpus, begun: list[Trainer], tmp_path: Path, method: str, student: str, expected: list[int]
) -> None:
    with pytest.raises(Begun):
        child(four, method, tmp_path / "r", f"{parent.path}{student}")
    (trainer,) = begun
    for one, index in zip(trainer.students, expected, strict=True):
        assert same(one.learner.model.state_dict(), parent.model(index).state_dict())
        assert not one.learner.optimizer.state_dict()["state"] and one.learner.updates == 0, "a fresh optimiser"
    assert not same(parent.model(0).state_dict(), parent.model(1).state_dict())


def test_a_third_student_starts_from_the_last_model(
    parent: Run, four: Corpus, begun: list[Trainer], tmp_path: Path
) -> None:
    with pytest.raises(Begun):
        pmd.train(four, "bi-pmd", "toy", out=tmp_path / "r", init=parent.path, samplers=["tau=1", "tau=2", "tau=5"],
                  show="off", **QUICK)  # fmt: skip
    assert same(begun[0].students[2].learner.model.state_dict(), parent.model(1).state_dict())


def test_an_export_for_transformers_is_a_start(parent: Run, four: Corpus, begun: list[Trainer], tmp_path: Path) -> None:
    parent.export("hf", tmp_path / "hf", student=1)
    with pytest.raises(Begun):
        child(four, "bi-pmd", tmp_path / "r", tmp_path / "hf")
    for student in begun[0].students:
        assert same(student.learner.model.state_dict(), parent.model(1).state_dict())
    parent.export("ctranslate2", tmp_path / "ct2")
    with pytest.raises(UserError, match=r"ct2 has no model of this library that can be trained.*--to hf"):
        start_from(tmp_path / "ct2")


@pytest.mark.parametrize(("kind", "fallback"), [("joint", False), ("joint", True), ("per-language", False)])
def test_all_that_was_encoded_before_keeps_its_ids(
    four: Corpus, tiny_corpus: Corpus, tmp_path: Path, kind: str, fallback: bool
) -> None:
    size = 400 if fallback else 120
    config = preset("toy", vocab_size=size, kind=kind, byte_fallback=fallback).tokenizer
    old = train_tokenizer(four, config)
    longer = extended(extended(old, tiny_corpus.only(tiny_corpus.pairs[:5])), tiny_corpus)
    assert longer.joined == [[pair.split("-")[0]] for pair in tiny_corpus.pairs[4:]]
    longer.save(tmp_path / "t")
    again = Tokenizer.load(tmp_path / "t")
    assert again.fingerprint == longer.fingerprint and again.vocab_size == longer.vocab_size
    for pair in four.pairs:
        for side, column in (("src", 0), ("trg", 1)):
            texts = [line[column] for line in four.train[pair]]
            assert again.encode(texts, pair, side) == old.encode(texts, pair, side)  # type: ignore[arg-type]
    assert [again.piece(i) for i in range(old.vocab_size)] == [old.piece(i) for i in range(old.vocab_size)]
    for pair in tiny_corpus.pairs[4:]:
        for text in (line[0] for line in tiny_corpus.train[pair]):
            ids = again.encode_src(text, pair)
            assert again.decode(ids) == text and max(ids) < again.vocab_size
            assert ids[0] == again.encoder_tag(pair)
    assert extended(again, four) is again


def test_a_language_joins_behind_the_rows_that_are_there(
    parent: Run, tiny_corpus: Corpus, begun: list[Trainer], tmp_path: Path
) -> None:
    """Bit by bit; the new rows are those of a new model, another one for each seat."""
    with pytest.raises(Begun):
        child(tiny_corpus, "bi-pmd", tmp_path / "r", parent.path)
    first, second = (student.learner.model.state_dict() for student in begun[0].students)
    old = parent.tokenizer.vocab_size
    for name, tensor in parent.model(0).state_dict().items():
        assert torch.equal(first[name][: len(tensor)] if name == "embedding.weight" else first[name], tensor)
    assert len(first["embedding.weight"]) == begun[0].encoded.tokenizer.vocab_size > old
    assert not torch.equal(first["embedding.weight"][old:], second["embedding.weight"][old:])
    assert first["embedding.weight"][old:].abs().sum(dim=1).min() > 0
    config = json.loads((tmp_path / "r" / "config.json").read_text(encoding="utf-8"))
    assert config["tokenizer"] == Tokenizer.load(tmp_path / "r" / "tokenizer").fingerprint


@pytest.mark.slow
def test_a_run_with_a_new_language_trains_resumes_and_translates(
    parent: Run, tiny_corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its auxiliary runs too; and the result is a start again."""
    new = tiny_corpus.only([*tiny_corpus.pairs[:2], tiny_corpus.pairs[5]])
    run = child(new, "chi-ibr", tmp_path / "r", parent.path)
    assert run.auxiliary[0].tokenizer.fingerprint == run.tokenizer.fingerprint
    assert len(run.translate(["a"], new.pairs[2])) == 1
    assert child(new, "chi-ibr", tmp_path / "r", parent.path).path == run.path
    pmd.train(tiny_corpus, "tau=1", "toy", out=tmp_path / "s", init=run.path, show="lines", score=False, **QUICK)
    joined = [pair.split("-")[0] for pair in sorted(tiny_corpus.pairs[4:]) if pair != new.pairs[2]]
    said = capsys.readouterr().out
    assert f"starts from {run.path} (weights only); {', '.join(joined)} joins with" in said
    assert f"{', '.join(joined)} learns from its own sentences: see the next lines, and try tau=5" in said
    with pytest.raises(UserError, match=r"a language joined later.*Export to ctranslate2"):
        run.export("hf", tmp_path / "hf")
    with pytest.raises(UserError, match=r"leave out tokenizer="):
        child(new, "tau=1", tmp_path / "t", parent.path, tokenizer=run.auxiliary[0].path.parents[2] / "s" / "tokenizer")


def test_ctranslate2_translates_the_new_language(parent: Run, tiny_corpus: Corpus, tmp_path: Path) -> None:
    new = tiny_corpus.only([tiny_corpus.pairs[5]])
    run = child(new, "tau=1", tmp_path / "r", parent.path)
    readme = (run.export("ctranslate2", tmp_path / "ct2") / "README.md").read_text(encoding="utf-8")
    assert f"('{new.pairs[0].split('-')[0]}.spm', '__eng__', [])" in readme


def test_released_tags_of_known_pairs_may_not_change(four: Corpus) -> None:
    config = dataclasses.replace(preset("toy", vocab_size=120).tokenizer, tags="released")
    old = train_tokenizer(four, config)
    with pytest.raises(UserError, match="tags=released all pairs need the same target"):
        extended(old, four.reversed())


@pytest.mark.slow
def test_a_comparison_shares_the_tokenizer_that_a_language_has_joined(parent: Run, tmp_path: Path) -> None:
    found = compare("toy", ["tau=1", "chi-ibr"], [1], out=tmp_path / "c", corpus_options=WORLD, init=parent.path,
                    workers=1, show=False, **{**QUICK, "steps": 12})  # fmt: skip
    assert not found.failed and set(found.systems) == {"tau=1", "chi-ibr"}
    assert Tokenizer.load(tmp_path / "c" / "tokenizer").origin["extends"] == parent.tokenizer.fingerprint


def test_what_cannot_be_a_start_is_refused(parent: Run, four: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=":3: this run has model_1 to model_2"):
        start_from(f"{parent.path}:3")
    with pytest.raises(UserError, match="is neither a run nor an export of one"):
        start_from(tmp_path)
    with pytest.raises(UserError, match="d_model: the checkpoint of init"):
        child(four, "tau=1", tmp_path / "r", parent.path, d_model=32)
    run = child(four, "tau=1", tmp_path / "r", parent.path)
    with pytest.raises(UserError, match=r"holds another run: init\.sha256 differ"):
        child(four, "tau=1", run.path, f"{parent.path}:2")
    assert OwnStart(f"{parent.path}:1").description["sha256"] != OwnStart(parent.path).description["sha256"]
