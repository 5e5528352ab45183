"""The figures of lesson 11: what the actions of two pairs do to the loss of one, and how often the searches differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series
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
    series_style,
    settled,
)

Grid = Sequence[Sequence[float]]


def action_grids(grids: Mapping[str, Grid], actions: Sequence[str], own: str, other: str, *, alt: str) -> LessonFigure:
    """Heat maps of the dev loss of pair `own` over its own action (rows) and the action of pair `other` (columns).

    grids: {title: [own action, other action] losses}, one panel each, one scale of colours for all. If a pair's loss
    depends on its own action alone, every row has one colour. The lowest loss of a panel stands in bold.
    """
    tables = {title: np.asarray(grid, dtype=float) for title, grid in grids.items()}
    if not tables or any(table.shape != (len(actions), len(actions)) for table in tables.values()):
        raise UserError(f"Give tables of losses with {len(actions)} rows and columns, one for each action.")
    fig, axes = new_figure(alt, len(tables), columns=max(2, len(tables)), height=3.2)
    low, high = min(t.min() for t in tables.values()), max(t.max() for t in tables.values())
    colours = matplotlib.colormaps["cividis"]
    digits = 2 if high - low > 0.1 or high == low else min(5, 2 - math.floor(math.log10(high - low)))
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        ax.imshow(table, cmap=colours, vmin=low, vmax=high if high > low else low + 1)
        for (row, column), loss in np.ndenumerate(table):
            dark = high > low and (loss - low) / (high - low) < 0.55
            weight = "bold" if loss == table.min() else "normal"
            ax.text(column, row, f"{loss:.{digits}f}", ha="center", va="center", fontsize=SMALL_TEXT_SIZE,
                    color="white" if dark else "black", fontweight=weight)  # fmt: skip
        ax.set_xticks(range(len(actions)), actions)
        ax.set_yticks(range(len(actions)), actions)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        name_axes(ax, f"action of {other}", f"action of {own}" if ax is axes[0] else "", title=title)
    return settled(fig)


def variance_bars(shares: Mapping[str, Mapping[str, float]], *, alt: str) -> LessonFigure:
    """What the variance of each pair's loss is due to: a stacked bar per pair. shares: {pair: {cause: share}}."""
    causes = list(dict.fromkeys(cause for of in shares.values() for cause in of))
    if not causes:
        raise UserError("There is nothing to draw: give {pair: {cause: share of the variance}}.")
    fig, (ax,) = new_figure(alt, height=1.2 + 0.45 * len(shares))
    left = np.zeros(len(shares))
    for i, cause in enumerate(causes):
        values = np.array([of.get(cause, 0.0) for of in shares.values()])
        ax.barh(range(len(shares)), values, 0.65, left=left, label=cause, color=COLOURS[i], hatch=HATCHES[i],
                edgecolor="white")  # fmt: skip
        left += values
    ax.set_yticks(range(len(shares)), list(shares))
    ax.set_ylim(len(shares) - 0.5, -0.5)
    ax.set_xlim(0, max(1.0, float(left.max())))
    ax.grid(False, axis="y")
    name_axes(ax, "share of the variance of its dev loss")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def shares_by_step(steps: Sequence[int], shares: Mapping[str, Mapping[str, Numbers]], *, alt: str) -> LessonFigure:
    """Share that a pair's own action explains, over the searches of a run: a panel per student, a line per pair.

    shares: {student: {pair: share at each step}}.
    """
    if not shares:
        raise UserError("There is nothing to draw: give {student: {pair: shares}}.")
    fig, axes = new_figure(alt, len(shares), columns=2, height=3.0, share_y=True)
    for ax, (student, by_pair) in zip(axes, shares.items(), strict=True):
        check_series(steps, by_pair, "step")
        for i, (pair, values) in enumerate(by_pair.items()):
            ax.plot(steps, values, label=pair, **series_style(i))
        name_axes(ax, title=student)
        if len(steps) <= 6:
            ax.set_xticks(steps)
    axes[0].set_ylim(-0.03, 1.03)
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    fig.supylabel("explained by its own action", fontsize=TEXT_SIZE)
    legend_above(fig, *axes[0].get_legend_handles_labels())
    return settled(fig)


def disagreement(curve: Sequence[XY], measured: Mapping[str, XY], chance: float, *, alt: str) -> LessonFigure:
    """How often the reduced search chooses another action, over the share that a pair's own action explains.

    curve: (own share, disagreement) of random losses; measured: {name: the same two of real searches}; chance:
    disagreement where no action has any effect.
    """
    if len(curve) < 2:
        raise UserError("The curve needs at least two points.")
    fig, (ax,) = new_figure(alt)
    ax.plot(*zip(*sorted(curve), strict=True), color=GRAY, label="if all the rest were noise")
    for i, (name, (x, y)) in enumerate(measured.items()):
        ax.plot(x, y, linestyle="none", marker=MARKERS[i], color=COLOURS[i], markersize=9, label=name)
    ax.axhline(chance, color=GRAY, linewidth=0.8, linestyle="--", label="nothing but noise")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 0.75)
    name_axes(ax, "share of the variance explained by the pair's own action", "reduced and full search disagree")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)
