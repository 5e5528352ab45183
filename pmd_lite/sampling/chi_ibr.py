"""chi-IBR (Zhou et al., EMNLP 2021): each epoch trains on the worst mixture of languages near the data's own mixture.

"Worst" means the largest sum_l q_l v_l. v_l is the excess of the training loss over that of an earlier run at tau = 1.
"Near" means D(q, p) = 1/2 sum_l p_l (q_l / p_l - 1)^2 <= rho.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities

HALVINGS = 100


def chi_divergence(q: Tensor, p: Tensor) -> float:
    """D(q, p) = 1/2 sum_l p_l (q_l / p_l - 1)^2, for [pair] distributions with p > 0."""
    return 0.5 * float((p * (q / p - 1) ** 2).sum())


def best_response(p: Tensor, values: Tensor, radius: float, floor: float = 0.0) -> Tensor:
    """The q with the largest q . values in the ball D(q, p) <= radius.

    q_l is proportional to p_l max(values_l - eta, 0). D grows with eta, so bisection finds eta. With a floor, q_l / p_l
    is raised to it and q renormalised before D is computed, so the result still lies in the ball.

    Args:
        p: [pair], float64, each > 0, sums to 1.
        values: [pair], any unit; adding a constant or multiplying by a positive one changes nothing.
        radius: rho >= 0. 0 gives p. A radius that no threshold reaches gives the extreme point: all mass above the
            floor lies on the largest value (shared as in p when several are equally large).
        floor: least q_l / p_l before renormalising, in [0, 1].
    Returns: [pair], float64, sums to 1; p itself when all values are equal or one of them is not finite.
    """
    p, values = p.double(), values.double()
    spread = float(values.max() - values.min())
    if radius == 0 or not 0 < spread < math.inf:
        return p.clone()
    x = (values - values.max()) / spread  # in [-1, 0]: the threshold is finest near 0, where q is steepest in it

    def mixture(above: Tensor) -> Tensor:
        q = p * torch.clamp(above / (p * above).sum(), min=floor)
        return q / q.sum()

    extreme = mixture((x == 0).double())
    if chi_divergence(extreme, p) <= radius:
        return extreme
    mean = float((p * x).sum())
    sigma = math.sqrt(float((p * (x - mean) ** 2).sum()))
    # At `low` no term is cut off, and the closed form's D is at most the radius; a floor can only lower D.
    low, high = min(-1.0, mean - sigma / math.sqrt(2 * radius)), 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if chi_divergence(mixture(torch.clamp(x - middle, min=0)), p) <= radius:
            low = middle
        else:
            high = middle
    return mixture(torch.clamp(x - low, min=0))


class ChiIBRSampler(BaseSampler):
    """Sampling from the best response to the losses of the last epoch; in the first epoch, from the data's shares p.

    A loss is the running mean over the pair's micro-batches of one epoch, divided by 1 - (1 - a)^k after k of them.
    Without this correction, a pair that is rarely drawn would look easy. (The correction is ours: in the paper every
    batch mixes all languages, so the factor is the same for all.) Unlike the paper, we draw from q and keep the length
    of the epoch.
    """

    saved = ("p", "losses", "running", "counts")

    def __init__(self, sizes: Sequence[int], baselines: Tensor, config: SamplingConfig):
        """sizes: [pair] training sentence pairs; baselines: b, [pair] label-smoothed nats per token of a tau=1 run."""
        super().__init__(temperature_probabilities(sizes, 1.0))
        self.config = config
        self._data = self._p.clone()
        self._baselines = baselines.detach().cpu().double()
        self._running = torch.zeros(len(sizes))  # float32, as some devices have no float64; moves to the losses' device
        self._counts = torch.zeros(len(sizes))
        self._losses = torch.full((len(sizes),), math.nan, dtype=torch.float64)  # last known; nan: never drawn

    def after_step(self, pair: int, loss: Tensor, tokens: int) -> None:
        """Add the loss ([] nats per token) of a micro-batch. It stays on its device, so Python does not wait for it."""
        if self._running.device != loss.device:
            self._running, self._counts = self._running.to(loss.device), self._counts.to(loss.device)
        before, finite = self._running[pair], loss.isfinite()
        # In fp16 a loss may overflow. Training skips that update, and the mean must skip its loss.
        before.lerp_(torch.where(finite, loss.detach().float(), before), self.config.chi_ema)
        self._counts[pair] += finite

    def due(self, clock: Clock) -> bool:
        """At the start of every epoch but the first."""
        return clock.every(0)

    def update(self, student: int, probe: Probe) -> Events:
        """Solve for the mixture of the epoch that begins; the first such epoch is `chi_warmup` + 1, at least 2.

        A pair that was not drawn in the last epoch keeps its earlier loss. A pair that was never drawn gets the mean
        excess of the others (both rules are ours).
        """
        clock = probe.clock
        self._end_epoch()
        drawn = ~self._losses.isnan()
        if clock.step // clock.epoch < self.config.chi_warmup or not bool(drawn.any()):
            return []
        excess = self._losses - self._baselines
        excess = torch.where(drawn, excess, excess[drawn].mean())
        losses = excess + self._baselines
        # Where the model beats the baseline on every pair, all excesses are negative: then the losses themselves count.
        values = losses if bool((excess < 0).all()) else excess
        q = best_response(self._data, values, self.config.chi_radius, self.config.chi_floor)
        q = torch.clamp(q, min=float(self._data.min()))  # at least the share of the smallest pair
        self._p = q / q.sum()
        return [{"event": "chi-ibr", "step": clock.step, "student": student, "loss": losses.tolist(),
                 "excess": excess.tolist(), "q": self._p.tolist()}]  # fmt: skip

    def _end_epoch(self) -> None:
        """Turn the running means of the pairs that were drawn into losses, and start new means."""
        for pair, (mean, count) in enumerate(zip(self._running.tolist(), self._counts.tolist(), strict=True)):
            if count > 0:
                self._losses[pair] = mean / (1 - (1 - self.config.chi_ema) ** count)
        self._running.zero_()
        self._counts.zero_()
