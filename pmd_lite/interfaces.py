"""The three roles every method is made of: a Sampler per student, one Distiller, and the Probe they may look through.

*Which pair next* is a Sampler; *what to distil, from whom, how much* is a Distiller. Neither touches a model except
through a Probe, whose every call leaves weights, gradients, optimiser, mode and random state as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Clock:
    """Where training stands."""

    step: int
    """Updates that each student has made (t of Alg. 1)."""
    total: int
    """Updates that each student will make (T_max)."""
    epoch: int
    """Updates in one epoch: ceil(training target tokens / tokens per update)."""
    start: int = 0
    """Updates before distillation begins."""

    def every(self, interval: int) -> bool:
        """Whether a strategy with this interval (0 = one epoch) acts now: Alg. 1's `t % T == 0`, counted from start."""
        since = self.step - self.start
        return 0 < self.step < self.total and since >= 0 and since % (interval or self.epoch) == 0


class Probe(Protocol):
    """The only way a strategy may look at a model. Losses are per pair, in nats per target token, on the dev set."""

    @property
    def clock(self) -> Clock:
        """Where training stands."""
        ...

    def dev_loss(self, student: int) -> Tensor:
        """[pair], float64 on the CPU."""
        ...

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """Alg. 2: dev losses [trial, pair] after trial training with each row of `alphas` [trial, pair]."""
        ...


class Sampler(Protocol):
    """Chooses the pair of the next micro-batch."""

    def probabilities(self) -> Tensor:
        """[pair], float64, non-negative, sums to 1."""
        ...

    def due(self, clock: Clock) -> bool:
        """Whether `update` wants to be called now."""
        ...

    def update(self, student: int, probe: Probe) -> None:
        """Look at the model and change the probabilities."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on to the same bits."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        ...


class Distiller(Protocol):
    """Decides the distillation weight of every student and pair, and who teaches."""

    def weight(self, student: int, pair: int) -> float:
        """alpha_i[l]; at 0 the trainer runs no teacher at all."""
        ...

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """Models and their shares, which sum to 1: the soft target is the share-weighted mean of what they predict."""
        ...

    def combine(self, ce: Tensor, kd: Tensor, weight: float) -> Tensor:
        """The mixed loss; Eq. 4 unless a method says otherwise."""
        ...

    def due(self, clock: Clock) -> bool:
        """Whether `update` wants to be called now."""
        ...

    def update(self, probe: Probe) -> list[dict[str, Any]]:
        """Look at the models and change the weights; returns what happened, as JSON-ready events for the metrics."""
        ...

    def weights(self) -> Tensor:
        """[student, pair], float64: every alpha, for logs and figures."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on to the same bits."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        ...
