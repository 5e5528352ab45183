"""The search stepper shows what the log says; the test computes it from R in another way than the library."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

import pmd_lite as pmd
from pmd_kit.l10.figures import ORDER
from pmd_kit.l10.stepper import SearchLog, search_stepper
from pmd_lite.api import describe
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.figures.style import LessonFigure
from pmd_lite.interfaces import Clock
from pmd_lite.methods import get_method
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from tests.conftest import TINY
from tests.painted import paint_once
from tests.paper.test_eq05_06_strategies import FakeProbe, students

SIGN = {"down": "▼ down", "keep": "● keep", "up": "▲ up"}
Rows = Sequence[Sequence[float]]


# ---------------------------------------------------------------- runs to look at
@pytest.fixture(scope="module")
def trained(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A real but tiny Auto-PMD run of three searches."""
    out = tmp_path_factory.mktemp("runs") / "auto"
    settings = {**TINY, "steps": 13, "update_every": 4}
    return pmd.train(tiny_corpus, "auto-pmd", "toy", out=out, show="off", score=False, **settings)


def logged(
    folder: Path, corpus: Corpus, tables: Sequence[Sequence[Rows]], *, method: str = "auto-pmd",
    samplers: list[str] | None = None, **overrides: Any,
) -> Run:  # fmt: skip
    """A run directory whose searches had the given results: tables[search][student] is [trial, pair].

    The events are those of the real distiller; only the trials are made up.
    """
    row = get_method(method, samplers)
    config = pmd.preset("toy", **{**TINY, "steps": 100, "update_every": 10, **overrides})
    write_json(folder / "config.json", describe(corpus, row, config))
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    distiller = row.distiller(students(len(row.samplers)), len(corpus.pairs), config.distill)
    for number, table in enumerate(tables, start=1):
        probe = FakeProbe(Clock(10 * number, 100, 10), results=lambda student, alphas, table=table: table[student])
        RunDir(folder).append_metrics(distiller.update(probe))
    return Run(folder)


def some_results(rng: np.random.Generator, searches: int, students: int, pairs: int) -> list[list[Rows]]:
    """Losses that often tie, and whose sums are exact in binary, so that these tie too."""
    return [[(rng.integers(4, 8, size=(3, pairs)) / 4).tolist() for _ in range(students)] for _ in range(searches)]


# ---------------------------------------------------------------- another route to the same numbers
def up_to(alpha: float, shift: float) -> float:
    """The closed form of Eq. 10 and 11."""
    return alpha * math.exp(shift) / (1 - alpha + alpha * math.exp(shift))


def expected(run: Run, student: int) -> list[dict[str, Any]]:
    """What every search of a student should show, from the logged R, mu and order of trials alone."""
    distill = run.config.distill
    alphas, found = [distill.alpha0] * len(run.pairs), []
    for line in run.searches(student):
        order, mu = line["trials"], line["mu"]
        shift = {"keep": 0.0, "up": mu, "down": -mu}
        clip, start, trials = distill.resolved.alpha_clip, alphas, {}
        for action in order:
            trials[action] = [min(up_to(min(a, clip), shift[action]), distill.alpha_max) for a in start]
            if clip < 1:  # as released: the weights themselves go there and back
                start = [up_to(min(a, clip), -shift[action]) for a in trials[action]]
        before = [min(a, clip) for a in start]
        best = []
        for pair in range(len(run.pairs)):
            losses = {a: row[pair] for a, row in zip(order, line["results"], strict=True) if math.isfinite(row[pair])}
            best.append(next(action for action in order if losses.get(action) == min(losses.values())))
        taken = best
        if run.method.name == "dynamic-md":
            sums = [sum(row) for row in line["results"]]
            taken = [order[sums.index(min(sums))]] * len(run.pairs)
        alphas = [min(up_to(a, shift[action]), distill.alpha_max) for a, action in zip(before, taken, strict=True)]
        found.append({**line, "before": before, "best": best, "taken": taken, "after": alphas, "trials": trials,
                      "results": dict(zip(order, line["results"], strict=True))})  # fmt: skip
    return found


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    return list(a) == pytest.approx(list(b), abs=1e-9, nan_ok=True)


