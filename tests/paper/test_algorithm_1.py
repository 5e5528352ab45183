"""Alg. 1 as trained: order of updates, weight 0, teacher isolation, normalisation, many students."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pmd_lite.data.batching import collate
from pmd_lite.errors import UserError
from pmd_lite.training.learner import Learner, learning_rate
from pmd_lite.training.seeds import Stream, derive_seed
from pmd_lite.training.snapshot import clone, differences
from pmd_lite.training.trainer import Trainer
from tests.conftest import MakeTrainer


def weights_of(trainer: Trainer, student: int) -> dict[str, torch.Tensor]:
    return clone(trainer.students[student].learner.model.state_dict())


@pytest.mark.slow
def test_weight_0_is_bitwise_plain_training(make_short: MakeTrainer) -> None:
    """A student of a mutual run whose weights are 0 walks the same path as a model trained alone."""
    mutual = make_short("bi-pmd", alpha=0.0)
    mutual.run()
    for student, method in enumerate(("tau=1", "tau=5")):
        alone = make_short(method)
        alone.run()
        assert list(differences(weights_of(mutual, student), weights_of(alone, 0))) == []
    assert mutual.students[0].learner.updates == 12


def test_distillation_changes_the_path(make_short: MakeTrainer) -> None:
    """The counter-check of the test above: with a weight, the bits differ."""
    mutual, alone = make_short("bi-pmd", alpha=0.1), make_short("tau=1")
    mutual.run()
    alone.run()
    assert list(differences(weights_of(mutual, 0), weights_of(alone, 0))) != []


def test_distillation_begins_at_start(make_short: MakeTrainer) -> None:
    """start=0.5 of 12 updates: bit-equal to plain training for 6 updates, different at the 7th."""
    late, alone = make_short("bi-pmd", alpha=0.5, start=0.5), make_short("tau=1")
    for step in range(1, 8):
        for trainer in (late, alone):
            trainer.clock = replace(trainer.clock, step=step)
            for student in trainer.students:
                trainer.update(student)
        equal = not list(differences(weights_of(late, 0), weights_of(alone, 0)))
        assert equal == (step <= late.clock.start), step
    assert late.clock.start == 6


def test_logged_weights_are_those_in_force(make_short: MakeTrainer) -> None:
    """Before distillation starts the metrics say 0, whatever weights the strategy holds."""
    trainer = make_short("bi-pmd", alpha=0.5, start=0.5)
    trainer.run()
    logged = {m["step"]: m["alpha"] for m in trainer.rundir.metrics() if m["event"] == "eval" and m["student"] == 1}
    assert logged == {4: [0.0] * 3, 8: [0.5] * 3, 12: [0.5] * 3}


def test_no_teacher_runs_where_the_weight_is_0(make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_short("bi-pmd", alpha=0.5)
    taught: list[tuple[int, int]] = []
    real = trainer.target
    monkeypatch.setattr(
        trainer, "target", lambda i, batch, *rest: taught.append((i, batch.pair)) or real(i, batch, *rest)
    )
    trainer.distiller.alpha[:, 0] = 0.0  # type: ignore[attr-defined]
    trainer.run()
    assert taught
    assert all(pair != 0 for _, pair in taught)


def test_student_2_learns_from_the_updated_student_1(make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gauss-Seidel order: when model_1 teaches, it has already made this step's update."""
    trainer = make_short("bi-pmd", alpha=0.5, steps=3)
    seen: list[tuple[int, int, int]] = []
    real = trainer.target

    def spy(student: int, batch: Any, *rest: Any) -> torch.Tensor:
        seen.append((student, trainer.students[0].learner.updates, trainer.students[1].learner.updates))
        return real(student, batch, *rest)

    monkeypatch.setattr(trainer, "target", spy)
    trainer.run()
    assert seen == [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 2, 1), (0, 2, 2), (1, 3, 2)]


