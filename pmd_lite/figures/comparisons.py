"""Figures that compare many systems: up to 56 on one plane, their samplers side by side, and their costs.

Plain numbers in, a figure out, as in `plots`; every function requires `alt` and raises UserError for missing or
uneven data.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import check_names, draw_front, draw_spread, fix_limits
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    HATCHES,
    MARKERS,
    SMALL_TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    place_labels,
    settled,
)

PLANE_WIDTH = 9.0  # inches: the plane at its usual size and the key beside it
KEY_ROW = 0.172  # inches of height for each name in the key
PURPOSES = ("train", "teacher", "trial", "probe", "dev", "auxiliary")
MOST_POINTS = len(COLOURS) * len(MARKERS)


def frontier_many(
    points: Mapping[str, Sequence[XY]], *, alt: str, baseline: str | None = "tau=1", highlight: Sequence[str] = (),
    metric: str = "BLEU",
) -> LessonFigure:  # fmt: skip
    """Many systems on the plane (LRL BLEU, HRL BLEU), or that of another metric: up and to the right is better.

    points: {name: one (LRL, HRL) per seed}. Each system is one numbered mark at its mean over seeds, with thin bars of
    one sample standard deviation if there are several seeds; the key beside the plane says which number is which, in
    the order given. Dotted steps enclose what the means dominate. Gray lines cross at the mean of
    `baseline` (None: no lines): systems above and to the right of it are better for both groups of languages.
    highlight: names whose marks are filled, with bold names in the key; without any, all marks are filled.
    """
    check_names(points, [*highlight, *([] if baseline is None else [baseline])])
    runs = {name: np.asarray(of, dtype=float) for name, of in points.items()}  # [seed, 2]
    for name, of in runs.items():
        if of.ndim != 2 or of.shape[1] != 2 or not len(of) or not np.isfinite(of).all():
            raise UserError(f'"{name}" needs one (LRL BLEU, HRL BLEU) per seed, at least one, all of them numbers.')
    if len(runs) > MOST_POINTS:
        raise UserError(f"At most {MOST_POINTS} systems can be told apart on one plane, not {len(runs)}. Draw fewer.")
    means: dict[str, XY] = {name: (float(x), float(y)) for name, (x, y) in ((n, r.mean(0)) for n, r in runs.items())}
    fig, (ax,) = new_figure(alt, height=max(5.2, 0.4 + KEY_ROW * (len(runs) + 3)))
    fig.set_figwidth(PLANE_WIDTH)
    if baseline is not None:
        x, y = means[baseline]
        ax.axvline(x, color=GRAY, linewidth=0.8, linestyle="--", zorder=1, label=f"level of {baseline}")
        ax.axhline(y, color=GRAY, linewidth=0.8, linestyle="--", zorder=1)
    marks: list[Line2D] = []
    for i, (name, mean) in enumerate(means.items()):
        colour = COLOURS[i % len(COLOURS)]
        marks += ax.plot(
            *mean, linestyle="none", marker=MARKERS[i % len(MARKERS)], markersize=7, color=colour, gid=name, zorder=3,
            markerfacecolor=colour if not highlight or name in highlight else "white", markeredgewidth=1.3,
        )  # fmt: skip
        if len(runs[name]) > 1:
            draw_spread(ax, mean, runs[name], color=colour, linewidth=0.8, alpha=0.5)
    fix_limits(ax, 0.08, 0.08)
    draw_front(ax, list(means.values()), GRAY, "frontier")
    name_axes(ax, f"low-resource languages (mean {metric})", f"high-resource languages (mean {metric})")
    _key_beside(fig, ax, marks, list(means), highlight, several_seeds=any(len(of) > 1 for of in runs.values()))
    place_labels(ax, [str(i + 1) for i in range(len(means))], list(means.values()))
    return fig


def cost_bars(costs: Mapping[str, Mapping[str, float]], *, alt: str) -> LessonFigure:
    """The cost of each system by purpose: one stacked bar per system, with its total as a number at the end.

    costs: {system: {purpose: cost}}, purposes such as train, teacher, trial, probe and dev, in one unit, at least 0.
    Drawn in multiples of the first system's total, which is above 0. A purpose has the same colour in every figure.
    """
    given = list(dict.fromkeys(purpose for of in costs.values() for purpose in of))
    purposes = list(dict.fromkeys([*PURPOSES, *given]))
    if not given:
        raise UserError("There are no costs to draw: give {system: {purpose: cost}} with at least one cost.")
    if len(purposes) > len(COLOURS):
        most = len(COLOURS) - len(PURPOSES)
        raise UserError(f"A bar has room for {most} purposes beside {', '.join(PURPOSES)}; {', '.join(given)} given.")
    first = next(iter(costs))
    unit = math.fsum(costs[first].values())
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


def _key_beside(
    fig: Figure, ax: Axes, marks: Sequence[Line2D], names: Sequence[str], bold: Sequence[str], several_seeds: bool
) -> None:
    """To the right of the axes: number, mark and name of every system, then the meaning of each line."""
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