def assert_log_is_right(run: Run) -> None:
    log = SearchLog.of(run)
    assert list(log.labels) == run.labels and list(log.pairs) == run.pairs
    for student in range(len(run.labels)):
        wanted = expected(run, student)
        assert len(log.searches[student]) == len(wanted)
        for search, want in zip(log.searches[student], wanted, strict=True):
            assert (search.step, search.mu, search.best, search.actions) == (
                want["step"], want["mu"], want["best"], want["taken"],
            )  # fmt: skip
            assert close(search.before, want["before"]) and close(search.after, want["after"])
            for action in ORDER:
                assert close(search.trials[action], want["trials"][action])
                assert close(search.results[action], want["results"][action])


# ---------------------------------------------------------------- what is drawn
def texts(ax: Any) -> dict[tuple[float, float], str]:
    """{position: text} of the texts in an axes."""
    return {(float(t.get_position()[0]), float(t.get_position()[1])): t.get_text() for t in ax.texts}


def assert_figure_shows(fig: LessonFigure, run: Run, student: int, number: int) -> None:
    want = expected(run, student)[number - 1]
    weights, matrix, history = fig.axes
    written = texts(matrix)
    for y, pair in enumerate(run.pairs):
        for x, action in enumerate(ORDER):
            loss, starred = want["results"][action][y], want["best"][y] == action
            assert written[x, y] == f"{'★ ' * starred}{loss:.4f}"
            assert written[x, y - 0.3] == f"{want['trials'][action][y]:.3f}"
            if action != "keep":
                assert float(written[x, y + 0.3].replace("−", "-")) == pytest.approx(
                    loss - want["results"]["keep"][y], abs=6e-5, nan_ok=True
                )
        assert written[3.0, y] == SIGN[want["taken"][y]]
        assert written[3.97, y] == f"{want['before'][y]:.3f} → {want['after'][y]:.3f}"
        ring = next(m for m in weights.lines if m.get_markersize() == 14 and m.get_ydata()[0] == y)
        alpha = want["trials"][want["taken"][y]][y]
        assert ring.get_xdata()[0] == pytest.approx(max(-7, min(7, math.log(alpha / (1 - alpha)))))
        assert weights.get_yticklabels()[y].get_text() == pair
    lines = [line for line in history.lines if line.get_drawstyle() == "steps-post"]
    first = want["alpha"]  # of this search; the line must end there
    assert [line.get_ydata()[-1] for line in lines] == pytest.approx(first)
    assert all(len(line.get_ydata()) == number + 1 for line in lines)  # not a step of what comes later
    assert [line.get_ydata()[0] for line in lines] == [run.config.distill.alpha0] * len(run.pairs)
    (mu,) = [line for line in history.lines if "mu" in str(line.get_label())]
    assert list(mu.get_ydata()) == [search["mu"] for search in expected(run, student)]


def assert_readable(fig: LessonFigure) -> None:
    """Large enough, inside the figure, and no number over another."""
    fig.draw_without_rendering()
    shown = [t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible()]
    assert fig.get_figwidth() * 96 < 700 and min(t.get_fontsize() for t in shown) >= 9
    box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
    assert box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= width + 0.02 and box.y1 <= height + 0.02
    extents = [t.get_window_extent() for t in [*fig.axes[1].texts, *fig.axes[1].get_xticklabels()]]
    for i, one in enumerate(extents):
        assert not any(one.shrunk(0.98, 0.7).overlaps(other.shrunk(0.98, 0.7)) for other in extents[:i])


# ---------------------------------------------------------------- tests
@pytest.mark.slow
def test_a_real_run_is_replayed(trained: Run) -> None:
    assert_log_is_right(trained)
    log = SearchLog.of(trained.path)  # a path will do
    assert len(log.searches[0]) == 3
    for student, number in ((0, 1), (1, 3)):
        fig = log.figure(student, number)
        assert_figure_shows(fig, trained, student, number)
        assert_readable(fig)