def test_together_each_learns_from_the_other_as_it_was(
    make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of both at every teacher pass: those before the step; in Alg. 1 one of them is a step ahead."""
    trainer = make_short("bi-pmd", alpha=0.5, start=0.0, steps=3, turns="together")
    real, seen = trainer.target, []

    def spy(student: int, batch: Any, *rest: Any) -> torch.Tensor:
        seen.append((student, trainer.students[0].learner.updates, trainer.students[1].learner.updates))
        return real(student, batch, *rest)

    monkeypatch.setattr(trainer, "target", spy)
    trainer.run()
    assert seen == [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1), (0, 2, 2), (1, 2, 2)]


def test_one_student_alone_takes_no_notice_of_turns(make_short: MakeTrainer) -> None:
    runs = [make_short("tau=1", turns=turns) for turns in ("in-turn", "together")]
    for run in runs:
        run.run()
    assert list(differences(*(clone(run.students[0].learner.model.state_dict()) for run in runs))) == []


def test_no_gradient_reaches_the_teacher(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("bi-pmd", alpha=0.5)
    teacher = trainer.students[1].learner.model
    before = clone(teacher.state_dict())
    trainer.update(trainer.students[0])
    assert all(p.grad is None for p in teacher.parameters())
    assert list(differences(before, clone(teacher.state_dict()))) == []


def test_gradients_are_let_go_after_the_update(make_trainer: MakeTrainer) -> None:
    """Two students' gradients are never held at once."""
    trainer = make_trainer("bi-pmd", alpha=0.5)
    student = trainer.students[0]
    trainer.gradients(student, trainer.plan(student), trainer.group)
    assert any(p.grad is not None for p in student.learner.model.parameters())
    student.learner.finish()
    assert all(p.grad is None for p in student.learner.model.parameters())


def test_accumulation_equals_one_big_batch(make_trainer: MakeTrainer, tiny_encoded: Any) -> None:
    """Two micro-batches give the gradient of their union: tokens of the whole update normalise."""
    learner = make_trainer("tau=1", dropout=0.0).students[0].learner
    split = tiny_encoded.train[0]
    rows = np.arange(9)
    big = collate(split, rows, 0)
    parts = [collate(split, rows[:2], 0), collate(split, rows[2:], 0)]
    assert sum(part.tokens for part in parts) == big.tokens

    def gradient(batches: list[Any]) -> torch.Tensor:
        learner.begin()
        for micro, batch in enumerate(batches):
            learner.accumulate(batch, 0.0, None, None, big.tokens, micro)
        return torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None]).clone()

    torch.testing.assert_close(gradient(parts), gradient([big]), rtol=1e-4, atol=1e-7)
    unequal = [parts[0]]
    assert not torch.allclose(gradient(unequal), gradient([big]), rtol=1e-2)


