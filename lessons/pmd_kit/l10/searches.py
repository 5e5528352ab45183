"""One search of an Auto-PMD run, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from pmd_lite.distillation.search import choose, choose_one, reduced_space


@dataclass(frozen=True)
class Search:
    """One search of one student. Lists are [pair]; `trials` and `results` hold one for each action."""

    step: int
    mu: float
    order: Sequence[str]
    """The actions in the order in which an exact tie is broken."""
    before: list[float]
    """Weights from which the actions taken start; in a run with the released clip, what its trials left of them."""
    trials: Mapping[str, list[float]]
    """Weights with which each trial was trained."""
    results: Mapping[str, list[float]]
    """R: dev losses after each trial, nats per token."""
    actions: list[str]
    """The action taken for each pair."""
    after: list[float]
    """The new weights."""

    @cached_property
    def best(self) -> list[str]:
        """For each pair, the action of the trial with its lowest dev loss; Auto-PMD takes it, Dynamic-MD may not."""
        rows = torch.tensor([self.results[action] for action in self.order], dtype=torch.float64)
        return choose(rows, reduced_space(len(self.before), self.order), self.order)

    @cached_property
    def sums(self) -> dict[str, float]:
        """Dev losses of each trial summed over the pairs, by which Dynamic-MD decides."""
        return {action: float(torch.tensor(self.results[action], dtype=torch.float64).sum()) for action in self.order}

    @cached_property
    def lowest_sum(self) -> str:
        """The action that Dynamic-MD would take for all pairs."""
        rows = torch.tensor([self.results[action] for action in self.order], dtype=torch.float64)
        return choose_one(rows, self.order)
