"""Figures of many systems hold the numbers given, say which system is which, and stay readable with 35 of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from pmd_lite.errors import UserError
from pmd_lite.figures import comparisons, plots, style
from pmd_lite.figures.style import XY, LessonFigure

ALT = "Systems on a plane."
NAMES = ["tau=1", "tau=5", "unimax", *(f"auto-pmd model_{1 + i % 2} (chi-ibr {i})" for i in range(32))]
POINTS: dict[str, list[XY]] = {
    "tau=1": [(10.0, 20.0), (12.0, 24.0), (14.0, 22.0)],
    "worse": [(11.0, 21.0), (11.0, 21.0), (11.0, 21.0)],
    "low": [(15.0, 18.0), (17.0, 18.0), (16.0, 18.0)],
    "high": [(9.0, 25.0)],
}
PAIRS = {"fr-en": [0.6, 0.5, 0.4], "tr-en": [0.4, 0.5, 0.6]}
PAIRS_OF_TWO = {pair: values[:2] for pair, values in PAIRS.items()}
CURVES = {"static": ([10, 20, 30], PAIRS), "moving": ([5, 10], {"tr-en": [0.9, 0.8], "zh-en": [0.1, 0.2]})}
COSTS = {"tau=1": {"dev": 10.0, "train": 90.0}, "auto": {"train": 180.0, "teacher": 60.0, "trial": 40.0, "dev": 20.0}}

probability_panels = functools.partial(plots.pair_panels, y_name="probability of being drawn", limits=(0, None))


def many_points() -> dict[str, list[XY]]:
    rng = np.random.default_rng(0)
    centres = rng.normal((14.0, 26.0), (1.0, 0.8), size=(len(NAMES), 2))
    runs = centres[:, None] + rng.normal(0, 0.2, size=(len(NAMES), 3, 2))
    return {name: [(float(x), float(y)) for x, y in of] for name, of in zip(NAMES, runs, strict=True)}


# name: (a call without alt, the same call with nothing to draw)
FIGURES: dict[str, tuple[Callable[..., LessonFigure], Callable[..., LessonFigure]]] = {
    "plane": (
        lambda **k: comparisons.frontier_many(many_points(), highlight=NAMES[20:], **k),
        lambda **k: comparisons.frontier_many({}, baseline=None, **k),
    ),
    "panels": (
        lambda **k: probability_panels({name: ([0, 90_000], PAIRS_OF_TWO) for name in NAMES[:14]}, **k),
        lambda **k: probability_panels({}, **k),
    ),
    "costs": (
        lambda **k: comparisons.cost_bars({name: COSTS["auto"] for name in NAMES}, **k),
        lambda **k: comparisons.cost_bars({"tau=1": {}}, **k),
    ),
}
every_figure = pytest.mark.parametrize("name", FIGURES)


@functools.cache
def drawn(name: str) -> LessonFigure:
    """A figure for tests that only read it."""
    return FIGURES[name][0](alt=ALT)


@functools.cache
def plane() -> LessonFigure:
    """`POINTS`, likewise."""
    return comparisons.frontier_many(POINTS, alt=ALT)


def lines(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """{label: (x, y)} of the labelled lines."""
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in ax.lines
        if not str(line.get_label()).startswith("_")
    }


def key(fig: LessonFigure) -> list[str]:
    (legend,) = fig.legends
    return [text.get_text() for text in legend.get_texts()]


# ---------------------------------------------------------------- the plane
def test_each_system_is_one_mark_at_its_mean() -> None:
    (ax,) = plane().axes
    marks = {line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_gid()}  # type: ignore[index]
    assert marks == {"tau=1": (12, 22), "worse": (11, 21), "low": (16, 18), "high": (9, 25)}
    assert "low-resource" in ax.get_xlabel() and "high-resource" in ax.get_ylabel()


def test_bars_are_one_sample_standard_deviation_and_need_two_seeds() -> None:
    (ax,) = plane().axes
    ends = [s.tolist() for bars in ax.containers for part in bars.lines[2] for s in part.get_segments()]
    assert ends[:2] == [[[10.0, 22.0], [14.0, 22.0]], [[12.0, 20.0], [12.0, 24.0]]]
    assert ends[4:] == [[[15.0, 18.0], [17.0, 18.0]], [[16.0, 18.0], [16.0, 18.0]]]  # and none for "high"
    one_seed = {name: runs[:1] for name, runs in POINTS.items()}
    fig = comparisons.frontier_many(one_seed, alt=ALT)
    assert not fig.axes[0].containers and not any("deviation" in text for text in key(fig))


@pytest.mark.slow
def test_steps_enclose_what_the_means_dominate_and_the_baseline_is_crossed() -> None:
    (first,) = plane().axes
    found, ends = lines(first), (first.get_xlim()[0], first.get_ylim()[0])
    assert found["frontier"] == ([ends[0], 9.0, 12.0, 16.0, 16.0], [25.0, 25.0, 22.0, 18.0, ends[1]])
    assert [line.get_drawstyle() for line in first.lines if line.get_label() == "frontier"] == ["steps-pre"]
    assert found["level of tau=1"][0] == [12.0, 12.0]
    (ax,) = comparisons.frontier_many(POINTS, baseline="low", alt=ALT).axes
    assert lines(ax)["level of low"][0] == [16.0, 16.0]
    assert [18.0, 18.0] in [list(line.get_ydata()) for line in ax.lines]  # type: ignore[arg-type]
    assert list(lines(comparisons.frontier_many(POINTS, baseline=None, alt=ALT).axes[0])) == ["frontier"]
    alone = comparisons.frontier_many({"low": POINTS["low"]}, baseline=None, alt=ALT)
    assert key(alone) == ["1  low", "frontier", "1 standard deviation (seeds)"]


def test_numbers_on_the_plane_are_those_of_the_key() -> None:
    fig = plane()
    (ax,) = fig.axes
    fig.draw_without_rendering()
    at = {str(line.get_gid()): ax.transData.transform(line.get_xydata()[0]) for line in ax.lines if line.get_gid()}  # type: ignore[index]
    beside = {}
    for text in ax.texts:
        box = text.get_window_extent()
        beside[text.get_text()] = min(
            at, key=lambda name: math.dist(at[name], ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2))
        )
    assert beside == {"1": "tau=1", "2": "worse", "3": "low", "4": "high"}
    systems = ["1  tau=1", "2  worse", "3  low", "4  high"]
    assert key(fig) == [*systems, "level of tau=1", "frontier", "1 standard deviation (seeds)"]
    marks = [line for line in ax.lines if line.get_gid()]
    shown = fig.legends[0].legend_handles[: len(marks)]
    assert [(h.get_marker(), h.get_color()) for h in shown] == [(m.get_marker(), m.get_color()) for m in marks]  # type: ignore[union-attr]


def test_highlighted_systems_are_filled_and_bold() -> None:
    fig = comparisons.frontier_many(POINTS, highlight=["low"], alt=ALT)
    hollow = {line.get_gid(): line.get_markerfacecolor() == "white" for line in fig.axes[0].lines if line.get_gid()}
    assert hollow == {"tau=1": True, "worse": True, "low": False, "high": True}
    assert [t.get_text() for t in fig.legends[0].get_texts() if t.get_fontweight() == "bold"] == ["3  low"]
    assert not any(line.get_markerfacecolor() == "white" for line in plane().axes[0].lines)


def test_thirty_five_systems_look_different_and_their_numbers_cover_nothing() -> None:
    fig = drawn("plane")
    fig.draw_without_rendering()
    (ax,) = fig.axes
    marks = [line for line in ax.lines if line.get_gid()]
    assert len({(line.get_color(), line.get_marker()) for line in marks}) == len(marks) == 35
    boxes = [Text.get_window_extent(t) for t in ax.texts]
    at = [ax.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in marks]  # type: ignore[index]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert not any(box.contains(*point) for point in at)
        assert ax.get_window_extent().contains(box.x0, box.y0) and ax.get_window_extent().contains(box.x1, box.y1)
    assert not fig.legends[0].get_window_extent().overlaps(ax.get_window_extent())


def test_mistakes_on_the_plane_are_named() -> None:
    with pytest.raises(UserError, match="No point is named tau=9"):
        comparisons.frontier_many(POINTS, baseline="tau=9", alt=ALT)
    with pytest.raises(UserError, match="No point is named mine"):
        comparisons.frontier_many(POINTS, highlight=["mine"], alt=ALT)
    for bad in ([], [(1.0, math.nan)], [(1.0, 2.0, 3.0)]):
        with pytest.raises(UserError, match='"bad" needs one'):
            comparisons.frontier_many(POINTS | {"bad": bad}, alt=ALT)  # type: ignore[dict-item]
    with pytest.raises(UserError, match="At most 56 systems"):
        comparisons.frontier_many({str(i): [(1.0, i)] for i in range(57)}, baseline=None, alt=ALT)


# ---------------------------------------------------------------- probabilities
def test_each_system_has_a_panel_with_its_own_steps_and_one_common_axis() -> None:
    fig = probability_panels(CURVES, alt=ALT)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["static", "moving"]
    for ax, (steps, by_pair) in zip(fig.axes, CURVES.values(), strict=True):
        assert lines(ax) == {pair: (steps, values) for pair, values in by_pair.items()}
    low, high = fig.axes[0].get_ylim()
    assert fig.axes[1].get_ylim() == (low, high) and low == 0 and high > 0.9
    assert key(fig) == ["fr-en", "tr-en", "zh-en"]


def test_a_pair_looks_the_same_in_every_panel() -> None:
    first, second = probability_panels(CURVES, alt=ALT).axes
    looks = [{str(x.get_label()): (x.get_color(), x.get_linestyle()) for x in ax.lines} for ax in (first, second)]
    assert looks[0]["tr-en"] == looks[1]["tr-en"] and len({*looks[0].values(), *looks[1].values()}) == 3


@pytest.mark.slow
def test_titles_of_panels_are_whole_and_apart() -> None:
    names = [f"auto-pmd model_{i} (chi-ibr), a folder with a long name" for i in range(6)]
    fig = probability_panels({name: CURVES["static"] for name in names}, alt=ALT)
    fig.draw_without_rendering()
    assert [ax.get_title(loc="left").replace("\n", " ") for ax in fig.axes] == names
    boxes = [ax._left_title.get_window_extent() for ax in fig.axes]  # type: ignore[attr-defined]
    panels = [ax.get_window_extent() for ax in fig.axes]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert not any(box.overlaps(panel) for panel in panels)


def test_uneven_curves_are_named_with_their_system() -> None:
    with pytest.raises(UserError, match='moving: "tr-en" has 1 values for 2 steps'):
        probability_panels({"moving": ([1, 2], {"tr-en": [0.5]})}, alt=ALT)
    with pytest.raises(UserError, match="empty: There is nothing to draw"):
        probability_panels(CURVES | {"empty": ([1, 2], {})}, alt=ALT)


# ---------------------------------------------------------------- costs
def bars(ax: Axes) -> list[tuple[float, float, float]]:
    """(row, left end, right end) of every bar."""
    return [
        (b.get_y() + b.get_height() / 2, b.get_x(), b.get_x() + b.get_width())  # type: ignore[attr-defined]
        for b in ax.patches
        if b.get_width() > 0  # type: ignore[attr-defined]
    ]


def test_costs_are_stacked_in_multiples_of_the_first_total() -> None:
    fig = comparisons.cost_bars(COSTS, alt=ALT)
    (ax,) = fig.axes
    expected = [(0, 0, 0.9), (1, 0, 1.8), (1, 1.8, 2.4), (1, 2.4, 2.8), (0, 0.9, 1.0), (1, 2.8, 3.0)]
    assert np.array(bars(ax)) == pytest.approx(np.array(expected))
    assert [(t.get_text(), t.xy[0]) for t in ax.texts] == [("1.00", pytest.approx(1)), ("3.00", pytest.approx(3))]  # type: ignore[attr-defined]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["tau=1", "auto"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    assert ax.get_xlabel() == "cost, in multiples of tau=1"
    assert key(fig) == ["train", "teacher", "trial", "dev"]  # in one order, and no purpose without costs


def test_a_purpose_has_its_own_colour_and_hatch_in_every_figure() -> None:
    def looks(costs: dict[str, dict[str, float]]) -> dict[str, tuple[str, str]]:
        (ax,) = comparisons.cost_bars(costs, alt=ALT).axes
        return {str(b.get_label()): (b.patches[0].get_facecolor(), b.patches[0].get_hatch()) for b in ax.containers}

    whole = looks(COSTS | {"all": {"probe": 1.0, "own": 2.0}})
    assert list(whole) == ["train", "teacher", "trial", "probe", "dev", "own"]
    assert len({colour for colour, _ in whole.values()}) == len({hatch for _, hatch in whole.values()}) == 6
    assert looks({"one": {"dev": 1.0}}) == {"dev": whole["dev"]}


def test_too_many_purposes_are_refused() -> None:
    with pytest.raises(UserError, match="room for 1 purposes beside train"):
        comparisons.cost_bars({"a": {"x": 1.0, "y": 1.0}}, alt=ALT)


# ---------------------------------------------------------------- every figure
@pytest.mark.slow
@every_figure
def test_text_is_readable_and_inside_the_figure(name: str) -> None:
    fig = drawn(name)
    assert fig.get_figwidth() <= 9
    texts = [t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible()]
    assert texts and min(t.get_fontsize() for t in texts) >= 9
    fig.draw_without_rendering()
    box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
    assert box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= width + 0.02 and box.y1 <= height + 0.02


@pytest.mark.slow
@every_figure
def test_alternative_text_is_required(name: str) -> None:
    draw, _ = FIGURES[name]
    with pytest.raises(TypeError, match="alt"):
        draw()
    with pytest.raises(UserError, match="alternative text"):
        draw(alt=" ")
    assert drawn(name).alt_text == ALT


@every_figure
def test_nothing_to_draw_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=r"There (is|are) no "):
        FIGURES[name][1](alt=ALT)


@pytest.mark.slow
@every_figure
def test_the_same_data_give_the_same_bytes(name: str) -> None:
    """A small picture is enough: where everything lies is settled before."""
    again, _ = FIGURES[name]
    assert style.png_bytes(drawn(name), dpi=40) == style.png_bytes(again(alt=ALT), dpi=40)
