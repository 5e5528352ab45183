"""CCL-M-style sampling (after Zhang et al., Findings of EMNLP 2021): small languages join after large relatives.

A small language joins when the model has learnt its large relatives well enough. This is reconstructed, not
reproduced: we could consult neither the paper's values nor its code. Threshold, interval, k and the rule for languages
whose relatives never become good enough are ours.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.evaluation.pareto import larger_half
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.sampling.planned import shares_within
from pmd_lite.sampling.temperature import BaseSampler


def piece_similarity(counts: Sequence[Mapping[int, int]], top_k: int) -> Tensor:
    """The share of frequent pieces that two languages have in common: |top_k(i) and top_k(j)| / top_k.

    Args:
        counts: for each pair, how often each piece id occurs on the side that is not the common language.
        top_k: k >= 1. Of two equally frequent pieces the smaller id counts as the more frequent. The divisor is k even
            for a language that uses fewer than k pieces.
    Returns: [pair, pair], float64, symmetric, in [0, 1].
    """
    tops = []
    for count in counts:
        ranked = sorted((-n, piece) for piece, n in count.items() if n > 0)
        tops.append({piece for _, piece in ranked[:top_k]})
    return torch.tensor([[len(one & two) / top_k for two in tops] for one in tops], dtype=torch.float64)


def competences(losses: Tensor, bilingual_losses: Tensor) -> Tensor:
    """c = exp(H* - H), [pair] from [pair] dev losses in nats per token.

    1 where the model is as good as the bilingual one, above 1 (not clipped) where it is better. With H* = 0 it is the
    geometric mean of the gold tokens' probabilities.
    """
    return torch.exp(bilingual_losses - losses)


def relatives_competence(
    competence: Tensor, similarity: Tensor, high: Sequence[int], rule: Literal["max", "avg"]
) -> Tensor:
    """How well the model has learnt the high-resource pairs that each pair resembles.

    Args:
        competence: c, [pair]. similarity: [pair, pair]. high: indices of the high-resource pairs.
        rule: max: c of the most similar one (the first in `high` on a tie). avg: mean of c weighted by similarity; the
            plain mean for a pair that resembles none of them (ours).
    Returns: [pair].
    """
    c, near = competence[list(high)], similarity[:, list(high)]  # [high], [pair, high]
    if rule == "max":
        return c[near.argmax(dim=1)]
    total = near.sum(dim=1)
    shares = near / torch.where(total > 0, total, 1)[:, None]  # first, as products of tiny similarities lose all digits
    return torch.where(total > 0, shares @ c, c.mean())


class CCLMSampler(BaseSampler):
    """High-resource pairs first; the others join one by one. The lower a pair's competence, the more often it is drawn.

    Before the first update, the active pairs are drawn in proportion to their sizes; afterwards in proportion to 1/c.
    """

    by_total = "how long pairs wait in ccl-m"
    saved = ("p", "active")

    def __init__(self, sizes: Sequence[int], bilingual_loss: Tensor, similarity: Tensor, config: SamplingConfig):
        """sizes: training sentence pairs per pair; bilingual_loss: H*, [pair] nats per token; similarity: [pair, pair].

        H* is the dev loss of each pair's bilingual model, or 0 when there are no such models.
        """
        self._high = larger_half(sizes)
        super().__init__(shares_within(sizes, self._high))
        self.config = config
        self._bilingual, self._similarity = bilingual_loss.detach().cpu().double(), similarity.double()
        self._active = self._p > 0

    def due(self, clock: Clock) -> bool:
        """Every `ccl_every` updates, and at the end of `ccl_wait`."""
        waited = round(self.config.ccl_wait * clock.total)
        return clock.every(self.config.ccl_every) or 0 < clock.step == waited < clock.total

    def update(self, student: int, probe: Probe) -> Events:
        """Measure competence on the dev set, let pairs join, and set P in proportion to 1/c.

        A waiting pair joins when its relatives' competence reaches the threshold, or when the share `ccl_wait` of
        training is over. It does not leave again.
        """
        clock, config = probe.clock, self.config
        losses = probe.dev_loss(student)
        c = competences(losses, self._bilingual)
        ready = relatives_competence(c, self._similarity, self._high, config.ccl_rule) >= config.ccl_threshold
        waited = clock.step >= round(config.ccl_wait * clock.total)
        self._active = self._active | ready | waited
        # 1/c = exp(H - H*), so p is a softmax: no overflow, and exactly 0 for waiting pairs.
        self._p = torch.softmax((losses - self._bilingual).masked_fill(~self._active, -math.inf), dim=0)
        return [{"event": "ccl-m", "step": clock.step, "student": student, "competence": c.tolist(),
                 "active": self._active.tolist()}]  # fmt: skip
