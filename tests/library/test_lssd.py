"""LSSD: which snapshot teaches which pair, when it does, and with what weight."""

from __future__ import annotations

import io
import random
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
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.losses import probs, token_logits
from pmd_lite.distillation.lssd import LSSD, Gate, adaptive_gate, selective_gate
from pmd_lite.distillation.projection import Output
from pmd_lite.distillation.targets import TeacherStates
from pmd_lite.interfaces import Clock
from pmd_lite.model.transformer import Transformer

EPOCH = 10
ALPHA = 2.5 / 3.5  # w / (1 + w) at the default w
GATES: list[Gate] = ["whole", "selective", "adaptive"]


@dataclass
class FakeProbe:
    """Dev losses [student, pair] at the end of an epoch."""

    clock: Clock
    dev: Sequence[Sequence[float]]

    def dev_loss(self, student: int) -> Tensor:
        return torch.tensor(self.dev[student], dtype=torch.float64)


def end_of(epoch: int, *dev: Sequence[float]) -> Any:
    return FakeProbe(Clock(epoch * EPOCH, 1000, EPOCH), dev)


def make(
    n_pairs: int, models: Sequence[nn.Module] | None = None, gate: Gate = "whole", **changes: Any
) -> tuple[LSSD, Sequence[nn.Module]]:
    models = models or [nn.Linear(2, 2)]
    return LSSD(models, n_pairs, DistillConfig(), gate=gate, settings=TeacherConfig(**changes)), models


def f64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# ---------------------------------------------------------------- which epoch teaches

L1, L2 = [3.0, 2.0, 2.5, 2.4], [3.0, 2.9, 2.8, 2.7]


def test_a_pair_keeps_the_teacher_of_its_best_epoch_and_is_distilled_once_it_stops_improving() -> None:
    lssd, _ = make(2)
    seen = []
    for epoch in range(1, 5):
        events = lssd.update(end_of(epoch, [L1[epoch - 1], L2[epoch - 1]]))
        assert events == [
            {"event": "lssd", "step": epoch * EPOCH, "student": 0,
             "teacher_epochs": lssd.peak[0].tolist(), "alpha": lssd.weights()[0].tolist()}
        ]  # fmt: skip
        seen.append((events[0]["teacher_epochs"], events[0]["alpha"]))
    assert seen[2] == ([2, 3], [ALPHA, 0.0]), "in epoch 4, l1 is distilled (4 - 2 > 1) and l2 is not (4 - 3 = 1)"
    assert [teachers for teachers, _ in seen] == [[1, 1], [2, 2], [2, 3], [2, 4]]
    assert [alpha for _, alpha in seen] == [[0.0, 0.0], [0.0, 0.0], [ALPHA, 0.0], [ALPHA, 0.0]]


def test_a_tie_does_not_replace_the_teacher() -> None:
    lssd, models = make(1)
    lssd.update(end_of(1, [2.0]))
    first = lssd.teachers(0, 0)[0][0]
    nn.init.constant_(models[0].weight, 7.0)  # type: ignore[arg-type]
    lssd.update(end_of(2, [2.0]))
    assert lssd.peak.tolist() == [[1]]
    assert lssd.teachers(0, 0)[0][0] is first
    assert lssd.weight(0, 0) == ALPHA


@pytest.mark.parametrize(("warmup", "first"), [(0, 3), (1, 3), (2, 3), (3, 4), (5, 6)])
def test_nothing_is_distilled_during_warm_up(warmup: int, first: int) -> None:
    """The loss is lowest in epoch 1, so from epoch 3 on only the warm-up can hold distillation back."""
    lssd, _ = make(1, lssd_warmup=warmup)
    distilled = []
    for epoch in range(1, 8):
        lssd.update(end_of(epoch, [float(epoch)]))
        if lssd.weight(0, 0):
            distilled.append(epoch + 1)
    assert distilled == list(range(first, 9))


def test_before_the_first_epoch_has_ended_nobody_teaches() -> None:
    lssd, _ = make(2)
    assert lssd.weights().tolist() == [[0.0, 0.0]]
    assert list(lssd.teachers(0, 0)) == []
    lssd.update(end_of(3, [float("nan"), 1.0]))
    assert list(lssd.teachers(0, 0)) == []
    assert lssd.weight(0, 0) == 0.0, "without a teacher there is no weight either"


def test_it_acts_at_the_end_of_every_epoch_but_the_last_and_never_waits() -> None:
    lssd, _ = make(1)
    assert lssd.waits is False
    assert [t for t in range(41) if lssd.due(Clock(t, 40, EPOCH, start=15))] == [10, 20, 30]


