"""compare(): what it runs, that nothing is run twice, what its tables say, at equal tokens and at equal compute."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import pmd_lite as pmd
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.entries import parse_entry, parse_settings
from pmd_lite.comparing.summary import finished_run, finished_systems
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import corpus_bleu
from pmd_lite.run import Run
from tests.conftest import SHORT, forked_processes

WORLD = {"head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1,
         "false_friends": 1, "pairs": ["fra-eng", "deu-eng", "zho-eng"]}  # fmt: skip
# One search, at the first of two evaluations; an epoch, after which chi-ibr decides, is 15 updates.
QUICK: dict[str, Any] = {**SHORT, "steps": 16, "eval_every": 8, "update_every": 8}
METHODS = ["tau=1", "auto-pmd", "lsmd", "tau=1 d_model=32", "bi-pmd samplers=tau=1,chi-ibr alpha=0.5"]


def spawning(out: Path, methods: list[str], seeds: list[int], **words: Any) -> Comparison:
    """Processes start as they do for a user: nothing is patched."""
    words = {**QUICK, **words}
    return pmd.compare("toy", methods, seeds, corpus_options=WORLD, out=out, workers=2, show=False, **words)


def compare(out: Path, methods: list[str], seeds: list[int], **words: Any) -> Comparison:
    with forked_processes():
        return spawning(out, methods, seeds, **words)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For comparisons whose figures nobody looks at: drawing them takes as long as a few runs."""
    for name in ("plot_frontier", "plot_probabilities", "plot_costs"):
        monkeypatch.setattr(Comparison, name, lambda self: None)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(tmp_path_factory.mktemp("compare"), METHODS, [1, 2])


def run_of(comparison: Comparison, method: str, seed: int) -> Run:
    run = finished_run(comparison.path / comparison.equal, parse_entry(method), seed)
    assert run is not None
    return run


# ---------------------------------------------------------------- how methods are written


def test_an_entry_is_a_method_with_samplers_and_settings() -> None:
    entry = parse_entry("auto-pmd samplers=tau=1,chi-ibr steps=3000 fidelity=released rollback=False lr=1e-3")
    assert (entry.method, entry.samplers) == ("auto-pmd", ("tau=1", "chi-ibr"))
    assert entry.overrides == {"steps": 3000, "fidelity": "released", "rollback": False, "lr": 1e-3}
    assert parse_entry("tau=inf").row.name == "tau=inf"
    assert entry.path(Path("x"), 2) == Path(
        "x/auto-pmd_samplers=tau=1,chi-ibr_steps=3000_fidelity=released_rollback=False_lr=1e-3-seed2"
    )


