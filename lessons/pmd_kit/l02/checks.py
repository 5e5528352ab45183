"""Checks of lesson 02: temperature sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_lite.sampling.temperature import temperature_probabilities

_WMT6 = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]


def _powers(sizes: Sequence[float], exponent: float) -> Tensor:
    return torch.tensor([float(n) ** exponent for n in sizes], dtype=torch.float64)


def _random_sizes(rng: np.random.Generator) -> list[int]:
    return [int(n) for n in np.exp(rng.uniform(2, 12, size=4))]


def _sampling_cases(rng: np.random.Generator) -> Sequence[Case]:
    return [([60, 30, 10], 2.0), (_WMT6, 5.0), (_WMT6, 1.0), (_random_sizes(rng), float(rng.uniform(1.5, 8)))]


PROBABILITIES = Exercise(
    "P", temperature_probabilities, _sampling_cases,
    [
        Mistake("tau is inverted: the exponent is 1/tau, so that a large tau makes the distribution flatter.",
                lambda sizes, tau: _powers(sizes, tau) / _powers(sizes, tau).sum()),
        Mistake("These are weights, not probabilities: divide by their sum.",
                lambda sizes, tau: _powers(sizes, 1 / tau)),
        Mistake("You normalise before you take the power; then the sum is no longer 1. Divide last.",
                lambda sizes, tau: (_powers(sizes, 1) / sum(sizes)) ** (1 / tau)),
        Mistake("A softmax of N/tau is something else: softmax(log N / tau) is Eq. 2.",
                lambda sizes, tau: torch.softmax(_powers(sizes, 1) / tau, dim=0)),
        Mistake("You divide by the largest weight instead of the sum of all.",
                lambda sizes, tau: _powers(sizes, 1 / tau) / _powers(sizes, 1 / tau).max()),
        Mistake("tau has no effect: these are the shares of the data, which is tau = 1.",
                lambda sizes, tau: _powers(sizes, 1) / sum(sizes)),
        Mistake("tau has no effect: this is the uniform distribution, which is tau = inf.",
                lambda sizes, tau: torch.full((len(sizes),), 1 / len(sizes), dtype=torch.float64)),
        Mistake("A softmax of the powers takes e to their power once more: divide the powers by their sum.",
                lambda sizes, tau: torch.softmax(_powers(sizes, 1 / tau), dim=0)),
    ],
    library=("temperature_probabilities",),
)  # fmt: skip


def _ratio(sizes: Sequence[int], tau: float) -> float:
    return (max(sizes) / min(sizes)) ** (1 / tau)


RATIO = Exercise(
    "ratio", _ratio,
    lambda rng: [(_WMT6, 5.0), (_WMT6, 1.0), (_WMT6, math.inf), (_random_sizes(rng), float(rng.uniform(1.5, 8)))],
    [
        Mistake("The ratio does not fall in proportion to tau: tau is the root that is taken.",
                lambda sizes, tau: max(sizes) / min(sizes) / tau),
        Mistake("That is the ratio of the sizes themselves, at tau = 1.", lambda sizes, tau: max(sizes) / min(sizes)),
        Mistake("Upside down: divide the largest probability by the smallest.",
                lambda sizes, tau: (min(sizes) / max(sizes)) ** (1 / tau)),
        Mistake("That is the largest share of all draws, not how many times the smallest it is.",
                lambda sizes, tau: float(temperature_probabilities(sizes, tau).max())),
        Mistake("tau is inverted: take the tau-th root, the power 1/tau.",
                lambda sizes, tau: (max(sizes) / min(sizes)) ** tau),
        Mistake("That is the root of the largest size alone. Divide by that of the smallest.",
                lambda sizes, tau: max(sizes) ** (1 / tau)),
    ],
)  # fmt: skip


def _visits(sizes: Sequence[int], tau: float, draws: int) -> list[float]:
    p = temperature_probabilities(sizes, tau).tolist()
    return [draws * share / n for share, n in zip(p, sizes, strict=True)]


VISITS = Exercise(
    "visits", _visits,
    lambda rng: [([60, 30, 10], 1.0, 100), (_WMT6, 5.0, 4_995_000), (_random_sizes(rng), 3.0, 10_000)],
    [
        Mistake("That is how often a language is drawn. Its N sentences share those draws: divide by N.",
                lambda sizes, tau, draws: [draws * p for p in temperature_probabilities(sizes, tau).tolist()]),
        Mistake("You divide by all sentences together. A language's draws are shared by its own N sentences.",
                lambda sizes, tau, draws: [draws * p / sum(sizes)
                                           for p in temperature_probabilities(sizes, tau).tolist()]),
        Mistake("That is the probability per sentence for a single draw: multiply by the number of draws.",
                lambda sizes, tau, draws: [v / draws for v in _visits(sizes, tau, draws)]),
        Mistake("tau has no effect: at tau = 1 every sentence is seen equally often, at others not.",
                lambda sizes, tau, draws: _visits(sizes, 1.0, draws)),
        Mistake("tau is inverted here: check P with the exercise above.",
                lambda sizes, tau, draws: _visits(sizes, 1 / tau, draws)),
    ],
)  # fmt: skip
