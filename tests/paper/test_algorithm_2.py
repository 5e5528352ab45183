"""Alg. 2: trials are exact copies, share one teacher pass, and leave no trace (or do, in the released code's way)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from pmd_lite.data.batching import round_of
from pmd_lite.training import dev
from pmd_lite.training.learner import Learner
from pmd_lite.training.snapshot import clone, differences
from pmd_lite.training.trainer import Trainer
from pmd_lite.training.trial import lockstep_trial, per_pair_trial_set
from tests.conftest import MakeTrainer


def everything(trainer: Trainer) -> dict[str, Any]:
    """Every bit of training state: weights, gradients, moments, scaler, counters, streams, modes, random generators."""
    learners = [student.learner for student in trainer.students]
    return clone({
        "state": trainer.state_dict(),
        "weights": [dict(learner.model.state_dict()) for learner in learners],
        "grads": [[torch.zeros(0) if p.grad is None else p.grad for p in x.model.parameters()] for x in learners],
        "mode": [learner.model.training for learner in learners],
        "torch": torch.get_rng_state(), "numpy": np.random.get_state()[1].tolist(),
    })  # fmt: skip


def at_first_search(trainer: Trainer) -> Trainer:
    """Train four updates, up to the first search."""
    for step in range(1, 5):
        trainer.clock = dataclasses.replace(trainer.clock, step=step)
        for student in trainer.students:
            trainer.update(student)
    assert trainer.distiller.due(trainer.clock)
    return trainer


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [
    {}, {"trial_data": "head"}, {"accumulate": 3}, {"trial_ratio": 1.0}, {"decide_by": "accuracy"},
    {"decide_by": "chrf", "teacher": "ensemble"},
])  # fmt: skip
def test_after_a_search_only_alpha_differs(
    make_short: MakeTrainer, overrides: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "SAMPLE", 2)  # translations are slow
    trainer = at_first_search(make_short("auto-pmd", **overrides))
    before = everything(trainer)
    trainer.distiller.update(trainer.probe)
    changed = set(differences(before, everything(trainer)))
    counted = {"state.state.cost.trial", "state.state.cost.probe"}  # what looking costs is entered into the books
    assert changed - counted <= {"state.state.distiller.alpha", "state.state.distiller.logits"}
    trainer.probe.dev_loss(0)
    assert set(differences(before, everything(trainer))) - counted == changed - counted


def test_released_trials_leave_their_training_behind(make_short: MakeTrainer) -> None:
    """The released code restores live references: weights and moments stay trained; lr and counter go back."""
    trainer = at_first_search(make_short("auto-pmd", fidelity="released", start=0.0))
    before = everything(trainer)
    trainer.distiller.update(trainer.probe)
    changed = list(differences(before, everything(trainer)))
    assert any(name.startswith("state.weights.0.") for name in changed)
    assert any(name.startswith("state.weights.1.") for name in changed)
    assert any("optimizer.state" in name for name in changed)
    assert not any(name.endswith(".updates") or "streams" in name or "schedule" in name for name in changed)


def test_lockstep_equals_trials_one_at_a_time(make_short: MakeTrainer) -> None:
    """Sharing the teacher pass is exact, not an approximation: each trial alone gives the same bits."""
    trainer = at_first_search(make_short("auto-pmd"))
    alphas = torch.tensor([[0.1] * 3, [0.4] * 3, [0.0, 0.9, 0.2]], dtype=torch.float64)
    together = trainer.probe.trial(0, alphas)
    alone = torch.cat([trainer.probe.trial(0, alphas[i : i + 1]) for i in range(3)])
    assert torch.equal(together, alone)
    assert len({tuple(row) for row in together.tolist()}) == 3  # the trials really differ


def test_one_teacher_pass_serves_all_trials(make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = at_first_search(make_short("auto-pmd"))
    passes = 0
    real = trainer.target

    def counting(*args: Any, **kwargs: Any) -> torch.Tensor:
        nonlocal passes
        passes += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(trainer, "target", counting)
    seed = (trainer.config.train.seed, 4, trainer.clock.step)
    expected = len(per_pair_trial_set(trainer.encoded, 0.1, trainer.config.train.tokens, seed))
    trainer.probe.trial(0, torch.full((3, 3), 0.3, dtype=torch.float64))
    assert passes == expected
    trainer.probe.trial(0, torch.zeros(3, 3, dtype=torch.float64))  # no weight above 0: no pass at all
    assert passes == expected


def test_trial_is_ordinary_training_of_a_copy(make_short: MakeTrainer) -> None:
    """A trial's result equals what a twin gets that is trained by hand on the same batches."""
    trainer = at_first_search(make_short("auto-pmd"))
    batches = per_pair_trial_set(trainer.encoded, 0.2, trainer.config.train.tokens, (1, 2))
    learner, alpha = trainer.students[0].learner, torch.tensor([[0.2, 0.0, 1.0]], dtype=torch.float64)

    def target(batch: Any) -> torch.Tensor:
        return trainer.target(0, batch, dropout=False)

    def weights(twin: Any) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in twin.model.parameters()])

    result = lockstep_trial(learner, alpha, batches, target, trainer.distiller, weights, salt=7)
    twin = learner.copy()
    for batch in batches:
        a = float(alpha[0, batch.pair])
        twin.begin()
        twin.accumulate(batch, a, target(batch) if a else None, trainer.distiller, batch.tokens, 0, 7)
        twin.finish()
    assert torch.equal(result[0], weights(twin))
    assert not torch.equal(result[0], weights(learner))