def test_batch_order_does_not_change_the_gradient(make_trainer: MakeTrainer, tiny_encoded: Any) -> None:
    learner = make_trainer("tau=1", dropout=0.0).students[0].learner
    rows = np.arange(8)

    def gradient(order: Any) -> torch.Tensor:
        batch = collate(tiny_encoded.train[0], order, 0)
        learner.begin()
        learner.accumulate(batch, 0.0, None, None, batch.tokens, 0)
        return torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None]).clone()

    torch.testing.assert_close(gradient(rows), gradient(rows[::-1].copy()), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_three_students_teach_each_other(make_short: MakeTrainer) -> None:
    """N > 2 without new code: each learns from the mean of the two others, and all get searched."""
    trainer = make_short("auto-pmd", samplers=["tau=1", "tau=5", "tau=inf"], steps=9)
    assert [share for _, share in trainer.distiller.teachers(1, 0)] == [0.5, 0.5]
    assert all(model is not trainer.students[1].learner.model for model, _ in trainer.distiller.teachers(1, 0))
    trainer.run()
    searches = [m for m in trainer.rundir.metrics() if m["event"] == "search"]
    assert {m["student"] for m in searches} == {0, 1, 2}
    assert {m["step"] for m in searches} == {4, 8}


def test_learning_rate_by_hand() -> None:
    """Linear to the peak at the end of warm-up, then 1/sqrt: half the peak at four times the warm-up."""
    assert learning_rate(1, 2.0, 100) == pytest.approx(0.02)
    assert learning_rate(100, 2.0, 100) == pytest.approx(2.0)
    assert learning_rate(400, 2.0, 100) == pytest.approx(1.0)


def test_seeds_of_neighbours_are_unrelated() -> None:
    seeds = {derive_seed(a, b) for a in range(20) for b in range(20)}
    assert len(seeds) == 400


def test_every_stream_has_a_number_of_its_own_and_a_name_is_a_number() -> None:
    assert [stream.value for stream in Stream] == list(range(7)), (
        "an alias or a gap: two uses would share their numbers"
    )
    assert derive_seed(5, Stream.DRAW) == derive_seed(5, 2)


def test_learner_steps_as_torch_adam(make_trainer: MakeTrainer, tiny_encoded: Any) -> None:
    """Two updates by hand with a plain torch loop: same loss, same Adam, same schedule.

    eps=1e-3: the gradient of a key bias is nothing but rounding (softmax does not see it), and Adam with a small eps
    would blow that up to whole steps, in another direction on every machine.
    """
    learner = make_trainer("tau=1", dropout=0.0, label_smoothing=0.0, eps=1e-3).students[0].learner
    reference = Learner(tiny_encoded.tokenizer.vocab_size, learner.config, learner.device, learner.seed).model
    adam = torch.optim.Adam(reference.parameters(), betas=learner.config.optim.betas, eps=learner.config.optim.eps)
    batch = collate(tiny_encoded.train[1], np.arange(5), 1)
    for update in (1, 2):
        learner.begin()
        learner.accumulate(batch, 0.0, None, None, batch.tokens, 0)
        learner.finish()
        logits = reference(batch.src, batch.trg_in).flatten(0, 1)[batch.keep]
        adam.zero_grad()
        torch.nn.functional.cross_entropy(logits, batch.gold).backward()
        for group in adam.param_groups:
            group["lr"] = learning_rate(update, learner.config.optim.lr, learner.config.optim.warmup)
        adam.step()
    for (name, a), (_, b) in zip(learner.model.named_parameters(), reference.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)


def test_divergence_is_said_and_stops(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("tau=1", lr=1e6, warmup=1, steps=30, eval_every=1)
    with pytest.raises(UserError, match=r"diverged.*Lower lr"):
        for _ in range(30):
            with torch.no_grad():
                next(iter(trainer.students[0].learner.model.parameters())).fill_(float("nan"))
            trainer.run()


def test_early_stop_counts_evaluations_without_gain(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("tau=1", steps=100, lr=1e-9, patience=2, eval_every=1)
    trainer.students[0].best = -1.0  # nothing can beat it
    assert trainer.run() == "early stop"
    assert trainer.clock.step == 2


def test_dev_loss_is_the_mean_nll_by_a_slow_route(make_trainer: MakeTrainer, tiny_encoded: Any) -> None:
    trainer = make_trainer("tau=1", tokens=32)
    assert len(trainer.dev) > 6  # several batches a pair
    losses = trainer.probe.losses(0)
    model = trainer.students[0].learner.model.eval()
    split, total, tokens = tiny_encoded.valid[3], 0.0, 0
    for i in range(len(split)):
        batch = collate(split, np.array([i]), 3)
        logp = torch.log_softmax(model(batch.src, batch.trg_in)[0], -1).detach()
        total -= sum(float(logp[t, token]) for t, token in enumerate(batch.gold.tolist()))
        tokens += batch.tokens
    assert float(losses[0, 3]) == pytest.approx(total / tokens, rel=1e-5)


def test_only_mutual_methods_wait_for_the_start(make_trainer: MakeTrainer) -> None:
    """start=0.5 of 12 updates holds back students who teach each other, not teachers that stand still."""
    starts = {method: make_trainer(method, start=0.5).clock.start for method in ("bi-pmd", "auto-pmd", "lssd")}
    assert starts == {"bi-pmd": 6, "auto-pmd": 6, "lssd": 0}
