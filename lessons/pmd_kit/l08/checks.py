"""Checks of lesson 08: who learns (Eq. 5 and 6), how often, second opinions, and the released code's dead zone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_lite.config import FIDELITY
from pmd_lite.distillation.mutual import uni_weights


def _f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _one_of_two(second_learns: Tensor, alpha: float) -> Tensor:
    """[2, pair] weights when exactly one student learns each pair. second_learns: [pair], bool."""
    return alpha * torch.stack([~second_learns, second_learns]).double()


# ---------------------------------------------------------------- exercise 1: Eq. 5


def _loss_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Dev losses [2, pair] with a tie, and alpha. Either student leads somewhere, and not both as often."""
    cases: list[Case] = [(torch.stack([_f64(0.2, 1.1, 1.9, 1.5), _f64(0.3, 0.9, 1.6, 1.5)]), 0.4)]
    for n in (5, 6):
        first = rng.uniform(0.3, 2.5, size=n)
        lead = rng.uniform(0.05, 0.9, size=n) * np.array([1, -1, -1, -1, 1, -1])[:n]
        lead[2] = 0.0
        order = rng.permutation(n)
        losses = torch.from_numpy(np.stack([first, first + lead])[:, order])
        cases.append((losses, float(rng.uniform(0.1, 0.45))))
    return cases


def _per_student(losses: Tensor, alpha: float) -> Tensor:
    """The argmax taken over pairs: each student learns only its own worst pair."""
    worst = losses.argmax(dim=1)
    return alpha * torch.nn.functional.one_hot(worst, losses.shape[1]).double()


def _one_decision(losses: Tensor, alpha: float) -> Tensor:
    return uni_weights(losses.mean(dim=1, keepdim=True), alpha).expand(losses.shape)


UNI = Exercise(
    "uni", uni_weights, _loss_cases,
    [
        Mistake("It is the *worse* student that learns, and worse is the one with the *higher* dev loss. (With BLEU in "
                "place of the loss it would be the other way round.)", lambda x, a: uni_weights(-x, a)),
        Mistake("On an exact tie neither student leads, so both learn; here neither learns.",
                lambda x, a: a * (x > x.flip(0)).double()),
        Mistake("On an exact tie only the first student learns here (argmax takes the first). Both do.",
                lambda x, a: _one_of_two(x[1] > x[0], a)),
        Mistake("On an exact tie only the second student learns here. Neither leads, so both learn.",
                lambda x, a: _one_of_two(x[1] >= x[0], a)),
        Mistake("That is the indicator alone: multiply by alpha.", lambda x, a: uni_weights(x, 1.0)),
        Mistake("Both learn everything here: that is Bi-PMD, Eq. 6.", lambda x, a: torch.full_like(x, a)),
        Mistake("The argmax runs over the pairs: each student learns only its worst pair. Compare the two students, "
                "pair by pair (dim=0).", _per_student),
        Mistake("One decision for all pairs, by the mean loss: Eq. 5 decides for each pair on its own.", _one_decision),
        Mistake("The better student gets 1 - alpha here. It does not listen at all: 0.",
                lambda x, a: torch.where(uni_weights(x, a) > 0, a, 1 - a)),
        Mistake("How far behind a student is does not matter: the weight is alpha or 0.",
                lambda x, a: uni_weights(x, a) * (x - x.flip(0)).abs()),
        Mistake("Rows are students and columns are pairs: your answer is turned.", lambda x, a: uni_weights(x, a).T),
    ],
    library=("uni_weights",),
)  # fmt: skip


# ---------------------------------------------------------------- exercise 2: how often is anything distilled?


def distilled(p: Tensor, weights: Tensor) -> Tensor:
    """Exercise 2: [student] share of batches that ask a teacher. p, weights: [student, pair]."""
    return (p * (weights > 0)).sum(dim=1)


def _share_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases: list[Case] = [(
        torch.stack([_f64(0.7, 0.2, 0.1), _f64(0.5, 0.3, 0.2)]), torch.stack([_f64(0, 0, 0.4), _f64(0.4, 0.4, 0)])
    )]  # fmt: skip
    for n in (4, 5):
        p = torch.from_numpy(rng.dirichlet(np.full(n, 2.0), size=2))
        learns = torch.from_numpy(rng.permuted(np.arange(n) < np.array([[1], [n - 1]]), axis=1))
        cases.append((p, float(rng.uniform(0.2, 0.45)) * learns))
    return cases