def test_trial_set_holds_rho_of_every_pair_and_at_least_a_batch(tiny_encoded: Any) -> None:
    batches = per_pair_trial_set(tiny_encoded, 0.5, 64, (3,))
    for pair, split in enumerate(tiny_encoded.train):
        rows = sum(len(batch.src) for batch in batches if batch.pair == pair)
        one_batch = int(round_of(split, 64).per_batch)  # what training draws at a time
        assert rows == max(-(-len(split) // 2), one_batch)
    again = per_pair_trial_set(tiny_encoded, 0.5, 64, (3,))
    assert [(b.pair, b.src.tolist()) for b in batches] == [(b.pair, b.src.tolist()) for b in again]
    assert [b.pair for b in batches] != sorted(b.pair for b in batches)  # shuffled together


def test_head_trial_data_is_what_training_sees_next(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = at_first_search(make_trainer("auto-pmd", trial_data="head", trial_ratio=0.3))
    seen: list[Any] = []

    def spy(learner: Any, alphas: Any, batches: Any, *rest: Any) -> torch.Tensor:
        seen.extend(batches)
        return torch.zeros(len(alphas), 6, dtype=torch.float64)

    monkeypatch.setattr("pmd_lite.training.probe.lockstep_trial", spy)
    trainer.probe.trial(1, torch.full((3, 6), 0.3, dtype=torch.float64))
    coming = [draw.batch() for draw in trainer.students[1].draw(len(seen))]
    assert len(seen) == int(0.3 * trainer.clock.epoch) + 1
    assert [(b.pair, b.src.tolist()) for b in seen] == [(b.pair, b.src.tolist()) for b in coming]


def test_as_released_every_second_update_of_model_1s_trials_is_one_of_model_2s(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates 0, 2, 4 are model_2's first, second and third; 1 and 3 are model_1's own second and fourth."""
    trainer = at_first_search(make_trainer("auto-pmd", fidelity="released", start=0.0, trial_ratio=0.3, accumulate=2))
    seen: list[Any] = []

    def spy(learner: Any, alphas: Any, batches: Any, *rest: Any) -> torch.Tensor:
        seen.append([(b.pair, b.src.tolist()) for b in batches])
        return torch.zeros(len(alphas), 6, dtype=torch.float64)

    monkeypatch.setattr("pmd_lite.training.probe.live_trial", spy)
    before = [student.position() for student in trainer.students]
    for student in range(2):
        trainer.probe.trial(student, torch.full((3, 6), 0.3, dtype=torch.float64))
    assert [student.position() for student in trainer.students] == before, "training draws all of it again"
    updates = int(0.3 * trainer.clock.epoch) + 1
    assert updates >= 3
    one, two = (
        [[(b.pair, b.src.tolist()) for b in (d.batch() for d in student.draw(2))] for _ in range(updates)]
        for student in trainer.students
    )
    mixed = [two[i // 2] if i % 2 == 0 else one[i] for i in range(updates)]
    assert seen[0] == [batch for update in mixed for batch in update]
    assert seen[1] == [batch for update in two for batch in update]


def test_live_trials_accumulate(make_short: MakeTrainer) -> None:
    """Released: the second trial starts from the first one's weights, so equal weight vectors give unequal results."""
    trainer = at_first_search(make_short("auto-pmd", fidelity="released", start=0.0))
    results = trainer.probe.trial(0, torch.full((3, 3), 0.1, dtype=torch.float64))
    assert len({tuple(row) for row in results.tolist()}) == 3
    exact = at_first_search(make_short("auto-pmd", fidelity="released", start=0.0, rollback=True))
    same = exact.probe.trial(0, torch.full((3, 3), 0.1, dtype=torch.float64))
    assert len({tuple(row) for row in same.tolist()}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [{}, {"fidelity": "released", "start": 0.0}])
def test_trials_accumulate_as_training_does(make_short: MakeTrainer, overrides: dict[str, Any]) -> None:
    """accumulate=2 makes half of the updates, the last portion may be short; the counter goes back afterwards."""
    trainer = at_first_search(make_short("auto-pmd", accumulate=2, trial_data="per-pair", **overrides))
    seed = (trainer.config.train.seed, 4, trainer.clock.step)
    batches = len(per_pair_trial_set(trainer.encoded, 0.1, trainer.config.train.tokens, seed))
    made: list[int] = []
    finish = Learner.finish

    def counting(learner: Learner, *rest: Any) -> None:
        finish(learner, *rest)
        made.append(learner.updates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "finish", counting)
        trainer.probe.trial(0, torch.full((2, 3), 0.3, dtype=torch.float64))
    assert batches % 2 != 0  # else the short portion is not tried
    assert sorted(made) == sorted(2 * [4 + 1 + i for i in range(-(-batches // 2))])
    assert trainer.students[0].learner.updates == 4
