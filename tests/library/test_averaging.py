"""Checkpoint averaging: which weights a run keeps, and the run that their mean is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import pmd_lite as pmd
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.averaging import average, kept
from pmd_lite.training.weights import read_weights
from tests.conftest import TINY, stopped_at


@pytest.fixture
def corpus(tiny_corpus: Corpus) -> Corpus:
    return tiny_corpus.only(tiny_corpus.pairs[:2])


def train(corpus: Corpus, out: Path, **more: Any) -> Run:
    config = preset("toy", **{**TINY, "eval_every": 3, **more})
    return pmd.train(corpus, "bi-pmd", config, out=out, show="off", score=False)


def steps(run: Run, student: int = 0) -> list[str]:
    return [file.stem.rpartition("-")[2].lstrip("0") for file in kept(run.dir, student)]


@pytest.mark.slow
def test_the_mean_of_the_last_evaluations_is_a_run(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(corpus, tmp_path / "r", keep_last=3)
    assert steps(run) == steps(run, 1) == ["6", "9", "12"]
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: corpus)
    out = tmp_path / "mean"
    assert main(["average", str(run.path), "--last", "2", "--out", str(out)]) == 0
    mean = Run(out)
    for student in (0, 1):
        weights = [read_weights(file)[0] for file in kept(run.dir, student)[1:]]
        latest = run.dir.load_weights(student, "latest")
        assert all(torch.equal(weights[1][name], latest[name]) for name in latest)
        found = mean.dir.load_weights(student)
        assert found.keys() == latest.keys()
        for name, weight in found.items():
            torch.testing.assert_close(weight, (weights[0][name] + weights[1][name]) / 2)
        assert not torch.equal(found["embedding.weight"], latest["embedding.weight"])
    assert main(["evaluate", str(out)]) == main(["show", str(out)]) == 0
    assert mean.finished["reason"] == "mean of the weights after updates 9, 12"
    assert train(corpus, out, keep_last=3).path == out, "a finished run: nothing trains in it"
    assert "checkpoint" in {path.name for path in out.iterdir()} and not (out / "metrics.jsonl").exists()
    with pytest.raises(UserError, match=r"last=4: .* keeps the weights of 3 evaluations"):
        average(run.path, tmp_path / "other", 4)
    with pytest.raises(UserError, match="exists"):
        average(run.path, out, 2)


def test_a_mean_of_one_is_that_one_and_a_damaged_file_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    run = train(corpus, tmp_path / "r", keep_last=1)
    mean = Run(average(run.path, tmp_path / "m", 1))
    latest = run.dir.load_weights(1, "latest")
    assert all(torch.equal(weight, latest[name]) for name, weight in mean.dir.load_weights(1).items())
    first, second = kept(run.dir, 0)[0], kept(run.dir, 1)[0]
    first.write_bytes(second.read_bytes())
    with pytest.raises(UserError, match="they belong to another run or student"):
        average(run.path, tmp_path / "n", 1)
    assert not (tmp_path / "n").exists()


@pytest.mark.slow
def test_keeping_weights_changes_nothing_else_and_survives_an_interruption(corpus: Corpus, tmp_path: Path) -> None:
    plain = train(corpus, tmp_path / "plain")
    assert not (plain.path / "checkpoint" / "last").exists()
    with stopped_at(7):
        train(corpus, tmp_path / "r", keep_last=2)
    run = train(corpus, tmp_path / "r", keep_last=3)  # resumed with another number
    assert steps(run) == ["6", "9", "12"]
    assert run.dir.identity == plain.dir.identity
    for name, weight in run.dir.load_weights(0, "latest").items():
        assert torch.equal(weight, plain.dir.load_weights(0, "latest")[name])
