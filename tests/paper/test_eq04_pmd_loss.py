"""Eq. 4: (1 - alpha) L_ce + alpha L_kd is cross-entropy to one mixed target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.data.batching import collate
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, pmd_loss, probs, soft_target, token_logits
from pmd_lite.model.transformer import Transformer
from tests.conftest import MakeTrainer

EPS, VOCAB, TOKENS = 0.1, 13, 6
SEEDS, ALPHAS = st.integers(0, 10**6), st.floats(0, 1)


class Case:
    """Random student logits (with gradient), gold ids and a teacher, all [TOKENS, VOCAB] float64."""

    def __init__(self, seed: int):
        rng = torch.Generator().manual_seed(seed)
        self.logits = 2 * torch.randn(TOKENS, VOCAB, generator=rng, dtype=torch.float64)
        self.logits.requires_grad_()
        self.gold = torch.randint(VOCAB, (TOKENS,), generator=rng)
        self.teacher = torch.softmax(2 * torch.randn(TOKENS, VOCAB, generator=rng, dtype=torch.float64), dim=-1)

    def losses(self) -> tuple[Tensor, Tensor]:
        logp = log_probs(self.logits)
        return ce_loss(logp, self.gold, EPS), kd_loss(logp, self.teacher)

    def target(self, alpha: float) -> Tensor:
        """(1 - alpha) q_smooth + alpha p_T."""
        smooth = torch.full((TOKENS, VOCAB), EPS / (VOCAB - 1), dtype=torch.float64)
        smooth[torch.arange(TOKENS), self.gold] = 1 - EPS
        return (1 - alpha) * smooth + alpha * self.teacher


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss, logits)[0]


@pytest.mark.parametrize("alpha", [0, 1])
def test_the_ends_are_pure_ce_and_pure_kd_in_value_and_gradient(alpha: int) -> None:
    case = Case(0)
    pure = case.losses()[alpha]
    mixed = pmd_loss(*case.losses(), float(alpha))
    assert torch.equal(mixed, pure)
    assert torch.equal(gradient(mixed, case.logits), gradient(pure, case.logits))


def test_eq_4_a_quarter_of_the_way_by_hand() -> None:
    assert float(pmd_loss(torch.tensor(8.0), torch.tensor(4.0), 0.25)) == 7.0


@given(SEEDS, ALPHAS)
@settings(deadline=None)
def test_equals_cross_entropy_to_the_mixed_target(seed: int, alpha: float) -> None:
    case = Case(seed)
    mixed = pmd_loss(*case.losses(), alpha)
    expected = torch.nn.functional.cross_entropy(case.logits, case.target(alpha), reduction="sum")
    torch.testing.assert_close(mixed, expected, rtol=1e-10, atol=1e-10)


@given(SEEDS, ALPHAS)
@settings(deadline=None)
def test_gradient_is_the_student_minus_the_mixed_target(seed: int, alpha: float) -> None:
    case = Case(seed)
    grad = gradient(pmd_loss(*case.losses(), alpha), case.logits)
    torch.testing.assert_close(grad, probs(case.logits).detach() - case.target(alpha), rtol=1e-9, atol=1e-12)


@given(SEEDS, ALPHAS)
@settings(deadline=None, max_examples=50)
def test_lies_between_its_two_parts(seed: int, alpha: float) -> None:
    case = Case(seed)
    parts = sorted(part.item() for part in case.losses())
    assert parts[0] - 1e-9 <= pmd_loss(*case.losses(), alpha).item() <= parts[1] + 1e-9


# ---------------------------------------------------------------- through a whole model

BOS = 2
Sentences = Sequence[tuple[list[int], list[int]]]
SENTENCES: Sentences = [
    ([5, 6, 3], [7, 8, 9, 3]),
    ([10, 3], [11, 3]),
    ([12, 5, 6, 7, 3], [4, 5, 3]),
    ([8, 3], [9, 10, 11, 12, 4, 3]),
]


def small_model(seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(VOCAB, d_model=8, heads=2, encoder_layers=1, decoder_layers=1, ffn=16, dropout=0.0).double()


def loss_and_gradients(sentences: Sentences, extra_pads: int, alpha: float = 0.3) -> tuple[Tensor, list[Tensor]]:
    """Eq. 4 of a padded batch under two fixed models, and its gradient with respect to each parameter."""
    src_len, trg_len = (max(len(s[side]) for s in sentences) + extra_pads for side in (0, 1))
    src = torch.tensor([s + [0] * (src_len - len(s)) for s, _ in sentences])
    gold = torch.tensor([t + [0] * (trg_len - len(t)) for _, t in sentences])
    trg_in = torch.tensor([[BOS, *t[:-1]] + [0] * (trg_len - len(t)) for _, t in sentences])
    keep = gold.flatten().nonzero().flatten()
    student, teacher = small_model(1), small_model(2)
    logp = log_probs(token_logits(student, src, trg_in, keep))
    soft = soft_target([(teacher, 1.0)], src, trg_in, keep)
    loss = pmd_loss(ce_loss(logp, gold.flatten()[keep], EPS), kd_loss(logp, soft), alpha)
    return loss, list(torch.autograd.grad(loss, list(student.parameters())))


def test_padding_columns_change_neither_loss_nor_gradient() -> None:
    (loss, grads), (padded, padded_grads) = loss_and_gradients(SENTENCES, 0), loss_and_gradients(SENTENCES, 5)
    torch.testing.assert_close(padded, loss, rtol=1e-12, atol=0)
    for a, b in zip(padded_grads, grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_the_order_of_the_batch_changes_neither() -> None:
    shuffled = [SENTENCES[i] for i in (2, 0, 3, 1)]
    (loss, grads), (other, other_grads) = loss_and_gradients(SENTENCES, 0), loss_and_gradients(shuffled, 0)
    torch.testing.assert_close(other, loss, rtol=1e-12, atol=0)
    for a, b in zip(other_grads, grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_batch_is_the_sum_of_its_sentences() -> None:
    loss, grads = loss_and_gradients(SENTENCES, 0)
    alone = [loss_and_gradients([sentence], 0) for sentence in SENTENCES]
    torch.testing.assert_close(sum(part for part, _ in alone), loss, rtol=1e-12, atol=0)
    for i, grad in enumerate(grads):
        torch.testing.assert_close(sum(part[i] for _, part in alone), grad, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- in the path of training


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_eq_4_is_what_training_differentiates(make_trainer: MakeTrainer, alpha: float) -> None:
    """One micro-batch of a real trainer: its gradient is that of `pmd_loss` per token, with the peer as teacher."""
    trainer = make_trainer("bi-pmd", alpha=alpha, dropout=0.0)
    student, peer = (student.learner for student in trainer.students)
    batch = collate(trainer.encoded.train[0], np.arange(6), 0)
    target = trainer.target(0, batch, dropout=False) if alpha else None
    student.begin()
    sums = student.accumulate(batch, alpha, target, trainer.distiller, batch.tokens, micro=0)
    made = torch.cat([p.grad.flatten() for p in student.model.parameters() if p.grad is not None])

    logp = log_probs(token_logits(student.model, batch.src, batch.trg_in, batch.keep))
    soft = soft_target([(peer.model, 1.0)], batch.src, batch.trg_in, batch.keep)
    ce, kd = ce_loss(logp, batch.gold, trainer.config.optim.label_smoothing), kd_loss(logp, soft)
    expected = torch.autograd.grad(pmd_loss(ce, kd, alpha) / batch.tokens, list(student.model.parameters()))
    torch.testing.assert_close(made, torch.cat([x.flatten() for x in expected]), rtol=1e-4, atol=1e-6)
    assert sums[:2].tolist() == pytest.approx([ce.item(), kd.item() if alpha else 0.0], rel=1e-5)
