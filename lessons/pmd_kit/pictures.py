"""Figures that several lessons draw: plain numbers in, a figure out, as in `pmd_lite.figures.plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series, draw_front, draw_line
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)
from pmd_lite.sampling.temperature import temperature_probabilities


def sampling_distribution(
    pairs: Sequence[str], sizes: Sequence[int], taus: Sequence[float], *, alt: str
) -> LessonFigure:
    """Share of training draws per pair for several temperatures (Eq. 2), one line per tau; tau may be math.inf.

    sizes: training sentence pairs per pair.
    """
    check_series(range(len(pairs)), {"sizes": sizes}, "pair")
    if len(taus) == 0:
        raise UserError("The sampling figure needs at least one temperature.")
    fig, (ax,) = new_figure(alt)
    for i, tau in enumerate(taus):
        label = r"$\tau=\infty$" if np.isinf(tau) else rf"$\tau={tau:g}$"
        ax.plot(range(len(pairs)), temperature_probabilities(sizes, tau).tolist(), label=label, **series_style(i))
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_ylim(bottom=0)
    name_axes(ax, "language pair", "probability of being drawn")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def probabilities_over_time(steps: Numbers, probabilities: Mapping[str, Numbers], *, alt: str) -> LessonFigure:
    """Sampling probability of each pair over training steps, for samplers that change their mind."""
    check_series(steps, probabilities, "step")
    fig, (ax,) = new_figure(alt)
    for i, (pair, values) in enumerate(probabilities.items()):
        draw_line(ax, steps, values, i, pair)
    ax.set_ylim(bottom=0)
    name_axes(ax, "training step", "probability of being drawn")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def frontiers(
    panels: Mapping[str, tuple[Sequence[XY], Sequence[XY]]], x: str, y: str, names: tuple[str, str], *, alt: str
) -> LessonFigure:
    """Two frontiers in each panel, as steps: what lies below and to the left of a step is beaten by one of its points.

    panels: {title: (points before, points after)}, both in the same order; an arrow leads from each point to the point
    that took its place. x, y: names of the axes, more is better. names: of before and after.
    """
    fig, axes = new_figure(alt, len(panels), columns=3, height=2.6 if len(panels) > 1 else 4.0)
    styles: tuple[dict[str, Any], ...] = (
        {"color": GRAY, "linestyle": "--", "marker": "s"},
        {"color": COLOURS[0], "linestyle": "-", "marker": "o"},
    )
    for ax, (title, pair) in zip(axes, panels.items(), strict=True):
        for points in pair:
            ax.plot(*zip(*points, strict=True), alpha=0)  # the limits must hold all points before the steps are drawn
        ax.margins(0.2)
        ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())
        for points, style in zip(pair, styles, strict=True):
            draw_front(ax, points, style["color"], "", style["linestyle"])
            ax.plot(*zip(*points, strict=True), color=style["color"], marker=style["marker"], linestyle="none")
        for start, end in zip(*pair, strict=True):
            arrow = {"arrowstyle": "-|>", "color": "#333333", "linewidth": 1, "shrinkA": 4, "shrinkB": 4}
            ax.annotate("", xy=end, xytext=start, arrowprops=arrow)
        name_axes(ax, title=title)
    fig.supxlabel(x, fontsize=TEXT_SIZE)
    fig.supylabel(y, fontsize=TEXT_SIZE)
    handles = [Line2D([], [], **style) for style in styles]
    legend_above(fig, handles, names)
    return settled(fig)
