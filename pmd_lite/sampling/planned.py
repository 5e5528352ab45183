"""Sampling that follows a plan: a temperature that changes (Cooldown), and large languages first (Order Matters).

Cooldown lowers tau over training ("Upsample or Upweight", 2024). Order Matters trains large languages alone first, then
all together (Choi et al., NeurIPS 2023). Neither looks at the model.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.evaluation.pareto import larger_half
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities

RENEWED = 64
"""Updates between two changes of the temperature."""


def scheduled_tau(progress: float, start: float, end: float, shape: Literal["linear", "cosine"]) -> float:
    """The temperature after a fraction of training; its exponent 1/tau moves from 1/start to 1/end (ours).

    Args:
        progress: fraction of training done; values outside [0, 1] are clipped.
        start, end: temperatures at progress 0 and 1, positive; either may be `math.inf`.
        shape: linear, or cosine: slow at both ends, and equal to linear in the middle.
    Returns: tau, monotone in progress; exactly `start` and `end` at the two ends.
    """
    if progress <= 0:
        return start
    if progress >= 1:
        return end
    moved = progress if shape == "linear" else (1 - math.cos(math.pi * progress)) / 2
    exponent = 1 / start + moved * (1 / end - 1 / start)
    tau = 1 / exponent if exponent > 0 else math.inf
    return min(max(tau, min(start, end)), max(start, end))  # rounding must not lead beyond an end


def shares_within(sizes: Sequence[int], pairs: Sequence[int]) -> Tensor:
    """[pair], float64: proportional to size among `pairs`, exactly 0 for all others."""
    p = torch.zeros(len(sizes), dtype=torch.float64)
    p[list(pairs)] = temperature_probabilities([sizes[pair] for pair in pairs], 1.0)
    return p


class CooldownSampler(BaseSampler):
    """Temperature sampling whose tau changes from `cooldown_from` to `cooldown_to` over the whole training."""

    by_total = "the temperature of cooldown"

    def __init__(self, sizes: Sequence[int], config: SamplingConfig):
        """sizes: [pair] training sentence pairs. Raises UserError for sizes below 1."""
        super().__init__(temperature_probabilities(sizes, config.cooldown_from))
        self.sizes, self.config = list(sizes), config

    def due(self, clock: Clock) -> bool:
        """Every 64 updates; a run of 64 updates or fewer keeps the first temperature."""
        return clock.every(RENEWED)

    def update(self, student: int, probe: Probe) -> Events:
        """Set tau by the clock. It returns no event: every line of an evaluation holds p."""
        progress = probe.clock.step / probe.clock.total
        tau = scheduled_tau(progress, self.config.cooldown_from, self.config.cooldown_to, self.config.cooldown)
        self._p = temperature_probabilities(self.sizes, tau)
        return []


class OrderMattersSampler(BaseSampler):
    """Two phases: the high-resource pairs alone in proportion to their sizes, then all pairs at temperature tau.

    The second phase begins after the share `switch_at` of the updates: with 0 at once, with 1 never. The schedule of
    the learning rate continues through the switch.
    """

    by_total = "the switch of order-matters"

    def __init__(self, sizes: Sequence[int], tau: float, config: SamplingConfig):
        """sizes: [pair] training sentence pairs; tau: of the second phase. Raises UserError for sizes below 1."""
        self._all = temperature_probabilities(sizes, tau)
        super().__init__(self._all if config.switch_at == 0 else shares_within(sizes, larger_half(sizes)))
        self.switch_at = config.switch_at

    def due(self, clock: Clock) -> bool:
        """Once, after round(switch_at * total) updates, but at least after one."""
        switch = max(1, round(self.switch_at * clock.total))
        return self.switch_at > 0 and clock.step == switch < clock.total

    def update(self, student: int, probe: Probe) -> Events:
        """All pairs join."""
        self._p = self._all.clone()
        return [{"event": "switch", "step": probe.clock.step, "student": student, "p": self._p.tolist()}]
