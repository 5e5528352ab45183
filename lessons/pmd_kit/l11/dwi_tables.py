"""Tables of trials for lesson 11: averaged over one pair, drawn at random, and the weights that searches led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pmd_lite.distillation.actions import ACTIONS, act, logit
from pmd_lite.distillation.search import full_space, reduced_space
from pmd_lite.figures.style import XY


def mean_grid(results: Tensor, space: Sequence[Sequence[str]], pair: int, other: int) -> list[list[float]]:
    """[own action, other's action] mean dev loss of `pair` over all trials with these two actions."""
    rows = [[[r for r, vector in enumerate(space) if (vector[pair], vector[other]) == (a, b)] for b in ACTIONS]
            for a in ACTIONS]  # fmt: skip
    return [[float(results[trials, pair].mean()) for trials in row] for row in rows]


def simulate(strengths: Sequence[float], draws: int = 200, n_pairs: int = 3, seed: int = 0) -> list[XY]:
    """(own share, disagreement) of random losses: normal effects of the own action plus noise of each strength.

    Own share is the mean over draws; disagreement how often reduced and full search choose another action for a pair.
    """
    rng = torch.Generator().manual_seed(seed)
    space, curve = full_space(n_pairs), []
    same = [space.index(vector) for vector in reduced_space(n_pairs)]
    first = [ACTIONS.index(vector[0]) for vector in space]  # the pairs are alike: the first stands for all
    for strength in strengths:
        own = torch.randn(draws, len(ACTIONS), generator=rng, dtype=torch.float64)[:, first]  # [draw, trial]
        losses = own + strength * torch.randn(draws, len(space), generator=rng, dtype=torch.float64)
        full = torch.tensor(first)[losses.argmin(dim=1)]
        differ = full != torch.tensor(first)[same][losses[:, same].argmin(dim=1)]
        groups = torch.stack([losses[:, [t for t, a in enumerate(first) if a == action]].mean(dim=1)
                              for action in range(len(ACTIONS))], dim=1)  # fmt: skip
        shares = groups.var(dim=1, unbiased=False) / losses.var(dim=1, unbiased=False)
        curve.append((float(shares.mean()), float(differ.double().mean())))
    return curve


def replay(searches: Sequence[Mapping[str, Any]], alpha0: float = 0.1) -> list[list[float]]:
    """[search][pair] weights before each search, replayed from the reduced choices and their mu.

    searches: the events of several runs, one after another, each in the order of its steps; all weights of a run begin
    at alpha0.
    """
    start = logit(torch.tensor(alpha0))
    logits: dict[int, list[Tensor]] = {}
    last: dict[int, int] = {}
    weights = []
    for event in searches:
        student = event["student"]
        if event["step"] <= last.get(student, event["step"]):  # the first search of a run
            logits[student] = [start] * len(event["reduced"])
        last[student] = event["step"]
        weights.append([float(torch.sigmoid(x)) for x in logits[student]])
        moves = zip(logits[student], event["reduced"], strict=True)
        logits[student] = [act(x, action, event["mu"]) for x, action in moves]
    return weights
