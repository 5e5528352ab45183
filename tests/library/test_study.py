"""The study: its measurements equal those of the run and of sacreBLEU, and a finished study does nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from benchmarks import study
from benchmarks.studies import plans, report, store
from benchmarks.studies.measure import likelihood, packed, scored
from pmd_kit.l13.study import Study, System, unpacked
from pmd_lite.api import train
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.errors import UserError
from pmd_lite.evaluation.significance import bleu_of, sentence_stats
from pmd_lite.figures.style import alt_text
from pmd_lite.run import Run
from tests.conftest import SHORT

HYPS = ["a small house stood there", "no", "", "the tree is green today and tomorrow"]
REFS = ["a small house stands there", "no", "a word", "the tree was green today"]


def test_what_is_packed_of_a_sentence_gives_bleu_back() -> None:
    found = scored(HYPS, REFS, "fr-en")
    stats, chrf = unpacked(found["sentences"])
    assert (stats == sentence_stats(HYPS, REFS, "en")).all(), "n-gram totals follow from the length"
    assert float(bleu_of(stats.sum(axis=0))) == pytest.approx(found["bleu"], abs=1e-3)
    assert list(chrf.round()) == [chrf.round()[0], 100, 0, chrf.round()[3]]
    assert found["length_ratio"] == pytest.approx(13 / 13, abs=0.2)


@given(st.lists(st.lists(st.integers(0, 60_000), min_size=7, max_size=7), min_size=1, max_size=9))
def test_packing_loses_nothing(table: list[list[int]]) -> None:
    stats, chrf = unpacked(packed(np.array(table)))
    assert stats[:, :4].tolist() == [row[:4] for row in table]
    assert stats[:, -2:].tolist() == [row[4:6] for row in table]
    assert (10 * chrf).round().tolist() == [row[6] for row in table]


def test_a_picture_shows_the_seeds_that_all_its_systems_have() -> None:
    """Else a mean over three seeds would stand beside a mean over one of them."""

    def system(label: str, bleu: dict[int, float]) -> System:
        parts = {seed: {"pairs": {"big": {"beam": {"bleu": x}}, "small": {"beam": {"bleu": x / 10}}}}
                 for seed, x in bleu.items()}  # fmt: skip
        return System(label, "", parts, 1.0)

    systems = {
        "tau=1": {1: 10.0, 2: 30.0, 3: 90.0},
        "tau=5": {1: 20.0, 2: 40.0},
        "ensemble both": {2: 50.0},
        "x": {9: 1.0},
    }
    known = Study({label: system(label, bleu) for label, bleu in systems.items()}, {"big": 9, "small": 1})
    alt = alt_text(known.figure(["tau=1", "tau=5"]))
    assert "seeds 1, 2" in alt and "tau=1 LRL 2.0 HRL 20.0; tau=5 LRL 3.0 HRL 30.0" in alt
    one = known.figure(["tau=1", "tau=5", "ensemble both"])
    assert "seed 2" in alt_text(one) and "tau=1 LRL 3.0 HRL 30.0" in alt_text(one)
    faces = {line.get_gid(): line.get_markerfacecolor() for line in one.axes[0].lines if line.get_gid()}
    assert faces["ensemble both"] == "white" != faces["tau=5"], "two models translate together"
    name = "vanilla-md samplers=tau=2,tau=2 start=0.09 steps=12000 patience=12: model_1"
    long = replace(known, systems={**known.systems, name: system(name, {1: 5.0})}).figure(["tau=1", name])
    words = [text.get_text() for text in long.legends[0].get_texts()]
    assert " ".join(words[1].split()) == f"2 {name}", "a long name is whole"
    assert max(len(line) for text in words for line in text.splitlines()) < 60, "and leaves the plane its room"
    with pytest.raises(UserError, match="No seed is common to tau=1, x"):
        known.figure(["tau=1", "x"])


@pytest.fixture(scope="module")
def run(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("study") / "run"
    return train(tiny_corpus, "tau=1", "toy", out=out, show="off", score=False, device="cpu", **SHORT)


def test_its_likelihood_is_the_dev_loss_of_the_run(run: Run, tiny_corpus: Corpus) -> None:
    encoded = encode_corpus(tiny_corpus, run.tokenizer, run.config.model.max_len)
    losses = run.best_dev_loss()
    for i, pair in enumerate(run.pairs):
        found = likelihood(run.model(), encoded.valid[i], i, 200)
        assert found["nll"] == pytest.approx(losses[pair], abs=2e-4)
        assert found["nll_at_best_temperature"] <= found["nll"]
        assert 0 <= found["accuracy"] <= 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, three_pairs: Corpus) -> str:
    """A study of three short runs on three pairs, with an ensemble."""
    whole = plans.Study("short", lambda source, out: three_pairs, "toy", {**SHORT, "device": "cpu"},
                        ("tau=1", "tau=5", "bi-pmd"), {"both": (("tau=1", 0), ("tau=5", 0))})  # fmt: skip
    monkeypatch.setitem(plans.STUDIES, "short", whole)
    return "short"


@pytest.mark.slow
def test_a_study_stores_each_run_and_then_has_nothing_to_do(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = study.Work(small, None, tmp_path / "runs", tmp_path / "store")
    assert work.missing([1, 2], work.study.rows)[0] == ("tau=1", 1)
    assert work.ensembles([1]) == []
    for row, seed in work.missing([1], work.study.rows):
        work.make(row, seed)
    for label, seed in work.ensembles([1]):
        work.make_ensemble(label, seed)
    words = ["study", small, "--runs", str(tmp_path / "runs"), "--store", str(tmp_path / "store"), "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", words)
    study.main()
    assert capsys.readouterr().out == "short: nothing to do\n"

    known = Study.load(tmp_path / "store" / small)
    assert set(known.systems) == {"tau=1", "tau=5", "bi-pmd: model_1", "bi-pmd: model_2", "ensemble both"}
    assert (known.systems["bi-pmd: model_1"].twin, known.systems["bi-pmd: model_2"].twin) == ("tau=1", "tau=5")
    run = Run(work.run_of("bi-pmd", 1))
    losses = run.best_dev_loss(1)
    assert known.means("bi-pmd: model_2", "dev NLL")[0][0] == pytest.approx(
        np.mean([losses[pair] for pair in run.groups[0]]), abs=2e-4
    )
    same = replace(known, systems={**known.systems, "again": known.systems["tau=1"]})
    assert same.difference("tau=1", "again", list(known.sizes)).p_value == 1
    assert same.chrf_difference("tau=1", "again", list(known.sizes)).delta == 0
    assert known.bill().rows[-1][2] == pytest.approx(run.compute / Run(work.run_of("tau=1", 1)).compute)
    files = report.write_report(small, tmp_path / "store", tmp_path / "report")
    text = files[0].read_text(encoding="utf-8")
    assert "| bi-pmd: model_2 | tau=5 | 1 |" in text
    assert all(file.exists() for file in files)
    record = next(store.records(small, tmp_path / "store"))
    assert record["config"]["train"]["steps"] == SHORT["steps"]


@pytest.mark.slow
def test_a_row_of_means_is_scored_with_the_mean_of_the_last_weights(
    small: str, three_pairs: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = f"{plans.MEAN}tau=1"
    often = replace(
        plans.STUDIES[small], rows=(row,), settings={**SHORT, "eval_every": 2, "device": "cpu"}, ensembles={}
    )
    monkeypatch.setitem(plans.STUDIES, small, often)
    work = study.Work(small, None, tmp_path / "runs", tmp_path / "store")
    assert work.missing([1], often.rows) == [(row, 1)]
    work.make_mean(row, 1)
    assert work.missing([1], often.rows) == []
    run = Run(work.run_of(f"tau=1 keep_last={plans.LAST}", 1))
    files = sorted((run.path / "checkpoint" / "last").iterdir())
    assert [int(file.stem[-8:]) for file in files] == [4, 6, 8, 10, 12], "twelve updates, six evaluations"
    weights = [load_file(file) for file in files]
    model = run.model()
    model.load_state_dict({name: torch.stack([one[name] for one in weights]).mean(0) for name in model.state_dict()})
    record = next(store.records(small, tmp_path / "store"))
    encoded = encode_corpus(three_pairs, run.tokenizer, run.config.model.max_len)
    for i, pair in enumerate(run.pairs):
        expected = likelihood(model, encoded.valid[i], i, run.config.train.tokens)
        assert record["students"][0]["pairs"][pair]["dev"]["nll"] == pytest.approx(expected["nll"], abs=2e-4)
    assert Study.load(tmp_path / "store" / small).systems[row].cost == run.compute


PROGRAM = f"""
import sys
from benchmarks import study
from benchmarks.studies import plans
from pmd_lite.api import load_corpus

