"""The figures of lesson 10: one search of Auto-PMD, and what trials leave behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)

if TYPE_CHECKING:
    from pmd_kit.l10.searches import Search

ORDER = ("down", "keep", "up")
"""The actions as pictures have them, from left to right: so that the weights of the trials grow."""
LOOK = {"down": (COLOURS[0], "v", "▼"), "keep": ("#333333", "o", "●"), "up": (COLOURS[1], "^", "▲")}
"""Colour, marker and sign of each action, as in lesson 09."""
_CENTRED: dict[str, Any] = {"fontsize": SMALL_TEXT_SIZE, "ha": "center", "va": "center", "in_layout": False}
_BEST = "#fff1d6"  # pale ground under the lowest loss of a row, which also has a frame and a star
_ROW, _HEAD, _HISTORY = 0.54, 0.95, 2.4  # heights in inches
_ENDS = 7.0  # largest logit drawn: weights of .0009 and .9991


def search_step(
    title: str,
    pairs: Sequence[str],
    searches: Sequence[Search],
    number: int,
    start: float,
    total: int,
    sums: bool,
    *,
    alt: str,
) -> LessonFigure:
    """One search of one student: the three trials of each pair's weight, R, what was taken, and the weights up to now.

    searches: all searches of the student; `number` (from 1) is the one that is shown. start: weight before the first.
    total: steps of the run. sums: with a last row of sums over the pairs.
    """
    search = searches[number - 1]
    rows = len(pairs) + sums
    fig = LessonFigure(alt, _HEAD + _ROW * rows + _HISTORY)
    grid = fig.add_gridspec(2, 1, height_ratios=[_HEAD + _ROW * rows, _HISTORY])
    above, below = grid[0].subgridspec(1, 2, width_ratios=[1.6, 4.4]), grid[1].subgridspec(1, 1)
    weights, matrix, history = (fig.add_subplot(place) for place in (above[0], above[1], below[0]))
    fig.suptitle(title, fontsize=TEXT_SIZE, fontweight="bold", x=0.01, ha="left")
    for ax in (weights, matrix):
        ax.set_ylim(rows - 0.5, -0.5)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(length=0, labelsize=SMALL_TEXT_SIZE)
    _draw_weights(weights, pairs, searches, number, rows)
    _draw_matrix(matrix, search, sums)
    _draw_history(history, pairs, searches, number, start, total)
    return settled(fig)


def _draw_weights(ax: Axes, pairs: Sequence[str], searches: Sequence[Search], number: int, rows: int) -> None:
    """Each pair's three candidates on the logit scale, a ring round the one taken; the same axis for all searches."""
    search = searches[number - 1]
    for y, taken in enumerate(search.actions):
        at = {action: _logit(search.trials[action][y]) for action in ORDER}
        ax.plot([at["down"], at["up"]], [y, y], color="#bbbbbb", linewidth=1, zorder=1)
        for action, (colour, marker, _) in LOOK.items():
            ax.plot(at[action], y, marker=marker, color=colour, markersize=7, linestyle="none", zorder=3)
        ax.plot(at[taken], y, marker="o", markersize=14, color="black", markerfacecolor="none", zorder=4)
    ax.set_yticks(range(rows), [*pairs, *["sum"] * (rows - len(pairs))])
    reached = [_logit(a) for s in searches for weights in s.trials.values() for a in weights]
    ax.set_xlim(min(-2.5, *reached) - 0.6, max(0.5, *reached) + 0.6)
    low, high = ax.get_xlim()
    shown = [a for a in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999) if low < _logit(a) < high]
    ax.set_xticks([_logit(a) for a in shown], [f"{a:g}".lstrip("0") for a in shown])
    ax.grid(True, axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    name_axes(ax, r"$\alpha$ (logit scale)", title="weights tried")


def _logit(alpha: float) -> float:
    """Of a weight, kept inside the picture at the ends."""
    inside = min(max(alpha, 1e-9), 1 - 1e-9)
    return min(max(math.log(inside / (1 - inside)), -_ENDS), _ENDS)


def _draw_matrix(ax: Axes, search: Search, sums: bool) -> None:
    """R, pair by trial: weight, dev loss, and its difference from keep; then the action taken and the new weight."""
    for y, best in enumerate(search.best):
        losses = {action: search.results[action][y] for action in ORDER}
        _draw_losses(ax, y, losses, best, {action: search.trials[action][y] for action in ORDER})
        colour, _, sign = LOOK[search.actions[y]]
        ax.text(3, y, f"{sign} {search.actions[y]}", color=colour, fontweight="bold", **_CENTRED)
        ax.text(3.97, y, f"{search.before[y]:.3f} → {search.after[y]:.3f}", **_CENTRED)
    if sums:
        _draw_losses(ax, len(search.best), search.sums, search.lowest_sum, {})
    ax.set_xlim(-0.5, 4.55)
    ax.set_yticks([])
    heads = [f"{LOOK[action][2]} all {action}" for action in ORDER]
    ax.set_xticks([0, 1, 2, 3, 3.97], [*heads, "taken", r"$\alpha$ from, to"])
    ax.xaxis.tick_top()
    ax.spines["bottom"].set_visible(False)
    name_axes(ax, title=r"trials: $\alpha$; R, the dev loss; R − keep")


def _draw_losses(ax: Axes, y: int, losses: Mapping[str, float], best: str, weights: Mapping[str, float]) -> None:
    """One row of R; the lowest loss gets a ground, a frame and a star."""
    for x, action in enumerate(ORDER):
        star = "★ " if action == best else ""
        if star:
            ax.add_patch(Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=_BEST, edgecolor="black", linewidth=1.2))
        ax.text(x, y, f"{star}{losses[action]:.4f}", fontweight="bold" if star else "normal", **_CENTRED)
        if action in weights:
            ax.text(x, y - 0.3, f"{weights[action]:.3f}", color="#555555", **_CENTRED)
        if action != "keep":
            differs = f"{losses[action] - losses['keep']:+.4f}".replace("-", "−")
            ax.text(x, y + 0.3, differs, color="#555555", **_CENTRED)


