"""Another program cuts, overwrites or removes a file of the corpus while a run uses it: said, and without effect."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pmd_corpora.writing import write_corpus
from pmd_lite.api import train
from pmd_lite.config import preset
from pmd_lite.data import reading
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.errors import UserError
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import Trainer
from tests.conftest import TINY, stopped_at
from tests.paper.test_resume import assert_same

SETTINGS: dict[str, Any] = {**TINY, "steps": 4, "eval_every": 2, "update_every": 2, "max_len": 32}

CHANGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: os.truncate(file, 0),
    "overwritten in place": lambda file: file.write_bytes(bytes(reversed(file.read_bytes()))),
    "replaced": lambda file: (file.with_name("new").write_text("neu\tnew\n"), file.with_name("new").replace(file)),
    "removed": lambda file: file.unlink(),
}


@pytest.fixture
def directory(three_pairs: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus whose every file is too large to be kept in memory."""
    monkeypatch.setattr(reading, "_CHUNK", 64)
    return write_corpus(three_pairs, tmp_path / "corpus")


@pytest.mark.parametrize("change", CHANGES)
def test_a_text_stays_as_it_was_read(directory: Path, change: str) -> None:
    """If the file itself were mapped, reading it after a cut would end the process by a signal, without a word."""
    corpus = load_corpus(directory)
    before = [list(corpus.train[pair]) for pair in corpus.pairs]
    assert corpus.changed == []
    for file in directory.glob("train.*"):
        CHANGES[change](file)
    assert [list(corpus.train[pair]) for pair in corpus.pairs] == before
    assert {file.name for file in corpus.changed} == {f"train.{pair}.tsv" for pair in corpus.pairs}
    assert corpus.reversed().changed == corpus.only(corpus.pairs[:1]).changed == corpus.changed


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_a_run_is_said_and_its_scores_are_those_of_the_text_it_read(
    directory: Path, three_pairs: Corpus, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = preset("toy", **SETTINGS)
    undisturbed = train(three_pairs, "tau=1", config, out=tmp_path / "undisturbed", show="off")
    step = Trainer.step

    def step_and_change(self: Trainer) -> int:
        if self.clock.step == 3:
            CHANGES[change](directory / f"test.{self.encoded.pairs[0]}.tsv")
        return step(self)

    monkeypatch.setattr(Trainer, "step", step_and_change)
    with pytest.warns(UserWarning, match=r"test\.\S+\.tsv has changed since this run read it\. .* Put that text back"):
        run = train(load_corpus(directory), "tau=1", config, out=tmp_path / "r", show="off")
    assert_same(undisturbed.path, run.path)
    assert run.scores == undisturbed.scores
    for name in ("src", "ref", "model_1"):
        file = f"translations/test.{name}.{run.pairs[0]}.txt"
        assert (run.path / file).read_bytes() == (undisturbed.path / file).read_bytes()


@pytest.mark.slow
def test_an_undisturbed_run_says_nothing(directory: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    train(load_corpus(directory), "tau=1", preset("toy", **SETTINGS), out=tmp_path / "r", show="off")
    assert not [warning for warning in recwarn if "has changed" in str(warning.message)]


@pytest.mark.slow
def test_a_run_does_not_continue_on_a_changed_corpus(directory: Path, tmp_path: Path) -> None:
    config, out = preset("toy", **SETTINGS), tmp_path / "r"
    (directory / "corpus.json").unlink()
    with stopped_at(2):
        train(load_corpus(directory), "tau=1", config, out=out, show="off")
    file = next(directory.glob("train.*"))
    whole = file.read_bytes()
    file.write_bytes(whole + b"noch eine Zeile\tone more line\n")
    with pytest.raises(UserError, match=r"was begun on other texts of .*has changed since\. Put the old texts back"):
        train(load_corpus(directory), "tau=1", config, out=out, show="off")
    file.write_bytes(whole)
    train(load_corpus(directory), "tau=1", config, out=out, show="off")
    assert RunDir(out).finished
