"""The widget of lesson 09, and the walk it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import ipywidgets as ipw
import torch

from pmd_lite.config import StepSize
from pmd_lite.distillation.actions import act, logit, step_size
from pmd_lite.errors import UserError
from pmd_lite.teaching.figures_09 import trajectory
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn

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
        schedule=ipw.Dropdown(options=get_args(StepSize), value="constant", description="mu"),
    )
