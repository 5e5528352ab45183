"""An output bias of -inf: both forms of every loss behave as if the token were not in the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, probs
from pmd_lite.distillation.projection import Output
from pmd_lite.distillation.targets import TeacherPart, TeacherStates
from pmd_lite.distillation.topk import TopKTarget, top_k
from pmd_lite.interfaces import Target
from tests.topk_by_hand import top_k_kd

TOKENS, VOCAB, D = 7, 9, 4
NEVER = torch.tensor([2, 5])
ALLOWED = torch.tensor([i for i in range(VOCAB) if i not in NEVER])
GOLD = torch.tensor([0, 1, 3, 4, 6, 7, 8])


class Case:
    """Float64 states, weights, and a teacher's logits; tokens NEVER have -inf in both biases."""

    def __init__(self, teacher_masked: bool = True):
        rng = torch.Generator().manual_seed(5)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        bias, self.teacher_bias = random(VOCAB), random(VOCAB)
        bias[NEVER] = -math.inf
        if teacher_masked:
            self.teacher_bias[NEVER] = -math.inf
        self.hidden, self.weight, self.bias = (x.requires_grad_() for x in (random(TOKENS, D), random(VOCAB, D), bias))
        self.teacher_hidden, self.teacher_weight = random(TOKENS, 3), random(VOCAB, 3)

    @property
    def logits(self) -> Tensor:
        return self.hidden @ self.weight.t() + self.bias

    @property
    def teacher_logits(self) -> Tensor:
        return self.teacher_hidden @ self.teacher_weight.t() + self.teacher_bias

    def states(self) -> TeacherStates:
        output = Output(self.teacher_weight, self.teacher_bias)
        return TeacherStates([TeacherPart(self.teacher_hidden, output, 1.0)])

    def gradients(self, loss: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(loss, [self.hidden, self.weight, self.bias]))

    def fused(self, smoothing: float, mix: Mix, gold: Tensor = GOLD) -> tuple[Tensor, Tensor, list[Tensor]]:
        loss, sums = projected_loss(self.hidden, Output(self.weight, self.bias), gold, smoothing, mix)
        return loss, sums, self.gradients(loss)


def by_hand(case: Case, temperature: float) -> Tensor:
    """Eq. 3 (at a temperature) over the vocabulary without the impossible tokens, written out."""
    z, t = (x[:, ALLOWED].detach() / temperature for x in (case.logits, case.teacher_logits))
    p = torch.exp(t) / torch.exp(t).sum(-1, keepdim=True)
    q = torch.exp(z) / torch.exp(z).sum(-1, keepdim=True)
    return -(temperature**2) * (p * torch.log(q)).sum()


Plain = Callable[[Case], Tensor]
TARGETS: dict[str, tuple[Callable[[Case], Target], Plain, float]] = {
    "states": (Case.states, lambda c: kd_loss(log_probs(c.logits), probs(c.teacher_logits)), 1.0),
    "probabilities": (
        lambda c: TeacherStates((), probs(c.teacher_logits)),
        lambda c: kd_loss(log_probs(c.logits), probs(c.teacher_logits)), 1.0,
    ),
    "top-k": (
        lambda c: TopKTarget(top_k(c.teacher_logits, 0), 1.0),
        lambda c: top_k_kd(log_probs(c.logits), top_k(c.teacher_logits, 0), 1.0), 1.0,
    ),
    "top-k at .6": (
        lambda c: TopKTarget(top_k(c.teacher_logits, 8), 0.6),  # 8 of 9: an impossible one is among the best
        lambda c: top_k_kd(c.logits, top_k(c.teacher_logits, 8), 0.6), 0.6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("kind", TARGETS)
def test_distillation_is_that_of_a_vocabulary_without_them(kind: str, gated: bool) -> None:
    case = Case()
    target, plain, temperature = TARGETS[kind]
    gate = (lambda student, teacher: torch.ones_like(student)) if gated else None
    loss, sums, found = case.fused(0.0, Mix(0.0, 1.0, target(case), gate))
    other = plain(case)
    # The teacher's logits are cut in float32, as training has them.
    close = {"rtol": 1e-6, "atol": 1e-6} if kind.startswith("top-k") else {"rtol": 1e-12, "atol": 1e-12}
    for value in (loss, sums[1], other):
        torch.testing.assert_close(value.detach(), by_hand(case, temperature), **close)
    for ours, theirs in zip(found, case.gradients(other), strict=True):
        assert bool(ours.isfinite().all())
        torch.testing.assert_close(ours, theirs, **close)
    assert not found[1][NEVER].any() and not found[2][NEVER].any(), "nothing pulls at what cannot be"
    assert found[1][ALLOWED].any()


def test_cross_entropy_is_that_of_a_vocabulary_without_them() -> None:
    case = Case()
    z = case.logits[:, ALLOWED].detach()
    gold = z.gather(1, (GOLD[:, None] == ALLOWED).int().argmax(-1, keepdim=True))[:, 0]
    expected = (torch.log(torch.exp(z).sum(-1)) - gold).sum()
    plain = nll(log_probs(case.logits), GOLD)
    loss, _, found = case.fused(0.0, Mix())
    torch.testing.assert_close(torch.stack([loss.detach(), plain.detach()]), torch.stack([expected, expected]))
    torch.testing.assert_close(found, case.gradients(plain))
    assert not found[2][NEVER].any()


def test_where_the_target_has_mass_on_them_the_loss_is_infinite_and_its_gradient_is_not() -> None:
    """Smoothing, a gold token, or a teacher that gives it some probability: infinite by definition, in both forms."""
    case, other = Case(), Case(teacher_masked=False)
    gold = GOLD.clone()
    gold[3] = NEVER[0]
    target = probs(other.teacher_logits)
    routes = {
        "smoothing": (case.fused(0.1, Mix()), ce_loss(log_probs(case.logits), GOLD, 0.1), case),
        "gold": (case.fused(0.0, Mix(), gold), nll(log_probs(case.logits), gold), case),
        "teacher": (
            other.fused(0.0, Mix(0.0, 1.0, TeacherStates((), target))), kd_loss(log_probs(other.logits), target), other
        ),
    }  # fmt: skip
    for (loss, _, found), plain, of in routes.values():
        assert loss.item() == plain.item() == math.inf
        torch.testing.assert_close(found, of.gradients(plain))
        assert all(bool(x.isfinite().all()) for x in found)
