"""The figures of lesson 07: the parts of a soft target, which student teaches which, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    HATCHES,
    MARKERS,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)


def curves(x: Numbers, values: Mapping[str, Numbers], x_name: str, y_name: str, *, alt: str,
           lowest: bool = False) -> LessonFigure:  # fmt: skip
    """Lines over anything. values: {name: one per x}; lowest: a star on the lowest point of each line."""
    check_series(x, values, "point")
    fig, (ax,) = new_figure(alt, height=3.2)
    for i, (name, y) in enumerate(values.items()):
        ax.plot(x, y, label=name, **series_style(i, len(x)))
        if lowest:
            at = min(range(len(x)), key=lambda j, y=y: y[j])  # type: ignore[misc]
            ax.plot(x[at], y[at], marker="*", markersize=15, color=COLOURS[i], markeredgecolor="white", zorder=4)
    name_axes(ax, x_name, y_name)
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def target_bars(words: Sequence[str], targets: Mapping[str, Numbers], *, alt: str) -> LessonFigure:
    """Distributions over a tiny vocabulary side by side. targets: {name: one probability per word}."""
    check_series(range(len(words)), targets, "word")
    fig, (ax,) = new_figure(alt, height=3.2)
    width = 0.84 / len(targets)
    for i, (name, p) in enumerate(targets.items()):
        x = [at + (i - (len(targets) - 1) / 2) * width for at in range(len(words))]
        ax.bar(x, list(p), width, label=name, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white")
    ax.set_xticks(range(len(words)), words)
    ax.set_ylim(0, 1)
    ax.grid(False, axis="x")
    name_axes(ax, "next word", "probability in the target")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def framework(samplers: Sequence[str], *, alt: str) -> LessonFigure:
    """Two students that teach each other: Figure 2 of the paper in our own drawing. samplers: a name for each P."""
    if len(samplers) != 2:
        raise UserError(f"The picture has two students; {len(samplers)} samplers were given.")
    fig, (ax,) = new_figure(alt, height=3.0)
    ax.set_axis_off()
    ax.set_xlim(0, 10)
    ax.set_ylim(0, 5)
    for i, (name, y) in enumerate(zip(samplers, (3.6, 0.4), strict=True)):
        _box(ax, (0.1, y), 2.6, f"training data\ndrawn by $P_{i + 1}$: {name}", COLOURS[5])
        _box(ax, (5.0, y), 2.2, f"student $\\theta_{i + 1}$", COLOURS[i])
        _arrow(ax, (2.8, y + 0.5), (4.9, y + 0.5), f"$(1-\\alpha_{i + 1}[\\ell])\\;L_{{ce}}$", (3.85, y + 0.75))
    _arrow(ax, (5.7, 1.5), (5.7, 3.5), "$\\alpha_1[\\ell]\\;L_{kd}$", (5.0, 2.5))
    _arrow(ax, (6.5, 3.5), (6.5, 1.5), "$\\alpha_2[\\ell]\\;L_{kd}$", (7.25, 2.5))
    ax.text(7.5, 4.1, "1. steps first,\ntaught by the old $\\theta_2$", fontsize=SMALL_TEXT_SIZE, va="center")
    ax.text(7.5, 0.9, "2. steps second,\ntaught by the new $\\theta_1$", fontsize=SMALL_TEXT_SIZE, va="center")
    return settled(fig)


def _box(ax: Axes, corner: tuple[float, float], width: float, text: str, colour: str) -> None:
    ax.add_patch(FancyBboxPatch(corner, width, 1.0, boxstyle="round,pad=0.08", facecolor="white", edgecolor=colour,
                                linewidth=2))  # fmt: skip
    ax.text(corner[0] + width / 2, corner[1] + 0.5, text, ha="center", va="center", fontsize=SMALL_TEXT_SIZE)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], text: str, at: tuple[float, float]) -> None:
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.4})
    ax.text(*at, text, ha="center", va="center", fontsize=TEXT_SIZE)


def gains(rows: Sequence[str], panels: Mapping[str, Mapping[str, Sequence[float]]], *, alt: str) -> LessonFigure:
    """Differences from a twin, a panel for each way to measure: a dot for every seed, a large mark for their mean.

    rows: names, from top to bottom. panels: {title: {row: differences}}; a row may be absent from a panel.
    """
    if not rows or not panels or any(name not in rows for of in panels.values() for name in of):
        raise UserError("Give rows, and panels whose differences belong to these rows.")
    fig, axes = new_figure(alt, len(panels), columns=len(panels), height=0.34 * len(rows) + 1.3, share_y=True)
    for ax, (title, of) in zip(axes, panels.items(), strict=True):
        ax.tick_params(labelleft=ax is axes[0])
        ax.axvline(0, color="black", linewidth=1)
        for i, name in enumerate(rows):
            if values := of.get(name):
                mean = sum(values) / len(values)
                style: dict[str, Any] = {"color": COLOURS[0 if mean > 0 else 1], "linestyle": "none"}
                ax.plot(mean, i, marker=MARKERS[2 if mean > 0 else 4], markersize=9, **style)
                if len(values) > 1:
                    ax.plot(values, [i] * len(values), marker="o", markersize=4, alpha=0.5, **style)
        ax.set_title(title, fontsize=SMALL_TEXT_SIZE, loc="left", fontweight="bold")
        ax.margins(x=0.12)
        ax.grid(True, axis="y", color=GRAY, alpha=0.2)
    axes[0].set_yticks(range(len(rows)), rows)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    return settled(fig)
