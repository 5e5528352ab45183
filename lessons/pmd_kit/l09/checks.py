"""Checks of lesson 09: the actions on a distillation weight and the schedules of their step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_lite.config import StepSize
from pmd_lite.distillation.actions import act, decrease, increase, logit, step_size


def _f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _weights(rng: np.random.Generator, ends: bool = False) -> Sequence[Case]:
    """alphas and mu; mu is never 1, which would hide a mu that is left out, and alphas are never symmetric."""
    cases: list[Case] = [(_f64(0.1, 0.5, 0.8), 0.7)]
    cases += [(_f64(*rng.uniform(0.03, 0.97, size=4)), float(rng.uniform(0.3, 0.9))) for _ in range(2)]
    return [*cases, (_f64(0.0, 0.3, 1.0), 0.5)] if ends else cases


UP = Exercise(
    "f_up", increase, _weights,
    [
        Mistake("You add mu to alpha itself, which can leave [0, 1]. Add it to the logit.", lambda a, mu: a + mu),
        Mistake("You add mu to alpha and cut off at 1. Add it to the logit, and nothing needs cutting.",
                lambda a, mu: (a + mu).clamp(0, 1)),
        Mistake("The way back is there, the way out is missing: take the logit of alpha before you add mu.",
                lambda a, mu: torch.sigmoid(a + mu)),
        Mistake("That is the new logit. Map it back into [0, 1] with the sigmoid.", lambda a, mu: logit(a) + mu),
        Mistake("The sign is turned: this is f_down.", decrease),
        Mistake("log(alpha) is not the inverse of the sigmoid: log(alpha) - log(1 - alpha) is.",
                lambda a, mu: torch.sigmoid(torch.log(a) + mu)),
        Mistake("You multiply the logit by mu. It is added.", lambda a, mu: torch.sigmoid(logit(a) * mu)),
        Mistake("mu has no effect: this is a step of 1.", lambda a, mu: increase(a, 1.0)),
        Mistake("That is the first-order approximation, alpha + mu alpha (1 - alpha); it leaves [0, 1] for a large mu.",
                lambda a, mu: a + mu * a * (1 - a)),
    ],
    library=("increase", "act"),
)  # fmt: skip


DOWN = Exercise(
    "f_down", decrease, lambda rng: _weights(rng, ends=True),
    [
        Mistake("This is f_up: going down, the odds are multiplied by e^-mu.", increase),
        Mistake("These are the new odds. Odds o are the weight o / (1 + o).",
                lambda a, mu: a / (1 - a) * math.exp(-mu)),
        Mistake("The denominator is missing: a e^-mu alone treats alpha as if it were odds.",
                lambda a, mu: a * math.exp(-mu)),
        Mistake("e^-mu belongs to alpha only, not to 1 - alpha as well: so scaled, both cancel and nothing moves.",
                lambda a, mu: a.clone()),
        Mistake("That is the share of the other side, 1 minus the answer.", lambda a, mu: 1 - decrease(a, mu)),
        Mistake("The odds are multiplied by e^-mu, not by 1 - mu, which is only nearly the same for a small mu.",
                lambda a, mu: a * (1 - mu) / (1 - a + a * (1 - mu))),
        Mistake("The odds are multiplied by e^-mu, not divided by 1 + mu.",
                lambda a, mu: a / ((1 - a) * (1 + mu) + a)),
        Mistake("You subtract mu from alpha itself.", lambda a, mu: a - mu),
        Mistake("You subtract mu from alpha and cut off at 0: up would not bring it back.",
                lambda a, mu: (a - mu).clamp(0, 1)),
        Mistake("The logit is missing on the way out: you take a sigmoid of alpha - mu.",
                lambda a, mu: torch.sigmoid(a - mu)),
    ],
    library=("decrease", "act"),
)  # fmt: skip


def distances(alpha: Tensor, mu: float) -> Tensor:
    """Exercise 3: [2, pair], how far f_up and f_down move alpha."""
    return torch.stack([increase(alpha, mu) - alpha, alpha - decrease(alpha, mu)])


DISTANCES = Exercise(
    "distances", distances, _weights,
    [
        Mistake("mu is the distance between logits. Return the distance between the weights.",
                lambda a, mu: torch.full((2, len(a)), mu, dtype=torch.float64)),
        Mistake("A distance is positive: the second row is alpha - f_down(alpha).",
                lambda a, mu: distances(a, mu) * _f64(1, -1)[:, None]),
        Mistake("The rows are swapped: first up, then down.", lambda a, mu: distances(a, mu).flip(0)),
        Mistake("These are the new weights. The distance is their difference from alpha.",
                lambda a, mu: torch.stack([increase(a, mu), decrease(a, mu)])),
        Mistake("mu alpha (1 - alpha) is the slope times the step: good near 0, but up and down are not the same.",
                lambda a, mu: (mu * a * (1 - a)).expand(2, -1)),
        Mistake("A row is an action and a column a pair: stack along dim=0.", lambda a, mu: distances(a, mu).T),
        Mistake("That is the ratio of new to old, not the difference.",
                lambda a, mu: torch.stack([increase(a, mu) / a, decrease(a, mu) / a])),
    ],
)  # fmt: skip


def _path_end(alpha: float, net: float, mu: float) -> float:
    return torch.sigmoid(logit(_f64(alpha)) + net * mu).item()


def _net(actions: Sequence[str]) -> int:
    return actions.count("up") - actions.count("down")


Path = tuple[float, list[str], float]
_PATH_MISTAKES: Sequence[tuple[str, Callable[[float, list[str], float], float]]] = (
    ("You went the other way: ups raise the weight, downs lower it.", lambda a, x, mu: _path_end(a, -_net(x), mu)),
    ("You counted the ups and forgot the downs.", lambda a, x, mu: _path_end(a, x.count("up"), mu)),
    ("You counted every action as a step up. A down undoes an up, and keep does nothing.",
     lambda a, x, mu: _path_end(a, len(x), mu)),
    ("The step is mu, not 1.", lambda a, x, mu: _path_end(a, _net(x), 1.0)),
    ("That is where a single step in the right direction ends: count how many remain.",
     lambda a, x, mu: _path_end(a, math.copysign(1, _net(x)), mu)),
    ("These are the odds at the end. Odds o are the weight o / (1 + o).",
     lambda a, x, mu: a / (1 - a) * math.exp(_net(x) * mu)),
    ("That is the logit at the end: one sigmoid is missing.",
     lambda a, x, mu: math.log(a / (1 - a)) + _net(x) * mu),
    ("You added the steps to alpha itself.", lambda a, x, mu: a + _net(x) * mu),
    ("You multiplied alpha by e^mu at each step. The odds alpha / (1 - alpha) are multiplied.",
     lambda a, x, mu: a * math.exp(_net(x) * mu)),
)  # fmt: skip
_BY_HAND = 2e-3  # three rounded digits are near enough


def my_path(student: str) -> Path:
    """(alpha, actions, mu) that this student follows by hand. Raises UserError for an empty name."""
    rng = personal(student, "path")
    while True:
        alpha, mu = float(rng.choice([0.1, 0.2, 0.3, 0.4])), float(rng.choice([0.5, 0.6, 0.8]))
        actions = [str(action) for action in rng.choice(["up", "up", "down", "down", "keep"], size=7)]
        answers = [_path_end(alpha, _net(actions), mu), *(f(alpha, actions, mu) for _, f in _PATH_MISTAKES)]
        apart = min(abs(a - b) for i, a in enumerate(answers) for b in answers[:i])
        if abs(_net(actions)) in (2, 3) and set(actions) == {"up", "down", "keep"} and apart > 0.015:
            return alpha, actions, mu


def my_end(student: str) -> Exercise:
    """Exercise 4, on this student's own path."""
    alpha, actions, mu = my_path(student)
    mistakes = [Mistake(says, lambda f=f: f(alpha, actions, mu)) for says, f in _PATH_MISTAKES]

    def right() -> float:
        logits = logit(_f64(alpha))
        for action in actions:
            logits = act(logits, action, mu)
        return torch.sigmoid(logits).item()

    return Exercise("end", right, mistakes=mistakes, tolerance=_BY_HAND, student=student)


