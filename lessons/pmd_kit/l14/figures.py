"""The figures of lesson 14: what fp16 can hold, and how the loss scale moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmd_lite.errors import UserError
from pmd_lite.figures.style import COLOURS, GRAY, LessonFigure, legend_above, name_axes, new_figure, settled

SMALLEST, LARGEST = 2.0**-24, 65504.0
"""The smallest number above 0 of fp16, and its largest."""


def reach_of_fp16(gradients: Sequence[float], scale: float, *, alt: str) -> LessonFigure:
    """How often each size of gradient occurs, as it is and times the loss scale, between the two ends of fp16.

    gradients: absolute values; zeros are left out.
    """
    sizes = np.asarray(gradients, dtype=float)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        raise UserError("All gradients are 0: there is nothing to draw.")
    fig, (ax,) = new_figure(alt, height=3.2)
    powers = np.log2(sizes)
    move = math.log2(scale)
    bins = np.arange(math.floor(powers.min()), math.ceil(powers.max() + move) + 1).tolist()
    for shift, label, colour, hatch in (
        (0.0, "gradients", COLOURS[0], ""),
        (move, f"times {scale:,.0f}", COLOURS[1], "///"),
    ):
        ax.hist(powers + shift, bins=bins, color=colour, alpha=0.6, hatch=hatch, edgecolor="white", label=label)
    for power, text, side in ((math.log2(SMALLEST), "0 in fp16", "right"), (math.log2(LARGEST), "overflow", "left")):
        ax.axvline(power, color="black", linestyle="--", linewidth=1)
        ax.annotate(text, (power, 1.0), xycoords=("data", "axes fraction"), xytext=(-4 if side == "right" else 4, -12),
                    textcoords="offset points", ha=side)  # fmt: skip
    ax.set_xlim(min(math.log2(SMALLEST) - 8, powers.min()), math.log2(LARGEST) + 6)
    ax.set_yticks([])
    name_axes(ax, "size of a gradient, as a power of 2", "how often")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def loss_scale(scales: Sequence[float], finite: Sequence[bool], *, alt: str) -> LessonFigure:
    """The scale of every update, and which updates overflowed. scales, finite: [update]."""
    if len(scales) != len(finite) or not len(scales):
        raise UserError(f"Give a scale for each of {len(finite)} updates, at least one; these are {len(scales)}.")
    fig, (ax,) = new_figure(alt, height=2.8)
    steps = range(len(scales))
    ax.step(steps, scales, where="post", color=GRAY, linewidth=1.2, label="loss scale")
    for ok, label, colour, marker in (
        (True, "update made", COLOURS[0], "o"),
        (False, "overflow: skipped", COLOURS[1], "X"),
    ):
        at = [i for i in steps if finite[i] == ok]
        ax.plot(at, [scales[i] for i in at], linestyle="none", marker=marker, color=colour, markersize=7, label=label)
    ax.set_yscale("log", base=2)
    name_axes(ax, "update", "scale")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)
