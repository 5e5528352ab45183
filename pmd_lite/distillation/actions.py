"""Eq. 9-12: the three actions on a distillation weight, and the step size mu.

Actions move alpha on the logit scale, so alpha stays in [0, 1]. Auto-PMD keeps the float64 logit as its state. So up
and then down is exact to rounding, and 0 and 1 (logits -inf and +inf) are fixed points and never become NaN.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.config import StepSize
from pmd_lite.errors import UserError

ACTIONS = ("keep", "up", "down")
"""F of Eq. 7. Of equally good actions the first in this order wins."""
SHIFT = {"keep": 0.0, "up": 1.0, "down": -1.0}


def logit(alpha: Tensor) -> Tensor:
    """Inverse sigmoid in float64; 0 -> -inf, 1 -> +inf. Raises UserError outside [0, 1] and for NaN."""
    alpha = alpha.double()
    if not bool(((alpha >= 0) & (alpha <= 1)).all()):
        raise UserError(f"distillation weights {alpha.tolist()}: every weight lies in [0, 1]")
    return torch.log(alpha) - torch.log1p(-alpha)


def act(logits: Tensor, action: str, mu: float) -> Tensor:
    """Apply one action to float64 logits of alpha, any shape. Infinite logits stay where they are."""
    return logits + SHIFT[action] * mu


def lossy_trials(logits: Tensor, actions: Sequence[str], mu: float, clip: float) -> tuple[Tensor, Tensor]:
    """The trials of a search as the released code makes them, and the weights that they leave.

    The released code shifts the weights themselves, trains, and shifts them back. Each shift passes through an inverse
    sigmoid that cuts alpha at `clip` from above. So a weight that an upward shift moves above the clip does not come
    back to its old value: .97 goes up to .98875 and comes back to .947, where the next trial starts.

    Args:
        logits: [pair] float64 logits of alpha before the search.
        actions: the trials in their order. clip: 0.98 as released; 1 loses nothing.
    Returns: ([trial, pair] logits of the trials, [pair] logits from which the chosen action then starts).
    """
    ceiling = float(logit(torch.tensor(clip, dtype=torch.float64)))
    tried = []
    for action in actions:
        tried.append(act(logits.clamp(max=ceiling), action, mu))
        logits = act(tried[-1].clamp(max=ceiling), action, -mu)
    return torch.stack(tried), logits.clamp(max=ceiling)


def increase(alpha: Tensor, mu: float) -> Tensor:
    """f_up: sigmoid(logit(alpha) + mu), Eq. 10. Closed form: a e^mu / (1 - a + a e^mu)."""
    return torch.sigmoid(act(logit(alpha), "up", mu))


def decrease(alpha: Tensor, mu: float) -> Tensor:
    """f_down: sigmoid(logit(alpha) - mu), Eq. 11."""
    return torch.sigmoid(act(logit(alpha), "down", mu))


def keep(alpha: Tensor) -> Tensor:
    """f_eq: alpha unchanged, Eq. 9."""
    return alpha.clone()


def step_size(t: float, t_max: float, schedule: StepSize = "to_0") -> float:
    """mu at update t of t_max (both counted from the start of distillation).

    to_0 is Eq. 12, sqrt((t_max - t) / t_max). The paper's scheduler table has three others. `constant` is 1.
    `early_stop` is sqrt(max((t_max - 1.2 t) / t_max, 0)): it searches nothing in the last sixth. `to_0.2` falls from 1
    to 0.2, as in the paper's text and the released code (the table's printed formula would end at 0.447).
    Raises UserError for t outside [0, t_max], an empty range, or an unknown schedule.
    """
    if not (0 <= t <= t_max and t_max > 0):
        raise UserError(f"step_size at t={t} of t_max={t_max}: t runs from 0 to t_max, which is above 0")
    if schedule == "constant":
        return 1.0
    left = (t_max - t) / t_max
    if schedule == "to_0":
        return math.sqrt(left)
    if schedule == "to_0.2":
        return 0.2 + 0.8 * math.sqrt(left)
    if schedule == "early_stop":
        return math.sqrt(max(0.0, (t_max - 1.2 * t) / t_max))
    raise UserError(f"no step size schedule {schedule!r}; there are constant, to_0.2, early_stop, to_0")