def _draw_history(
    ax: Axes, pairs: Sequence[str], searches: Sequence[Search], number: int, start: float, total: int
) -> None:
    """Weights from the first search up to now, each search marked with the action taken; mu over the whole run."""
    done, now = searches[:number], searches[number - 1].step
    first = searches[0].step
    early = first - 0.06 * (total - first)
    handles = []
    for i, pair in enumerate(pairs):
        style = series_style(i)
        width = 1.5 + 0.6 * (len(pairs) - 1 - i)  # equal weights are common: the lines below stay visible
        look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": width}
        steps = [early, *(search.step for search in done)]
        ax.plot(steps, [start, *(search.after[i] for search in done)], drawstyle="steps-post", **look)
        for search in done:
            ax.plot(search.step, search.after[i], marker=LOOK[search.actions[i]][1], color=look["color"], markersize=6)
        handles.append(Line2D([], [], label=pair, **look))
    (mu,) = ax.plot([s.step for s in searches], [s.mu for s in searches], color="#999999", linewidth=1,
                    label=r"step size $\mu$")  # fmt: skip
    ax.axvline(now, color=GRAY, linewidth=0.8, zorder=0)
    ax.set_xlim(early, total)
    ax.set_ylim(-0.05, 1.05)
    ax.grid(True, color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL_TEXT_SIZE)
    name_axes(ax, "training step", r"$\alpha$", title=r"weights up to this search (▲ ● ▼: action taken)")
    ax.legend(handles=[*handles, mu], loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=SMALL_TEXT_SIZE,
              frameon=False, handlelength=2.6)  # fmt: skip


def equal_trials(pairs: Sequence[str], results: Mapping[str, Sequence[Sequence[float]]], *, alt: str) -> LessonFigure:
    """Dev losses of trials with equal weights, minus that of the first: a panel for each way to make trials.

    results: {name: [trial, pair] dev losses in nats per token}.
    """
    fig, axes = new_figure(alt, len(results), columns=2, height=3.4, share_y=True)
    for ax, (name, rows) in zip(axes, results.items(), strict=True):
        trials = range(1, len(rows) + 1)
        for i in range(len(pairs)):
            ax.plot(trials, [row[i] - rows[0][i] for row in rows], **{**series_style(i), "markevery": 1})
        ax.set_xticks(trials)
        name_axes(ax, title=name)
    fig.supxlabel("trial", fontsize=TEXT_SIZE)
    fig.supylabel("dev loss − that of trial 1", fontsize=TEXT_SIZE)
    legend_above(fig, axes[0].lines, list(pairs))
    return settled(fig)