@given(seed=st.integers(0, 10**6), pairs=st.integers(2, 6), ties=st.sampled_from(["keep", "up"]),
       method=st.sampled_from(["auto-pmd", "dynamic-md"]),
       limit=st.sampled_from([{}, {"alpha_clip": 0.3}, {"alpha_max": 0.3}]))  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_results_are_replayed(
    tiny_corpus: Corpus, tmp_path: Path, seed: int, pairs: int, ties: str, method: str, limit: dict[str, float]
) -> None:
    rng = np.random.default_rng(seed)
    corpus = tiny_corpus.only(tiny_corpus.pairs[:pairs])
    run = logged(tmp_path, corpus, some_results(rng, 4, 2, pairs), method=method, ties=ties, **limit)
    assert_log_is_right(run)


def test_three_students(tiny_corpus: Corpus, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    run = logged(tmp_path, tiny_corpus, some_results(rng, 2, 3, 6), samplers=["tau=1", "tau=5", "tau=inf"])
    assert_log_is_right(run)
    assert len(SearchLog.of(run).labels) == 3
    assert_figure_shows(SearchLog.of(run).figure(2, 2), run, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "method"), [(2, "auto-pmd"), (8, "auto-pmd"), (8, "dynamic-md")])
def test_few_and_many_pairs_are_readable(tiny_corpus: Corpus, tmp_path: Path, pairs: int, method: str) -> None:
    text = next(iter(tiny_corpus.train.values()))
    names = ["bos-eng", "mar-eng", "hin-eng", "mkd-eng", "ell-eng", "bul-eng", "fra-eng", "kor-eng"][:pairs]
    texts_of = dict.fromkeys(names, text)
    corpus = dataclasses.replace(tiny_corpus, pairs=tuple(names), train=texts_of, valid=texts_of, test=texts_of)
    rng = np.random.default_rng(8)
    tables = [[(10 * rng.random((3, pairs))).tolist() for _ in range(2)] for _ in range(9)]
    run = logged(tmp_path, corpus, tables, method=method)
    fig = SearchLog.of(run).figure(0, 9)
    assert_figure_shows(fig, run, 0, 9)
    assert_readable(fig)


def test_a_trial_that_diverged_is_shown_and_not_taken(tiny_corpus: Corpus, tmp_path: Path) -> None:
    table = [[[math.nan, 2.0], [3.0, math.inf], [4.0, 1.0]]] * 2
    run = logged(tmp_path, tiny_corpus.only(tiny_corpus.pairs[:2]), [table])
    assert_log_is_right(run)
    log = SearchLog.of(run)
    assert log.searches[0][0].actions == ["up", "down"]
    assert texts(log.figure().axes[1])[1.0, 0.0] == "nan"


def test_dynamic_md_shows_the_sums_that_decide_and_who_would_rather(tiny_corpus: Corpus, tmp_path: Path) -> None:
    table = [[[1.0, 5.0], [0.5, 6.6], [2.0, 2.0]]] * 2  # keep, up, down: sums 6, 7.1, 4
    run = logged(tmp_path, tiny_corpus.only(tiny_corpus.pairs[:2]), [table], method="dynamic-md")
    fig = SearchLog.of(run).figure()
    written = texts(fig.axes[1])
    assert [written[x, 2.0] for x in (0.0, 1.0, 2.0)] == ["★ 4.0000", "6.0000", "7.1000"]
    assert written[2.0, 0.0] == "★ 0.5000" and written[3.0, 0.0] == "▼ down"
    assert "taken down (its own best is up)" in fig.alt_text
    assert "Sum: down 4.0000, keep 6.0000, up 7.1000; lowest down." in fig.alt_text
    _, sums = search_stepper(run).children[1].children
    assert sums.value and sums.disabled


def test_any_run_can_show_what_dynamic_md_would_take(tiny_corpus: Corpus, tmp_path: Path) -> None:
    table = [[[1.0, 5.0], [0.5, 6.6], [2.0, 2.0]]] * 2
    log = SearchLog.of(logged(tmp_path, tiny_corpus.only(tiny_corpus.pairs[:2]), [table]))
    fig = log.figure(sums=True)
    written = texts(fig.axes[1])
    assert written[0.0, 2.0] == "★ 4.0000" and written[3.0, 0.0] == "▲ up"
    assert fig.alt_text.endswith("lowest down.") and "Sum" not in log.figure().alt_text
    assert log.searches[0][0].lowest_sum == "down"