@pytest.mark.parametrize("word", ["steps", "=5", "3000"])
def test_a_setting_without_a_name_or_a_value_is_refused(word: str) -> None:
    with pytest.raises(UserError, match="write name=value, such as steps=1000"):
        parse_settings([word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": ["tau=1", "auto-pdm"]}, "did you mean 'auto-pmd'"),
        ({"methods": ["tau=1", "bi-pmd samplers=tau=1"]}, "at least two students"),
        ({"methods": ["tau=1", "tau=5 stepz=3"]}, "'stepz' names no field"),
        ({"methods": ["tau=1", "tau=1"]}, "named twice"),
        ({"methods": []}, "at least one method"),
        ({"seeds": []}, "one seed"),
        ({"seeds": [1, 1]}, "named twice"),
        ({"equal": "compute", "reference": "bi-pmd"}, "reference='bi-pmd' is not one of the methods"),
    ],
)
def test_a_senseless_request_is_refused_before_anything_is_trained(
    words: dict[str, Any], message: str, tmp_path: Path
) -> None:
    asked = {"methods": ["tau=1"], "seeds": [1], **words}
    with pytest.raises(UserError, match=message):
        compare(tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- what it runs


@pytest.mark.slow
def test_every_method_has_a_run_for_every_seed_with_its_own_settings(found: Comparison) -> None:
    assert found.failed == {}
    for method in METHODS:
        for seed in (1, 2):
            run = run_of(found, method, seed)
            assert run.config.train.seed == seed
            assert run.config.model.d_model == (32 if "d_model" in method else 16)
            assert run.config.distill.alpha == (0.5 if "alpha" in method else 0.4)


@pytest.mark.slow
def test_methods_share_auxiliary_runs_unless_they_have_settings_of_their_own(found: Comparison) -> None:
    lsmd, own = (run_of(found, METHODS[i], 1) for i in (2, 4))
    assert [run.path for run in lsmd.auxiliary] == [(found.path / "runs" / "auto-pmd-seed1").resolve()]
    assert [run.path for run in own.auxiliary] == [(own.path / "auxiliary" / "plain").resolve()]


@pytest.mark.slow
def test_a_run_is_the_same_as_without_a_comparison(found: Comparison, tmp_path: Path) -> None:
    corpus = pmd.load_corpus("toy", **WORLD)
    alone = pmd.train(corpus, "auto-pmd", "toy", out=tmp_path / "alone", show="off", seed=2, score=False, **QUICK)
    run = run_of(found, "auto-pmd", 2)
    assert [x["dev_loss"] for x in run.evaluations(1)] == [x["dev_loss"] for x in alone.evaluations(1)]


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_asking_again_trains_nothing_and_asking_for_more_trains_only_that(found: Comparison, tmp_path: Path) -> None:
    def stamps() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("finished.json")}

    shutil.copytree(found.path, tmp_path, dirs_exist_ok=True)  # the other tests look at what was asked for first
    before = stamps()
    again = compare(tmp_path, [*METHODS, "tau=5"], [1, 2])
    after = stamps()
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 2
    assert list(again.compute) == [*METHODS, "tau=5"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_killed_in_the_middle_it_goes_on_and_repeats_no_finished_run(tmp_path: Path) -> None:
    script = (
        "if __name__ == '__main__':\n    import sys; sys.path[:0] = ['.']\n    from pathlib import Path\n"
        "    import tests.library.test_compare as t\n"
        f"    t.spawning(Path({str(tmp_path)!r}), ['tau=1', 'tau=5', 'lsmd'], [1])\n"
    )
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, str(file)], cwd=root, env=environment)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*/finished.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/finished.json")}
    assert done, "nothing had finished before the kill"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # its workers notice that their parent is gone, and let go of their locks
        try:
            result = compare(tmp_path, ["tau=1", "tau=5", "lsmd"], [1])
        except UserError:
            continue
        if not result.failed:
            break
    assert result.failed == {}
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(result.systems) == 4


@pytest.mark.slow
def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(tmp_path, ["tau=1", "tau=1 lr=1e30"], [1])
    assert list(result.systems) == ["tau=1"]
    assert list(result.failed) == ["tau=1_lr=1e30-seed1"]
    assert "diverged" in result.failed["tau=1_lr=1e30-seed1"]
    assert "FAILED tau=1_lr=1e30-seed1" in capsys.readouterr().out
    assert "tau=1" in result.table().to_text()


# ---------------------------------------------------------------- what it says


@pytest.mark.slow
def test_the_table_holds_means_over_seeds_of_what_the_runs_scored(found: Comparison) -> None:
    assert list(found.systems) == [
        "tau=1", "auto-pmd model_1 (tau=1)", "auto-pmd model_2 (tau=5)", "lsmd model_1 (tau=1)", "lsmd model_2 (tau=5)",
        "tau=1 d_model=32", "bi-pmd samplers=tau=1,chi-ibr alpha=0.5: model_1 (tau=1)",
        "bi-pmd samplers=tau=1,chi-ibr alpha=0.5: model_2 (chi-ibr)",
    ]  # fmt: skip
    table = found.table()
    for system, row in zip(finished_systems(found.path), table.rows, strict=True):
        scores = [run.bleu(system.student) for run in system.runs]
        means = [sum(score.values()) / 3 for score in scores]
        assert row[0] == system.label
        assert row[1].mean == pytest.approx(sum(means) / 2, abs=1e-4)  # type: ignore[union-attr]
        assert row[1].n == 2  # type: ignore[union-attr]
        low, high = zip(*(run.point(system.student) for run in system.runs), strict=True)
        assert (row[3].mean, row[5].mean) == pytest.approx((sum(high) / 2, sum(low) / 2), abs=1e-4)  # type: ignore[union-attr]
    assert "seeds 1, 2" in table.caption and "diff: from tau=1" in table.caption