settings = {{**{SHORT!r}, "steps": 100_000, "patience": 0, "device": "cpu"}}
plans.STUDIES["long"] = plans.Study("", lambda source, out: load_corpus("toy"), "toy", settings, ("tau=1", "tau=5"))
if __name__ == "__main__":
    study.main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it looks for the processes of a group")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_process_as_well(number: signal.Signals, tmp_path: Path, warm: Path | None) -> None:
    """A worker that outlives the command would go on to the next run, beside the same command given again."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    words = [str(warm or sys.executable), str(program), "long", "--runs", "runs", "--store", "store", "--seeds", "1"]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with subprocess.Popen(words, cwd=tmp_path, env=place) as command:
        try:
            metrics = tmp_path / "runs" / "long" / "runs" / "tau=1-seed1" / "metrics.jsonl"
            until = time.monotonic() + 120
            while not (metrics.exists() and metrics.stat().st_size):
                assert time.monotonic() < until and command.poll() is None, "no training began"
                time.sleep(0.1)
            command.send_signal(number)
            assert command.wait(30) != 0
        finally:
            command.kill()
    until = time.monotonic() + 60
    while left := [process for process in psutil.process_iter() if working_in(process, tmp_path)]:
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(0.1)
    assert not (tmp_path / "runs" / "long" / "runs" / "tau=5-seed1").exists(), "a worker went on to the next run"


def working_in(process: psutil.Process, folder: Path) -> bool:
    """Whether this is its working directory; False where it has ended or belongs to somebody else."""
    with suppress(psutil.Error):
        return Path(process.cwd()) == folder.resolve()
    return False
