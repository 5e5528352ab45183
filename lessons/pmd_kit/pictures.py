"""Figures that several lessons draw: plain numbers in, a figure out, as in `pmd_lite.figures.plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series, draw_line
from pmd_lite.figures.style import LessonFigure, legend_above, name_axes, new_figure, series_style, settled
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
