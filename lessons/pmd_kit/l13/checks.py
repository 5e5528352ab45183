"""Checks of lesson 13: mean and spread, the paired bootstrap, its p-value, and equal compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_lite.evaluation.significance import bleu_of

# ---------------------------------------------------------------- exercise 1: mean and spread


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1)."""
    return float(np.mean(values)), float(np.std(values, ddof=1))


def _and(spread: Callable[[Any], Any]) -> Callable[[Any], tuple[float, float]]:
    return lambda values: (float(np.mean(values)), float(spread(np.asarray(values))))


SPREAD = Exercise(
    "mean_and_spread", mean_and_spread,
    lambda rng: [([12.1, 13.4, 11.7],), ([3.0, 5.0],), (rng.normal(20, 2, size=5).tolist(),)],
    [
        Mistake("That is the spread of these runs, not of all runs they stand for: divide by n - 1, not by n, because "
                "the mean was estimated from the same few numbers.", _and(lambda x: x.std())),
        Mistake("That is the standard error, the spread of the *mean*: it shrinks with more seeds. The exercise asks "
                "how far "
                "one seed lies from another.", _and(lambda x: x.std(ddof=1) / math.sqrt(len(x)))),
        Mistake("That is the variance: take its root, so that the unit is BLEU again.", _and(lambda x: x.var(ddof=1))),
        Mistake("That is half the range. It depends on two of the numbers alone and grows with every seed you add.",
                _and(lambda x: (x.max() - x.min()) / 2)),
        Mistake("That is the mean absolute distance from the mean, not the root of the mean square.",
                _and(lambda x: np.abs(x - x.mean()).mean())),
        Mistake("The two are exchanged: first the mean, then the spread.",
                lambda values: mean_and_spread(values)[::-1]),
        Mistake("The spread is right, but the first number is the median, not the mean.",
                lambda values: (float(np.sort(values)[len(values) // 2]), mean_and_spread(values)[1])),
        Mistake("The first number is the sum. Divide by the number of runs.",
                lambda values: (float(np.sum(values)), mean_and_spread(values)[1])),
        Mistake("The second number is the range, largest minus smallest. Take the standard deviation.",
                _and(lambda x: x.max() - x.min())),
    ],
)  # fmt: skip

# ---------------------------------------------------------------- exercise 2: paired resamples


Stats = NDArray[np.int64]


def gains(base: Stats, other: Stats, draws: Stats) -> NDArray[np.float64]:
    """Corpus BLEU of `other` minus that of `base` for each resample: [sentence, 10] twice, [resample, sentence]."""
    return np.asarray(bleu_of(other[draws].sum(axis=1)) - bleu_of(base[draws].sum(axis=1)))


def _stats(rng: np.random.Generator, sentences: int, skill: float) -> Stats:
    """Counts as translations of 8 to 14 words give them, with matches at every order."""
    reference = rng.integers(8, 15, size=sentences)
    length = np.maximum(6, reference + rng.integers(-2, 3, size=sentences))
    totals = np.stack([length - k for k in range(4)], axis=1)
    matches = np.maximum(1, rng.binomial(totals, skill ** np.arange(1, 5)))
    return np.concatenate([matches, totals, length[:, None], reference[:, None]], axis=1)


def _bootstrap_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for source in (np.random.default_rng(13), rng):
        base, other = _stats(source, 12, 0.6), _stats(source, 12, 0.7)
        other[:, -1] = base[:, -1]  # the same references
        cases.append((base, other, source.integers(12, size=(5, 12))))
    return cases


GAINS = Exercise(
    "gains", gains, _bootstrap_cases,
    [
        Mistake("The sign is turned: return how much better `other` is than `base`.",
                lambda b, o, d: -gains(b, o, d)),
        Mistake("That is the mean of sentence BLEUs. Corpus BLEU comes from counts summed over the sentences: sum "
                "first, then bleu_of.", lambda b, o, d: bleu_of(o[d]).mean(axis=1) - bleu_of(b[d]).mean(axis=1)),
        Mistake("The two systems get different sentences. Then easy and hard sentences count as a difference between "
                "systems: use the same draws for both.", lambda b, o, d: gains(b, o[::-1], d)),
        Mistake("Each system has draws of its own here (a flip, or new ones for the second). Use the same draws for "
                "both, row for row.", lambda b, o, d: bleu_of(o[d[::-1]].sum(axis=1)) - bleu_of(b[d].sum(axis=1))),
        Mistake("Only one of the systems is resampled; draw for both.",
                lambda b, o, d: bleu_of(o[d].sum(axis=1)) - bleu_of(b.sum(axis=0))),
        Mistake("Only one of the systems is resampled; draw for both, `base` too.",
                lambda b, o, d: bleu_of(o.sum(axis=0)) - bleu_of(b[d].sum(axis=1))),
        Mistake("Nothing is resampled: this is the observed difference, the same in every row. Index with `draws`.",
                lambda b, o, d: np.repeat(bleu_of(o.sum(axis=0)) - bleu_of(b.sum(axis=0)), len(d))),
        Mistake("A sentence drawn twice counts twice. Here every sentence counts once (a set, or a mask).",
                lambda b, o, d: np.array([gains(b, o, np.unique(row)[None])[0] for row in d])),
        Mistake("BLEU of a difference of counts has no meaning: take BLEU of each system, then the difference.",
                lambda b, o, d: bleu_of(np.abs(o[d] - b[d]).sum(axis=1))),
    ],
)  # fmt: skip

# ---------------------------------------------------------------- exercise 3: the p-value


def p_value(deltas: Sequence[float]) -> float:
    """Two-sided, never 0: twice the smaller tail, with 1 added to its count and to n, at most 1."""
    x = np.asarray(deltas)
    tail = min(int((x <= 0).sum()), int((x >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (len(x) + 1))


def _of_tail(formula: Callable[[int, int], float]) -> Callable[[Any], float]:
    """A formula of the smaller tail's count and n."""

    def answer(deltas: Any) -> float:
        x = np.asarray(deltas)
        return formula(min(int((x <= 0).sum()), int((x >= 0).sum())), len(x))

    return answer


P_VALUE = Exercise(
    "p_value", p_value,
    lambda rng: [(np.array([0.5, 1.2, -0.3, 0.8, 0.9, 0.4, 1.1, 0.7, 0.2]),), (np.full(19, 2.0),),
                 (np.array([-1.0, -2.0, 0.0, -0.5, -1.5]),), (np.zeros(9),), (rng.normal(1, 1, size=199).round(2),)],
    [
        Mistake("That is one side only. Before the runs you did not know which system would win: double the smaller "
                "tail.", _of_tail(lambda tail, n: min(1.0, (tail + 1) / (n + 1)))),
        Mistake("That is one side only, and without the 1 that is added to both counts.",
                _of_tail(lambda tail, n: tail / n)),
        Mistake("One side only, the left one: double the smaller of both tails.",
                lambda d: (int((np.asarray(d) <= 0).sum()) + 1) / (len(d) + 1)),
        Mistake("One side only, the left one, and without the 1 that is added to both counts.",
                lambda d: int((np.asarray(d) <= 0).sum()) / len(d)),
        Mistake("The 1 is added to the count but not to n: the observed result is one of n + 1.",
                _of_tail(lambda tail, n: min(1.0, 2 * (tail + 1) / n))),
        Mistake("Without the 1 that is added to both counts, p can be 0, and no finite number of draws shows that.",
                _of_tail(lambda tail, n: min(1.0, 2 * tail / n))),
        Mistake("A p-value is at most 1: where the two tails overlap, twice the smaller one is more.",
                _of_tail(lambda tail, n: 2 * (tail + 1) / (n + 1))),
        Mistake("You look at the left tail only. If `other` is worse, it is the right tail that is small.",
                lambda d: min(1.0, 2 * (int((np.asarray(d) <= 0).sum()) + 1) / (len(d) + 1))),
        Mistake("A resample without any difference is evidence for neither side: count it in both tails (<= and >=).",
                lambda d: min(1.0, 2 * (min(int((np.asarray(d) < 0).sum()), int((np.asarray(d) > 0).sum())) + 1)
                              / (len(d) + 1))),
        Mistake("That is the share of resamples in which the winner wins, one minus a p-value.",
                _of_tail(lambda tail, n: 1 - min(1.0, 2 * (tail + 1) / (n + 1)))),
        Mistake("Without the 1 that is added to both counts, and without the limit: p is at most 1.",
                _of_tail(lambda tail, n: 2 * tail / n)),
    ],
)  # fmt: skip

# ---------------------------------------------------------------- exercise 4: equal compute


def my_costs(student: str) -> tuple[int, float, float]:
    """The student's own task: updates made, compute of a single model's run and of the mutual run, any unit."""
    rng = personal(student, "equal compute")
    single = float(rng.integers(8, 15))
    return int(rng.integers(10, 40)) * 100, single, round(single * float(rng.uniform(2.6, 3.8)), 1)


def my_updates(student: str) -> Exercise:
    """The exercise with this student's numbers; the answer is a number of updates."""
    made, single, mutual = my_costs(student)
    return Exercise(
        "updates", lambda: made * mutual / single,
        mistakes=[
            Mistake("Upside down: what costs less may train longer, so the number grows.",
                    lambda: made * single / mutual),
            Mistake("The mutual run's compute holds both of its students already; do not halve it.",
                    lambda: made * mutual / single / 2),
            Mistake("The mutual run's compute holds both of its students already; do not double it.",
                    lambda: made * mutual / single * 2),
            Mistake("Those are the updates to be added. Return all of them.",
                    lambda: made * (mutual - single) / single),
            Mistake("That is equal updates, not equal compute.", lambda: made),
            Mistake("That is the ratio of the costs; multiply the updates by it.", lambda: mutual / single),
        ],
        tolerance=2e-3,
        student=student,
    )  # fmt: skip
