"""Checks of lesson 12: UniMax, one scorer update, the best response of chi-IBR, and who teaches whom in LSSD."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_lite.config import DistillConfig, TeacherConfig
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.interfaces import Clock
from pmd_lite.sampling.chi_ibr import best_response
from pmd_lite.sampling.scorer import scorer_loss
from pmd_lite.sampling.unimax import unimax_probabilities


def _f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# ---------------------------------------------------------------- exercise 1: UniMax by hand


def my_corpus(student: str) -> tuple[list[int], int, int]:
    """The student's own task: sizes of four pairs from large to small, the budget in sentences, and the cap.

    The two small pairs end at their caps; all amounts are whole numbers.
    """
    rng = personal(student, "unimax")
    cap = int(rng.integers(3, 6))
    small = [int(rng.integers(30, 61)), int(rng.integers(5, 21))]
    level = int(rng.integers(cap * small[0] + 40, cap * small[0] + 400))
    large = [2 * level + int(rng.integers(0, 500)), level // 2 + int(rng.integers(1, 90))]
    return [*large, *small], 2 * level + cap * sum(small), cap


def my_amounts(student: str) -> Exercise:
    """The exercise with this student's numbers; the answer is a list, one number of sentences per pair."""
    sizes, budget, cap = my_corpus(student)
    equal, caps = budget / len(sizes), [cap * size for size in sizes]

    def right() -> Tensor:
        return unimax_probabilities(sizes, budget, cap) * budget

    def only_the_smallest_capped() -> list[float]:
        return [(budget - caps[-1]) / 3] * 3 + [caps[-1]]

    def rest_in_proportion() -> list[float]:
        rest = budget - caps[2] - caps[3]
        return [rest * size / (sizes[0] + sizes[1]) for size in sizes[:2]] + caps[2:]

    return Exercise(
        "amounts", right,
        mistakes=[
            Mistake("Equal shares for all: the two small pairs would be repeated more often than the cap allows.",
                    lambda: [equal] * len(sizes)),
            Mistake("You cut at the cap, but what the small pairs may not take is lost. It goes to the larger ones.",
                    lambda: [min(equal, most) for most in caps]),
            Mistake("Only the smallest pair is cut here. Look at the next one with what then remains.",
                    only_the_smallest_capped),
            Mistake("The rest is shared *equally* among the pairs below their caps, not in proportion to their sizes.",
                    rest_in_proportion),
            Mistake("All that is left goes to the largest pair here. It is shared among all that may take more.",
                    lambda: [budget - sum(min(equal, most) for most in caps[1:]),
                             *(min(equal, most) for most in caps[1:])]),
            Mistake("These are shares in proportion to size, tau = 1.",
                    lambda: [budget * size / sum(sizes) for size in sizes]),
            Mistake("The cap is a number of passes: a pair may take cap times its sentences, not its sentences once.",
                    lambda: unimax_probabilities(sizes, budget, 1) * budget),
            Mistake("These are probabilities. Return sentences; they sum to the budget.",
                    lambda: unimax_probabilities(sizes, budget, cap)),
            Mistake("The right amounts in the wrong order: they go from the large pair to the small one, as the sizes.",
                    lambda: right().flip(0)),
        ],
        tolerance=1e-3,
        student=student,
    )  # fmt: skip


# ---------------------------------------------------------------- exercise 2: one scorer update


def scorer_gradient(p: Tensor, rewards: Tensor) -> Tensor:
    """Gradient of the unscaled scorer loss with respect to the logits of p, by autograd. [pair], [pair] -> [pair]."""
    psi = p.double().log().requires_grad_()
    scorer_loss(psi, rewards.double(), scaled=False).backward()
    assert psi.grad is not None
    return psi.grad


