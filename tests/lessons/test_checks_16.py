"""The exercises of lesson 16, and strategies of one's own inside `train`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pmd_lite as pmd
from pmd_kit import l16
from pmd_kit.exercise import OPEN, Exercise
from pmd_kit.l16.own_strategies import Council, Resting, forward_passes, teacher_shares
from pmd_lite.data.corpus import Corpus
from pmd_lite.distillation.mutual import BaseDistiller, UniPMD
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Events, Probe
from pmd_lite.methods import METHODS, SAMPLERS, Method
from pmd_lite.sampling.temperature import BaseSampler
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import load_weights
from tests.conftest import TINY

STUDENTS = ["Emmy", "Ada", "Nr. 17", "x", "Grace", "Émilie", "12345", "Bob"]


# ---------------------------------------------------------------- exercise 1


@pytest.mark.parametrize("student", STUDENTS)
def test_the_bill_is_the_students_own_and_its_slips_are_named(student: str) -> None:
    (m, rho), exercise = l16.checks.my_plan(student), l16.checks.my_bill(student)
    assert exercise.verdict(m * (3 + m - 1) + rho * m * (9 + m - 1))[0]
    assert len(exercise.mistakes) >= 5
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_the_bill_of_two_is_that_of_the_method_table() -> None:
    assert METHODS["auto-pmd"].passes == "8 + 20 rho"
    assert [forward_passes(2, rho) for rho in (0.0, 0.1, 1.0)] == pytest.approx([8, 10, 28])


def test_no_two_slips_give_one_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    for m, rho in itertools.product(range(4, 7), (0.05, 0.1, 0.15, 0.25)):
        monkeypatch.setattr(l16.checks, "my_plan", lambda student, plan=(m, rho): plan)
        exercise = l16.checks.my_bill("anybody")
        bills = sorted([exercise.right(), *(mistake.answer() for mistake in exercise.mistakes)])
        assert min(b - a for a, b in itertools.pairwise(bills)) > 1e-3
    monkeypatch.undo()
    assert len({l16.checks.my_plan(student) for student in STUDENTS}) > 4


# ---------------------------------------------------------------- exercise 2


def test_shares_sum_to_one_and_leave_the_student_out() -> None:
    losses = torch.rand(5, 4, generator=torch.Generator().manual_seed(1))
    for student in range(5):
        shares = teacher_shares(losses, student, 3.0)
        assert torch.allclose(shares.sum(0), torch.ones(4, dtype=torch.float64))
        assert shares[student].tolist() == [0.0] * 4
        order = losses.double().index_fill(0, torch.tensor([student]), math.inf).argmin(0)
        assert torch.equal(shares.argmax(0), order), "the best peer has the largest share"
    assert teacher_shares(losses, 0, 0.0)[1:].unique().tolist() == [0.25]


# ---------------------------------------------------------------- exercises 3 and 4: half-finished answers


class _Dots(BaseSampler):
    def __init__(self, sizes: Sequence[int]):
        super().__init__(torch.full((len(sizes),), 1 / len(sizes), dtype=torch.float64))

    def due(self, clock: Clock) -> bool:
        return None  # type: ignore[return-value]


class _DueOnly(Resting):
    def update(self, student: int, probe: Probe) -> Events:
        return None  # type: ignore[return-value]


class _Single(Resting):
    def update(self, student: int, probe: Probe) -> Events:
        super().update(student, probe)
        self._p = self._p.float()
        return []


class _Pickled(Resting):
    def state_dict(self) -> dict[str, Any]:
        return {"sampler": self}


class _CouncilOfDots(UniPMD):
    def teachers(self, student: int, pair: int) -> Any:
        return None


class _Stranger(Council):
    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        return [(nn.Identity(), 1.0)]


class _Half(Council):
    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        return [(model, share / 2) for model, share in super().teachers(student, pair)]


@pytest.mark.parametrize(
    ("exercise", "answer", "says"),
    [
        (l16.checks.SAMPLER, _Dots, OPEN),
        (l16.checks.SAMPLER, _DueOnly, "update() returns NoneType, not a list of events"),
        (l16.checks.SAMPLER, _Single, "P is torch.float32 [3], not torch.float64 [3]"),
        (l16.checks.SAMPLER, _Pickled, "a checkpoint holds tensors, numbers, text and lists of them only"),
        (l16.checks.DISTILLER, _CouncilOfDots, OPEN),
        (l16.checks.DISTILLER, _Stranger, "something that is not one of the students"),
        (l16.checks.DISTILLER, _Half, "shares of a student's teachers sum to 0.500"),
    ],
)
def test_what_else_is_said(exercise: Exercise, answer: Callable[..., Any], says: str) -> None:
    solved, message = exercise.verdict(answer, seed=1)
    assert not solved and says in message


# ---------------------------------------------------------------- strategies of one's own inside train


class _OneTeacher(BaseDistiller):
    """All its soft targets come from one frozen model."""

    waits = False
    teacher: nn.Module

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.alpha.fill_(0.4)

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        return [(self.teacher, 1.0)]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lesson's names, registered for one test."""
    monkeypatch.setitem(SAMPLERS, "resting", lambda sizes, config, found: Resting(sizes))
    trio = ("tau=1", "tau=5", "resting")
    monkeypatch.setitem(METHODS, "council", Method("council", trio, Council, "9 to 15", "peers by merit", "lesson 16"))
    row = Method("frozen", ("tau=1",), _OneTeacher, "4", "one finished teacher", "lesson 16")
    monkeypatch.setitem(METHODS, "frozen", row)


