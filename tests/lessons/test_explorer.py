"""The frontier explorer on run folders whose scores were written by hand."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pmd_lite as pmd
from pmd_kit.l06.contenders import ALL, BLEU, LARGE, LOSS, SMALL, area, beaten_by, collect
from pmd_kit.l06.explorer import FrontierExplorer, frontier_explorer
from pmd_kit.l06.frontier_plane import frontier_plane, plane, standing_table, usual_reference
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.figures.style import COLOURS, alt_text
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT
from tests.painted import paint_once

Put = Callable[..., Path]


@pytest.fixture(scope="module")
def trained(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = pmd.preset("toy", **{**SHORT, "steps": 4})
    out = tmp_path_factory.mktemp("runs") / "r"
    return pmd.train(tiny_corpus, "tau=5", config, out=out, show="off", score=False).path


@pytest.fixture
def put(trained: Path, tmp_path: Path) -> Put:
    """put("a", large, small, ...): a finished run in tmp_path/runs/a with these BLEU and loss on every such pair."""

    def write(
        name: str, *students: tuple[float, float], method: str = "tau=5", seed: int = 1, loss: float = 1.0,
        finished: bool = True, scored: bool = True, fingerprint: str = "", settings: dict[str, Any] | None = None,
    ) -> Path:  # fmt: skip
        target = tmp_path / "runs" / name
        target.mkdir(parents=True)
        about = json.loads((trained / "config.json").read_text(encoding="utf-8"))
        about["config"]["train"] |= {"seed": seed, **(settings or {})}
        about["corpus"]["fingerprint"] = fingerprint or about["corpus"]["fingerprint"]
        about |= {"method": method, "samplers": [method]}
        if len(students) > 1:
            about |= {"method": "bi-pmd", "samplers": ["tau=1", "tau"]}
        (target / "config.json").write_text(json.dumps(about), encoding="utf-8")
        lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        losses = [loss / 10] * 3 + [loss] * 3
        lines = [{**line, "student": i, "dev_loss": losses} for line in lines for i in range(len(students))]
        (target / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if finished:
            RunDir(target).finish({"reason": "all steps made", "step": 4, "seconds": 1.0})
        if finished and scored:
            pairs = about["corpus"]["pairs"]
            scores = {f"model_{i + 1}": {pair: {"bleu": high if n < 3 else low} for n, pair in enumerate(pairs)}
                      for i, (high, low) in enumerate(students)}  # fmt: skip
            write_json(target / "scores.json", RunDir(target).sealed({"scores": scores}))
        return target

    return write


def labels(found: Sequence[Any]) -> list[str]:
    return [c.label for c in found]


def test_dominated_points_are_named_with_all_who_beat_them_and_flip_for_losses() -> None:
    points = {"a": (1.0, 4.0), "b": (3.0, 3.0), "c": (2.0, 2.0), "d": (1.0, 3.0), "b too": (3.0, 3.0)}
    assert beaten_by(points, higher=True) == {
        "a": [], "b": [], "b too": [], "c": ["b", "b too"], "d": ["a", "b", "b too"],
    }  # fmt: skip
    assert beaten_by(points, higher=False) == {
        "c": [], "d": [], "a": ["d"], "b": ["c", "d", "b too"][:2], "b too": ["c", "d"],
    }  # fmt: skip
    corner = (0.0, 0.0)
    assert area([(1, 4), (3, 3), (2, 2)], corner, higher=True) == 1 * 4 + 2 * 3
    assert area([(1, 4), (3, 3), (2, 2)], (4.0, 5.0), higher=False) == 1 * 1 + 2 * 3


def test_any_finished_runs_of_any_methods_seeds_of_one_experiment_together(put: Put, tmp_path: Path) -> None:
    put("a1", (40.0, 10.0), method="tau=1")
    put("deep/a2", (44.0, 14.0), method="tau=1", seed=2)
    put("m", (30.0, 20.0), (20.0, 30.0))
    found = collect(tmp_path / "runs")
    assert found.notes == []
    one, first, second = found.contenders
    assert labels(found.contenders) == ["tau=1", "bi-pmd model_1 (tau=1)", "bi-pmd model_2 (tau=5)"]
    assert one.cloud(BLEU, (SMALL, LARGE)) == [(10, 40), (14, 44)]
    assert one.cloud(BLEU, (ALL, one.groups[1][0])) == [(25, 10), (29, 14)]
    assert second.cloud(BLEU, (SMALL, LARGE)) == [(30, 20)] and first.cloud(BLEU, (SMALL, LARGE)) == [(20, 30)]
    assert labels(one.apart()) == ["tau=1, seed 1", "tau=1, seed 2"]
    assert one.apart()[1].cloud(BLEU, (SMALL, LARGE)) == [(14, 44)]


def test_what_cannot_be_shown_is_a_sentence(put: Put, tmp_path: Path) -> None:
    assert "there is no such folder" in collect(tmp_path / "nowhere").notes[0]
    (tmp_path / "runs").mkdir()
    assert "no run lies here yet" in collect(tmp_path / "runs").notes[0]
    put("open", (1.0, 1.0), finished=False)
    put("unscored", (1.0, 1.0), method="tau=2", scored=False)
    put("good", (40.0, 10.0))
    put("good/auxiliary/inner", (41.0, 11.0))  # belongs to the run it lies in
    put("twice", (40.0, 10.0))
    fresh = put("fresh", (1.0, 1.0), finished=False)
    (fresh / "metrics.jsonl").unlink()
    for name, text in {"foreign": '{"model": 1}', "broken": "{", "list": "[]"}.items():
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "config.json").write_text(text, encoding="utf-8")
    found = collect(tmp_path / "runs")
    said = {Path(note.split(": ")[0]).name: note.split(": ", 1)[1] for note in found.notes}
    assert said.keys() == {"open", "unscored", "twice", "fresh", "foreign", "broken", "list"}
    assert said["open"] == "unfinished, at step 4; not shown"
    assert said["fresh"] == "unfinished, no evaluation yet; not shown"
    assert said["unscored"].startswith("no test BLEU yet, only dev loss")
    assert "same experiment and seed" in said["twice"]
    assert all("cannot be read as a run" in said[name] for name in ("foreign", "broken", "list"))
    assert labels(found.contenders) == ["tau=5", "tau=2"]
    assert found.contenders[1].cloud(BLEU, (SMALL, LARGE)) == []
    assert found.contenders[1].cloud(LOSS, (SMALL, LARGE)) == [pytest.approx((1.0, 0.1))]


def test_equal_names_say_what_sets_them_apart(put: Put, tmp_path: Path) -> None:
    put("short", (40.0, 10.0))
    put("long", (50.0, 20.0), settings={"steps": 99})
    put("other", (50.0, 20.0), fingerprint="f" * 20)
    found = collect(tmp_path / "runs").contenders
    assert labels(found) == ["tau=5, steps=99", "tau=5", "tau=5, steps=4"]
    here, there, _ = (c.corpus for c in found)
    assert here != there and there.startswith("toy ffffff: fra-eng")


def test_the_picture_says_who_is_dominated_by_whom_and_flips(put: Put, tmp_path: Path) -> None:
    put("a", (40.0, 10.0), method="tau=1", loss=3.0)
    put("b", (30.0, 20.0), method="tau=5", loss=1.0)
    put("c", (29.0, 19.0), method="tau=9", loss=0.5)
    found = collect(tmp_path / "runs").contenders
    fig = frontier_plane(found)
    assert alt_text(fig) == (
        "test BLEU, higher is better; across small pairs (LRL), up large pairs (HRL). On the frontier: tau=1 "
        "(10.0, 40.0), tau=5 (20.0, 30.0). Dominated: tau=9 (19.0, 29.0) by tau=5. Area 700.0, counted from (0, 0)."
    )
    assert [text.get_text() for text in fig.axes[0].texts] == ["tau=1", "tau=5", "tau=9 (by tau=5)"]
    marks = {line.get_gid(): line for line in fig.axes[0].lines if line.get_gid()}
    assert marks["tau=9"].get_markerfacecolor() == "white" != marks["tau=5"].get_markerfacecolor()
    assert frontier_plane(found, reference=(15.0, 0.0)).alt_text.endswith("Area 150.0, counted from (15, 0).")
    loss = frontier_plane(found, LOSS)
    assert "On the frontier: tau=9 (0.50, 0.05). Dominated: tau=1 (3.00, 0.30) by tau=9, tau=5;" in loss.alt_text
    assert usual_reference(found, LOSS) == (3.3, 0.4)
    standing = [row[5:] for row in standing_table(found).rows]
    by_hand = [["frontier", 10 * (40 - 30)], ["frontier", 20 * 30 - 10 * 30 - 9 * 29], ["dominated by tau=5", 0]]
    assert standing == by_hand  # without tau=5, tau=9 covers 9 x 29 of what it covered beside tau=1


def test_the_border_of_the_frontier_is_a_staircase_on_the_good_side(put: Put, tmp_path: Path) -> None:
    put("a", (40.0, 10.0), method="tau=1", loss=1.0)
    put("b", (30.0, 20.0), method="tau=5", loss=1.0)
    found = collect(tmp_path / "runs").contenders
    line = next(line for line in frontier_plane(found).axes[0].lines if line.get_label() == "frontier")
    assert [tuple(p) for p in line.get_xydata()[1:4]] == [(10, 40), (10, 30), (20, 30)]
    up = frontier_plane(found, LOSS, (found[0].groups[0][0], SMALL)).axes[0]
    line = next(line for line in up.lines if line.get_label() == "frontier")
    (x0, y0), *_, (x1, y1) = line.get_xydata()
    assert (y0, x1) == (up.get_ylim()[1], up.get_xlim()[1]) and (x0, y1) == (0.1, 1.0)  # opens up and to the right


@pytest.mark.slow
def test_marks_on_the_frontier_keep_their_colours_in_a_notebook() -> None:
    """Fewer colours must not turn a small mark gray beside a large shade: gray means dominated."""
    sweep = {"0.5": (3.9, 66.4), "1": (8.3, 79.5), "1.5": (13.5, 77.4), "2.5": (16.6, 72.7), "5": (15.8, 59.9)}
    page = plane({f"tau={tau}": [point] for tau, point in sweep.items()})._repr_html_()
    data = base64.b64decode(re.findall(r"base64,([^\"]+)", page)[0])
    used = np.unique(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).reshape(-1, 3), axis=0).astype(int)
    for colour in COLOURS[1:4]:
        wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
        assert np.abs(used - wanted).max(axis=1).min() <= 8, colour


@pytest.mark.slow
def test_more_than_ten_points_carry_numbers(put: Put, tmp_path: Path) -> None:
    for n in range(1, 12):
        put(f"r{n:02d}", (50.0 - n, 10.0 + n), method=f"tau={n}")
    found = collect(tmp_path / "runs").contenders
    assert [text.get_text() for text in frontier_plane(found).axes[0].texts] == [str(n) for n in range(1, 12)]
    assert [row[:2] for row in standing_table(found).rows][10] == [11, "tau=11"]


@pytest.mark.slow
def test_the_widget_follows_its_controls(put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paint_once(monkeypatch)
    put("a1", (40.0, 10.0), method="tau=1", loss=3.0)
    put("a2", (42.0, 12.0), method="tau=1", loss=3.0, seed=2)
    put("b", (30.0, 20.0), method="tau=5", loss=1.0)
    put("c", (29.0, 19.0), method="tau=9", loss=0.5)
    put("open", (1.0, 1.0), method="tau=3", finished=False)
    e = FrontierExplorer(tmp_path / "runs")
    assert "On the frontier: tau=1 (11.0, 41.0), tau=5 (20.0, 30.0)" in e.picture.value
    assert "open: unfinished, at step 4" in e.picture.value
    assert e.corpus.layout.display == "none"  # there is nothing to choose
    assert all(control.layout.display is None for control in (e.measure, e.across, e.up, *e.corner, e.joined))
    e.ticks["tau=5"].value = False
    assert "tau=9 (19.0, 29.0). Dominated: none" in e.picture.value
    e.joined.value = False  # ticks of what is still there are kept
    assert "tau=1, seed 2 (12.0, 42.0)" in e.picture.value
    assert "tau=1, seed 1 (10.0, 40.0) by tau=1, seed 2" in e.picture.value
    assert "tau=5 (" not in e.picture.value
    e.joined.value = True
    e.measure.value = LOSS
    assert "On the frontier: tau=9 (0.50, 0.05)" in e.picture.value
    assert tuple(c.value for c in e.corner) == (3.3, 0.4)
    e.corner[0].value = 0.5
    assert "counted from (0.5, 0.4)" in e.picture.value
    e.measure.value = BLEU
    e.up.value = ALL
    assert "up all pairs" in e.picture.value and tuple(c.value for c in e.corner) == (0, 0)
    e.none.click()
    assert "Tick at least one run" in e.picture.value and "open: unfinished" in e.picture.value
    e.all.click()
    put("late", (60.0, 60.0), method="tau=7")
    put("unscored", (1.0, 1.0), method="tau=8", scored=False)
    e.again.click()
    assert "On the frontier: tau=7 (60.0, 60.0). Dominated: tau=1" in e.picture.value
    assert "<li>no test BLEU: tau=8</li>" in e.picture.value
    for label, tick in e.ticks.items():
        tick.value = label == "tau=8"
    assert "None of the chosen runs has a test BLEU" in e.picture.value


def test_two_corpora_are_never_on_one_plane(put: Put, tmp_path: Path) -> None:
    put("a", (40.0, 10.0), method="tau=1")
    put("b", (30.0, 20.0), method="tau=5", fingerprint="f" * 20)
    e = FrontierExplorer(tmp_path / "runs")
    assert e.corpus.layout.display is None and list(e.ticks) == ["tau=1"]
    e.corpus.value = e.corpus.options[1]
    assert list(e.ticks) == ["tau=5"] and "tau=1 (" not in e.picture.value


def test_it_opens_on_the_runs_of_its_lesson_and_offers_the_others(put: Put, tmp_path: Path) -> None:
    put("a", (40.0, 10.0), method="tau=1")
    put("b", (30.0, 20.0), method="tau=5", fingerprint="f" * 20)
    put("c", (35.0, 15.0), method="tau=2", fingerprint="f" * 20)
    mine = [c for c in collect(tmp_path / "runs").contenders if c.label == "tau=5"]
    e = FrontierExplorer(tmp_path / "runs", mine)
    assert {label: tick.value for label, tick in e.ticks.items()} == {"tau=5": True, "tau=2": False}
    e.corpus.value = next(name for name in e.corpus.options if name != e.corpus.value)
    assert list(e.ticks) == ["tau=1"]


def test_an_empty_folder_is_said_to_be_empty_and_can_be_read_again(put: Put, tmp_path: Path) -> None:
    box = frontier_explorer(tmp_path / "runs")
    assert "There is no finished run to show" in box.children[-1].value
    e = FrontierExplorer(tmp_path / "runs")
    assert "there is no such folder" in e.picture.value
    put("a", (40.0, 10.0))
    e.again.click()
    assert "On the frontier: tau=5" in e.picture.value
    with pytest.raises(UserError, match="None of the chosen runs"):
        frontier_plane([])