def _scorer_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Probabilities and rewards, some rewards negative, none with a sum of 1 or 0."""
    cases: list[Case] = [(_f64(0.6, 0.3, 0.1), _f64(0.2, 0.4, 0.9))]
    for n in (3, 5):
        p = rng.dirichlet(np.full(n, 2.0)) * 0.9 + 0.1 / n
        rewards = rng.uniform(-0.3, 0.9, size=n)
        rewards += (1.7 - rewards.sum()) / n  # a sum that is neither 0 nor 1
        cases.append((torch.from_numpy(p / p.sum()), torch.from_numpy(rewards)))
    return cases


GRADIENT = Exercise(
    "gradient", scorer_gradient, _scorer_cases,
    [
        Mistake("The sign is turned: this is the direction in which the logits move, minus the gradient of the loss.",
                lambda p, r: r - r.sum() * p),
        Mistake("The factor of p is missing: every term of the loss has its own log softmax, which adds up to sum(R).",
                lambda p, r: p - r),
        Mistake("log p_i depends on every logit, not on its own alone: the term (sum R) p is missing.",
                lambda p, r: -r),
        Mistake("That is the derivative with respect to p. The logits come before the softmax: go through it as well.",
                lambda p, r: -r / p),
        Mistake("That is the gradient of the scaled loss, in which each reward is weighed by p.",
                lambda p, r: -p * (r - (p * r).sum())),
        Mistake("The loss is a sum over pairs, not a mean: do not divide.",
                lambda p, r: (r.sum() * p - r) / len(p)),
        Mistake("sum(R), not the mean of R, stands before p.", lambda p, r: r.mean() * p - r),
        Mistake("R p is one term of the loss at a time. Before p stands the sum of all rewards.",
                lambda p, r: r * p - r),
        Mistake("The term of the own reward is missing: - R_i.",
                lambda p, r: r.sum() * p),
    ],
    library=("scorer_loss",),
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: the best response


Statistic = Callable[[Tensor, Tensor], Tensor]


def _mean(p: Tensor, v: Tensor) -> Tensor:
    return (p * v).sum()


def _deviation(p: Tensor, x: Tensor) -> Tensor:
    return (p * x**2).sum().sqrt()


def _plain_mean(p: Tensor, v: Tensor) -> Tensor:
    return v.mean()


def _plain_deviation(p: Tensor, x: Tensor) -> Tensor:
    return (x**2).mean().sqrt()


def _closed_form(
    p: Tensor, v: Tensor, rho: float, mean: Statistic = _mean, spread: Statistic = _deviation, factor: float = 2.0
) -> Tensor:
    """p (1 + sqrt(factor rho) (v - mean) / spread), with parts to get wrong."""
    x = v - mean(p, v)
    return p * (1 + math.sqrt(factor * rho) * x / spread(p, x))


def _without_p(p: Tensor, v: Tensor, rho: float) -> Tensor:
    x = v - _mean(p, v)
    return p + math.sqrt(2 * rho) * x / _deviation(p, x)


def _response_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Radii at which no pair is cut off, which is where the closed form holds."""
    cases: list[Case] = [(_f64(0.6, 0.3, 0.1), _f64(1.0, 2.0, 3.0), 0.05)]
    for n in (3, 5):
        p = torch.from_numpy(rng.dirichlet(np.full(n, 2.0)) * 0.9 + 0.1 / n)
        p = p / p.sum()
        v = torch.from_numpy(rng.permutation(np.linspace(0.5, 2.5, n)) + rng.uniform(-0.2, 0.2, n))
        x = v - (p * v).sum()
        most = float((p * x**2).sum() / (2 * x.min() ** 2))  # from here on the easiest pair is cut off
        cases.append((p, v, float(rng.uniform(0.3, 0.8)) * most))
    return cases


RESPONSE = Exercise(
    "response", best_response, _response_cases,
    [
        Mistake("This mixture is the *easiest* in the ball: the adversary gives more to pairs with a high loss.",
                lambda p, v, rho: _closed_form(p, -v, rho)),
        Mistake("The mean of the losses is the one under p, sum(p v), not the plain mean. (Do your q sum to 1?)",
                lambda p, v, rho: _closed_form(p, v, rho, _plain_mean)),
        Mistake("The variance is the one under p: weigh the squares by p.",
                lambda p, v, rho: _closed_form(p, v, rho, spread=_plain_deviation)),
        Mistake("You divide by the variance. Take its root: a change of unit of the losses must change nothing.",
                lambda p, v, rho: _closed_form(p, v, rho, spread=lambda p, x: _deviation(p, x) ** 2)),
        Mistake("The radius is off by the 1/2 in the definition of D: it is sqrt(2 rho).",
                lambda p, v, rho: _closed_form(p, v, rho, factor=1.0)),
        Mistake("The root is missing: sqrt(2 rho), not 2 rho.",
                lambda p, v, rho: _closed_form(p, v, rho, factor=4 * rho)),
        Mistake("The change is in proportion to p. Without that factor the q do not sum to 1.", _without_p),
        Mistake("Mean and variance are both those under p: weigh by p in either.",
                lambda p, v, rho: _closed_form(p, v, rho, _plain_mean, _plain_deviation)),
        Mistake("Divided by its sum this sums to 1, but it is not on the edge of the ball: with the mean and the "
                "variance under p no normalising is needed.",
                lambda p, v, rho: _normal(_closed_form(p, v, rho, _plain_mean, _plain_deviation))),
        Mistake("That is p v, normalised. rho has no effect on it.", lambda p, v, rho: _normal(p * v)),
        Mistake("That is the change alone. Add it to p.",
                lambda p, v, rho: best_response(p, v, rho) - p),
    ],
    library=("best_response",),
)  # fmt: skip


def _normal(q: Tensor) -> Tensor:
    return q / q.sum()


# ---------------------------------------------------------------- exercise 4: LSSD