def test_weights_at_the_ends_stay_in_the_picture(tiny_corpus: Corpus, tmp_path: Path) -> None:
    rising = [[[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]]] * 2] * 9
    run = logged(tmp_path, tiny_corpus.only(tiny_corpus.pairs[:2]), rising, alpha0=0.999)
    assert_readable(SearchLog.of(run).figure(0, 9))
    run = logged(tmp_path, tiny_corpus.only(tiny_corpus.pairs[:2]), rising, alpha0=0.0)
    assert SearchLog.of(run).searches[0][-1].after == [0.0, 0.0]
    assert_readable(SearchLog.of(run).figure(0, 9))


@pytest.mark.slow
def test_the_buttons_and_the_slider_move_and_the_text_moves_along(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint_once(monkeypatch)
    box = search_stepper(trained)
    _, above, below, picture = box.children
    (who, sums), (previous, following, which) = above.children, below.children
    log = SearchLog.of(trained)

    def said() -> str:
        return html.unescape(picture.value)

    assert log.describe(0, 1) in said()
    following.click()
    assert which.value == 2 and log.describe(0, 2) in said()
    following.click()
    following.click()
    assert which.value == 3 and log.describe(0, 3) in said()
    who.value = 1
    assert log.describe(1, 3) in said()
    previous.click()
    assert which.value == 2 and log.describe(1, 2) in said()
    which.value = 1
    previous.click()
    assert which.value == 1 and log.describe(1, 1) in said()
    sums.value = True
    assert log.describe(1, 1, sums=True) in said() and "Sum: " in said()


def test_the_alternative_text_tells_what_the_picture_does(trained: Run) -> None:
    want = expected(trained, 0)[0]
    said = SearchLog.of(trained).describe(0, 1)
    assert said.startswith(f"{trained.labels[0]}: search 1 of 3, step 4 of 13, mu = {want['mu']:.2f}.")
    for i, pair in enumerate(trained.pairs):
        losses = ", ".join(f"{action} {want['results'][action][i]:.4f}" for action in ORDER)
        assert f"{pair}: dev loss {losses}; taken {want['taken'][i]}" in said


# ---------------------------------------------------------------- what cannot be shown
def test_runs_without_a_search_say_so(tiny_corpus: Corpus, tmp_path: Path) -> None:
    for name in ("tau=1", "bi-pmd", "uni-pmd"):
        row = get_method(name)
        write_json(tmp_path / name / "config.json", describe(tiny_corpus, row, pmd.preset("toy", **TINY)))
        with pytest.raises(UserError, match=f"was trained with {name}, which searches nothing"):
            search_stepper(tmp_path / name)
    run = logged(tmp_path / "early", tiny_corpus, [], start=0.3)
    with pytest.raises(UserError, match=r"not come to its first search.*begin after 30%"):
        search_stepper(run)
    with pytest.raises(UserError, match="is this a run directory"):
        search_stepper(tmp_path / "nothing")


@pytest.mark.slow
def test_a_search_that_is_not_there_is_named(trained: Run) -> None:
    log = SearchLog.of(trained)
    for student, number in ((2, 1), (-1, 1), (0, 0), (0, 4)):
        with pytest.raises(UserError, match="no search"):
            log.figure(student, number)


def test_a_log_that_does_not_fit_its_config_is_not_shown(tiny_corpus: Corpus, tmp_path: Path) -> None:
    run = logged(tmp_path, tiny_corpus, some_results(np.random.default_rng(1), 3, 2, 6))
    lines = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines[2:]) + "\n", encoding="utf-8")  # the first search is lost
    with pytest.raises(UserError, match="step 20 does not lead from the weights"):
        SearchLog.of(run)


def test_weights_grow_from_left_to_right(trained: Run) -> None:
    for search in SearchLog.of(trained).searches[0]:
        for left, right in pairwise(ORDER):
            assert (torch.tensor(search.trials[left]) < torch.tensor(search.trials[right])).all()
