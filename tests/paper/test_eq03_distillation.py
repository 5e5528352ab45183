"""Eq. 3, the distillation loss, and the teachers' distribution it learns from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from pmd_lite.distillation.losses import kd_loss, log_probs, nll, probs, soft_target, token_logits

SEEDS = st.integers(0, 10**6)
VOCAB = 9
SRC = torch.tensor([[5, 3, 2], [4, 2, 0]])
TRG_IN = torch.tensor([[1, 6, 7, 8], [1, 5, 0, 0]])
KEEP = torch.tensor([0, 1, 2, 3, 4, 5])  # the two pads of the second row are left out


class Toy(nn.Module):
    """The two methods that a loss needs of a Transformer, in float64, with dropout in between."""

    def __init__(self, seed: int, fail: bool = False):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding, self.dropout = nn.Embedding(VOCAB, 6).double(), nn.Dropout(0.5)
        self.out, self.fail = nn.Linear(6, VOCAB).double(), fail

    def hidden(self, src: Tensor, trg_in: Tensor) -> Tensor:
        if self.fail:
            raise RuntimeError("out of memory")
        mean = self.embedding(src).mean(dim=1, keepdim=True)
        return self.dropout(self.embedding(trg_in) + mean)

    def project(self, hidden: Tensor) -> Tensor:
        return 3 * self.out(hidden)


def distribution(model: Toy) -> Tensor:
    """A model's distribution at the kept positions, computed differently: all positions first, then the selection."""
    model.eval()
    with torch.no_grad():
        return torch.softmax(model.project(model.hidden(SRC, TRG_IN)), dim=-1).reshape(-1, VOCAB)[KEEP]


def random_pair(seed: int) -> tuple[Tensor, Tensor]:
    """Student logits, with gradient, and a teacher's distribution: [6, VOCAB] float64."""
    rng = torch.Generator().manual_seed(seed)
    student, teacher = (2 * torch.randn(6, VOCAB, generator=rng, dtype=torch.float64) for _ in range(2))
    return student.requires_grad_(), torch.softmax(teacher, dim=-1)


# ---------------------------------------------------------------- the loss


def test_eq_3_on_two_words_by_hand() -> None:
    student = torch.tensor([[0.5, 0.5], [0.2, 0.8]], dtype=torch.float64).log()
    teacher = torch.tensor([[0.9, 0.1], [0.25, 0.75]], dtype=torch.float64)
    # ln 2 + (0.25 * -ln 0.2 + 0.75 * -ln 0.8) = 0.693147 + 0.402359 + 0.167358
    assert float(kd_loss(student, teacher)) == pytest.approx(1.262864, abs=1e-6)


@given(SEEDS)
@settings(deadline=None, max_examples=50)
def test_a_one_hot_teacher_teaches_what_the_gold_token_does(seed: int) -> None:
    logits, _ = random_pair(seed)
    gold = torch.randint(VOCAB, (6,), generator=torch.Generator().manual_seed(seed + 1))
    teacher = F.one_hot(gold, VOCAB).double()
    torch.testing.assert_close(kd_loss(log_probs(logits), teacher), nll(log_probs(logits), gold))


@given(SEEDS)
@settings(deadline=None, max_examples=50)
def test_equals_torchs_kl_divergence_plus_the_teachers_entropy(seed: int) -> None:
    logits, teacher = random_pair(seed)
    entropy = -(teacher * teacher.log()).sum()
    kl = nn.KLDivLoss(reduction="sum")(F.log_softmax(logits, dim=-1), teacher)
    torch.testing.assert_close(kd_loss(log_probs(logits), teacher), kl + entropy)


@given(SEEDS)
@settings(deadline=None, max_examples=50)
def test_gradient_on_the_students_logits_is_student_minus_teacher(seed: int) -> None:
    logits, teacher = random_pair(seed)
    (grad,) = torch.autograd.grad(kd_loss(log_probs(logits), teacher), logits)
    torch.testing.assert_close(grad, probs(logits).detach() - teacher)