@dataclass
class _Recorded:
    """A probe that reads the dev losses of one epoch from a table."""

    clock: Clock
    losses: Sequence[float]

    def dev_loss(self, student: int) -> Tensor:
        return torch.tensor(self.losses, dtype=torch.float64)


def lssd_plan(losses: Sequence[Sequence[float]]) -> tuple[list[int], list[bool]]:
    """What LSSD decides for the epoch after the recorded ones, by running it on them.

    losses: [epoch, pair] dev losses at the end of epochs 1, 2, ... Returns, per pair, the epoch of its teacher and
    whether the coming epoch distils it.
    """
    lssd = LSSD([nn.Linear(1, 1)], len(losses[0]), DistillConfig(), gate="whole", settings=TeacherConfig())
    total = len(losses) + 1
    for epoch, row in enumerate(losses, start=1):
        lssd.update(_Recorded(Clock(epoch, total, 1), row))  # type: ignore[arg-type]
    return lssd.peak[0].tolist(), [weight > 0 for weight in lssd.weights()[0].tolist()]


Plan = tuple[list[int], list[bool]]
Losses = list[list[float]]


def _lssd_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Losses with ties, early and late peaks, and a pair that falls after having risen; epochs and pairs differ."""
    cases: list[Case] = [  # peaks of the six pairs: epochs 2, 4, 1, 1 and again 3, 1, 3
        ([[3.0, 3.0, 2.0, 2.0, 1.8, 2.4], [2.0, 2.9, 2.5, 2.1, 1.9, 2.3],
          [2.5, 2.8, 2.4, 2.0, 2.2, 1.9], [2.4, 2.7, 2.6, 2.5, 2.1, 2.0]],)
    ]  # fmt: skip
    for epochs, pairs in ((6, 3), (7, 4)):
        bowl = np.linspace(-1, 1, epochs)[:, None] - rng.uniform(-0.8, 0.9, size=pairs)
        table = np.round(2 + bowl**2 + rng.uniform(0, 0.4, size=(epochs, pairs)), 1)
        table[-1, 0] = table[:, 0].min() - 0.1  # the first pair has just peaked
        table[-1, 1], table[1, 1] = table[:, 1].min() - 0.1, table[:, 1].min() - 0.1  # a tie: the earlier one teaches
        table[-2, 2], table[-1, 2] = table[:, 2].max() + 0.3, table[:, 2].max() + 0.2  # falling, but not at its best
        cases.append((table.round(1).tolist(),))
    return cases


def _peaks(losses: Losses, last: bool = False) -> list[int]:
    columns = [list(column) for column in zip(*losses, strict=True)]
    if last:
        return [len(column) - column[::-1].index(min(column)) for column in columns]
    return [column.index(min(column)) + 1 for column in columns]


def _rested(peaks: Sequence[int], losses: Losses) -> Plan:
    return list(peaks), [peak < len(losses) for peak in peaks]


def _one_for_all(losses: Losses) -> Plan:
    sums = [sum(row) for row in losses]
    return _rested([sums.index(min(sums)) + 1] * len(losses[0]), losses)


LSSD_PLAN = Exercise(
    "plan", lssd_plan, _lssd_cases,
    [
        Mistake("Epochs are counted from 1: add 1 to the position.",
                lambda losses: ([peak - 1 for peak in _peaks(losses)], _rested(_peaks(losses), losses)[1])),
        Mistake("At a tie the earlier epoch stays the teacher: only a *lower* loss replaces it.",
                lambda losses: _rested(_peaks(losses, last=True), losses)),
        Mistake("All are distilled here. A pair that has just had its best epoch rests: its teacher would be itself.",
                lambda losses: (_peaks(losses), [True] * len(losses[0]))),
        Mistake("It is the other way round: those are distilled whose last epoch was *not* their best.",
                lambda losses: (_peaks(losses), [peak == len(losses) for peak in _peaks(losses)])),
        Mistake("Compare with the best epoch so far, not with the one before: a loss may fall and not be at its best.",
                lambda losses: (_peaks(losses), [a > b for a, b in zip(losses[-1], losses[-2], strict=True)])),
        Mistake("The teacher is the snapshot with the lowest dev loss, not that of the last epoch.",
                lambda losses: ([len(losses)] * len(losses[0]), _rested(_peaks(losses), losses)[1])),
        Mistake("One epoch for all pairs, by the summed loss. The point of LSSD is that each pair has its own.",
                _one_for_all),
        Mistake("The teacher has the *lowest* dev loss; this is the epoch of the highest.",
                lambda losses: _rested(_peaks([[-x for x in row] for row in losses]), losses)),
        Mistake("One epoch too many: a teacher of the last epoch rests, one of the epoch before it may teach.",
                lambda losses: (_peaks(losses), [peak < len(losses) - 1 for peak in _peaks(losses)])),
    ],
    library=("LSSD",),
)  # fmt: skip
