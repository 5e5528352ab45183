"""Students that step at the same time: each learns from the others as they were before the step.

Alg. 1 lets them step in turn, so that the second one's teacher has already made its update. The paper names training
time as its limitation; with `turns="together"` nobody waits for anybody within a step, and as many processes as there
are students can train one each, on a device of its own. After the step every process gets the new weights of all
students, so whoever teaches next is at hand. Adam's moments travel only where they are looked at: before searches and
checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pmd_lite.errors import UserError
from pmd_lite.training.distributed import ALONE, Group
from pmd_lite.training.snapshot import clone

if TYPE_CHECKING:
    from pmd_lite.training.trainer import Trainer


def check_one_each(group: Group, students: int) -> None:
    """Raises UserError when the students cannot be given out one by one."""
    if group.size not in (1, students):
        raise UserError(
            f"turns=together: {group.size} processes for {students} students. Every process trains one student, so "
            f"start {students}, or one for all of them; or set turns=in-turn"
        )


def step_together(trainer: Trainer) -> int:
    """One update of every student; returns the target tokens they trained on."""
    group, students = trainer.group, trainer.students
    plans = [trainer.plan(student) for student in students]
    mine = range(len(students)) if group.size == 1 else [group.rank]
    sums = [torch.zeros(len(plan.draws), 3, device=trainer.device) for plan in plans]
    for i in mine:
        sums[i] = trainer.gradients(students[i], plans[i], ALONE)
    for i, student in enumerate(students):  # not before: those above were teachers in what has just been computed
        if i in mine:
            student.learner.finish()
        else:
            student.learner.updates += 1
    for i, student in enumerate(students):
        group.spread(i, [*(p.data for p in student.learner.model.parameters()), sums[i]])
    for student, plan, found in zip(students, plans, sums, strict=True):
        trainer.record(student, plan, found)
    return sum(plan.tokens for plan in plans)


def share_moments(trainer: Trainer) -> None:
    """Every process gets what is left of each student's learner: Adam's moments, and the scaler of fp16."""
    group = trainer.group
    for i, student in enumerate(trainer.students):
        state = group.of_rank(i, clone(student.learner.state_dict(), "cpu") if group.rank == i else None)
        if group.rank != i:
            student.learner.load_state_dict(state)