DISTILLED = Exercise(
    "distilled", distilled, _share_cases,
    [
        Mistake("That is the mean weight. A batch asks its teacher whenever the weight is above 0, however small.",
                lambda p, w: (p * w).sum(dim=1)),
        Mistake("That is the share of pairs. Pairs are not drawn equally often: weigh them by P.",
                lambda p, w: (w > 0).double().mean(dim=1)),
        Mistake("Each student draws by its own P; here each has the other's.", lambda p, w: distilled(p.flip(0), w)),
        Mistake("That is the share of batches *without* a teacher.", lambda p, w: 1 - distilled(p, w)),
        Mistake("You add over the students. Return one share for each of them: sum over the pairs, dim=1.",
                lambda p, w: (p * (w > 0)).sum(dim=0)),
        Mistake("That is both students together. Return one share for each.", lambda p, w: distilled(p, w).sum()),
        Mistake("That is the mean of both students. Return one share for each.", lambda p, w: distilled(p, w).mean()),
        Mistake("A pair that is drawn at all counts fully here: add up the P of the pairs that learn.",
                lambda p, w: (w > 0).double().sum(dim=1)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: second opinions


def second_opinion(better: Tensor, worse: Tensor) -> Tensor:
    """Exercise 3: the share of the better student's errors that the worse one gets right. [tokens] bool, both."""
    return worse[~better].double().mean()


def _opinion_cases(rng: np.random.Generator) -> Sequence[Case]:
    better = torch.tensor([1, 1, 1, 1, 1, 1, 0, 0, 0, 0]).bool()
    cases: list[Case] = [(better, torch.tensor([1, 1, 1, 0, 0, 0, 1, 0, 0, 0]).bool())]
    for n in (50, 80):
        good, bad, both = int(0.7 * n), int(0.15 * n), int(0.4 * n)  # right: better; worse alone; both
        marks = np.zeros((2, n), dtype=bool)
        marks[0, :good], marks[1, :both], marks[1, good : good + bad] = True, True, True
        marks = marks[:, rng.permutation(n)]
        cases.append((torch.from_numpy(marks[0].copy()), torch.from_numpy(marks[1].copy())))
    return cases


SECOND_OPINION = Exercise(
    "second_opinion", second_opinion, _opinion_cases,
    [
        Mistake("You divide by all tokens. Divide by the better student's *errors*.",
                lambda a, b: (b & ~a).double().mean()),
        Mistake("The roles are swapped: look at the errors of the *better* one.", lambda a, b: second_opinion(b, a)),
        Mistake("That is how often the worse student is right anywhere; look only where the better one is wrong.",
                lambda a, b: b.double().mean()),
        Mistake("That is the share of its errors that both make. Count those that the worse student gets right.",
                lambda a, b: 1 - second_opinion(a, b)),
        Mistake("That is how often the two agree.", lambda a, b: (a == b).double().mean()),
        Mistake("That is how often at least one of them is right.", lambda a, b: (a | b).double().mean()),
        Mistake("You divide by what the worse student gets right; divide by what the better one gets wrong.",
                lambda a, b: (b & ~a).double().sum() / b.sum()),
        Mistake("That is the number of tokens. Divide by the better student's errors.", lambda a, b: (b & ~a).sum()),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 4: the dead zone

ZONE = FIDELITY["released"].dead_zone
"""0.05 bit per token, in nats."""


def with_zone(losses: Tensor, alpha: float, bits: float) -> Tensor:
    """Exercise 4: Eq. 5 with a dead zone given in bits per token; losses [2, pair] in nats per token."""
    return uni_weights(losses, alpha, bits * math.log(2))


def _nobody_inside(losses: Tensor, alpha: float, bits: float) -> Tensor:
    return alpha * (losses > losses.flip(0) + bits * math.log(2)).double()


def _relative(losses: Tensor, alpha: float, bits: float) -> Tensor:
    return torch.where(losses * (1 + bits * math.log(2)) < losses.flip(0), 0.0, alpha)


def _first_only(losses: Tensor, alpha: float, bits: float) -> Tensor:
    return torch.stack([with_zone(losses, alpha, bits)[0], uni_weights(losses, alpha)[1]])


def _inverted(losses: Tensor, alpha: float, bits: float) -> Tensor:
    """Both learn outside the zone, one inside."""
    apart = (losses[0] - losses[1]).abs() > bits * math.log(2)
    return torch.where(apart, alpha, uni_weights(losses, alpha))


def _zone_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Leads of either student on all sides of .05 bit: .0347 nats, of .05 nats, and of .05 / ln 2 = .0721 nats."""
    leads = np.array([0.015, 0.042, 0.061, 0.085, 0.2])  # the last but one is less than .05 bit times a loss of 2.8
    cases: list[Case] = []
    for bits in (0.05, 0.05, math.inf, 0.0):
        lead = np.concatenate([leads, -leads]) * rng.uniform(0.95, 1.05, size=10)
        first = rng.uniform(2.9, 3.6, size=10)
        order = rng.permutation(10)
        losses = torch.from_numpy(np.stack([first, first + lead])[:, order])
        cases.append((losses, float(rng.uniform(0.2, 0.8)), bits))
    return cases


ZONED = Exercise(
    "with_zone", with_zone, _zone_cases,
    [
        Mistake("The zone is in bits, the losses are in nats: one bit is ln 2 = .693 nats.",
                lambda x, a, bits: uni_weights(x, a, bits)),
        Mistake("The conversion is upside down: .05 bit is .05 x ln 2 nats, less than .05.",
                lambda x, a, bits: uni_weights(x, a, bits / math.log(2))),
        Mistake("The zone has no effect: this is Eq. 5.", lambda x, a, bits: uni_weights(x, a)),
        Mistake("Inside the zone no student learns here. Neither leads there, so both learn.", _nobody_inside),
        Mistake("Only the first student has a zone here; the rule is the same for both.", _first_only),
        Mistake("Both learn outside the zone here, and one inside: turn it round.", _inverted),
        Mistake("The zone is a difference of losses, not a share of them.", _relative),
        Mistake("The student that leads by more than the zone stops; here it is the only one that continues.",
                lambda x, a, bits: with_zone(-x, a, bits)),
        Mistake("Both always learn here: that is Bi-PMD, the zone at infinity.",
                lambda x, a, bits: torch.full_like(x, a)),
    ],
    library=("uni_weights",),
)  # fmt: skip


# ---------------------------------------------------------------- exercise 5: by hand

PAIRS = ("fr-en", "de-en", "et-en", "tr-en")
Table = list[tuple[float, float]]


def my_losses(student: str) -> Table:
    """This student's own dev losses in nats: (model_1, model_2) for each of PAIRS. Raises UserError for no name.

    One lead lies inside .05 bit, one between it and .05 nats, one between that and .05 / ln 2 nats, one beyond.
    """
    rng = personal(student, "dead zone")
    leads = [rng.uniform(*between) for between in ((0.012, 0.028), (0.038, 0.047), (0.054, 0.067), (0.09, 0.3))]
    signs = rng.permutation([1, 1, -1, -1])
    first = np.sort(rng.uniform(0.3, 2.2, size=4))
    order = rng.permutation(4)
    return [(round(float(x), 3), round(float(x + signs[i] * leads[i]), 3)) for x, i in zip(first, order, strict=True)]


def _who(table: Table, zone: float) -> list[str]:
    """ "1", "2" or "both" for each pair: whose weight is above 0."""
    weights = uni_weights(torch.tensor(table, dtype=torch.float64).T, 1.0, zone)
    return [{(1, 0): "1", (0, 1): "2"}.get((int(a), int(b)), "both") for a, b in weights.T.tolist()]


def _turned(who: Sequence[str]) -> list[str]:
    return [{"1": "2", "2": "1"}.get(x, x) for x in who]


_WHO_MISTAKES: Sequence[tuple[str, Callable[[Table], list[str]]]] = (
    ("You named the students that teach. The one with the *higher* loss learns.", lambda t: _turned(_who(t, ZONE))),
    ("That is the paper's rule, without a zone: leads of less than .05 bit do not count.", lambda t: _who(t, 0.0)),
    ("You took .05 nats. The zone is .05 bit, and a bit is only .693 nats.", lambda t: _who(t, 0.05)),
    ("The conversion is upside down: .05 bit is .05 x .693 nats.", lambda t: _who(t, 0.05 / math.log(2))),
    ("Inside the zone neither student leads, and so neither stops: both learn there.",
     lambda t: ["none" if x == "both" else x for x in _who(t, ZONE)]),
    ("Both learn *inside* the zone, one outside.",
     lambda t: [a if b == "both" else "both" for a, b in zip(_who(t, 0.0), _who(t, ZONE), strict=True)]),
    ("Where the lead is clear, only the student that is behind learns.", lambda t: ["both"] * len(t)),
)  # fmt: skip


def my_learners(student: str) -> Exercise:
    """Exercise 5, on this student's own table; the answer is a list with "1", "2" or "both" for each pair."""
    table = my_losses(student)
    mistakes = [Mistake(says, lambda answer=answer: answer(table)) for says, answer in _WHO_MISTAKES]
    return Exercise("learners", lambda: _who(table, ZONE), mistakes=mistakes, through=_as_words, student=student)


def _as_words(answer: Callable[..., object], case: Case) -> object:
    """1 and "1" are the same answer."""
    found = answer(*case)
    return [str(x).strip().lower() for x in found] if isinstance(found, (list, tuple)) else found