def test_the_best_student_is_the_teacher() -> None:
    _, teacher = random_pair(4)
    best = kd_loss(teacher.log(), teacher)
    for seed in range(5):
        assert kd_loss(log_probs(random_pair(seed + 10)[0]), teacher) > best


@given(SEEDS, st.floats(0, 1))
@settings(deadline=None, max_examples=50)
def test_linear_in_the_teachers_mixture(seed: int, share: float) -> None:
    (logits, one), (_, two) = random_pair(seed), random_pair(seed + 1)
    logp = log_probs(logits)
    mixed = kd_loss(logp, share * one + (1 - share) * two)
    torch.testing.assert_close(mixed, share * kd_loss(logp, one) + (1 - share) * kd_loss(logp, two))


# ---------------------------------------------------------------- no gradient to the teacher


def test_no_gradient_reaches_the_teacher_and_it_reaches_the_student() -> None:
    student, teacher = Toy(1), Toy(2)
    soft = soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP)
    assert not soft.requires_grad
    kd_loss(log_probs(token_logits(student, SRC, TRG_IN, KEEP)), soft).backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in student.parameters())


def test_not_even_from_a_distribution_that_carries_one() -> None:
    student, teacher = Toy(1), Toy(2)
    soft = probs(token_logits(teacher, SRC, TRG_IN, KEEP))
    assert soft.requires_grad
    kd_loss(log_probs(token_logits(student, SRC, TRG_IN, KEEP)), soft).backward()
    assert all(p.grad is None for p in teacher.parameters())


# ---------------------------------------------------------------- the soft target


def test_soft_target_is_the_teachers_distribution_at_the_kept_positions() -> None:
    teacher = Toy(3)
    torch.testing.assert_close(soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP), distribution(teacher))


def test_several_teachers_are_averaged_by_their_shares() -> None:
    one, two, three = Toy(3), Toy(4), Toy(5)
    soft = soft_target([(one, 0.5), (two, 0.3), (three, 0.2)], SRC, TRG_IN, KEEP)
    expected = 0.5 * distribution(one) + 0.3 * distribution(two) + 0.2 * distribution(three)
    torch.testing.assert_close(soft, expected)
    torch.testing.assert_close(soft.sum(dim=-1), torch.ones(len(KEEP), dtype=torch.float64))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dropout", [True, False])
def test_the_teachers_mode_is_put_back(training: bool, dropout: bool) -> None:
    teacher = Toy(3).train(training)
    soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP, dropout)
    assert [module.training for module in teacher.modules()] == [training] * 4


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dropout", [True, False])
def test_and_also_when_the_forward_pass_raises(training: bool, dropout: bool) -> None:
    healthy, broken = Toy(3).train(training), Toy(4, fail=True).train(training)
    with pytest.raises(RuntimeError, match="out of memory"):
        soft_target([(healthy, 0.5), (broken, 0.5)], SRC, TRG_IN, KEEP, dropout)
    assert {module.training for teacher in (healthy, broken) for module in teacher.modules()} == {training}
    assert torch.is_grad_enabled()


def test_the_dropout_switch_decides_and_not_the_mode_the_teacher_was_in() -> None:
    teacher = Toy(3)
    for training in (True, False):
        teacher.train(training)
        torch.manual_seed(0)
        calm = [soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP, dropout=False) for _ in range(2)]
        noisy = [soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP, dropout=True) for _ in range(2)]
        assert torch.equal(*calm)
        assert not torch.allclose(calm[0], noisy[0])
        assert not torch.allclose(*noisy)


def test_padding_is_never_projected() -> None:
    teacher = Toy(3)
    seen: list[int] = []
    teacher.out.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[0]))
    soft_target([(teacher, 1.0)], SRC, TRG_IN, KEEP)
    assert seen == [len(KEEP)]


def test_without_a_teacher_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one teacher"):
        soft_target([], SRC, TRG_IN, KEEP)
