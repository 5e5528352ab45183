"""The fused loss equals the plain one of losses.py, in value and gradient, whatever the chunks, teachers and gates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.distillation import projection
from pmd_lite.distillation.fused import Mix, projected_loss, projected_sums
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, probs
from pmd_lite.distillation.lssd import adaptive_gate, selective_gate
from pmd_lite.distillation.projection import Output
from pmd_lite.distillation.targets import TeacherPart, TeacherStates, teacher_states
from pmd_lite.distillation.topk import TopKTarget, top_k
from pmd_lite.model.transformer import Transformer
from tests.topk_by_hand import top_k_kd

TOKENS, VOCAB, D = 11, 17, 6
SENTENCE = torch.tensor([0] * 4 + [1] * 5 + [2] * 2)


@contextmanager
def chunks_of(size: int) -> Iterator[None]:
    """Make every chunk hold `size` tokens."""
    before = projection.ELEMENTS, projection.FEWEST
    projection.ELEMENTS, projection.FEWEST = 0, size
    try:
        yield
    finally:
        projection.ELEMENTS, projection.FEWEST = before


class Case:
    """Random states, weights, gold tokens and two teachers of another width, one of them with a bias; float64."""

    def __init__(self, seed: int, dtype: torch.dtype = torch.float64, bias: bool = False):
        rng = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64).to(dtype)

        self.hidden, self.weight = random(TOKENS, D).requires_grad_(), random(VOCAB, D).requires_grad_()
        self.gold = torch.randint(VOCAB, (TOKENS,), generator=rng)
        outputs = Output(random(VOCAB, 4), random(VOCAB)), Output(random(VOCAB, 4))
        shares = (0.7, 0.3)
        self.teachers = TeacherStates([TeacherPart(random(TOKENS, 4), *x) for x in zip(outputs, shares, strict=True)])
        self.output = Output(self.weight, random(VOCAB).requires_grad_() if bias else None)

    def gradients(self, loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, [x for x in (self.hidden, *self.output) if x is not None])

    @property
    def logp(self) -> Tensor:
        """The plain route: [tokens, vocab] with a graph behind it."""
        return log_probs(logits(self.hidden, self.output))

    def teacher_probs(self) -> Tensor:
        return torch.stack([share * probs(logits(hidden, out)) for hidden, out, share in self.teachers.parts]).sum(0)


def logits(hidden: Tensor, output: Output) -> Tensor:
    """[tokens, vocab], all of them."""
    return hidden @ output.weight.t() + (0 if output.bias is None else output.bias)


SEEDS, SIZES = st.integers(0, 10**6), st.integers(1, TOKENS + 2)
EPS = st.sampled_from([0.0, 0.1, 0.5])


@given(SEEDS, SIZES, EPS, st.floats(0, 1), st.booleans())
@settings(deadline=None)
def test_equation_4_in_value_and_gradient(seed: int, size: int, eps: float, alpha: float, bias: bool) -> None:
    case = Case(seed, bias=bias)
    with chunks_of(size):
        mix = Mix(1 - alpha, alpha, case.teachers)
        loss, sums = projected_loss(case.hidden, case.output, case.gold, eps, mix)
        found = case.gradients(loss)
    ce, kd = ce_loss(case.logp, case.gold, eps), kd_loss(case.logp, case.teacher_probs())
    expected = (1 - alpha) * ce + alpha * kd
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(sums, torch.stack([ce, kd if alpha else 0 * kd, nll(case.logp, case.gold)]).detach())
    torch.testing.assert_close(found, case.gradients(expected))


@given(SEEDS, SIZES, st.sampled_from(["selective", "adaptive"]), st.booleans())
@settings(deadline=None)
def test_gates_scale_each_token_and_carry_no_gradient(seed: int, size: int, kind: str, bias: bool) -> None:
    case = Case(seed, bias=bias)

    def gate(student: Tensor, teacher: Tensor) -> Tensor:
        return selective_gate(student, teacher) if kind == "selective" else adaptive_gate(student, teacher, SENTENCE)

    with chunks_of(size):
        mix = Mix(0.5, 0.25, case.teachers, gate)
        loss, sums = projected_loss(case.hidden, case.output, case.gold, 0.1, mix)
        found = case.gradients(loss)
    student, teacher = (x.gather(-1, case.gold[:, None])[:, 0] for x in (case.logp, case.teacher_probs().log()))
    trust = gate(student.detach(), teacher)
    kd = kd_loss(case.logp, trust[:, None] * case.teacher_probs())
    expected = 0.5 * ce_loss(case.logp, case.gold, 0.1) + 0.25 * kd
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(sums[1], kd.detach())
    torch.testing.assert_close(found, case.gradients(expected))


@given(SEEDS, SIZES, st.sampled_from([0, 1, 3]), st.sampled_from([0.6, 1.0, 2.0]))
@settings(deadline=None)
def test_the_k_best_tokens_at_a_temperature(seed: int, size: int, k: int, theta: float) -> None:
    case = Case(seed)
    hidden, output, _ = case.teachers.parts[0]
    best = top_k(logits(hidden, output), k)
    with chunks_of(size):
        mix = Mix(0.4, 0.6, TopKTarget(best, theta))
        loss, _ = projected_loss(case.hidden, case.output, case.gold, 0.1, mix)
        found = case.gradients(loss)
    expected = 0.4 * ce_loss(case.logp, case.gold, 0.1) + 0.6 * top_k_kd(case.logp, best, theta)
    torch.testing.assert_close(loss, expected, check_dtype=False)
    torch.testing.assert_close(found, case.gradients(expected), rtol=1e-5, atol=1e-6)  # top_k keeps fp32 logits


def test_what_the_k_best_say_of_the_gold_token() -> None:
    target = TopKTarget(top_k(torch.tensor([[0.0, 2.0, 1.0], [5.0, 4.0, 0.0]]), 2), 1.0)
    found = target.gold_logp(slice(None), torch.tensor([2, 2]))
    assert found.tolist() == [pytest.approx(torch.tensor([2.0, 1.0]).log_softmax(0)[1].item()), -torch.inf]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_gradcheck(alpha: float) -> None:
    case = Case(3, bias=True)

    class Loss(torch.autograd.Function):
        """Computes the loss again for every derivative, because gradcheck uses the same graph several times."""

        @staticmethod
        def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            ctx.save_for_backward(hidden, weight, bias)
            return projected_loss(hidden, Output(weight, bias), case.gold, 0.1, Mix(1 - alpha, alpha, case.teachers))[0]

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
            inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            with torch.enable_grad():
                mix = Mix(1 - alpha, alpha, case.teachers)
                loss, _ = projected_loss(inputs[0], Output(*inputs[1:]), case.gold, 0.1, mix)
            return torch.autograd.grad(loss, inputs, grad)

    with chunks_of(4):
        assert torch.autograd.gradcheck(Loss.apply, (case.hidden, *case.output))


def test_probabilities_kept_for_several_students_are_those_made_chunk_by_chunk() -> None:
    case = Case(1)
    kept = case.teachers.kept()
    assert kept.whole is not None
    before = kept.whole.clone()
    mixes = [Mix(0.5, 0.5, target) for target in (case.teachers, kept)]
    both = [projected_loss(case.hidden, case.output, case.gold, 0.1, mix) for mix in mixes]
    assert torch.equal(both[0][0], both[1][0])
    for a, b in zip(*(case.gradients(loss) for loss, _ in both), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(kept.whole, before), "what is kept is read again by the next student"


def test_too_much_to_keep_is_not_kept() -> None:
    many, vocabulary = (torch.zeros(1, 1).expand(n, 1) for n in (2**12 + 1, 2**12))
    big = TeacherStates([TeacherPart(many, Output(vocabulary), 1.0)])
    assert big.kept() is big


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_close_to_fp32(dtype: torch.dtype) -> None:
    case = Case(5, torch.float32, bias=True)
    mix = Mix(0.5, 0.5, case.teachers)
    exact, _ = projected_loss(case.hidden, case.output, case.gold, 0.1, mix)
    with torch.autocast("cpu", dtype=dtype):
        half, _ = projected_loss(case.hidden, case.output, case.gold, 0.1, mix)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(exact.item(), rel=0.01)
    for a, b in zip(case.gradients(half), case.gradients(exact), strict=True):
        assert a.dtype == torch.float32
        assert float((a - b).norm() / b.norm()) < 0.02


def test_a_tied_table_gets_both_of_its_gradients() -> None:
    case = Case(7)
    table, ids = case.weight, torch.arange(TOKENS)
    for route in ("fused", "plain"):
        hidden = torch.tanh(table[ids] @ torch.eye(D, dtype=torch.float64))
        if route == "fused":
            loss = projected_loss(hidden, Output(table), case.gold, 0.1, Mix())[0]
            found = torch.autograd.grad(loss, table)[0]
        else:
            loss = ce_loss(log_probs(hidden @ table.t()), case.gold, 0.1)
            torch.testing.assert_close(found, torch.autograd.grad(loss, table)[0])


def test_no_gradient_reaches_a_teacher() -> None:
    case = Case(2)
    hidden, weight = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (TOKENS, VOCAB))
    bias = torch.randn(VOCAB, dtype=torch.float64, requires_grad=True)
    target = TeacherStates([TeacherPart(hidden, Output(weight, bias), 1.0)])
    projected_loss(case.hidden, case.output, case.gold, 0.1, Mix(0.5, 0.5, target))[0].backward()
    assert hidden.grad is None
    assert weight.grad is None
    assert bias.grad is None


def test_a_second_derivative_is_refused_in_words() -> None:
    case = Case(2)
    loss, _ = projected_loss(case.hidden, case.output, case.gold, 0.1, Mix())
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(loss, case.hidden, create_graph=True)


def test_a_second_backward_pass_is_refused() -> None:
    case = Case(2)
    loss, _ = projected_loss(case.hidden, case.output, case.gold, 0.1, Mix())
    torch.autograd.grad(loss, case.hidden, retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        torch.autograd.grad(loss, case.hidden)


def test_sums_alone_need_no_gradient() -> None:
    case = Case(4, bias=True)
    with torch.inference_mode(), chunks_of(3):
        found = projected_sums(case.hidden, case.output, case.gold, 0.1)
    expected = [ce_loss(case.logp, case.gold, 0.1).item(), 0.0, nll(case.logp, case.gold).item()]
    assert found.tolist() == pytest.approx(expected)


def test_no_tensor_of_tokens_by_vocab_is_made() -> None:
    """Every intermediate tensor is smaller than half of [tokens, vocab]."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for x in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(x, Tensor):
                    largest = max(largest, x.numel())
            return out

    tokens, vocab, d = 512, 2**15, 2
    hidden, weight = torch.randn(tokens, d, requires_grad=True), torch.randn(vocab, d, requires_grad=True)
    target = TeacherStates([TeacherPart(torch.randn(tokens, d), Output(torch.randn(vocab, d)), 1.0)])
    gold = torch.zeros(tokens, dtype=torch.long)
    with Watch():
        projected_loss(hidden, Output(weight), gold, 0.1, Mix(0.5, 0.5, target))[0].backward()
    assert vocab < largest <= tokens * vocab // 2


