"""How much of a pair's dev loss its own action explains: the hypothesis of appendix A as a number (ours)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def share_explained(results: Tensor, space: Sequence[Sequence[str]], pair: int, by: int) -> float:
    """Share of the variance of `pair`'s dev loss over the trials that the action of pair `by` explains.

    Trials with the same action of `by` form a group. The share is the variance of the groups' means, divided by the
    variance over all trials. In the full space every combination occurs once, so the shares of different pairs add up
    to at most 1; the rest is due to combinations of actions.

    Args:
        results: R, [trial, pair] dev losses.
        space: the action vector of each trial, every action of `by` equally often.
    Returns: a number in [0, 1]; 1 for by == pair, else 0, when the loss is the same in every trial; nan when a trial
        diverged.
    """
    losses = results[:, pair].double()
    total = losses.var(unbiased=False)
    if total == 0:
        return float(by == pair)
    actions = sorted({vector[by] for vector in space})
    groups = [losses[[row for row, vector in enumerate(space) if vector[by] == action]] for action in actions]
    return float(torch.stack([group.mean() for group in groups]).var(unbiased=False) / total)


def own_share(results: Tensor, space: Sequence[Sequence[str]], pair: int) -> float:
    """Share of the variance of a pair's dev loss over all trials that its own action explains; 1 if DWI holds."""
    return share_explained(results, space, pair, pair)
