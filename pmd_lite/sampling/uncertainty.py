"""How uncertain a model is, as one number: the seven measures of MultiUAT (Wu et al., EMNLP 2021).

m_t is the probability of the model's own first choice at target token t; T_s is the number of tokens of sentence s, EOS
included. Every measure takes the TokenStats of one pair, which hold no padding, and averages over the passes. All is
computed in float64 on the CPU.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from pmd_lite.interfaces import TokenStats

Measure = Callable[[TokenStats], float]


def pretp(stats: TokenStats) -> float:
    """1 - mean_s prod_t m_t, from the probability of a whole sentence. In [0, 1]; near 1 for long sentences."""
    sums, _, _ = _by_sentence(stats)
    return float(-torch.expm1(sums).mean())


def exptp(stats: TokenStats) -> float:
    """1 - mean_s (prod_t m_t)^(1/T_s), from the geometric mean over tokens. In [0, 1 - 1/V]."""
    sums, counts, _ = _by_sentence(stats)
    return float(-torch.expm1(sums / counts).mean())


def vartp(stats: TokenStats) -> float:
    """mean_s Var_t(log m_t), unbiased. At least 0. Sentences of one token are left out; 0 if all have one token."""
    variance, _ = _spread(stats)
    return float(variance.mean()) if variance.numel() else 0.0


def comtp(stats: TokenStats, official_sign: bool = False) -> float:
    """1 - mean_s exp(Var_t(log m_t) / mean_t(log m_t)): the spread in proportion to the level. In [0, 1).

    mean_t(log m_t) is negative, so the exponential falls as the spread grows. `official_sign` returns the value of the
    official code, mean_s exp(Var / mean) in (0, 1], which rewards certainty. Sentences of one token are left out; if
    all have one token, the spread counts as 0.
    """
    variance, mean = _spread(stats)
    # A model that is certain of every token of a sentence has mean = Var = 0: its spread is 0, and not 0 / 0.
    stable = torch.where(mean < 0, variance / mean, 0.0).exp()
    stability = float(stable.mean()) if stable.numel() else 1.0
    return stability if official_sign else 1 - stability


def enttp(stats: TokenStats) -> float:
    """Mean entropy of the next-token distribution, averaged over tokens and not over sentences. In [0, ln V] nats."""
    return float(stats.entropy.cpu().double().mean())


def enteos(stats: TokenStats) -> float:
    """Mean entropy where the gold token ends its sentence, one position per sentence. In [0, ln V] nats."""
    return float(stats.entropy.cpu().double()[:, stats.is_eos.cpu()].mean())


def xentropy(stats: TokenStats) -> float:
    """The training loss without dropout, nats per token. At least 0; it does not depend on the passes."""
    return stats.loss


MEASURES: dict[str, Measure] = {
    "pretp": pretp, "exptp": exptp, "vartp": vartp, "comtp": comtp, "enttp": enttp, "enteos": enteos,
    "xentropy": xentropy,
}  # fmt: skip


def choose_measure(name: str, official_sign: bool = False) -> Measure:
    """The measure of this name; `official_sign` concerns comtp alone."""
    return partial(comtp, official_sign=official_sign) if name == "comtp" else MEASURES[name]


def _by_sentence(stats: TokenStats) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of log m_t [passes, sentence], tokens T_s [sentence], and the row of each token [token]."""
    _, rows, counts = torch.unique(stats.sentence.cpu(), return_inverse=True, return_counts=True)
    return _add_up(stats.log_top1.cpu().double(), rows, len(counts)), counts, rows


def _spread(stats: TokenStats) -> tuple[Tensor, Tensor]:
    """Unbiased variance and mean of log m_t, both [passes, sentence], of the sentences with at least two tokens."""
    sums, counts, rows = _by_sentence(stats)
    mean = sums / counts
    # The mean first, then the squares: sum(x^2) - (sum x)^2 / T would lose a small variance in rounding.
    squares = _add_up((stats.log_top1.cpu().double() - mean[:, rows]) ** 2, rows, len(counts))
    long = counts > 1
    return squares[:, long] / (counts[long] - 1), mean[:, long]


def _add_up(values: Tensor, rows: Tensor, n: int) -> Tensor:
    """Sum [passes, tokens] into [passes, n]; token t goes to column rows[t]."""
    return torch.zeros(len(values), n, dtype=torch.float64).index_add(1, rows, values)