def test_a_weight_needs_a_teacher() -> None:
    case = Case(0)
    with pytest.raises(ValueError, match="needs a teacher's predictions"):
        projected_loss(case.hidden, case.output, case.gold, 0.1, Mix(0.5, 0.5))


@pytest.mark.parametrize(("tie", "bias"), [("all", False), ("none", True)])
def test_teachers_are_asked_without_dropout_and_without_a_graph(tie: Any, bias: bool) -> None:
    torch.manual_seed(0)
    words: dict[str, Any] = {"heads": 2, "ffn": 8, "dropout": 0.5, "tie": tie, "output_bias": bias}
    teachers = [Transformer(VOCAB, d_model=d, **words).double() for d in (4, 6)]
    for teacher in teachers if bias else ():
        torch.nn.init.normal_(teacher.output_bias)  # type: ignore[arg-type]
    src, trg_in, keep = torch.randint(4, VOCAB, (3, 5)), torch.randint(4, VOCAB, (3, 4)), torch.tensor([0, 1, 5, 8, 11])
    shares = (0.7, 0.3)
    states = teacher_states(list(zip(teachers, shares, strict=True)), src, trg_in, keep)
    assert all(hidden.is_inference() for hidden, _, _ in states.parts)
    assert all(teacher.training for teacher in teachers)
    expected = torch.zeros(len(keep), VOCAB, dtype=torch.float64)
    for teacher, share in zip(teachers, shares, strict=True):
        teacher.eval()
        expected += share * probs(teacher(src, trg_in).flatten(0, 1)[keep]).detach()
    torch.testing.assert_close(states.probs(slice(None)), expected)
    dropped = teacher_states([(teachers[0], 1.0)], src, trg_in, keep, dropout=True)
    assert not torch.equal(dropped.parts[0][0], states.parts[0][0]), "the released code's teachers stay in train mode"
    assert not teachers[0].training
