"""Lesson 16's own strategies: shares among several teachers, a sampler, a distiller, and what many students cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.config import DistillConfig
from pmd_lite.distillation.mutual import UniPMD
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities

SHARPNESS = 10.0
"""Per nat: a lead of 0.1 nats counts e times, one of 0.5 nats about 150 times."""


def forward_passes(students: int, rho: float) -> float:
    """Auto-PMD's cost of one update of all students, in forward passes F of one student on one batch.

    Each student is trained (3 F) and listens to all its peers. Per search it trains three trials on `rho` of an epoch;
    they share the peers' passes. For two students 8 + 20 rho, as the method table says.
    """
    return students * (3 + students - 1) + rho * students * (3 * 3 + students - 1)


def teacher_shares(losses: Tensor, student: int, sharpness: float) -> Tensor:
    """How much a student listens to each of the others, pair by pair: softmax of -sharpness * dev loss over its peers.

    Args:
        losses: [student, pair] dev losses in nats per token.
        sharpness: per nat, at least 0 and finite; 0 gives equal shares, a large one all to the best peer.
    Returns: [student, pair], float64: columns sum to 1, the student's own row is 0.
    """
    scores = -sharpness * losses.double()
    scores[student] = -math.inf
    return torch.softmax(scores, dim=0)


class Resting(BaseSampler):
    """Temperature sampling in which a pair rests while its dev loss is above its lowest so far.

    At each update P is set in proportion to Eq. 2 times exp(-sharpness * (dev loss - lowest dev loss)).
    """

    def __init__(self, sizes: Sequence[int], tau: float = 5.0, sharpness: float = SHARPNESS, every: int = 0):
        """sizes: training sentence pairs per language pair; sharpness: per nat per token, with 0 no pair ever rests;
        every: training updates between two updates of P, 0 for an epoch.
        """
        super().__init__(temperature_probabilities(sizes, tau))
        self.base, self.sharpness, self.every = self.probabilities(), sharpness, every
        self.lowest = torch.full((len(sizes),), math.inf, dtype=torch.float64)

    def due(self, clock: Clock) -> bool:
        """Every `every` updates."""
        return clock.every(self.every)

    def update(self, student: int, probe: Probe) -> Events:
        """Compare the dev losses with the lowest."""
        losses = probe.dev_loss(student)
        self.lowest = torch.minimum(self.lowest, losses)
        weights = self.base * torch.exp(-self.sharpness * (losses - self.lowest))
        self._p = weights / weights.sum()
        return [{"event": "rest", "step": probe.clock.step, "student": student, "p": self._p.tolist()}]

    def state_dict(self) -> dict[str, Any]:
        """P and the lowest losses."""
        return {"p": self._p.clone(), "lowest": self.lowest.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._p, self.lowest = state["p"].clone(), state["lowest"].clone()


class Council(UniPMD):
    """Uni-PMD for three or more students: a student that does not lead a pair listens most to its better peers."""

    def __init__(self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig):
        super().__init__(students, n_pairs, config)
        n = len(self.students)
        self.shares = torch.stack([teacher_shares(torch.zeros(n, n_pairs), i, 0.0) for i in range(n)])

    def update(self, probe: Probe) -> Events:
        """New shares [student, teacher, pair] from the dev losses, and the weights of Eq. 5."""
        losses = torch.stack([probe.dev_loss(i) for i in range(len(self.students))])  # [student, pair]
        self.shares = torch.stack([teacher_shares(losses, i, SHARPNESS) for i in range(len(losses))])
        return super().update(probe)

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """The peers with their shares on this pair."""
        shares = self.shares[student, :, pair].tolist()
        return [(model, share) for model, share in zip(self.students, shares, strict=True) if share > 0]

    def state_dict(self) -> dict[str, Any]:
        """Weights and shares."""
        return {**super().state_dict(), "shares": self.shares.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        super().load_state_dict(state)
        self.shares = state["shares"].clone()
