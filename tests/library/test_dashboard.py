"""The dashboard of a run: right numbers in every state of the directory, alone or beside a run that continues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pmd_lite as pmd
from pmd_lite.api import describe
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.methods import get_method
from pmd_lite.reports import dashboard as board
from pmd_lite.reports.dashboard import dashboard, standing, throughput, watch
from pmd_lite.run import Run
from pmd_lite.training.progress import duration
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT, TINY
from tests.painted import paint_once

MakeRun = Callable[..., Path]


def line(step: int, student: int = 0, **changed: Any) -> dict[str, Any]:
    """One evaluation: 600 target tokens and 2 seconds for every 10 steps."""
    n, losses = 6, [3 - step / 40 + 0.1 * i for i in range(6)]
    return {
        "event": "eval", "step": step, "total": 40, "student": student, "dev_loss": losses,
        "alpha": [0.1 + 0.1 * student] * n, "p": [1 / n] * n, "tokens": [100.0] * n, "overflow_skips": 0,
        "seconds": step / 5, **changed,
    }  # fmt: skip


@pytest.fixture
def make_run(tmp_path: Path, tiny_corpus: Corpus) -> MakeRun:
    """make_run("auto-pmd", lines) -> a run directory with these lines."""

    def make(method: str, lines: list[dict[str, Any]], tail: bytes = b"", done: bool = False, **settings: Any) -> Path:
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        config = preset("toy", **{**TINY, **settings})
        write_json(path / "config.json", describe(tiny_corpus, get_method(method), config))
        RunDir(path).append_metrics(lines)
        with (path / "metrics.jsonl").open("ab") as file:
            file.write(tail)
        if done:
            RunDir(path).finish({"reason": "all steps made", "step": 40, "seconds": 1.0})
        return path

    return make


def both(*steps: int, **changed: Any) -> list[dict[str, Any]]:
    return [line(step, student, **changed) for step in steps for student in (0, 1)]


def titles(path: Path) -> list[str]:
    return [ax.get_title(loc="left") for ax in dashboard(path).axes]


def test_every_student_has_its_panels(make_run: MakeRun) -> None:
    assert titles(make_run("auto-pmd", both(10, 20))) == [
        "dev loss (nats), model_1 (tau=1)", "dev loss (nats), model_2 (tau=5)",
        "weight $\\alpha$, model_1 (tau=1)", "weight $\\alpha$, model_2 (tau=5)",
        "share of draws, model_1 (tau=1)", "share of draws, model_2 (tau=5)",
        "target tokens/s, all students",
    ]  # fmt: skip


def test_a_single_model_has_no_panel_of_weights(make_run: MakeRun) -> None:
    found = titles(make_run("tau=5", [line(step, alpha=[0.0] * 6) for step in (10, 20)]))
    assert found == ["dev loss (nats), tau=5", "share of draws, tau=5", "target tokens/s, all students"]


@pytest.mark.slow
def test_skipped_updates_are_drawn_where_there_is_a_scaler(make_run: MakeRun) -> None:
    path = make_run("tau=5", [line(10), line(20, overflow_skips=3)], precision="fp16")
    assert titles(path)[-1] == "updates skipped by overflow"
    panel = dashboard(path).axes[-1]
    assert list(panel.lines[0].get_ydata()) == [0, 3]
    assert "3 updates skipped by overflow" in dashboard(path).alt_text


def test_curves_show_what_the_run_recorded(make_run: MakeRun) -> None:
    fig = dashboard(make_run("auto-pmd", both(10, 20, 30)))
    first, last = fig.axes[0], fig.axes[-1]
    assert fig.legends[0].get_title().get_text().startswith("auto-pmd on toy: step 30 of 40 (75 %)")
    assert [list(curve.get_xdata()) for curve in first.lines] == [[10, 20, 30]] * 6
    assert list(first.lines[2].get_ydata()) == pytest.approx([2.95, 2.7, 2.45])
    assert list(last.lines[0].get_ydata()) == [600.0] * 3  # 2 x 600 tokens in 2 seconds


def test_standing_counts_all_students_and_the_pace_of_the_last_stretch(make_run: MakeRun) -> None:
    slow = both(10) + both(20, seconds=10.0)  # 8 seconds for the second stretch
    found = standing(Run(make_run("auto-pmd", slow)))
    assert (found.step, found.total, found.finished) == (20, 40, False)
    assert found.tokens_per_second == pytest.approx(1200 / 8)
    assert found.seconds_left == pytest.approx(20 * 8 / 10)
    assert found.words() == "step 20 of 40 (50 %), 150 target tokens/s, 16 s left"


def test_a_finished_run_has_nothing_left(make_run: MakeRun) -> None:
    found = standing(Run(make_run("tau=1", [line(40)], done=True)))
    assert found.seconds_left == 0 and found.words() == "step 40 of 40 (100 %), finished after 8 s"


def test_nothing_of_time_is_shown_on_request(make_run: MakeRun) -> None:
    alone = {"alpha": [0.0] * 6}
    path = make_run("tau=1", [line(10, **alone), line(20, seconds=9.0, **alone)])
    other = make_run("tau=1", [line(10, **alone), line(20, seconds=5.0, **alone)])
    assert dashboard(path, times=False).alt_text == dashboard(other, times=False).alt_text
    assert len(dashboard(path, times=False).axes) == 2
    assert (
        standing(Run(make_run("tau=1", [line(40)], done=True))).words(times=False) == "step 40 of 40 (100 %), finished"
    )


@pytest.mark.slow
@pytest.mark.parametrize("tail", [b'{"event": "ev', b'{"event": "eval", "step": 30, "student": 0}', b"{"])
def test_half_a_last_line_is_passed_over(tail: bytes, make_run: MakeRun) -> None:
    whole, torn = make_run("auto-pmd", both(10, 20)), make_run("auto-pmd", both(10, 20), tail)
    assert standing(Run(torn)) == standing(Run(whole)) and dashboard(torn).alt_text == dashboard(whole).alt_text


@pytest.mark.slow
def test_a_line_of_one_student_may_be_there_before_the_others(make_run: MakeRun) -> None:
    fig = dashboard(make_run("auto-pmd", [*both(10, 20), line(30, 0)]))
    assert [len(ax.lines[0].get_xdata()) for ax in fig.axes[:2]] == [3, 2]
    assert len(dashboard(make_run("auto-pmd", [line(10, 0)])).axes) == 7


@pytest.mark.slow
def test_other_events_and_stretches_without_time_do_no_harm(make_run: MakeRun) -> None:
    search = {"event": "search", "step": 10, "student": 0}
    path = make_run("auto-pmd", [search, *both(10), search, *both(20, seconds=2.0)])
    assert "step 20" in dashboard(path).alt_text and standing(Run(path)).seconds_left is None


def test_before_the_first_evaluation_there_is_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not been evaluated yet"):
        dashboard(make_run("auto-pmd", []))
    with pytest.raises(UserError, match="is this a run directory"):
        dashboard(tmp_path)


def test_throughput_takes_every_stretch_for_itself() -> None:
    steps, rates = throughput([line(10), line(20, seconds=10.0), line(30, seconds=12.0)])
    assert steps == [10, 20, 30] and rates == pytest.approx([300, 75, 300])


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.42, "0.42 s"),
        (3.4, "3.4 s"),
        (29, "29 s"),
        (59, "1 min"),
        (61, "1 min"),
        (3_540, "59 min"),
        (5_000, "1 h 23 min"),
        (400_000, "111 h (4.6 days)"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# --- live -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_watch_follows_a_run_to_its_end(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    paint_once(monkeypatch)
    path = make_run("tau=1", [line(10)])

    async def follow() -> None:
        box = watch(path, every=0.01)
        picture, stop = box.children
        first = picture.value
        assert "step 10 of 40" in first
        await asyncio.sleep(0.1)
        assert picture.value is first  # nothing new: nothing drawn
        RunDir(path).append_metrics([line(20)])
        await until(lambda: "step 20 of 40" in picture.value)
        RunDir(path).finish({"reason": "all steps made", "step": 40, "seconds": 1.0})
        await until(lambda: "finished after" in picture.value)
        await asyncio.wait_for(box.task, 60)
        assert stop.disabled and stop.description == "Finished"

    asyncio.run(follow())


def test_watch_stops_when_it_is_told_to(make_run: MakeRun) -> None:
    path = make_run("tau=1", [])

    async def follow() -> None:
        box = watch(path, every=0.01)
        picture, stop = box.children
        assert "not been evaluated yet" in picture.value
        stop.click()
        await asyncio.wait_for(box.task, 60)
        RunDir(path).append_metrics([line(10)])
        await asyncio.sleep(0.05)
        assert "step 10" not in picture.value and stop.description == "Stopped"

    asyncio.run(follow())


@pytest.mark.slow
def test_without_an_event_loop_watch_draws_once(make_run: MakeRun) -> None:
    picture, stop = watch(make_run("tau=1", [line(10)])).children
    assert "step 10 of 40" in picture.value and stop.disabled
    with pytest.raises(UserError, match="above 0"):
        watch(Path("x"), every=0)


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):  # a busy machine draws slowly
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited for nothing")


def test_training_draws_it_in_a_notebook_after_every_evaluation(
    three_pairs: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def live(path: Path) -> Callable[[], None]:
        return lambda: drawn.append(standing(Run(path)).step)

    monkeypatch.setitem(__import__("sys").modules, "IPython", object())
    monkeypatch.setattr(board, "live", live)
    pmd.train(three_pairs, "tau=1", "toy", out=tmp_path / "r", show="dashboard", score=False, **SHORT)
    assert drawn == [4, 8, 12]


def test_outside_notebooks_it_is_lines(three_pairs: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pmd.train(three_pairs, "tau=1", "toy", out=tmp_path / "r", show="dashboard", score=False, **SHORT)
    assert "step 12/12" in capsys.readouterr().out
    metrics = [json.loads(text) for text in (tmp_path / "r" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert {m["total"] for m in metrics} == {12}
