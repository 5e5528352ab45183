"""The base of all samplers, and Eq. 2: temperature-based sampling (Arivazhagan et al. 2019)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Events, Probe


def temperature_probabilities(sizes: Sequence[int], tau: float) -> Tensor:
    """P(l) = N_l^(1/tau) / sum_j N_j^(1/tau), Eq. 2.

    Args:
        sizes: N, training sentence pairs per language pair, each >= 1.
        tau: temperature > 0; 1 is proportional, `math.inf` is uniform.
    Returns: [pair], float64. Computed as softmax(log(N / max N) / tau), so nothing overflows however small tau is.
    Raises: UserError for a temperature that is not positive or a size below 1.
    """
    if not tau > 0:
        raise UserError(f"tau={tau}: a temperature is positive (1 keeps the data's shares, inf makes them equal)")
    if len(sizes) == 0 or min(sizes) < 1:
        raise UserError(f"sizes {list(sizes)}: every pair needs at least one training sentence")
    logs = torch.tensor([math.log(n) for n in sizes], dtype=torch.float64)
    return torch.softmax((logs - logs.max()) / tau, dim=0)


class BaseSampler:
    """A Sampler that keeps the probabilities it was given, until a subclass changes `_p`."""

    by_total: str = ""
    saved: tuple[str, ...] = ("p",)
    """Names of the tensors that a checkpoint holds. The attribute of "p" is `_p`."""

    def __init__(self, probabilities: Tensor):
        """probabilities: [pair], float64, sums to 1."""
        self._p = probabilities

    def probabilities(self) -> Tensor:
        """[pair]; a copy, so that a caller cannot change the sampler."""
        return self._p.clone()

    def after_step(self, pair: int, loss: Tensor, tokens: int) -> None:
        """Nothing to remember."""

    def due(self, clock: Clock) -> bool:
        """Never."""
        return False

    def update(self, student: int, probe: Probe) -> Events:
        """Nothing to learn."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """Copies of the tensors that `saved` names, on the CPU."""
        return {name: getattr(self, f"_{name}").cpu().clone() for name in self.saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        for name in self.saved:
            setattr(self, f"_{name}", state[name].clone())


class TemperatureSampler(BaseSampler):
    """Sampling at one temperature: P_1 takes tau = 1, P_2 takes tau > 1."""

    def __init__(self, sizes: Sequence[int], tau: float):
        super().__init__(temperature_probabilities(sizes, tau))
        self.tau = tau

    def state_dict(self) -> dict[str, Any]:
        """Only the temperature: loading compares it with this run's."""
        return {"tau": self.tau}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises UserError when the state was saved at another temperature."""
        if state["tau"] != self.tau:
            raise UserError(f"the checkpoint was sampled at tau={state['tau']}, this run at tau={self.tau}")
