"""The figures of lesson 09: how actions move a distillation weight, and by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import get_args

import ipywidgets as ipw
import torch
from matplotlib.lines import Line2D

from pmd_kit.widgets import chooser, redrawn
from pmd_lite.config import StepSize
from pmd_lite.distillation.actions import ACTIONS, act, logit, step_size
from pmd_lite.errors import UserError
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

Lines = Mapping[str, Sequence[float]]
SIGNS = {"up": "up", "keep": "=", "down": "down"}
_LOOK = {"up": (COLOURS[1], "^"), "keep": (COLOURS[4], "o"), "down": (COLOURS[0], "v")}


def trajectory(paths: Lines, actions: Sequence[str], *, alt: str) -> LessonFigure:
    """Weights over updates on two scales: alpha itself on the left, its logit on the right.

    paths: {name: alpha before the first action and after each one}. actions: written below the axis, one per step.
    """
    if not paths or any(len(alphas) != len(actions) + 1 for alphas in paths.values()):
        raise UserError(f"Give {{name: alphas}} with {len(actions) + 1} weights each: one before the first action.")
    fig, (left, right) = new_figure(alt, 2, columns=2, height=3.8)
    handles = []
    for i, alphas in enumerate(paths.values()):
        style = {**series_style(i), "markevery": 1}
        handles += left.plot(range(len(alphas)), alphas, **style)
        right.plot(range(len(alphas)), [_logit(a) for a in alphas], **style)
    left.set_ylim(-0.03, 1.03)
    name_axes(left, title=r"weight $\alpha$")
    name_axes(right, title=r"logit of $\alpha$")
    crowded = len(actions) > 6
    names = [SIGNS.get(action, action) for action in actions]
    named = ["", *(name[0] for name in names)] if crowded else ["start", *names]
    for ax in (left, right):
        ax.set_xlim(-0.3, len(actions) + 0.3)
        ax.set_xticks(range(len(actions) + 1), named, fontsize=SMALL_TEXT_SIZE)
    fig.supxlabel("action of each update" + (" (u: up, =: keep, d: down)" if crowded else ""), fontsize=TEXT_SIZE)
    legend_above(fig, handles, list(paths))
    return settled(fig)


def _logit(alpha: float) -> float:
    """For drawing: nan, a gap in the line, where the logit is infinite."""
    return math.log(alpha / (1 - alpha)) if 0 < alpha < 1 else math.nan


def three_trials(
    pairs: Sequence[str], before: Sequence[float], trials: Lines, chosen: Sequence[str], *, alt: str
) -> LessonFigure:
    """One update of Auto-PMD as in Figure 3 of the paper: every pair's weight, its three candidates, and the choice.

    before: [pair]. trials: {action: [pair] weights}. chosen: [pair] names of actions; a ring marks them.
    """
    rows = [before, chosen, *trials.values()]
    if not pairs or set(trials) != set(ACTIONS) or any(len(row) != len(pairs) for row in rows):
        raise UserError(f"Give one weight and one choice per pair, and trials for {', '.join(ACTIONS)}.")
    fig, (ax,) = new_figure(alt, height=3.9)
    for x, action in enumerate(chosen):
        ax.plot([x - 0.3, x], [before[x], trials[action][x]], color=GRAY, linewidth=1, zorder=1)
        ax.plot(x, trials[action][x], marker="o", markersize=19, color="black", markerfacecolor="none", zorder=3)
    ax.plot([x - 0.3 for x in range(len(pairs))], before, linestyle="none", marker="s", color=GRAY, markersize=7)
    handles = [Line2D([], [], linestyle="none", marker="s", color=GRAY, label="before")]
    for action in ("up", "keep", "down"):
        colour, marker = _LOOK[action]
        (line,) = ax.plot(range(len(pairs)), trials[action], linestyle="none", marker=marker, color=colour,
                          markersize=8, label=f"trial: {action}", zorder=2)  # fmt: skip
        handles.append(line)
    handles.append(Line2D([], [], linestyle="none", marker="o", color="black", markerfacecolor="none", markersize=11,
                          label="chosen"))  # fmt: skip
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_xlim(-0.6, len(pairs) - 0.4)
    ax.set_ylim(-0.03, 1.03)
    ax.grid(False, axis="x")
    name_axes(ax, "language pair", r"distillation weight $\alpha$")
    legend_above(fig, handles, [str(handle.get_label()) for handle in handles])
    return settled(fig)


def distance_moved(alphas: Sequence[float], distances: Lines, *, alt: str) -> LessonFigure:
    """How far one action moves alpha, over the alpha it starts from. distances: {name: one distance per alpha}."""
    fig, (ax,) = new_figure(alt)
    for i, (name, values) in enumerate(distances.items()):
        ax.plot(alphas, values, label=name, **series_style(i, len(alphas)))
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    name_axes(ax, r"$\alpha$ before the action", r"distance moved in $\alpha$")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def step_sizes(progress: Sequence[float], schedules: Lines, *, alt: str) -> LessonFigure:
    """mu over the run for several schedules. progress: t / T_max from 0 to 1; schedules: {name: mu at each}."""
    fig, (ax,) = new_figure(alt)
    for i, (name, values) in enumerate(schedules.items()):
        ax.plot(progress, values, label=name, **series_style(i, len(progress)))
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.03, 1.08)
    name_axes(ax, r"progress $t\,/\,T_{max}$", r"step size $\mu$")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


LETTERS = {"u": "up", "d": "down", "=": "keep"}
_LONGEST = 24


def walk(alpha: float, actions: Sequence[str], schedule: StepSize = "constant") -> list[float]:
    """alpha before the first and after each of `actions`, with mu(t, T) of update t = 0, 1, ... of T = len(actions)."""
    logits = logit(torch.tensor(alpha, dtype=torch.float64))
    path = [alpha]
    for t, action in enumerate(actions):
        logits = act(logits, action, step_size(t, len(actions), schedule))
        path.append(torch.sigmoid(logits).item())
    return path


def spelled(letters: str) -> list[str]:
    """Actions from letters: "uu=d" is up, up, keep, down. Raises UserError for other letters, none, or too many."""
    typed = letters.replace(" ", "").lower()
    unknown = sorted(set(typed) - set(LETTERS))
    if unknown:
        raise UserError(f"{' '.join(unknown)}: write u for up, d for down, = for keep, such as uu=d.")
    if not 1 <= len(typed) <= _LONGEST:
        raise UserError(f"Write between 1 and {_LONGEST} actions; these are {len(typed)}.")
    return [LETTERS[letter] for letter in typed]


def alpha_walk() -> ipw.VBox:
    """The trajectory of one weight for actions that are typed in, from any start, with any schedule of mu."""

    def draw(actions: str, alpha: float, schedule: StepSize) -> LessonFigure:
        names = spelled(actions)
        path = walk(alpha, names, schedule)
        alt = f"Weight from {alpha:.2f} over {', '.join(names)} with mu {schedule}: it ends at {path[-1]:.3f}"
        return trajectory({f"from {alpha:.2f}, mu {schedule}, ends at {path[-1]:.3f}": path}, names, alt=alt)

    return redrawn(
        draw,
        "Type a sequence of actions and press Enter: u up, d down, = keep. Can you come back to the start? "
        "With which schedules?",
        actions=ipw.Text(value="uuu==ddd", description="actions", continuous_update=False),
        alpha=ipw.FloatSlider(value=0.1, min=0.01, max=0.99, step=0.01, description="start", continuous_update=False),
        schedule=chooser(options=get_args(StepSize), value="constant", description="mu"),
    )
