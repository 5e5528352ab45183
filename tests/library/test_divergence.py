"""Losses or weights that are not finite end training, with update, pair and model; fp16 may skip, but not for ever."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pmd_lite.errors import Interrupted, UserError
from pmd_lite.training import learner as learner_module
from pmd_lite.training.precision import Precision
from pmd_lite.training.trainer import Student, Trainer
from tests.conftest import MakeTrainer
from tests.paper.test_resume import assert_same


def before_update(trainer: Trainer, step: int, student: int, act: Callable[[Student], object]) -> list[str]:
    """Run `action` just before one update; returns a list that then holds the pairs that this update drew."""
    real_update, drawn = trainer.update, []

    def update(one: Student) -> int:
        if (trainer.clock.step, one.index) != (step, student):
            return real_update(one)
        act(one)
        real_draw = one.draw

        def draw(count: int) -> Any:
            found = real_draw(count)
            drawn.extend(one.pairs[d.pair] for d in found)
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(one, "draw", draw)
            return real_update(one)

    trainer.update = update  # type: ignore[method-assign]
    return drawn


def spoil(student: Student) -> None:
    with torch.no_grad():
        student.learner.model.output_weight[0, 0] = math.nan


@pytest.mark.slow
@pytest.mark.parametrize("student", [0, 1])
def test_a_weight_that_is_no_number_is_named_and_the_last_state_kept(
    student: int, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    make_trainer("auto-pmd", path=tmp_path / "whole").run()
    trainer = make_trainer("auto-pmd", path=tmp_path / "spoilt")
    drawn = before_update(trainer, 6, student, spoil)
    with pytest.raises(UserError) as stopped:
        trainer.run()
    said = f"model_{student + 1} diverged: its loss on {drawn[0]} at update 6 is not finite. Lower lr (0.005) or set"
    assert said in str(stopped.value), "not the peer, whom the broken one has taught since"
    assert trainer.clock.step == 8, "noticed where the device is read anyway: at the evaluation"
    again = make_trainer("auto-pmd", path=tmp_path / "spoilt")
    again.run()  # from step 4, and without the accident
    assert_same(tmp_path / "whole", tmp_path / "spoilt")


def poisoned(monkeypatch: pytest.MonkeyPatch, factor: Callable[[int], float]) -> None:
    """Multiply the loss of the n-th micro-batch (from 1) by factor(n)."""
    real, count = learner_module.projected_loss, iter(range(1, 10_000))

    def loss(*args: Any) -> tuple[Tensor, Tensor]:
        value, sums = real(*args)
        by = factor(next(count))
        return value * by, sums * by

    monkeypatch.setattr(learner_module, "projected_loss", loss)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_poisoned_batch_is_named(value: float, make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(monkeypatch, lambda n: value if n == 3 else 1.0)
    trainer = make_trainer("tau=1")
    drawn = before_update(trainer, 3, 0, lambda student: None)
    with pytest.raises(UserError) as stopped:
        trainer.run()
    assert f"model_1 diverged: its loss on {drawn[0]} at update 3 is not finite" in str(stopped.value)
    assert trainer.rundir.metrics() == []


def test_a_search_does_not_decide_by_a_broken_model(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("auto-pmd", update_every=2, eval_every=12)
    before_update(trainer, 2, 1, spoil)
    with pytest.raises(UserError, match=r"model_2 diverged: .* at update 2"):
        trainer.run()
    assert trainer.rundir.metrics() == []


def test_ctrl_c_does_not_save_a_broken_model(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    trainer = make_trainer("tau=1", path=tmp_path / "r")

    def stop_and_spoil(student: Student) -> None:
        trainer._asked = True
        spoil(student)

    before_update(trainer, 6, 0, stop_and_spoil)
    with pytest.raises(UserError, match="keeps the last good state") as stopped:
        trainer.run()
    assert not isinstance(stopped.value, Interrupted)
    loaded = trainer.rundir.load_checkpoint()
    assert loaded is not None
    assert loaded[1]["step"] == 4


def test_weights_that_the_last_update_broke_are_named(make_trainer: MakeTrainer) -> None:
    """The loss was still a number then."""
    trainer = make_trainer("tau=1")
    real = trainer.update

    def update(student: Student) -> int:
        tokens = real(student)
        if trainer.clock.step == 4:
            spoil(student)
        return tokens

    trainer.update = update  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"model_1 diverged: weights of \S+ are not finite after update 4\."):
        trainer.run()


def test_dev_losses_that_are_no_numbers_are_named(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights may be finite and their products not."""
    trainer = make_trainer("tau=1")
    monkeypatch.setattr(trainer.probe, "losses", lambda *_: torch.full((2, 6), math.inf, dtype=torch.float64))
    with pytest.raises(UserError, match=r"model_1 diverged: dev losses after update 4 are fra-eng inf, .*Lower lr"):
        trainer.run()


def with_scaler(trainer: Trainer) -> Trainer:
    """fp16 autocast with its gradient scaler on the CPU, which only a test needs."""
    for student in trainer.students:
        student.learner.use(Precision(torch.float16))
    return trainer


def test_overflows_are_skipped_counted_and_kept_over_a_resume(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poisoned(monkeypatch, lambda n: math.inf if n in (1, 2, 6) else 1.0)
    with_scaler(make_trainer("tau=1", path=tmp_path / "r", steps=8)).run()
    lines = with_scaler(make_trainer("tau=1", path=tmp_path / "r", steps=8)).rundir.metrics()
    assert [line["overflow_skips"] for line in lines] == [2, 3]
    assert None in lines[0]["train_ce"], "a loss that overflowed is unknown, not infinite"
    assert all(math.isfinite(x) for line in lines for x in line["dev_loss"])
    longer = with_scaler(make_trainer("tau=1", path=tmp_path / "r", steps=12))
    longer.run()
    assert longer.rundir.metrics()[-1]["overflow_skips"] == 3
    assert longer.students[0].learner.scaler.get_scale() == 65536 / 8


def test_a_storm_of_overflows_ends(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From scale 65536 the 17th overflow in a row leaves less than 1: even unscaled gradients do not fit."""
    poisoned(monkeypatch, lambda n: math.inf if n > 1 else 1.0)
    trainer = with_scaler(make_trainer("tau=1", steps=40, eval_every=10))
    says = r"model_1: gradients overflow fp16 even unscaled at update 20, and 19 of 20 updates were skipped\. Take "
    with pytest.raises(UserError, match=says + r"precision=bf16 or fp32\. Lower lr .* keeps the last good state"):
        trainer.run()
    loaded = trainer.rundir.load_checkpoint()
    assert loaded is not None
    assert loaded[1]["step"] == 10
