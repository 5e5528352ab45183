"""Contenders on the plane of two averages: the frontier, who is dominated and by whom, and the area it dominates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes

from pmd_kit.l06.contenders import BLEU, HIGHER_IS_BETTER, LARGE, LOSS, SMALL, Contender, area, beaten_by, mean
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures.plots import draw_cloud, fix_limits
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    MARKERS,
    SMALL_TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    place_labels,
)

MOST_NAMES = 10
"""More points than these carry a number, and the table below says whose it is."""
AXES = (SMALL, LARGE)
_UNITS = {BLEU: "BLEU", LOSS: "dev loss, nats per token"}


def usual_reference(contenders: Sequence[Contender], measure: str = BLEU, axes: tuple[str, str] = AXES) -> XY:
    """The default reference of the area: 0 BLEU; for losses a tenth more than the worst, rounded up."""
    clouds = [cloud for c in contenders if (cloud := c.cloud(measure, axes))]
    if HIGHER_IS_BETTER[measure] or not clouds:
        return 0.0, 0.0
    worst = [max(mean(cloud)[axis] for cloud in clouds) for axis in (0, 1)]
    return math.ceil(11 * worst[0]) / 10, math.ceil(11 * worst[1]) / 10


def frontier_plane(
    contenders: Sequence[Contender],
    measure: str = BLEU,
    axes: tuple[str, str] = AXES,
    reference: XY | None = None,
    looks: Mapping[str, int] | None = None,
) -> LessonFigure:
    """Contenders on the plane of two averages, the frontier between them, and the region it dominates.

    Args:
        contenders: at least one that was measured; its mark is the mean over its seeds, bars one standard deviation.
        measure: "test BLEU" or "dev loss"; with a loss the frontier is the lower left border.
        axes: names of `Contender.axes`, across and up.
        reference: where the area ends; `usual_reference` by default.
        looks: {label: number}: which colour and mark a contender has, so that it keeps them when others come and go.
    Raises UserError when none of them was measured.
    """
    clouds = {c.label: cloud for c in contenders if (cloud := c.cloud(measure, axes))}
    if not clouds:
        raise UserError(f"None of the chosen runs has a {measure}. Choose a run that has one, or another measure.")
    corner = usual_reference(contenders, measure, axes) if reference is None else reference
    return plane(clouds, axes, corner, measure=measure, looks=looks)


def plane(
    clouds: Mapping[str, Sequence[XY]],
    axes: tuple[str, str] = AXES,
    corner: XY = (0.0, 0.0),
    *,
    measure: str = BLEU,
    show_corner: bool = False,
    looks: Mapping[str, int] | None = None,
) -> LessonFigure:
    """The same from plain numbers: {name: one (across, up) per seed}. The alternative text says who is where.

    corner: where the area is counted from; show_corner: make it part of the picture.
    """
    higher = HIGHER_IS_BETTER[measure]
    points = {label: mean(cloud) for label, cloud in clouds.items()}
    beaten = beaten_by(points, higher)
    size = area(list(points.values()), corner, higher)
    fig, (ax,) = new_figure(_in_words(points, beaten, measure, axes, corner, size), height=4.6)
    for number, (label, point) in enumerate(points.items()):
        style = _look(looks[label] if looks else number, dominated=bool(beaten[label]))
        if len(clouds[label]) > 1:
            draw_cloud(ax, point, clouds[label], {"color": style["color"], "marker": style["marker"]})
        ax.plot(*point, linestyle="none", markersize=8, zorder=3, gid=label, **style)
    if show_corner:
        ax.plot(*corner, linestyle="none", marker="+", markersize=11, color="black", label="reference", zorder=3)
    fix_limits(ax, 0.2, 0.14)
    _draw_frontier(ax, [points[label] for label in points if not beaten[label]], corner, higher)
    few = len(points) <= MOST_NAMES
    names = [_short(label, beaten[label]) if few else str(i + 1) for i, label in enumerate(points)]
    name_axes(ax, f"{axes[0]}: {_UNITS[measure]}", f"{axes[1]}: {_UNITS[measure]}")
    where = "up and to the right" if higher else "down and to the left"
    ax.set_title(f"better: {where}", fontsize=SMALL_TEXT_SIZE, loc="right")
    legend_above(fig, *ax.get_legend_handles_labels())
    place_labels(ax, names, list(points.values()))
    for text, label in zip(ax.texts, points, strict=True):
        text.set_color(GRAY if beaten[label] else "black")
    return fig


def _look(number: int, dominated: bool) -> dict[str, Any]:
    colour = GRAY if dominated else COLOURS[number % len(COLOURS)]
    return {"color": colour, "marker": MARKERS[number % len(MARKERS)],
            "markerfacecolor": "white" if dominated else colour}  # fmt: skip


def _short(label: str, beaten: Sequence[str]) -> str:
    if not beaten:
        return label
    return f"{label} (by {beaten[0]}{f' and {len(beaten) - 1} more' if len(beaten) > 1 else ''})"


def _draw_frontier(ax: Axes, front: Sequence[XY], corner: XY, higher: bool) -> None:
    """The border of what the frontier dominates, and a shade over the area that counts.

    Between two neighbours the border takes the worse coordinate of each: no model has shown that more is possible.
    """
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    x, y = corner
    ends = (max(left, x), max(low, y)) if higher else (min(right, x), min(high, y))  # or the border of the picture
    inner = sorted(set(front))
    steps = [((b[0], a[1]), (a[0], b[1]))[higher] for a, b in pairwise(inner)]
    border = [p for pair in zip(inner, steps, strict=False) for p in pair] + [inner[-1]]
    first, last = ((ends[0], inner[0][1]), (inner[-1][0], ends[1]))
    if not higher:  # from the top left corner of the picture to the bottom right
        first, last = (inner[0][0], ends[1]), (ends[0], inner[-1][1])
    border = [first, *border, last]
    ax.plot(*zip(*border, strict=True), color=COLOURS[0], linestyle=":", linewidth=2, zorder=1, label="frontier")
    inside = [(max(x, corner[0]), max(y, corner[1])) if higher else (min(x, corner[0]), min(y, corner[1]))
              for x, y in border]  # fmt: skip
    ax.fill(*zip(*inside, corner, strict=True), color=COLOURS[5], alpha=0.15, linewidth=0, zorder=0,
            label="area it dominates")  # fmt: skip
    ax.plot([], [], linestyle="none", marker="o", color=GRAY, markerfacecolor="white", label="dominated (by whom)")


def _in_words(
    points: Mapping[str, XY], beaten: Mapping[str, Sequence[str]], measure: str, axes: tuple[str, str], corner: XY,
    size: float,
) -> str:  # fmt: skip
    better = "higher" if HIGHER_IS_BETTER[measure] else "lower"
    digits = 1 if HIGHER_IS_BETTER[measure] else 2
    at = {label: f"{label} ({x:.{digits}f}, {y:.{digits}f})" for label, (x, y) in points.items()}
    front = ", ".join(at[label] for label in points if not beaten[label])
    lost = "; ".join(f"{at[label]} by {', '.join(by)}" for label, by in beaten.items() if by)
    return (
        f"{measure}, {better} is better; across {axes[0]}, up {axes[1]}. On the frontier: {front}. "
        f"Dominated: {lost or 'none'}. Area {size:.{digits}f}, counted from ({corner[0]:g}, {corner[1]:g})."
    )


def standing_table(contenders: Sequence[Contender], measure: str = BLEU, axes: tuple[str, str] = AXES,
                   reference: XY | None = None) -> Table:  # fmt: skip
    """Number in the picture, place, who dominates whom, and what the area would lose without each."""
    higher = HIGHER_IS_BETTER[measure]
    clouds = {c.label: cloud for c in contenders if (cloud := c.cloud(measure, axes))}
    points = {label: mean(cloud) for label, cloud in clouds.items()}
    corner = usual_reference(contenders, measure, axes) if reference is None else reference
    whole = area(list(points.values()), corner, higher)
    rows: list[list[Cell]] = []
    for number, (label, by) in enumerate(beaten_by(points, higher).items(), start=1):
        others = [point for name, point in points.items() if name != label]
        spread = [mean_spread([spot[axis] for spot in clouds[label]]) for axis in (0, 1)]
        rows.append([number, label, len(clouds[label]), *spread, f"dominated by {', '.join(by)}" if by else "frontier",
                     whole - area(others, corner, higher)])  # fmt: skip
    caption = f"{measure}; the area from ({corner[0]:g}, {corner[1]:g}) is {whole:.{1 if higher else 2}f}"
    columns = ["", "model", "seeds", *axes, "standing", "area lost without it"]
    return Table(columns, rows, digits=1 if higher else 2, caption=caption)
