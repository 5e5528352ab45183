"""Samplers that learn their probabilities from rewards: MultiDDS-S and MultiUAT.

Both keep one logit per pair and regularly raise the logits of pairs with a high reward. They differ only in the reward.
MultiDDS-S (Wang et al., ACL 2020): how much training on the pair helps the dev sets. MultiUAT (Wu et al., EMNLP 2021):
how uncertain the model is about the pair.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.model.optimizer import Adam
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities
from pmd_lite.sampling.uncertainty import choose_measure


def scorer_loss(psi: Tensor, rewards: Tensor, scaled: bool) -> Tensor:
    """-sum_i R_i log softmax(psi)_i; `scaled` weighs each term by p_i as a constant. psi, rewards: [pair] -> [].

    The gradient is (sum_j R_j) p - R, which is 0 at p = R / sum R. Scaled, it is -p (R - p.R): the policy gradient with
    pairs drawn from p. The official code of both methods has both forms and uses the first.
    """
    logp = torch.log_softmax(psi, dim=0)
    weights = rewards * logp.detach().exp() if scaled else rewards
    return -(weights * logp).sum()


class ScorerSampler(BaseSampler):
    """p = softmax(psi). psi starts at temperature sampling and follows rewards, which a subclass defines.

    Adam ignores the scale of the gradients: an update of M steps moves each logit by at most about M times the learning
    rate. With the published values (200 steps of 1e-4) this is 0.02, too little to see in a run of a few updates;
    1e-3 to 1e-2 suits runs below 10 000 steps.
    """

    def __init__(self, sizes: Sequence[int], config: SamplingConfig):
        """sizes: [pair] training sentence pairs. Raises UserError for sizes below 1."""
        start = temperature_probabilities(sizes, config.scorer_tau)
        # At a very small temperature a share may underflow to 0; the clamp keeps its logit finite.
        self.psi = start.clamp_min(torch.finfo(torch.float64).tiny).log().requires_grad_()
        super().__init__(torch.softmax(self.psi.detach(), dim=0))
        self.config = config
        self.adam = Adam([self.psi], lr=config.scorer_lr)

    def rewards(self, student: int, probe: Probe) -> Tensor:
        """[pair], float64: the reward of sampling each pair now."""
        raise NotImplementedError

    def due(self, clock: Clock) -> bool:
        """Every `scorer_every` updates of the students."""
        return clock.every(self.config.scorer_every)

    def update(self, student: int, probe: Probe) -> Events:
        """Measure the rewards once, then make `scorer_steps` Adam steps on them.

        Raises UserError when a reward is not finite; then the probabilities stay as they were.
        """
        rewards = self.rewards(student, probe)
        if not rewards.isfinite().all():
            raise UserError(f"student {student} gave the scorer the rewards {rewards.tolist()} at step "
                            f"{probe.clock.step}: training has diverged; lower the lr")  # fmt: skip
        for _ in range(self.config.scorer_steps):
            self.adam.zero_grad()
            scorer_loss(self.psi, rewards, self.config.scorer_scaled).backward()
            self.adam.step()
        self._p = torch.softmax(self.psi.detach(), dim=0)
        return [{"event": "scorer", "step": probe.clock.step, "student": student,
                 "rewards": rewards.tolist(), "p": self._p.tolist()}]  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """The logits and Adam's state; copies."""
        return {"psi": self.psi.detach().clone(), "adam": copy.deepcopy(self.adam.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        with torch.no_grad():
            self.psi.copy_(state["psi"])  # in place: Adam holds this tensor
        self.adam.load_state_dict(copy.deepcopy(state["adam"]))  # a copy, because Adam would keep the caller's tensors
        self._p = torch.softmax(self.psi.detach(), dim=0)


class MultiDDSSampler(ScorerSampler):
    """MultiDDS-S: a pair's reward is the mean cosine of its training gradient with the dev gradients of all pairs."""

    def rewards(self, student: int, probe: Probe) -> Tensor:
        """R_i = 1/L sum_j cos(g_dev_j, g_train_i), in [-1, 1], from 2 L gradients at the same weights."""
        pairs, tokens = range(len(self.psi)), self.config.probe_tokens
        # cos(a, b) is the dot product of unit vectors, so the mean cosine with L dev gradients is the dot product with
        # the mean of their unit vectors. So memory holds this one mean, and not L gradients.
        zero = torch.zeros((), dtype=torch.float64)
        dev = sum((_unit(probe.gradient(student, "valid", pair, tokens)) for pair in pairs), zero) / len(pairs)
        return torch.stack([_unit(probe.gradient(student, "train", pair, tokens)) @ dev for pair in pairs])


class MultiUATSampler(ScorerSampler):
    """MultiUAT: a pair's reward is the model's uncertainty about its dev sentences."""

    def __init__(self, sizes: Sequence[int], config: SamplingConfig):
        super().__init__(sizes, config)
        self.measure = choose_measure(config.uncertainty, config.official_sign)

    def rewards(self, student: int, probe: Probe) -> Tensor:
        """R_l >= 0, the measure itself: neither normalised nor centred, as in the official code."""
        passes, tokens = self.config.uncertainty_passes, self.config.probe_tokens
        values = [self.measure(probe.uncertainty(student, pair, passes, tokens)) for pair in range(len(self.psi))]
        return torch.tensor(values, dtype=torch.float64)


def _unit(gradient: Tensor) -> Tensor:
    """[parameters] -> float64 on the CPU, length 1; a gradient of 0 stays 0 (the 1e-10 of the official code)."""
    # In fp32 the squares of large gradients would overflow, and small cosines would vanish in rounding errors.
    gradient = gradient.cpu().double()
    return gradient / (gradient.norm() + 1e-10)
