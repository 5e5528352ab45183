"""UniMax (Chung et al., ICLR 2023): as uniform as possible, with a limit on how often each language is repeated."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.errors import UserError
from pmd_lite.sampling.temperature import BaseSampler


def unimax_probabilities(sizes: Sequence[int], budget: float, cap: float) -> Tensor:
    """Equal shares of a budget for all pairs, but at most cap * N_l sentences for a pair.

    From the smallest pair to the largest, each takes an equal share of what is left, up to its cap. So larger pairs
    share what smaller pairs may not take, and all pairs below their cap get the same share.

    Args:
        sizes: N, training sentence pairs per language pair, each >= 1.
        budget: B, sentences that the whole training will see, positive and finite.
        cap: E, the largest number of passes over a pair's data, positive; `math.inf` gives the uniform distribution.
    Returns: [pair], float64, sums to 1.
    Raises: UserError for a size below 1.
    """
    if len(sizes) == 0 or min(sizes) < 1:
        raise UserError(f"sizes {list(sizes)}: every pair needs at least one training sentence")
    level, remaining = math.inf, budget
    for done, size in enumerate(sorted(sizes)):
        share = remaining / (len(sizes) - done)
        if share <= cap * size:  # then it is below every larger pair's cap too: all of them get this share
            level = share
            break
        remaining -= cap * size
    used = torch.tensor([min(level, cap * size) for size in sizes], dtype=torch.float64)
    return used / used.sum()


class UniMaxSampler(BaseSampler):
    """Fixed probabilities; the budget is `unimax_budget` passes over all training data, counted in sentences.

    The cap holds in expectation. A run that sees more sentences than the budget repeats a pair more often than the cap.
    """

    def __init__(self, sizes: Sequence[int], config: SamplingConfig):
        """sizes: [pair] training sentence pairs. Raises UserError for sizes below 1."""
        super().__init__(unimax_probabilities(sizes, config.unimax_budget * sum(sizes), config.unimax_cap))
