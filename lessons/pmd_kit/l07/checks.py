"""Checks of lesson 07: the distillation loss and the mixed target; the last two exercises are in lesson07_students."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_kit.l07.students import ISOLATION, ONE_ROUND, one_round
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, pmd_loss, probs

__all__ = ["ISOLATION", "KD", "KD_MEAN", "MIXED", "ONE_ROUND", "mixed_target", "one_round"]


def _f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _logits(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(0, 1.5, size=shape))


# ---------------------------------------------------------------- exercise 1: the distillation loss


def _kd(student: Tensor, teacher: Tensor) -> Tensor:
    return kd_loss(log_probs(student), probs(teacher))


def _kd_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Two sets of logits [tokens, vocab]; never as many tokens as words, so that a wrong axis shows."""
    first = torch.stack([_f64(2, 0, -1, 0.5), _f64(0, 1, 1, 0)]), torch.stack([_f64(1, 1, 0, -2), _f64(3, 0, 1, 0)])
    return [first, *((_logits(rng, 3, 5), _logits(rng, 3, 5)) for _ in range(2))]


KD = Exercise(
    "kd", _kd, _kd_cases,
    [
        Mistake("The roles are swapped: the teacher's probabilities weigh the logarithms of the *student's*.",
                lambda s, t: _kd(t, s)),
        Mistake("That is the KL divergence: it subtracts the teacher's entropy. Eq. 3 does not (same gradient, other "
                "value).", lambda s, t: _kd(s, t) - _kd(t, t)),
        Mistake("That is minus the KL divergence. Eq. 3 is the cross-entropy: - sum of p_T log p_S.",
                lambda s, t: _kd(t, t) - _kd(s, t)),
        Mistake("That is the KL divergence the other way round, from the student to the teacher.",
                lambda s, t: _kd(t, s) - _kd(s, s)),
        Mistake("That is a squared distance between probabilities. Eq. 3 is a cross-entropy.",
                lambda s, t: (probs(s) - probs(t)).square().sum()),
        Mistake("That is a mean squared distance between probabilities. Eq. 3 is a cross-entropy.",
                lambda s, t: (probs(s) - probs(t)).square().mean()),
        Mistake("That is a squared distance between logits. Eq. 3 compares distributions: softmax first.",
                lambda s, t: (s - t).square().sum()),
        Mistake("That is a mean over tokens and words. Eq. 3 is a sum.", lambda s, t: _kd(s, t) / s.numel()),
        Mistake("That is one number per token. Eq. 3 sums over the tokens too.",
                lambda s, t: -(probs(t) * log_probs(s)).sum(dim=-1)),
        Mistake("That is the mean over tokens. Eq. 3 is a sum; the training loop divides it by the tokens of the "
                "update.",
                lambda s, t: _kd(s, t) / len(s)),
        Mistake("The minus is missing: log probabilities are negative, the loss is positive.", lambda s, t: -_kd(s, t)),
        Mistake("The logarithm is missing: it is p_T log p_S, not p_T p_S.",
                lambda s, t: -(probs(t) * probs(s)).sum()),
        Mistake("The softmax runs over the tokens. A distribution is over the words, dim=-1.",
                lambda s, t: _kd(s.T, t.T)),
        Mistake("You take the logarithm of both: the teacher's probabilities stay as they are.",
                lambda s, t: -(log_probs(t) * log_probs(s)).sum()),
        Mistake("The teacher's logits are not probabilities yet: softmax them.",
                lambda s, t: -(t * log_probs(s)).sum()),
        Mistake("Only the teacher's favourite word counts here. Eq. 3 sums over the whole vocabulary.",
                lambda s, t: nll(log_probs(s), t.argmax(dim=-1))),
        Mistake("The softmax is taken twice: of probabilities it makes flatter ones. Take it once, of the logits.",
                lambda s, t: kd_loss(log_probs(probs(s)), probs(probs(t)))),
        Mistake("These are the logits themselves: neither softmax nor logarithm is there.",
                lambda s, t: -(t * s).sum()),
    ],
    library=("kd_loss", "pmd_loss"),
)  # fmt: skip


# ---------------------------------------------------------------- exercise 2: only real tokens count


def _real(lengths: Tensor, longest: int) -> Tensor:
    """[batch, len]: where a sentence is."""
    return torch.arange(longest) < lengths[:, None]


def _kd_mean(student: Tensor, teacher: Tensor, lengths: Tensor) -> Tensor:
    keep = _real(lengths, student.shape[1])
    return _kd(student[keep], teacher[keep]) / keep.sum()


def _masked(student: Tensor, teacher: Tensor, lengths: Tensor) -> Tensor:
    """Logits set to 0 on padding, which makes both distributions uniform there."""
    keep = _real(lengths, student.shape[1])[..., None]
    return _kd(student * keep, teacher * keep) / lengths.sum()


def _sentence_means(student: Tensor, teacher: Tensor, lengths: Tensor) -> Tensor:
    each = [_kd_mean(student[[i]], teacher[[i]], lengths[[i]]) for i in range(len(lengths))]
    return torch.stack(each).mean()


def _batches(rng: np.random.Generator) -> Sequence[Case]:
    """Logits [batch, len, vocab] and lengths of at least 2, some shorter than the longest."""
    cases: list[Case] = [(_logits(rng, 2, 4, 3), _logits(rng, 2, 4, 3), torch.tensor([4, 2]))]
    for n in (3, 4):
        lengths = torch.from_numpy(np.concatenate([[7], rng.integers(2, 7, size=n - 1)]))
        cases.append((_logits(rng, n, 7, 5), _logits(rng, n, 7, 5), lengths))
    return cases