@pytest.mark.slow
def test_differences_are_those_of_the_table(found: Comparison) -> None:
    base = found.table().rows[0]
    for label, row in zip(found.systems, found.table().rows, strict=True):
        for name, column in (("mean", 1), ("HRL", 3), ("LRL", 5)):
            tested = found.difference(label, name)
            if label == "tau=1":
                assert tested is None and row[column + 1] == ""
            else:
                gap = row[column].mean - base[column].mean  # type: ignore[union-attr]
                assert tested is not None and tested[0] == pytest.approx(gap, abs=2e-4)
                assert row[column + 1] == f"{tested[0]:+.1f}\u00a0{tested[1]}".strip()


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_one_seed_marks_nothing(found: Comparison, tmp_path: Path) -> None:
    shutil.copytree(found.path, tmp_path, dirs_exist_ok=True)
    result = compare(tmp_path, ["tau=1", "auto-pmd"], [1])
    assert "one seed" in result.table().caption
    assert not any(mark in result.table().to_text() for mark in "▲▼")


@pytest.mark.slow
def test_translations_give_the_scores_again(found: Comparison) -> None:
    """The statistics of the differences come from the same translations as scores.json."""
    run, corpus = run_of(found, "tau=1", 1), pmd.load_corpus("toy", **WORLD)
    pair = corpus.pairs[0]
    lines = run.translations(pair, 0)
    assert corpus_bleu(lines, [trg for _, trg in corpus.test[pair]], "eng").bleu == run.bleu()[pair]


@pytest.mark.slow
def test_costs_by_hand(found: Comparison) -> None:
    one, auto, wide = (run_of(found, METHODS[i], 1) for i in (0, 1, 3))
    costs, unit = found.compute, one.compute
    assert sum(costs["tau=1"].values()) == pytest.approx(1, abs=1e-3)
    assert costs["lsmd"]["auxiliary"] == pytest.approx(auto.compute / unit, abs=1e-4)
    assert costs["auto-pmd"]["trial"] > 0 == costs["lsmd"]["trial"]
    assert costs["auto-pmd"]["train"] == pytest.approx(auto.cost["train"] / unit, abs=1e-4)
    assert wide.compute == sum(wide.cost.values()) == sum(wide.finished["multiply_adds"].values())
    # The same batches through a model twice as wide: products grow up to fourfold
    assert 2 < wide.cost["train"] / one.cost["train"] < 4
    text = found.cost_table().to_text()
    assert all(method in text for method in METHODS)
    assert "multiply-adds" in text and "not counted: embedding look-ups" in text, "a cost table says what it counts"


@pytest.mark.slow
def test_a_run_that_does_not_say_what_it_computed_is_refused(found: Comparison, tmp_path: Path) -> None:
    shutil.copytree(found.path, tmp_path / "old")
    run = finished_run(tmp_path / "old" / "runs", parse_entry("tau=1"), found.seeds[0])
    assert run is not None
    run.dir.finish({"reason": "all steps made", "step": 64, "seconds": 1.0, "parameters": 9})
    with pytest.raises(UserError, match="lacks 'multiply_adds'"):
        Comparison(tmp_path / "old")


@pytest.mark.slow
def test_tables_and_figures_are_written(found: Comparison) -> None:
    """By `compare` itself."""
    names = {path.name for path in found.path.iterdir() if path.is_file()}
    expected = {"table.md", "costs.md", "frontier.png", "frontier.pdf", "probabilities.png", "costs.png", "runs.json",
                "summary.json"}  # fmt: skip
    assert expected <= names
    assert "auto-pmd model_2" in (found.path / "table.md").read_text(encoding="utf-8")
    assert Comparison(found.path).table().to_text() == found.table().to_text()


@pytest.mark.slow
def test_the_summary_is_enough_for_every_table_and_figure(found: Comparison) -> None:
    stored = Comparison.load(found.path / "summary.json")
    for ours, theirs in ((stored.table(), found.table()), (stored.cost_table(), found.cost_table())):
        assert ours.to_markdown() == theirs.to_markdown()
    for name in ("plot_frontier", "plot_probabilities", "plot_costs"):
        assert getattr(stored, name)().alt_text == getattr(found, name)().alt_text
    assert stored.notes == found.notes != []
    assert stored.failed == {}