def _times(rng: np.random.Generator) -> Sequence[Case]:
    names = ("to_0", "constant", "to_0.2", "early_stop")
    drawn = [(int(rng.integers(5, 60)), 70, name) for name in names]
    return [(19, 100, name) for name in names] + [(90, 100, name) for name in names] + drawn


def _instead(of: str, wrong: Callable[[float, float], float]) -> Callable[[float, float, StepSize], float]:
    """The right step sizes, but for one schedule."""
    return lambda t, t_max, schedule: wrong(t, t_max) if schedule == of else step_size(t, t_max, schedule)


MU = Exercise(
    "mu", step_size, _times,
    [
        Mistake('"to_0.2": that is the formula as the paper\'s table prints it, which ends at sqrt(0.2) = 0.447. Write '
                "is what its text says, from 1 to 0.2.", _instead("to_0.2", lambda t, T: math.sqrt((T - 0.8 * t) / T))),
        Mistake('"to_0.2" does not fall like to_0 until it meets a floor at 0.2: it shrinks the whole curve, '
                "0.2 + 0.8 times the root.", _instead("to_0.2", lambda t, T: max(0.2, step_size(t, T)))),
        Mistake('"to_0.2" would begin at 1.2: the root counts 0.8, so that both add up to 1.',
                _instead("to_0.2", lambda t, T: 0.2 + step_size(t, T))),
        Mistake('"early_stop" falls faster all the way, by the factor 1.2; it is not to_0 cut off at the end.',
                _instead("early_stop", lambda t, T: step_size(t, T) if 1.2 * t < T else 0.0)),
        Mistake('"early_stop": take 1.2 t inside the root, not a 1.2nd of the whole.',
                _instead("early_stop", lambda t, T: step_size(t, T) / 1.2)),
        Mistake('"early_stop" has nothing below its root in the last sixth: cut off at 0 before you take the root.',
                _instead("early_stop", lambda t, T: math.sqrt(abs(T - 1.2 * t) / T))),
        Mistake('"constant" is 1 at every t.', _instead("constant", lambda t, T: step_size(t, T))),
        Mistake("The square root is missing everywhere.",
                lambda t, T, s: {"constant": 1.0, "to_0": (T - t) / T, "to_0.2": 0.2 + 0.8 * (T - t) / T,
                                 "early_stop": max(0.0, (T - 1.2 * t) / T)}[s]),
        Mistake("These step sizes grow: what counts is what is left of the run, T_max - t.",
                lambda t, T, s: {"constant": 1.0, "to_0": math.sqrt(t / T), "to_0.2": 0.2 + 0.8 * math.sqrt(t / T),
                                 "early_stop": math.sqrt(min(1.0, 1.2 * t / T))}[s]),
        Mistake("The schedule has no effect: this is to_0 for all of them.", lambda t, T, s: step_size(t, T)),
    ],
    library=("step_size",),
)  # fmt: skip
