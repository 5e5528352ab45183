"""The figures of lesson 04: what label smoothing asks for, how the learning rate runs, how training went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import ipywidgets as ipw
import numpy as np

from pmd_kit.widgets import redrawn
from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series, draw_line
from pmd_lite.figures.style import LessonFigure, legend_above, name_axes, new_figure, series_style, settled
from pmd_lite.training.learner import learning_rate


def loss_of_confidence(p: Numbers, epsilons: Sequence[float], vocab: int, *, alt: str) -> LessonFigure:
    """Smoothed loss of one token over the probability of the gold word, the rest shared evenly by the others.

    p: probabilities strictly between 0 and 1; the axis counts 1 - p on a logarithmic scale, surer to the right. A star
    marks the lowest point of each line.
    """
    if len(p) == 0 or not all(0 < x < 1 for x in p):
        raise UserError("Give probabilities strictly between 0 and 1: at the ends the loss is infinite.")
    fig, (ax,) = new_figure(alt)
    doubt = [1 - x for x in p]
    for i, eps in enumerate(epsilons):
        losses = [-(1 - eps) * math.log(x) - eps * math.log((1 - x) / (vocab - 1)) for x in p]
        style = series_style(i, len(p))
        ax.plot(doubt, losses, label=rf"$\varepsilon$ = {eps:g}", **style)
        if eps:
            lowest = int(np.argmin(losses))
            ax.plot(doubt[lowest], losses[lowest], marker="*", markersize=14, color=style["color"],
                    markeredgecolor="white", linestyle="none")  # fmt: skip
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_ylim(bottom=0)
    name_axes(ax, "doubt: 1 - probability of the gold word (surer to the right)", "loss (nats)")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def learning_rates(updates: Numbers, rates: Mapping[str, Numbers], *, alt: str) -> LessonFigure:
    """Learning rate over updates. rates: {name: rate of each update}."""
    check_series(updates, rates, "update")
    fig, (ax,) = new_figure(alt)
    for i, (name, values) in enumerate(rates.items()):
        draw_line(ax, updates, values, i, name)
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3), useMathText=True)
    name_axes(ax, "update", "learning rate")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def losses_over(tokens: Mapping[str, Numbers], losses: Mapping[str, Sequence[Numbers]], *, alt: str) -> LessonFigure:
    """Mean dev loss of several trainings over what they have read.

    tokens: {name: target tokens read at each evaluation}. losses: {name: one curve per seed}; seeds of a training share
    colour and line.
    """
    fig, (ax,) = new_figure(alt, height=3.9)
    for i, (name, curves) in enumerate(losses.items()):
        check_series(tokens[name], {f"{name}, curve {n + 1}": curve for n, curve in enumerate(curves)}, "evaluation")
        for n, curve in enumerate(curves):
            line = draw_line(ax, tokens[name], curve, i, name if n == 0 else f"_{name}")
            line.set_markevery(1)
    name_axes(ax, "target tokens read", "dev loss, mean over pairs (nats per token)")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def rate_figure(peak: float, warmup: int, updates: int = 2000) -> LessonFigure:
    """The learning rate of a run, beside that of the toy preset."""
    steps = range(1, updates + 1, max(1, updates // 400))
    rates = {f"peak {peak:g}, warm-up {warmup}": [learning_rate(t, peak, warmup) for t in steps]}
    if (peak, warmup) != (0.004, 150):
        rates["preset toy: peak 0.004, warm-up 150"] = [learning_rate(t, 0.004, 150) for t in steps]
    first, last = (learning_rate(t, peak, warmup) for t in (1, updates))
    alt = (f"Learning rate over {updates} updates: {first:.2g} at the first, {peak:.2g} at update {warmup}, "
           f"{last:.2g} at the last")  # fmt: skip
    return learning_rates(steps, rates, alt=alt)


def rate_sliders() -> ipw.VBox:
    """Move the peak and the end of the warm-up."""
    return redrawn(
        rate_figure,
        "Move peak and warm-up (Tab, then arrow keys). With which peak does a warm-up of 1 end where the toy preset "
        "ends?",
        peak=ipw.FloatLogSlider(value=0.004, base=10, min=-3.5, max=-1, step=0.05, description="peak",
                                readout_format=".4f", continuous_update=False),
        warmup=ipw.IntSlider(value=150, min=1, max=1000, description="warm-up", continuous_update=False),
    )  # fmt: skip
