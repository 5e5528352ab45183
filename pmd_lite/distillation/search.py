"""Appendix A: choosing one action for each pair from trial results, in the full space O or the reduced space O~.

A trial trains with one weight vector and scores every pair. O holds all 3^|L| vectors of actions. O~ holds only the
three in which every pair takes the same action. If each pair's dev loss depends on that pair's own weight alone (the
paper's Distillation Weights Independence hypothesis, DWI), both give the same choice; otherwise they may differ.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.distillation.actions import ACTIONS, act
from pmd_lite.errors import UserError


def reduced_space(n_pairs: int, actions: Sequence[str] = ACTIONS) -> list[tuple[str, ...]]:
    """O~: one vector per action, the same action for every pair."""
    return [(action,) * n_pairs for action in actions]


def full_space(n_pairs: int, actions: Sequence[str] = ACTIONS) -> list[tuple[str, ...]]:
    """O, Eq. 8: the Cartesian product of every pair's actions F (Eq. 7), 3^|L| vectors."""
    return list(itertools.product(actions, repeat=n_pairs))


def trial_logits(logits: Tensor, space: Sequence[Sequence[str]], mu: float) -> Tensor:
    """Logits of alpha of every trial. [pair] -> [trial, pair]."""
    rows = [[act(logits[pair], action, mu) for pair, action in enumerate(vector)] for vector in space]
    return torch.stack([torch.stack(row) for row in rows])


def choose(results: Tensor, space: Sequence[Sequence[str]], actions: Sequence[str] = ACTIONS) -> list[str]:
    """Alg. 2, lines 11-13: for every pair, its own action in the trial with the smallest dev loss of that pair.

    Args:
        results: R, [trial, pair] dev losses in nats per token.
        space: the action vector of each trial.
        actions: the order in which exact ties are broken, the same rule for O and O~.
    Raises: UserError when a pair has no finite result. A trial that diverged (inf, NaN) is never chosen.
    """
    chosen = []
    for pair, losses in enumerate(results.T.tolist()):
        tried = [(loss, actions.index(vector[pair])) for loss, vector in zip(losses, space, strict=True)]
        finite = [trial for trial in tried if math.isfinite(trial[0])]
        if not finite:
            raise UserError(f"no trial gave a finite dev loss for pair {pair}: training has diverged; lower the lr")
        chosen.append(actions[min(finite)[1]])  # the smallest loss; of equals the first action
    return chosen


def choose_one(results: Tensor, actions: Sequence[str] = ACTIONS) -> str:
    """Dynamic-MD: one action for all pairs, that of the trial with the smallest summed dev loss.

    Args:
        results: R, [action, pair] dev losses, a row for each of `actions`, whose order breaks exact ties.
    Raises: UserError when no row is finite on all pairs. A trial that diverged on any pair is never chosen.
    """
    totals = dict(zip(actions, results.sum(dim=1).tolist(), strict=True))
    finite = [action for action in actions if math.isfinite(totals[action])]
    if not finite:
        raise UserError("no trial gave finite dev losses for every pair: training has diverged; lower the lr")
    return min(finite, key=totals.__getitem__)  # the first of equals, so in the order of `actions`