KD_MEAN = Exercise(
    "kd_mean", _kd_mean, _batches,
    [
        Mistake("Padding is counted, in the sum and in the number of tokens: keep the real positions only.",
                lambda s, t, n: _kd(s, t) / (s.shape[0] * s.shape[1])),
        Mistake("Padding is in the sum: mask it before you add up.", lambda s, t, n: _kd(s, t) / n.sum()),
        Mistake("The sum is right; divide by the real tokens, not by all positions.",
                lambda s, t, n: _kd_mean(s, t, n) * n.sum() / (s.shape[0] * s.shape[1])),
        Mistake("That is the sum. Divide by the number of real tokens.", lambda s, t, n: _kd_mean(s, t, n) * n.sum()),
        Mistake("That is per sentence: a long sentence would count as much more than a short one. Divide by tokens.",
                lambda s, t, n: _kd_mean(s, t, n) * n.sum() / len(n)),
        Mistake("A mean of the sentences' means gives a token of a short sentence more weight than one of a long one.",
                _sentence_means),
        Mistake("The last token of each sentence is missing. It is its end, real, and learned like any other.",
                lambda s, t, n: _kd_mean(s, t, n - 1)),
        Mistake("Logits of 0 are not neutral: they say that all words are equally likely, which costs log V a "
                "position.",
                _masked),
        Mistake("The mask is inverted: this is the loss on the padding.",
                lambda s, t, n: _kd(s[~_real(n, s.shape[1])], t[~_real(n, s.shape[1])]) / n.sum()),
        Mistake("Padding is in the sum, and you divide by the number of sentences. Divide by the real tokens.",
                lambda s, t, n: _kd(s, t) / len(n)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: the mixed target


def mixed_target(gold: Tensor, teacher_p: Tensor, alpha: float, eps: float) -> Tensor:
    """Exercise 3: the target that Eq. 4 is the cross-entropy to, read off the gradient of the library's own losses.

    gold [tokens], teacher_p [tokens, vocab] -> [tokens, vocab]. The gradient on the logits is p_S - target; any
    student will do, here one that knows nothing.
    """
    student = torch.zeros_like(teacher_p, dtype=torch.float64).requires_grad_()
    logp = log_probs(student)
    loss = pmd_loss(ce_loss(logp, gold, eps), kd_loss(logp, teacher_p.double()), alpha)
    return probs(student).detach() - torch.autograd.grad(loss, student)[0]


def _one_hot(gold: Tensor, like: Tensor) -> Tensor:
    return F.one_hot(gold, like.shape[-1]).to(like.dtype)


def _evenly_smoothed(gold: Tensor, p: Tensor, eps: float) -> Tensor:
    """torch's form: eps / V on every word, the gold one too."""
    return (1 - eps) * _one_hot(gold, p) + eps / p.shape[-1]


def _target_cases(rng: np.random.Generator) -> Sequence[Case]:
    def teacher(tokens: int, vocab: int) -> Tensor:
        return probs(_logits(rng, tokens, vocab))

    by_hand = torch.stack([_f64(0.5, 0.3, 0.1, 0.1), _f64(0, 0.6, 0.4, 0)])
    cases: list[Case] = [(torch.tensor([0, 2]), by_hand, 0.4, 0.1)]
    for alpha, eps in ((float(rng.uniform(0.1, 0.45)), 0.2), (float(rng.uniform(0.55, 0.9)), 0.1)):
        cases.append((torch.from_numpy(rng.integers(0, 5, size=3)), teacher(3, 5), alpha, eps))
    return cases


MIXED = Exercise(
    "mixed_target", mixed_target, _target_cases,
    [
        Mistake("alpha is the weight of the teacher, 1 - alpha that of the reference: yours are swapped.",
                lambda g, p, a, e: mixed_target(g, p, 1 - a, e)),
        Mistake("The smoothing is missing: the reference gives 1 - eps to the gold word, not 1.",
                lambda g, p, a, e: mixed_target(g, p, a, 0.0)),
        Mistake("eps is spread over the V - 1 *other* words; the gold word gets 1 - eps and no share of it.",
                lambda g, p, a, e: (1 - a) * _evenly_smoothed(g, p, e) + a * p),
        Mistake("The teacher is smoothed too. Only the reference is: smooth first, then mix.",
                lambda g, p, a, e: mixed_target(g, (1 - e) * p + e * (1 - p) / (p.shape[-1] - 1), a, e)),
        Mistake("Added, not mixed: a target sums to 1. The reference is weighed by 1 - alpha.",
                lambda g, p, a, e: mixed_target(g, p, 0.0, e) + a * p),
        Mistake("alpha has no effect: this is half of each.", lambda g, p, a, e: mixed_target(g, p, 0.5, e)),
        Mistake("That is the smoothed reference alone, alpha = 0.", lambda g, p, a, e: mixed_target(g, p, 0.0, e)),
        Mistake("That is the teacher alone, alpha = 1.", lambda g, p, a, e: p.clone()),
        Mistake("You use only the teacher's favourite word. Mix in all its probabilities.",
                lambda g, p, a, e: mixed_target(g, _one_hot(p.argmax(dim=-1), p), a, e)),
        Mistake("eps is divided by V - 1, but the gold word keeps its full 1: that sums to 1 + eps before mixing.",
                lambda g, p, a, e: mixed_target(g, p, a, e) + (1 - a) * e * _one_hot(g, p)),
        Mistake("eps itself stands on every other word. It is shared among them: eps / (V - 1) each.",
                lambda g, p, a, e: mixed_target(g, p, a, e)
                + (1 - a) * (e - e / (p.shape[-1] - 1)) * (1 - _one_hot(g, p))),
        Mistake("alpha and 1 - alpha are swapped, and the smoothing of the reference is missing.",
                lambda g, p, a, e: mixed_target(g, p, 1 - a, 0.0)),
    ],
)  # fmt: skip