# ---------------------------------------------------------------- snapshots


def test_pairs_of_one_epoch_share_one_snapshot_and_unused_ones_are_dropped() -> None:
    lssd, _ = make(3)
    lssd.update(end_of(1, [3.0, 3.0, 3.0]))
    one, two, three = (lssd.teachers(0, pair)[0][0] for pair in range(3))
    assert one is two is three
    lssd.update(end_of(2, [2.0, 4.0, 2.0]))
    assert lssd.teachers(0, 0)[0][0] is lssd.teachers(0, 2)[0][0] is not one
    assert lssd.teachers(0, 1)[0][0] is one
    assert sorted(lssd.snapshots[0]) == [1, 2]
    lssd.update(end_of(3, [9.0, 1.0, 9.0]))
    assert sorted(lssd.snapshots[0]) == [2, 3]
    before = dict(lssd.snapshots[0])
    lssd.update(end_of(4, [9.0, 9.0, 9.0]))
    assert lssd.snapshots[0] == before, "where no pair improved nothing is copied"


def test_a_snapshot_does_not_move_with_later_optimiser_steps() -> None:
    lssd, (model,) = make(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    at_the_time = {name: x.clone() for name, x in model.state_dict().items()}
    lssd.update(end_of(1, [3.0]))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    teacher, share = lssd.teachers(0, 0)[0]
    assert share == 1.0
    assert not teacher.training and not any(p.requires_grad for p in teacher.parameters())
    assert model.training and all(p.requires_grad for p in model.parameters())
    for name, x in teacher.state_dict().items():
        assert torch.equal(x, at_the_time[name])
        assert not torch.equal(x, model.state_dict()[name])


def test_every_student_learns_from_its_own_past() -> None:
    lssd, models = make(2, [nn.Linear(2, 2), nn.Linear(2, 2)])
    lssd.update(end_of(1, [3.0, 3.0], [1.0, 1.0]))
    events = lssd.update(end_of(2, [2.0, 4.0], [2.0, 0.5]))
    assert [event["student"] for event in events] == [0, 1]
    assert lssd.peak.tolist() == [[2, 1], [1, 2]]
    assert lssd.weights().tolist() == [[0.0, ALPHA], [ALPHA, 0.0]]
    for student, model in enumerate(models):
        for pair in range(2):
            snapshot = lssd.teachers(student, pair)[0][0]
            assert torch.equal(snapshot.weight, model.weight)  # type: ignore[arg-type]


def test_a_snapshot_predicts_without_dropout_even_where_peers_would_have_it(tiny_encoded: EncodedCorpus) -> None:
    torch.manual_seed(0)
    model = Transformer(tiny_encoded.tokenizer.vocab_size, d_model=16, heads=2, ffn=32, dropout=0.5)
    lssd, _ = make(1, [model])
    lssd.update(end_of(1, [3.0]))
    batch = next(eval_batches(tiny_encoded.valid[0], 0, 100))
    found = lssd.target(0, batch, dropout=True)
    assert not lssd.teachers(0, 0)[0][0].training
    with torch.no_grad():
        expected = probs(token_logits(model.eval(), batch.src, batch.trg_in, batch.keep))
    torch.testing.assert_close(found.probs(slice(None)), expected)
    assert not found.probs(slice(None)).requires_grad


# ---------------------------------------------------------------- the loss


@pytest.mark.parametrize("w", [0.5, 0.8, 2.0, 2.5])
def test_the_loss_is_half_of_ce_plus_w_kd(w: float) -> None:
    lssd, _ = make(1, lssd_weight=w)
    lssd.update(end_of(1, [2.0]))
    lssd.update(end_of(2, [3.0]))
    weight = lssd.weight(0, 0)
    assert weight == pytest.approx(w / (1 + w), abs=1e-12)
    ce, kd = lssd.factors(weight)
    assert (ce, kd) == pytest.approx((1 / 2, w / 2))
    equation_4 = (1 - weight) * 8 + weight * 3
    assert ce * 8 + kd * 3 == pytest.approx((1 + w) / 2 * equation_4)


def test_where_the_teacher_is_the_student_the_soft_gate_is_1_and_the_hard_gate_two_tenths() -> None:
    logp = f64([0.5, 0.1, 0.9, 1e-9]).log()
    assert selective_gate(logp, logp).tolist() == [0.2] * 4
    assert adaptive_gate(logp, logp, torch.tensor([0, 0, 1, 1])).tolist() == [1.0] * 4


def test_gates_by_hand() -> None:
    student, teacher = f64([0.5, 0.3, 0.4, 0.2]).log(), f64([0.6, 0.1, 0.1, 0.9]).log()
    assert selective_gate(student, teacher).tolist() == [1.0, 0.2, 0.2, 1.0]
    # Sentence 0: (.6 + .1) / (.5 + .3); sentence 1: (.1 + .9) / (.4 + .2) is more than 1.
    soft = adaptive_gate(student, teacher, torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(soft, f64([0.875, 0.875, 1.0, 1.0]))


def test_gates_carry_no_gradient() -> None:
    student, teacher = (f64([0.5, 0.3]).log().requires_grad_() for _ in range(2))
    assert not selective_gate(student, teacher).requires_grad
    assert not adaptive_gate(student, teacher, torch.tensor([0, 0])).requires_grad


def test_a_gate_of_impossible_tokens_is_a_number() -> None:
    never = f64([-torch.inf])
    assert adaptive_gate(never, never, torch.tensor([0])).tolist() == [1.0]
    assert adaptive_gate(never, f64([0.0]), torch.tensor([0])).tolist() == [1.0]
    assert adaptive_gate(f64([0.0]), never, torch.tensor([0])).tolist() == [0.0]
    assert selective_gate(f64([0.0]), never).tolist() == [0.2]


probability = st.floats(1e-4, 1.0)


@given(st.lists(st.tuples(probability, probability, st.integers(0, 3)), min_size=4, max_size=12), st.randoms())
@settings(deadline=None)
@pytest.mark.slow
def test_the_soft_gate_is_that_of_each_sentence_alone(
    tokens: list[tuple[float, float, int]], rng: random.Random
) -> None:
    student, teacher = f64([t[0] for t in tokens]), f64([t[1] for t in tokens])
    sentence = torch.tensor([t[2] for t in tokens])
    gate = adaptive_gate(student.log(), teacher.log(), sentence)
    for row in set(sentence.tolist()):
        mine = sentence == row
        expected = min(1.0, (teacher[mine].mean() / student[mine].mean()).item())
        torch.testing.assert_close(gate[mine], torch.full_like(gate[mine], expected))
    order = list(range(len(tokens)))
    rng.shuffle(order)
    shuffled = adaptive_gate(student[order].log(), teacher[order].log(), sentence[order])
    torch.testing.assert_close(shuffled, gate[order])


def one_batch() -> Batch:
    """Sentences of 3 and 1 target tokens, padded to 3."""
    keep, gold = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 4, 2, 2])
    return Batch(0, torch.ones(2, 1), torch.ones(2, 3, dtype=torch.int64), keep, gold, 4, 2, torch.arange(2).numpy())


