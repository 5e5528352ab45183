"""Multi-Distill: how long a student learns from a bilingual teacher, and what it learns from its k best tokens."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pmd_lite.config import DistillConfig, TeacherConfig
from pmd_lite.data.batching import Batch, eval_batches
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.distillation.losses import kd_loss, log_probs, token_logits
from pmd_lite.distillation.multi_distill import MultiDistill, adaptive_factor, threshold_factor
from pmd_lite.distillation.topk import TopK, top_k
from pmd_lite.interfaces import Clock
from pmd_lite.model.transformer import Transformer
from tests.topk_by_hand import top_k_kd

HERE = Clock(20, 100, 10)


@dataclass
class FakeProbe:
    """Dev BLEU and dev losses, [student, pair]; asking for one that is not given fails."""

    clock: Clock
    bleu: Sequence[Sequence[float]] = ()
    dev: Sequence[Sequence[float]] = ()

    def dev_score(self, student: int) -> Tensor:
        return f64(self.bleu[student])

    def dev_loss(self, student: int) -> Tensor:
        return f64(self.dev[student])


def f64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def make(scores: Sequence[float], n_students: int = 1, **changes: Any) -> MultiDistill:
    return MultiDistill(
        [nn.Linear(1, 1) for _ in range(n_students)], len(scores), DistillConfig(),
        teachers=[nn.Linear(1, 1) for _ in scores], scores=f64(scores), settings=TeacherConfig(**changes),
    )  # fmt: skip


def bleu(*rows: Sequence[float]) -> Any:
    return FakeProbe(HERE, bleu=rows)


def losses(*rows: Sequence[float]) -> Any:
    return FakeProbe(HERE, dev=rows)


# ---------------------------------------------------------------- when a teacher is listened to


def test_a_pair_is_distilled_until_the_student_leads_by_the_margin_and_again_when_it_falls_behind() -> None:
    distiller = make([30.0, 30.0, 30.0], md_weight=0.9, md_margin=1.0)
    assert distiller.weights().tolist() == [[0.9, 0.9, 0.9]], "before the first comparison everything is distilled"
    events = distiller.update(bleu([29.9, 31.0, 31.1]))
    assert distiller.weights().tolist() == [[0.9, 0.0, 0.0]], "a lead of exactly the margin means off"
    assert events == [
        {"event": "multi-distill", "step": 20, "student": 0, "score": [29.9, 31.0, 31.1], "alpha": [0.9, 0.0, 0.0]}
    ]
    distiller.update(bleu([31.5, 30.99, 31.0]))
    assert distiller.weights().tolist() == [[0.0, 0.9, 0.0]]


def test_by_dev_loss_lower_is_better_and_a_hundredth_of_a_nat_is_a_point() -> None:
    distiller = make([2.0, 2.0, 2.0, 2.0], md_weight=0.5, md_margin=1.0, md_criterion="loss")
    events = distiller.update(losses([2.5, 1.995, 1.99, 1.5]))
    assert distiller.weights().tolist() == [[0.5, 0.5, 0.0, 0.0]]
    assert events[0]["score"] == [2.5, 1.995, 1.99, 1.5], "the event tells nats"


def test_the_adaptive_rule_halves_the_weight_with_every_point_from_two_below_the_teacher() -> None:
    expected = [[0.9, 0.9, 0.45, 0.225, 0.1125]]
    distiller = make([30.0] * 5, md_weight=0.9, md_rule="adaptive")
    distiller.update(bleu([27.0, 28.0, 29.0, 30.0, 31.0]))
    torch.testing.assert_close(distiller.weights(), f64(expected))
    by_loss = make([2.0] * 5, md_weight=0.9, md_rule="adaptive", md_criterion="loss")
    by_loss.update(losses([2.03, 2.02, 2.01, 2.0, 1.99]))
    torch.testing.assert_close(by_loss.weights(), f64(expected))


def test_the_fixed_rule_never_looks_and_never_changes() -> None:
    distiller = make([30.0], md_rule="fix", md_weight=0.7, md_every=1)
    assert not any(distiller.due(Clock(t, 50, 10)) for t in range(51))
    assert distiller.weights().tolist() == [[0.7]]


@pytest.mark.parametrize("rule", ["threshold", "adaptive"])
@pytest.mark.parametrize(("every", "expected"), [(10, [10, 20, 30, 40]), (0, [25])])
def test_when_a_comparison_is_due(rule: Any, every: int, expected: list[int]) -> None:
    distiller = make([30.0], md_rule=rule, md_every=every)
    assert distiller.waits is False
    assert [t for t in range(51) if distiller.due(Clock(t, 50, 25, start=15))] == expected


def test_every_student_is_compared_by_its_own_scores() -> None:
    distiller = make([30.0, 20.0], n_students=2)
    events = distiller.update(bleu([32.0, 10.0], [10.0, 32.0]))
    assert distiller.weights().tolist() == [[0.0, 0.5], [0.5, 0.0]]
    assert [(event["student"], event["alpha"]) for event in events] == [(0, [0.0, 0.5]), (1, [0.5, 0.0])]


points = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=6)


@given(points, st.floats(0, 5))
@settings(deadline=None)
def test_factors_lie_in_0_1_and_never_grow_with_the_score(pairs: list[tuple[float, float]], more: float) -> None:
    own, teacher = f64(pairs).T
    for factor in (lambda a: threshold_factor(a, teacher, 1.0), lambda a: adaptive_factor(a, teacher)):
        before, after = factor(own), factor(own + more)
        assert bool((before >= 0).all()) and bool((before <= 1).all())
        assert bool((after <= before).all())


def test_losses_are_combined_as_equation_4_says() -> None:
    assert make([30.0]).factors(0.25) == (0.75, 0.25)


# ---------------------------------------------------------------- L_kd on the k best


def test_with_the_whole_vocabulary_at_temperature_1_it_is_equation_3() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(6, 11), torch.randn(6, 11)
    expected = kd_loss(log_probs(student), teacher.softmax(-1))
    for k in (0, 11, 50):
        kept = top_k(teacher, k)
        assert kept.ids.shape == kept.logits.shape == (6, 11)
        torch.testing.assert_close(top_k_kd(log_probs(student), kept, 1.0), expected)


def test_only_the_k_best_are_kept_and_renormalised() -> None:
    kept = top_k(f64([[0.0, 3.0, 1.0, 2.0]]), 2)
    assert (kept.ids.tolist(), kept.logits.tolist()) == ([[1, 3]], [[3.0, 2.0]])
    assert kept.logits.dtype == torch.float32
    student = f64([[0.1, 0.2, 0.3, 0.4]])
    for theta in (1.0, 0.6, 2.0):
        q = (f64([3.0, 2.0]) / theta).softmax(0)
        p = (student[0].log() / theta).softmax(0)
        expected = -(theta**2) * (q[0] * p[1].log() + q[1] * p[3].log())
        torch.testing.assert_close(top_k_kd(student.log(), kept, theta), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("theta", [0.6, 1.0, 3.0])
def test_a_teacher_that_is_the_student_gives_the_entropy_of_its_output_and_no_gradient(theta: float) -> None:
    torch.manual_seed(1)
    logits = torch.randn(5, 9).requires_grad_()
    loss = top_k_kd(log_probs(logits), top_k(logits, 0), theta)
    p = (logits.detach() / theta).softmax(-1)
    torch.testing.assert_close(loss.detach(), -(theta**2) * (p * p.log()).sum())
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.zeros(5, 9), rtol=0, atol=1e-6)


@given(st.integers(0, 10**6), st.integers(0, 8), st.sampled_from([0.6, 1.0, 2.0]))
@settings(deadline=None)
def test_its_gradient_is_theta_times_the_difference_of_the_softened_outputs(seed: int, k: int, theta: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, 7, generator=generator, dtype=torch.float64).requires_grad_()
    teacher = torch.randn(4, 7, generator=generator).requires_grad_()
    kept = top_k(teacher, k)
    loss = top_k_kd(logits, kept, theta)
    q = torch.zeros(4, 7, dtype=torch.float64)
    q.scatter_(1, kept.ids, (kept.logits.detach() / theta).softmax(-1).double())
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, theta * ((logits.detach() / theta).softmax(-1) - q), rtol=0, atol=1e-6)
    torch.testing.assert_close(loss, top_k_kd(logits.log_softmax(-1), kept, theta), msg="logits serve as well")
    shifted = TopK(kept.ids, kept.logits + 3.0)
    torch.testing.assert_close(loss, top_k_kd(logits, shifted, theta), rtol=1e-5, atol=1e-5)
    assert teacher.grad is None


# ---------------------------------------------------------------- teachers


class Spelled(nn.Linear):
    """A test double that knows the size of its vocabulary."""

    def __init__(self, vocab_size: int):
        super().__init__(1, 1)
        self.vocab_size = vocab_size


def make_with(
    students: Sequence[nn.Module], teachers: Sequence[nn.Module], n_scores: int | None = None
) -> MultiDistill:
    scores = torch.zeros(len(teachers) if n_scores is None else n_scores)
    return MultiDistill(students, 2, DistillConfig(), teachers=teachers, scores=scores, settings=TeacherConfig())


def small(vocab: int, seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(vocab, d_model=16, heads=2, encoder_layers=1, decoder_layers=1, ffn=32, dropout=0.5)


def test_each_pair_is_taught_by_its_own_model_without_dropout(tiny_encoded: EncodedCorpus) -> None:
    vocab = tiny_encoded.tokenizer.vocab_size
    teachers = [small(vocab, seed) for seed in (1, 2)]
    distiller = MultiDistill(
        [small(vocab, 0)], 2, DistillConfig(), teachers=teachers, scores=torch.zeros(2),
        settings=TeacherConfig(md_top_k=3, md_temperature=0.6),
    )  # fmt: skip
    for pair, teacher in enumerate(teachers):
        teacher.train()
        assert list(distiller.teachers(0, pair)) == [(teacher, 1.0)]
        batch = next(eval_batches(tiny_encoded.train[pair], pair, 100))
        target = distiller.target(0, batch, dropout=True)
        assert teacher.training, "its mode is put back"
        assert not target.best.logits.requires_grad
        with torch.no_grad():
            logits = token_logits(teacher.eval(), batch.src, batch.trg_in, batch.keep)
        assert torch.equal(target.best.ids, logits.topk(3).indices)
        torch.testing.assert_close(target.best.logits, logits.topk(3).values)
        assert target.temperature == 0.6


class FakeCache:
    """Answers with the batch's pair."""

    def read(self, batch: Batch) -> TopK:
        return TopK(torch.tensor([[batch.pair]]), torch.zeros(1, 1))