LONG = {**TINY, "steps": 12, "epochs": 3.0, "tokens": 1400, "eval_every": 4, "lr": 0.1, "alpha": 0.5, "update_every": 3}


@pytest.mark.slow
def test_three_students_with_strategies_of_ones_own_train_and_go_on_to_the_same_bits(
    registered: None, tiny_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pmd.train(tiny_corpus, "council", out=tmp_path / "whole", show="off", score=False, **LONG)
    assert whole.labels[2] == "council model_3 (resting)"
    assert [m["event"] for m in whole.dir.metrics()].count("rest") == 2, "once an epoch, not after the last"
    real = Council.update
    monkeypatch.setattr(Council, "update", _stopping(real))
    with pytest.raises(KeyboardInterrupt):
        pmd.train(tiny_corpus, "council", out=tmp_path / "again", show="off", score=False, **LONG)
    monkeypatch.setattr(Council, "update", real)
    again = pmd.train(tiny_corpus, "council", out=tmp_path / "again", show="off", score=False, **LONG)
    for student in range(3):
        one, two = (run.dir.load_weights(student, "latest") for run in (whole, again))
        assert list(differences(one, two)) == []
    assert _told(whole) == _told(again)


def _stopping(real: Callable[..., Any]) -> Callable[..., Any]:
    def update(self: Council, probe: Probe) -> Events:
        if probe.clock.step == 6:
            raise KeyboardInterrupt
        return list(real(self, probe))

    return update


def _told(run: pmd.Run) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in run.dir.metrics()]


@pytest.mark.slow
def test_a_frozen_model_teaches(registered: None, tiny_corpus: Corpus, tmp_path: Path) -> None:
    first = pmd.train(tiny_corpus, "tau=1", out=tmp_path / "first", show="off", score=False, **TINY)
    _OneTeacher.teacher = first.model()
    before = {name: weights.clone() for name, weights in _OneTeacher.teacher.state_dict().items()}
    run = pmd.train(tiny_corpus, "frozen", out=tmp_path / "frozen", tokenizer=first.path / "tokenizer", show="off",
                    score=False, **TINY)  # fmt: skip
    assert 3 * run.cost["teacher"] == run.cost["train"]
    assert list(differences(before, dict(_OneTeacher.teacher.state_dict()))) == []
    load_weights(first.model(), dict(run.model().state_dict()))  # of one shape, so they can be compared


def test_a_name_that_is_not_registered_is_missed_when_a_run_is_opened(
    tiny_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(SAMPLERS, "resting", lambda sizes, config, found: Resting(sizes))
        pmd.train(tiny_corpus, "tau=5", samplers=["resting"], out=tmp_path, show="off", score=False, **TINY)
    with pytest.raises(UserError, match="no sampler 'resting'"):
        pmd.Run(tmp_path)


# ---------------------------------------------------------------- the figure


def shares(losses: Tensor, student: int, sharpness: float) -> Tensor:
    """The notebook's solution."""
    scores = -sharpness * losses
    scores[student] = -math.inf
    return torch.softmax(scores, dim=0)


@pytest.mark.parametrize("seed", range(4))
def test_the_notebooks_solution_of_exercise_2_is_right(seed: int) -> None:
    assert l16.checks.SHARES.verdict(shares, seed=seed)[0]
