"""The exercises of lesson 10, their diagnoses, and a run opened again."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pmd_lite as pmd
from pmd_kit import l10
from pmd_kit.exercise import OPEN, Exercise
from pmd_kit.l10.figures import equal_trials
from pmd_kit.l10.students import TinyStudent
from pmd_kit.l10.trials import changed_parts, reopen, student_state
from pmd_lite.data.batching import Batch, round_of
from pmd_lite.data.corpus import Corpus
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.run import Run
from pmd_lite.training.cost import per_token
from pmd_lite.training.probe import ModelProbe
from pmd_lite.training.trial import per_pair_trial_set
from tests.conftest import TINY, MakeTrainer

LESSONS = Path(__file__).resolve().parents[2] / "lessons" / "src"
SEEDS = range(3)


# The solutions as the notebook writes them.


def search_step(alpha: Tensor, results: Tensor, mu: float) -> tuple[list[str], Tensor]:
    actions = [ACTIONS[row] for row in results.argmin(dim=0).tolist()]
    shift = {"keep": 0.0, "up": mu, "down": -mu}
    steps = torch.tensor([shift[action] for action in actions], dtype=alpha.dtype)
    return actions, torch.sigmoid(torch.logit(alpha) + steps)


def trial_sentences(sizes: Sequence[int], rho: float, one_batch: int) -> list[int]:
    return [max(math.ceil(rho * n), one_batch) for n in sizes]


def snapshot(student: TinyStudent) -> Any:
    return copy.deepcopy({
        "model": student.model.state_dict(), "optimizer": student.optimizer.state_dict(), "updates": student.updates,
        "random": torch.get_rng_state(),
    })  # fmt: skip


def restore(student: TinyStudent, saved: Any) -> None:
    student.model.load_state_dict(saved["model"])
    student.optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))
    student.updates = saved["updates"]
    torch.set_rng_state(saved["random"])


def sharing(live: dict[str, Tensor], kept: dict[str, Tensor]) -> list[str]:
    def address(x: Tensor) -> int:
        return x.untyped_storage().data_ptr()

    return [name for name in live if address(live[name]) == address(kept[name])]


def overhead(rho: float, trials: int, shared: bool) -> float:
    teacher = 1 if shared else trials
    return 2 * rho * (3 * trials + teacher) / 8


EXERCISES = [l10.checks.SEARCH, l10.checks.TRIAL_SET, l10.checks.RESTORE, l10.checks.SHARING, l10.checks.OVERHEAD]
ANSWERS = [search_step, trial_sentences, (snapshot, restore), sharing, overhead]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise", "answer"), list(zip(EXERCISES, ANSWERS, strict=True)))
def test_the_notebooks_solution_is_right(exercise: Exercise, answer: Any, seed: int) -> None:
    assert exercise.verdict(answer, seed=seed)[0]


# ---------------------------------------------------------------- snapshot and restore
def test_a_restore_by_a_whole_copy_of_the_student_is_right_too() -> None:
    def take(student: TinyStudent) -> Any:
        return student.state()

    def back(student: TinyStudent, saved: Any) -> None:
        fresh = copy.deepcopy(saved)
        student.model.load_state_dict(fresh["weights"])
        student.optimizer.load_state_dict(fresh["optimizer"])
        student.updates = fresh["updates"]
        torch.set_rng_state(fresh["random"])

    assert l10.checks.RESTORE.verdict((take, back), seed=0)[0]


@pytest.mark.parametrize("nothing", [lambda student: None, lambda student: ...])
def test_an_unwritten_snapshot_is_not_attempted(nothing: Callable[..., Any]) -> None:
    assert l10.checks.RESTORE.verdict((nothing, lambda student, saved: None)) == (False, OPEN)


def test_checking_a_restore_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    l10.checks.RESTORE.verdict((snapshot, restore), seed=1)
    assert torch.equal(before, torch.get_rng_state())


def test_two_parts_forgotten_are_listed() -> None:
    def back(student: TinyStudent, saved: Any) -> None:
        student.model.load_state_dict(saved["model"])
        student.optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))

    solved, says = l10.checks.RESTORE.verdict((snapshot, back), seed=0)
    assert not solved and "count of updates" in says and "random state" in says


def test_a_tiny_students_next_update_depends_on_every_part() -> None:
    """Without this, a part that a restore forgets would not show."""
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def after(change: Callable[[TinyStudent], object]) -> Tensor:
        student = TinyStudent(1)
        torch.manual_seed(1)
        student.train(x, y)
        change(student)
        student.train(x, y)
        return torch.cat([p.detach().flatten() for p in student.model.parameters()])

    plain = after(lambda student: None)
    for change in (lambda s: setattr(s, "updates", 7), lambda s: torch.manual_seed(5),
                   lambda s: s.optimizer.state.clear()):  # fmt: skip
        assert not torch.equal(plain, after(change))


# ---------------------------------------------------------------- against the library
@pytest.mark.parametrize("rho", [0.1, 0.5])
def test_the_trial_set_is_the_librarys(tiny_encoded: Any, rho: float) -> None:
    for budget in (64, 160):
        held = per_pair_trial_set(tiny_encoded, rho, budget, (3,))
        for pair, split in enumerate(tiny_encoded.train):
            (expected,) = l10.checks.trial_sentences([len(split)], rho, int(round_of(split, budget).per_batch))
            assert sum(len(batch.src) for batch in held if batch.pair == pair) == expected


def test_the_search_step_is_the_distillers(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("auto-pmd")
    trainer.clock = Clock(4, 12, 4)
    rows = [[2.0, 2.0, 1.0, 3.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.5, 0.5, 2.5], [1.5, 3.0, 2.0, 2.5, 1.0, 2.0]]
    table = torch.tensor(rows, dtype=torch.float64)
    monkeypatch.setattr(ModelProbe, "trial", lambda self, student, alphas: table)
    first, _ = trainer.distiller.update(trainer.probe)
    actions, alphas = l10.checks.search_step(torch.full((6,), 0.1, dtype=torch.float64), table, first["mu"])
    assert first["actions"] == actions and first["alpha"] == pytest.approx(alphas.tolist(), abs=1e-12)


def test_the_overhead_is_what_the_trainer_counts(make_trainer: MakeTrainer) -> None:
    """On its real trial set, and without dev losses: 10 F for each batch and student."""
    trainer = make_trainer("auto-pmd")
    trainer.clock = Clock(4, 12, 4)
    trainer.distiller.update(trainer.probe)
    seed = (trainer.config.train.seed, 4, trainer.clock.step)
    batches = per_pair_trial_set(trainer.encoded, 0.1, trainer.config.train.tokens, seed)
    once = per_token(trainer.students[0].learner.model)

    def passes(over: list[Batch]) -> float:
        return sum(once.multiply_adds(batch.src_tokens, batch.tokens, 1, 1) for batch in over)

    by_formula = l10.checks.overhead(1.0, 3, True) * 8 * passes(batches)
    assert trainer.cost.multiply_adds["trial"] == by_formula + 2 * 3 * passes(trainer.dev)


# ---------------------------------------------------------------- a run opened again
@pytest.fixture(scope="module")
def finished(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs") / "auto"
    return pmd.train(tiny_corpus, "auto-pmd", "toy", out=out, show="off", score=False, **TINY)


@pytest.mark.slow
def test_a_reopened_run_stands_where_it_ended(finished: Run, tiny_corpus: Corpus) -> None:
    files = {path: path.read_bytes() for path in finished.path.rglob("*") if path.is_file()}
    trainer = reopen(finished, tiny_corpus)
    assert trainer.clock.step == 12
    assert trainer.distiller.weights()[1].tolist() == finished.searches(1)[-1]["alpha"]
    own = dict(finished.model(1, "latest").state_dict())
    assert all(torch.equal(own[n], x) for n, x in trainer.students[1].learner.model.state_dict().items())
    assert trainer.probe.losses(0)[0].tolist() == finished.evaluations(0)[-1]["dev_loss"]
    assert {path: path.read_bytes() for path in finished.path.rglob("*") if path.is_file()} == files


@pytest.mark.slow
def test_copies_leave_nothing_and_live_trials_leave_training(finished: Run, tiny_corpus: Corpus) -> None:
    same = torch.full((3, 6), 0.1, dtype=torch.float64)
    trained = ["weights", "Adam's moments", "Adam's count of steps", "learning rate"]
    for rollback, parts in ((True, []), (False, trained)):
        trainer = reopen(finished, tiny_corpus, rollback=rollback)
        before = student_state(trainer, 1)
        rows = trainer.probe.trial(1, same)
        assert changed_parts(before, student_state(trainer, 1)) == parts
        assert (len({tuple(row) for row in rows.tolist()}) == 1) is rollback


def test_only_finished_runs_on_their_own_corpus_are_opened(finished: Run, tiny_corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another corpus"):
        reopen(finished, tiny_corpus.only(tiny_corpus.pairs[:2]))
    other = Run(finished.path)
    other.dir.path = tmp_path
    with pytest.raises(UserError, match="not finished"):
        reopen(other, tiny_corpus)


def test_the_figure_of_equal_trials_holds_the_differences() -> None:
    results = {"copies": [[1.0, 2.0]] * 3, "live": [[1.0, 2.0], [0.9, 2.1], [0.8, 2.3]]}
    left, right = equal_trials(["fr", "tr"], results, alt="x").axes
    assert [list(line.get_ydata()) for line in left.lines] == [[0.0] * 3] * 2
    assert list(right.lines[1].get_ydata()) == pytest.approx([0.0, 0.1, 0.3])


def test_the_lesson_trains_the_run_of_lesson_00() -> None:
    """Lesson 10 finds the Auto-PMD run of lesson 00 finished; with other settings it would refuse it."""
    ours = (LESSONS / "10_auto_pmd.py").read_text(encoding="utf-8")
    theirs = (LESSONS / "00_the_whole_story.py").read_text(encoding="utf-8")
    (settings,) = re.findall(r"^settings, world = .*\n(?:if size.*\n    .*\n)", theirs, re.MULTILINE)
    place = 'Path("runs") / f"lesson00-{size}"'
    assert settings in ours and place in ours and place in theirs