@pytest.mark.slow
def test_the_summary_holds_what_the_table_shows(found: Comparison) -> None:
    kept = json.loads(json.dumps(found.summary))
    assert [system["label"] for system in kept["systems"]] == list(found.systems)
    for stored, row in zip(kept["systems"], found.table().rows, strict=True):
        means = [sum(bleu.values()) / 3 for bleu in stored["bleu"]]
        assert sum(means) / 2 == pytest.approx(row[1].mean, abs=1e-3)  # type: ignore[union-attr]
        assert len(stored["steps"]) == len(stored["p"]["fra-eng"]) == 2
        assert sum(stored["p"][pair][0] for pair in stored["p"]) == pytest.approx(1, abs=1e-3)
    assert kept["costs"]["lsmd"]["auxiliary"] == pytest.approx(found.compute["lsmd"]["auxiliary"], abs=1e-3)


@pytest.mark.slow
def test_figures_say_in_words_what_they_show(found: Comparison) -> None:
    figure = found.plot_frontier()
    assert figure is not None and all(label in figure.alt_text for label in found.systems)
    probabilities = found.plot_probabilities()
    assert probabilities is not None and "model_2 (chi-ibr)" in probabilities.alt_text
    assert "lsmd" not in probabilities.alt_text, "its probabilities stand still"


# ---------------------------------------------------------------- equal compute


# Longer than the others: a run is as long as it should be but for one update, and this is to be a small part of it.
LONG: dict[str, Any] = {**QUICK, "steps": 32, "eval_every": 16}


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(tmp_path_factory.mktemp("equal"), ["tau=1", "bi-pmd", "tau=1 d_model=48"], [1, 2], equal="compute",
                   reference="bi-pmd", **LONG)  # fmt: skip


@pytest.mark.slow
def test_at_equal_compute_all_spend_what_the_reference_spends(equal: Comparison) -> None:
    assert equal.equal == "equal-compute"
    one, two, wide = (run_of(equal, method, 2) for method in ("tau=1", "bi-pmd", "tau=1 d_model=48"))
    assert two.finished["step"] == LONG["steps"], "the reference keeps its length"
    assert one.finished["step"] > LONG["steps"] > wide.finished["step"]
    for run in (one, wide):
        made, every = run.finished["step"], LONG["eval_every"]
        assert run.config.train.steps == made and run.config.train.eval_every == every, "so that dev sets scale"
        assert run.config.optim.warmup == round(LONG["warmup"] * made / LONG["steps"]) != LONG["warmup"]
        evaluations = len(run.evaluations())
        assert evaluations == math.ceil(made / every)
        # Exact but for one update and one evaluation, which come in whole numbers, and the luck of the draw.
        grain = run.cost["train"] / made + run.cost["dev"] / evaluations
        assert abs(run.compute - two.compute) < grain + 0.03 * two.compute


@pytest.mark.slow
def test_only_the_first_seed_is_measured_at_equal_tokens(equal: Comparison) -> None:
    assert sorted(path.name for path in (equal.path / "runs").iterdir()) == [
        "bi-pmd-seed1", "tau=1-seed1", "tau=1_d_model=48-seed1"
    ]  # fmt: skip
    assert "equal compute" in equal.table().caption
    assert (equal.path / "equal-compute-table.md").exists()


def test_where_there_is_no_comparison_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent or damaged"):
        Comparison(tmp_path)


@pytest.mark.slow
def test_a_killed_worker_is_an_error_not_a_hang(tmp_path: Path) -> None:
    """A worker that the system kills (out of memory) ends the comparison with an exception."""
    from concurrent.futures.process import BrokenProcessPool

    from pmd_lite.processes import run_jobs

    job = {"corpus": "toy", "corpus_options": WORLD, "method": "tau=1", "preset_name": "toy", "out": tmp_path / "run",
           **{**QUICK, "steps": 100_000}}  # fmt: skip
    marker = tmp_path / "run" / "metrics.jsonl"

    def kill_once_it_trains() -> None:
        while not marker.exists():
            time.sleep(0.05)
        for worker in multiprocessing.active_children():
            worker.kill()

    killer = threading.Thread(target=kill_once_it_trains)
    killer.start()
    with pytest.raises(BrokenProcessPool):
        run_jobs([job], 1, stop_at_error=False, show=False)
    killer.join()
    assert Run(tmp_path / "run").evaluations(), "what it had written is still there"
