"""Eq. 1, 3 and 4: label-smoothed cross-entropy, distillation loss, and their mixture.

All losses are sums over target tokens in nats (natural logarithm), computed in fp32 or better; the caller divides by
the target tokens of the whole update. Rows are real tokens only: padding is left out before the output projection.

Read this form; the tests compare with it. Training computes the same sums in `fused.py`, without the [tokens, vocab]
tensors.
"""

from collections.abc import Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pmd_lite.model.mode import in_mode
from pmd_lite.model.transformer import Transformer

Amount = TypeVar("Amount", Tensor, float)
"""A loss as a tensor or a plain number."""


def log_probs(logits: Tensor) -> Tensor:
    """log softmax over the vocabulary, in fp32 (float64 stays float64). [tokens, vocab] -> [tokens, vocab]."""
    return F.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)


def probs(logits: Tensor) -> Tensor:
    """Softmax over the vocabulary, in fp32 (float64 stays float64). [tokens, vocab] -> [tokens, vocab]."""
    return F.softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)


def nll(student_logp: Tensor, gold: Tensor) -> Tensor:
    """Negative log-likelihood of the gold tokens. [tokens, vocab], [tokens] -> [] nats, summed."""
    return -student_logp.gather(-1, gold[:, None]).sum()


def ce_loss(student_logp: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """L_ce (Eq. 1) against the smoothed target: 1 - eps on the gold token, eps / (V - 1) on every other token.

    This is fairseq's form, from which the paper's numbers come. torch's eps / V form equals it at eps V / (V - 1).
    A token whose logit is -inf cannot be predicted. With eps = 0 it costs nothing unless it is gold. With eps > 0 the
    target gives it mass, so the loss is infinite by definition, though the gradient is finite. To mask tokens, train
    with label_smoothing=0, or give them a finite logit such as -100.
    [tokens, vocab] log-probabilities, [tokens] -> [] nats, summed.
    """
    if smoothing == 0:
        return nll(student_logp, gold)
    other = smoothing / (student_logp.shape[-1] - 1)
    return (1 - smoothing - other) * nll(student_logp, gold) - other * student_logp.sum()


def kd_loss(student_logp: Tensor, teacher_p: Tensor) -> Tensor:
    """L_kd (Eq. 3): -sum_w p_T(w) log p_S(w), full vocabulary, temperature 1.

    This is cross-entropy, not KL: the gradient is the same, and the value is larger by the teacher's entropy. No
    gradient flows to the teacher, even if `teacher_p` carries one. A token with p_T = 0 costs nothing, even where
    log p_S is -inf; with p_T > 0 and p_S = 0 the loss is infinite. [tokens, vocab] both -> [] nats, summed.
    """
    p = teacher_p.detach()
    return -(p * student_logp.masked_fill(p == 0, 0)).sum()


def pmd_loss(ce: Amount, kd: Amount, alpha: float) -> Amount:
    """L_PMD (Eq. 4): (1 - alpha) L_ce + alpha L_kd, one scalar alpha for a batch of one pair."""
    return (1 - alpha) * ce + alpha * kd


def soft_target(
    teachers: Sequence[tuple[nn.Module, float]], src: Tensor, trg_in: Tensor, keep: Tensor, dropout: bool = False
) -> Tensor:
    """Share-weighted mean of the teachers' next-token distributions at the kept positions.

    Args:
        teachers: (Transformer, share) with shares that sum to 1.
        src, trg_in: [batch, src_len] and [batch, trg_len] ids; keep: [tokens] flat positions.
        dropout: run the teachers in train mode (as the released code does); otherwise in eval mode.
    Returns: [tokens, vocab] probabilities, no gradient. Afterwards each teacher is in the mode it was in.
    """
    if not teachers:
        raise ValueError("soft_target needs at least one teacher")
    mean = torch.zeros(())
    for teacher, share in teachers:
        with in_mode(teacher, dropout), torch.no_grad():
            mean = mean + share * probs(token_logits(teacher, src, trg_in, keep))
    return mean


def token_logits(model: nn.Module, src: Tensor, trg_in: Tensor, keep: Tensor) -> Tensor:
    """Logits at the kept target positions only: [tokens, vocab]. Padding never reaches the output projection."""
    model = cast(Transformer, model)  # or another model with the methods `hidden` and `project`
    hidden = model.hidden(src, trg_in)  # [batch, trg_len, d_model]
    return model.project(hidden.flatten(0, 1).index_select(0, keep))