def hand_gate(gate: Gate, student: Tensor, teacher: Tensor) -> list[float]:
    """The gate of the four tokens of `one_batch`, written out from gold-token probabilities."""
    if gate == "whole":
        return [1.0] * 4
    if gate == "selective":
        return [1.0 if t > s else 0.2 for s, t in zip(student.tolist(), teacher.tolist(), strict=True)]
    long, short = teacher[:3].mean() / student[:3].mean(), teacher[3] / student[3]
    return [min(1.0, long.item())] * 3 + [min(1.0, short.item())]


@pytest.mark.parametrize("gate", GATES)
def test_each_token_counts_as_much_as_its_gate_and_no_gradient_flows_through_a_gate(gate: Gate) -> None:
    torch.manual_seed(4)
    batch = one_batch()
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(4, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    p = logits.detach().softmax(-1)
    rows = torch.arange(4)
    trust = f64(hand_gate(gate, p[rows, batch.gold], teacher.detach()[rows, batch.gold]))
    assert gate == "whole" or 0 < trust.min() < 1, "the example must have a gate that closes a little"
    lssd, _ = make(1, gate=gate)
    assert lssd.gated == (gate != "whole")
    factor = None
    if lssd.gated:
        gold = (logits.log_softmax(-1)[rows, batch.gold], teacher[rows, batch.gold].log())
        factor = lssd.trust(*(x.detach() for x in gold), batch)
        torch.testing.assert_close(factor, trust)
    gates = None if factor is None else lambda s, t: lssd.trust(s, t, batch)
    mix, output = Mix(0.0, 1.0, TeacherStates((), teacher.detach()), gates), Output(torch.eye(5, dtype=torch.float64))
    loss, sums = projected_loss(logits, output, batch.gold, 0.0, mix)
    per_token = -(teacher * p.log()).sum(-1).detach()
    torch.testing.assert_close(loss.detach(), (trust * per_token).sum())
    loss.backward()
    # The gradient of L_kd with respect to logits is p_S - p_T, and a gate only scales it.
    torch.testing.assert_close(logits.grad, trust[:, None] * (p - teacher.detach()))
    torch.testing.assert_close(sums[1], loss.detach())


# ---------------------------------------------------------------- state, symmetry

Losses = st.lists(st.lists(st.sampled_from([1.0, 1.5, 2.0, 2.5]), min_size=4, max_size=4), min_size=1, max_size=8)


@given(Losses, st.permutations(range(4)))
@settings(deadline=None)
@pytest.mark.slow
def test_permuting_the_pairs_permutes_weights_and_teachers(history: list[list[float]], order: list[int]) -> None:
    (plain, _), (permuted, _) = make(4), make(4)
    for epoch, losses in enumerate(history, start=1):
        plain.update(end_of(epoch, losses))
        permuted.update(end_of(epoch, [losses[pair] for pair in order]))
    assert torch.equal(permuted.weights(), plain.weights()[:, order])
    assert torch.equal(permuted.peak, plain.peak[:, order])


@given(Losses)
@settings(deadline=None)
@pytest.mark.slow
def test_the_teacher_is_the_first_epoch_of_the_lowest_loss(history: list[list[float]]) -> None:
    lssd, _ = make(4)
    for epoch, losses in enumerate(history, start=1):
        lssd.update(end_of(epoch, losses))
        for pair in range(4):
            past = [row[pair] for row in history[:epoch]]
            assert lssd.peak[0, pair] == past.index(min(past)) + 1
            assert (lssd.weight(0, pair) > 0) == (lssd.peak[0, pair] < epoch)
        assert set(lssd.snapshots[0]) == set(lssd.peak[0].tolist())


def set_weight(model: nn.Module, value: float) -> None:
    nn.init.constant_(model.weight, value)  # type: ignore[arg-type]


def test_a_reloaded_lssd_goes_on_alike_with_the_same_snapshots() -> None:
    original, (model,) = make(2)
    for epoch, losses in enumerate(([3.0, 3.0], [2.0, 4.0], [3.0, 5.0]), start=1):
        set_weight(model, epoch)
        original.update(end_of(epoch, losses))
    file = io.BytesIO()
    torch.save(original.state_dict(), file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed, (other,) = make(2)
    resumed.load_state_dict(saved)
    for epoch, losses in ((4, [2.0, 2.5]), (5, [1.0, 9.0]), (6, [1.5, 9.0])):
        for pair in range(2):
            one, two = (lssd.teachers(0, pair)[0][0] for lssd in (original, resumed))
            assert all(torch.equal(x, two.state_dict()[name]) for name, x in one.state_dict().items())
            assert not two.training and not any(p.requires_grad for p in two.parameters())
        other.load_state_dict(model.state_dict())
        assert original.update(end_of(epoch, losses)) == resumed.update(end_of(epoch, losses))
        assert torch.equal(original.weights(), resumed.weights())
        set_weight(model, epoch)
    assert sorted(resumed.snapshots[0]) == sorted(original.snapshots[0])


def test_a_saved_state_is_a_copy_and_holds_each_snapshot_once() -> None:
    lssd, (model,) = make(3)
    set_weight(model, 5.0)
    lssd.update(end_of(1, [3.0, 3.0, 3.0]))
    saved = lssd.state_dict()
    assert [list(kept) for kept in saved["snapshots"]] == [[1]]
    set_weight(lssd.teachers(0, 0)[0][0], 6.0)
    lssd.update(end_of(2, [2.0, 4.0, 4.0]))
    assert saved["snapshots"][0][1]["weight"].tolist() == [[5.0, 5.0]] * 2
    assert (saved["peak"].tolist(), saved["best"].tolist()) == ([[1, 1, 1]], [[3.0, 3.0, 3.0]])
    assert saved["alpha"].tolist() == [[0.0] * 3]
    fresh, _ = make(3)
    fresh.load_state_dict(saved)
    fresh.update(end_of(2, [2.0, 4.0, 4.0]))
    set_weight(fresh.teachers(0, 1)[0][0], 7.0)
    assert saved["snapshots"][0][1]["weight"].tolist() == [[5.0, 5.0]] * 2
    assert (saved["peak"].tolist(), saved["best"].tolist()) == ([[1, 1, 1]], [[3.0, 3.0, 3.0]])
    assert saved["alpha"].tolist() == [[0.0] * 3]