def test_with_a_cache_no_teacher_runs() -> None:
    distiller = MultiDistill(
        [nn.Linear(1, 1)], 2, DistillConfig(), teachers=[nn.Linear(1, 1)] * 2, scores=torch.zeros(2),
        settings=TeacherConfig(), cache=FakeCache(),  # type: ignore[arg-type]
    )  # fmt: skip
    one = torch.zeros(1, 1, dtype=torch.int64)
    batch = Batch(1, one, one, one[0], one[0], 1, 1, one[0].numpy())
    assert list(distiller.teachers(0, 1)) == []
    assert distiller.target(0, batch, dropout=True).best.ids.tolist() == [[1]]


# ---------------------------------------------------------------- state, symmetry

Rule = st.sampled_from(["threshold", "adaptive", "fix"])
Rows = st.lists(st.lists(st.floats(0, 60), min_size=4, max_size=4), min_size=1, max_size=4)


@given(Rule, Rows, st.lists(st.floats(0, 60), min_size=4, max_size=4), st.permutations(range(4)))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_the_weights(
    rule: Any, history: list[list[float]], scores: list[float], order: list[int]
) -> None:
    plain, permuted = make(scores, md_rule=rule), make([scores[pair] for pair in order], md_rule=rule)
    for row in history:
        plain.update(bleu(row))
        permuted.update(bleu([row[pair] for pair in order]))
    assert torch.equal(permuted.weights(), plain.weights()[:, order])


@pytest.mark.parametrize("rule", ["threshold", "adaptive"])
def test_a_reloaded_distiller_goes_on_alike(rule: Any) -> None:
    original, resumed = (make([30.0, 20.0], n_students=2, md_rule=rule) for _ in range(2))
    original.update(bleu([29.0, 22.5], [33.0, 19.0]))
    assert not torch.equal(original.weights(), resumed.weights())
    state = original.state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(original.weights(), resumed.weights())
    before = original.weights()
    later = bleu([31.0, 19.5], [30.0, 21.5])
    assert original.update(later) == resumed.update(later)
    assert torch.equal(state["alpha"], before), "a saved state is a copy"
