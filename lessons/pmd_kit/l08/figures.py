"""The figures of lesson 08: who teaches whom, who leads by how much, second opinions, and what alpha does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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

Matrix = Sequence[Sequence[float]]
LEARNERS = {"1": (COLOURS[0], "", "only student 1 learns"), "2": (COLOURS[1], "///", "only student 2 learns"),
            "both": (COLOURS[2], "...", "both learn"), "none": ("#dddddd", "", "neither learns")}  # fmt: skip


def learners(weights: Matrix) -> list[str]:
    """ "1", "2", "both" or "none" for each pair: whose weight is above 0. weights: [2, pair]."""
    names = {(True, False): "1", (False, True): "2", (True, True): "both", (False, False): "none"}
    return [names[first > 0, second > 0] for first, second in zip(*weights, strict=True)]


def directions(pairs: Sequence[str], losses: Matrix, rules: Mapping[str, Matrix], *, alt: str) -> LessonFigure:
    """An arrow from teacher to learner for every weight above 0, on the dev losses of two students.

    losses: [2, pair]. rules: {title: weights [2, pair]}, one panel each.
    """
    if not rules or any(np.shape(table) != (2, len(pairs)) for table in (losses, *rules.values())):
        raise UserError(f"Give losses and weights of two students for {len(pairs)} pairs.")
    fig, axes = new_figure(alt, len(rules), columns=len(rules), height=3.2, share_y=True)
    for ax, (title, weights) in zip(axes, rules.items(), strict=True):
        for student in (0, 1):
            ax.plot(range(len(pairs)), losses[student], linestyle="none", marker=MARKERS[student], markersize=9,
                    color=COLOURS[student])  # fmt: skip
            for i, weight in enumerate(weights[student]):
                if weight > 0:
                    x = i + (0.16 if student == 0 else -0.16)
                    arrow = {"arrowstyle": "-|>", "color": COLOURS[student], "linewidth": 1.8}
                    ax.annotate("", (x, losses[student][i]), (x, losses[1 - student][i]), arrowprops=arrow)
        ax.set_xticks(range(len(pairs)), pairs)
        ax.set_xlim(-0.5, len(pairs) - 0.5)
        ax.grid(False, axis="x")
        name_axes(ax, title=title)
    axes[0].set_ylabel("dev loss (nats per token)", fontsize=TEXT_SIZE)
    handles = [Line2D([], [], linestyle="none", marker=MARKERS[i], color=COLOURS[i], markersize=8) for i in (0, 1)]
    legend_above(fig, handles, ["student 1", "student 2"])
    return settled(fig)


def leads(steps: Numbers, bits: Mapping[str, Numbers], zone: float, *, alt: str) -> LessonFigure:
    """By how many bits per token student 2 leads student 1, pair by pair; the shaded band is the dead zone.

    bits: {pair: loss of student 1 minus loss of student 2 at each step}. zone: half the width of the band, in bits.
    """
    check_series(steps, bits, "step")
    fig, (ax,) = new_figure(alt, height=3.6)
    ax.axhspan(-zone, zone, color=GRAY, alpha=0.3, linewidth=0)
    for i, (pair, values) in enumerate(bits.items()):
        ax.plot(steps, values, label=pair, **series_style(i, len(steps)))
    name_axes(ax, "training step", "lead of student 2 (bits per token)")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def who_learns(steps: Sequence[int], rules: Mapping[str, Mapping[str, Sequence[str]]], *, alt: str) -> LessonFigure:
    """Who learnt each pair after each decision. rules: {title: {pair: "1", "2", "both" or "none" at each step}}."""
    if not steps or not rules or any(len(row) != len(steps) for of in rules.values() for row in of.values()):
        raise UserError("Give at least one decision, and for each rule who learns at every one of them.")
    n_pairs = len(next(iter(rules.values())))
    fig, axes = new_figure(alt, len(rules), columns=len(rules), height=0.36 * n_pairs + 1.4, share_y=True)
    for ax, (title, of) in zip(axes, rules.items(), strict=True):
        for y, row in enumerate(of.values()):
            for x, who in enumerate(row):
                colour, hatch, _ = LEARNERS[who]
                ax.bar(x, 0.9, 0.94, bottom=y - 0.45, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        shown = range(0, len(steps), max(1, -(-len(steps) // 5)))
        ax.set_xticks(list(shown), [str(steps[i]) for i in shown])
        ax.set_yticks(range(len(of)), list(of))
        ax.set_ylim(len(of) - 0.5, -0.5)
        ax.grid(False)
        ax.tick_params(labelleft=ax is axes[0])
        name_axes(ax, "decision after update", title=title)
    used = [who for who in LEARNERS if any(who in row for of in rules.values() for row in of.values())]
    handles = [Patch(facecolor=LEARNERS[who][0], hatch=LEARNERS[who][1], edgecolor="white") for who in used]
    legend_above(fig, handles, [LEARNERS[who][2] for who in used])
    return settled(fig)


def error_shares(pairs: Sequence[str], shares: Mapping[str, Numbers], *, alt: str) -> LessonFigure:
    """Stacked bars that add up to 1. shares: {name: share of the tokens of each pair}, from bottom to top."""
    check_series(range(len(pairs)), shares, "pair")
    fig, (ax,) = new_figure(alt, height=3.4)
    bottom = np.zeros(len(pairs))
    for i, (name, values) in enumerate(shares.items()):
        ax.bar(range(len(pairs)), values, 0.65, bottom=bottom, label=name, color=COLOURS[(0, 1, 5, 3)[i]],
               hatch=HATCHES[i], edgecolor="white")  # fmt: skip
        bottom += np.asarray(values)
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_ylim(0, 1)
    ax.grid(False, axis="x")
    name_axes(ax, "language pair", "share of dev tokens")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def change_grid(
    alphas: Sequence[float], pairs: Sequence[str], panels: Mapping[str, Matrix], most: float, *, alt: str
) -> LessonFigure:
    """Heat maps of a change over alpha (columns) and pair (rows), its value in every cell; white means no change.

    panels: {title: [pair, alpha] changes, positive is better}. most: the change with the strongest colour.
    """
    if not panels or most <= 0 or any(np.shape(table) != (len(pairs), len(alphas)) for table in panels.values()):
        raise UserError(f"Give tables of {len(pairs)} pairs and {len(alphas)} alphas, and a positive largest change.")
    fig, axes = new_figure(alt, len(panels), columns=max(2, len(panels)), height=0.42 * len(pairs) + 1.1, share_y=True)
    digits = 1 if most > 1 else 2
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        colours = matplotlib.colormaps["PuOr"]
        ax.imshow(table, cmap=colours, norm=TwoSlopeNorm(0, -most, most), aspect="auto")
        for row, values in enumerate(table):
            for column, value in enumerate(values):
                ax.text(column, row, f"{value:+.{digits}f}", ha="center", va="center", fontsize=SMALL_TEXT_SIZE,
                        color="white" if abs(value) > 0.6 * most else "black")  # fmt: skip
        ax.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
        ax.set_yticks(range(len(pairs)), pairs)
        ax.tick_params(labelleft=ax is axes[0])
        ax.grid(False)
        name_axes(ax, r"$\alpha$", title=title)
    return settled(fig)


def effect_of_alpha(
    lines: Mapping[str, Mapping[str, Mapping[float, float]]],
    spreads: Mapping[str, Mapping[str, Mapping[float, float]]],
    y_name: str,
    *,
    alt: str,
) -> LessonFigure:
    """A score over alpha, a panel per student and a line per strategy: the paper's figure on the effect of alpha.

    lines: {student: {strategy: {alpha: score}}}. spreads: the same with one standard deviation over seeds, where known,
    drawn as a bar.
    """
    if not lines or not all(lines.values()):
        raise UserError("Give at least one student with one line.")
    fig, axes = new_figure(alt, len(lines), columns=max(2, len(lines)), height=3.2)
    for ax, (student, of) in zip(axes, lines.items(), strict=True):
        for i, (strategy, scores) in enumerate(of.items()):
            _line_with_bars(ax, i, strategy, scores, spreads.get(student, {}).get(strategy, {}))
        ax.set_xticks(sorted({alpha for scores in of.values() for alpha in scores}))
        name_axes(ax, r"$\alpha$", title=student)
    fig.supylabel(y_name, fontsize=TEXT_SIZE)
    legend_above(fig, *axes[0].get_legend_handles_labels())
    return settled(fig)


def _line_with_bars(
    ax: Axes, index: int, name: str, scores: Mapping[float, float], spread: Mapping[float, float]
) -> None:
    style = {**series_style(index), "markevery": 1}
    x = sorted(scores)
    ax.plot(x, [scores[a] for a in x], label=name, **style)
    for alpha, deviation in spread.items():
        if alpha not in scores:
            continue
        shift = 0.012 * (index - 0.5)  # bars of two lines at the same alpha stay apart
        ax.errorbar(alpha + shift, scores[alpha], yerr=deviation, color=style["color"], capsize=3, linewidth=1.2)
