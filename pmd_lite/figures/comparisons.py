"""Figures that compare many systems: up to 35 on one plane, their samplers side by side, and what each of them costs.

Plain numbers in, a figure out, as in `plots`; every function requires `alt` and raises UserError for missing or
uneven data.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import pareto_front
from pmd_lite.figures.plots import Numbers, along, check_names, check_series, draw_line
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    HATCHES,
    MARKERS,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    place_labels,
    settled,
)

__all__ = ["cost_bars", "frontier_many", "probability_panels"]

PLANE_WIDTH = 9.0  # inches: the plane at its usual size and the key beside it
KEY_ROW = 0.172  # inches of height for each name in the key
TITLE_LETTERS = 26  # fit above a panel, three panels to a row
PURPOSES = ("train", "teacher", "trial", "probe", "dev", "auxiliary")
MOST_POINTS = len(COLOURS) * len(MARKERS)


def frontier_many(
    points: Mapping[str, Sequence[XY]],
    *,
    alt: str,
    baseline: str | None = "tau=1",
    highlight: Sequence[str] = (),
) -> LessonFigure:
    """Many systems on the plane (LRL BLEU, HRL BLEU): up and to the right is better.

    points: {name: one (LRL, HRL) per seed}. Each system is one numbered mark at its mean over seeds, with thin bars of
    one sample standard deviation if there are several seeds; the key beside the plane says which number is which, in
    the order given. A dotted line joins the means that no other mean dominates. Gray lines cross at the mean of
    `baseline` (None: no lines): the quarter up and to the right of it is better for both groups of languages.
    highlight: names whose marks are filled, with bold names in the key; without any, all marks are filled.
    """
    check_names({name: (0.0, 0.0) for name in points}, [*highlight, *([] if baseline is None else [baseline])])
    runs = {name: _runs(name, of) for name, of in points.items()}
    if len(runs) > MOST_POINTS:
        raise UserError(f"At most {MOST_POINTS} systems can be told apart on one plane, not {len(runs)}. Draw fewer.")
    means: dict[str, XY] = {name: (float(x), float(y)) for name, (x, y) in ((n, r.mean(0)) for n, r in runs.items())}
    fig, (ax,) = new_figure(alt, height=max(5.2, 0.4 + KEY_ROW * (len(runs) + 3)))
    fig.set_figwidth(PLANE_WIDTH)
    front = sorted(list(means.values())[i] for i in pareto_front(list(means.values())))
    if len(front) > 1:
        ax.plot(*zip(*front, strict=True), color=GRAY, linestyle=":", linewidth=2, label="not dominated", zorder=1)
    avoid = [spot for a, b in pairwise(front) for spot in along(a, b)]
    if baseline is not None:
        _cross(ax, means[baseline], baseline)
    marks = []
    for i, (name, mean) in enumerate(means.items()):
        marks.append(_draw_mark(ax, name, mean, i, filled=not highlight or name in highlight))
        if len(runs[name]) > 1:
            avoid += _draw_spread(ax, mean, runs[name], COLOURS[i % len(COLOURS)])
    ax.margins(0.08)
    ax.autoscale_view()
    ax.set_xlim(ax.get_xlim())
    ax.set_ylim(ax.get_ylim())
    name_axes(ax, "low-resource languages (mean BLEU)", "high-resource languages (mean BLEU)")
    _key_beside(fig, ax, marks, list(means), highlight, several_seeds=any(len(of) > 1 for of in runs.values()))
    fig.draw_without_rendering()  # now the plane has its size, and numbers can be placed
    numbers = [str(i + 1) for i in range(len(means))]
    place_labels(_paper_of(fig, ax), ax, numbers, list(means.values()), avoid)
    return settled(fig)


def probability_panels(curves: Mapping[str, tuple[Numbers, Mapping[str, Numbers]]], *, alt: str) -> LessonFigure:
    """Sampling probability of each pair over training steps: one panel per system, all with the same y axis.

    curves: {system: (steps, {pair: probability at each step})}; a pair looks the same in every panel.
    """
    pairs = list(dict.fromkeys(pair for _, by_pair in curves.values() for pair in by_pair))
    if not pairs:
        raise UserError("There are no probabilities to draw: give {system: (steps, {pair: probabilities})}.")
    titles = [textwrap.fill(system, TITLE_LETTERS, break_on_hyphens=False) for system in curves]
    columns = 3 if len(curves) > 4 else 2
    height = (1.75 if columns == 3 else 2.2) + 0.17 * max(title.count("\n") for title in titles)
    fig, axes = new_figure(alt, len(curves), columns=columns, height=height, share_y=True)
    handles = {}
    for i, (ax, (system, (steps, by_pair))) in enumerate(zip(axes, curves.items(), strict=True)):
        try:
            check_series(steps, by_pair, "step")
        except UserError as error:
            raise UserError(f"{system}: {error}") from error
        for pair, values in by_pair.items():
            handles[pair] = draw_line(ax, steps, values, pairs.index(pair), pair)
            handles[pair].set(markersize=4, linewidth=1.2)
        ax.set_title(titles[i], fontsize=SMALL_TEXT_SIZE, loc="left", fontweight="bold")
        ax.tick_params(labelleft=i % columns == 0)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k: long runs have steps too wide for a panel
    axes[0].set_ylim(bottom=0)
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    fig.supylabel("probability of being drawn", fontsize=TEXT_SIZE)
    legend_above(fig, [handles[pair] for pair in pairs], pairs)
    return settled(fig)


def cost_bars(costs: Mapping[str, Mapping[str, float]], *, alt: str) -> LessonFigure:
    """What each system costs and for what: one stacked bar per system, its total as a number behind it.

    costs: {system: {purpose: cost}}, purposes such as train, teacher, trial, probe and dev, in any one unit. Drawn in
    multiples of the first system's total. A purpose has the same colour in every figure.
    """
    given = list(dict.fromkeys(purpose for of in costs.values() for purpose in of))
    purposes = list(dict.fromkeys([*PURPOSES, *given]))
    if not given:
        raise UserError("There are no costs to draw: give {system: {purpose: cost}} with at least one cost.")
    if len(purposes) > len(COLOURS):
        most = len(COLOURS) - len(PURPOSES)
        raise UserError(f"A bar has room for {most} purposes beside {', '.join(PURPOSES)}; {', '.join(given)} given.")
    for system, of in costs.items():
        bad = [purpose for purpose, cost in of.items() if not 0 <= cost < math.inf]
        if bad:
            raise UserError(f'"{system}": the cost of {", ".join(bad)} is negative or not a number.')
    first = next(iter(costs))
    unit = math.fsum(costs[first].values())
    if unit == 0:
        raise UserError(f'The first system, "{first}", costs nothing, so nothing can be a multiple of it.')
    fig, (ax,) = new_figure(alt, height=1.3 + 0.25 * len(costs))
    rows, left = np.arange(len(costs)), np.zeros(len(costs))
    for i, purpose in enumerate(purposes):
        if purpose not in given:
            continue
        share = np.array([of.get(purpose, 0.0) / unit for of in costs.values()])
        ax.barh(
            rows, share, 0.72, left=left, label=purpose, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white",
            linewidth=0.5,
        )  # fmt: skip
        left += share
    for row, total in zip(rows, left, strict=True):
        ax.annotate(f"{total:.2f}", (total, row), (4, 0), textcoords="offset points", va="center",
                    fontsize=SMALL_TEXT_SIZE)  # fmt: skip
    ax.axvline(1.0, color=GRAY, linestyle="--", linewidth=1, zorder=3)
    ax.set_yticks(rows, list(costs))
    ax.set_ylim(len(costs) - 0.4, -0.6)  # the first system on top
    ax.set_xlim(0, 1.1 * float(left.max()))  # room for the totals
    ax.grid(False, axis="y")
    name_axes(ax, f"cost, in multiples of {first}")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def _runs(name: str, points: Sequence[XY]) -> NDArray[np.float64]:
    """The runs of one system, [seed, 2]."""
    runs = np.asarray(points, dtype=float)
    if runs.ndim != 2 or runs.shape[1] != 2 or not len(runs) or not np.isfinite(runs).all():
        raise UserError(f'"{name}" needs one (LRL BLEU, HRL BLEU) per seed, at least one, all of them numbers.')
    return runs


def _draw_mark(ax: Axes, name: str, mean: XY, index: int, filled: bool) -> Line2D:
    colour = COLOURS[index % len(COLOURS)]
    (mark,) = ax.plot(
        *mean, linestyle="none", marker=MARKERS[index % len(MARKERS)], markersize=7, color=colour, gid=name, zorder=3,
        markerfacecolor=colour if filled else "white", markeredgewidth=1.3,
    )  # fmt: skip
    return mark


def _draw_spread(ax: Axes, mean: XY, runs: NDArray[np.float64], colour: str) -> list[XY]:
    """Bars of one sample standard deviation; returns points on them, for numbers to avoid."""
    (x, y), (dx, dy) = mean, runs.std(axis=0, ddof=1)
    ax.errorbar(x, y, xerr=dx, yerr=dy, color=colour, linewidth=0.8, alpha=0.5, zorder=2)
    spots = [*along((x - dx, y), (x + dx, y)), *along((x, y - dy), (x, y + dy))]
    return spots[::5]  # bars are short, and 35 systems have many: all spots would take seconds


def _cross(ax: Axes, mean: XY, baseline: str) -> None:
    x, y = mean
    ax.axvline(x, color=GRAY, linewidth=0.8, linestyle="--", zorder=1, label=f"level of {baseline}")
    ax.axhline(y, color=GRAY, linewidth=0.8, linestyle="--", zorder=1)


def _key_beside(
    fig: Figure, ax: Axes, marks: Sequence[Line2D], names: Sequence[str], bold: Sequence[str], several_seeds: bool
) -> None:
    """Number, mark and name of every system, then what the lines mean, to the right of the axes."""
    lines, meanings = ax.get_legend_handles_labels()
    if several_seeds:
        lines.append(Line2D([], [], color=GRAY, linewidth=0.8))
        meanings.append("1 standard deviation (seeds)")
    key = fig.legend(
        [*marks, *lines], [*(f"{i + 1}  {name}" for i, name in enumerate(names)), *meanings],
        loc="outside right upper", frameon=False, fontsize=SMALL_TEXT_SIZE, handlelength=1.8, labelspacing=0.2,
    )  # fmt: skip
    for text, name in zip(key.get_texts(), names, strict=False):  # the lines come after the names
        text.set_fontweight("bold" if name in bold else "normal")


def _paper_of(fig: Figure, ax: Axes) -> Figure:
    """An empty figure of the size that `place_labels` expects: it takes the axes to fill 85 % of their figure."""
    box = ax.get_window_extent()
    return Figure(figsize=(box.width / fig.dpi / 0.85, box.height / fig.dpi / 0.85))
