"""Algorithm 1: several students, trained side by side, each taught by the others.

while not converged:
    for each student i:                                   # line 3; student 2 sees the updated student 1
        draw a pair l from P_i, then a batch B_l          # lines 4-5
        step on (1 - alpha_i[l]) L_ce + alpha_i[l] L_kd   # line 6
    every T updates: renew alpha with the strategy        # lines 7-8

Together (`turns="together"`): each student learns from the others as they were before the step.
Alg. 1 lets them step in turn, so that the second one's teacher has already made its update. The paper names training
time as its limitation; with `turns="together"` nobody waits for anybody within a step, and as many processes as there
are students can train one each, on a device of its own. After the step every process gets the new weights of all
students, so whoever teaches next is at hand. Adam's moments travel only where they are looked at: before searches and
checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.config import Config
from pmd_lite.data.batching import Batch, Draw, eval_batches
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, MakeDistiller, Sampler, Target
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD, Cost, Tokens
from pmd_lite.training.dev import greedy_bleu
from pmd_lite.training.distributed import ALONE, Group, current
from pmd_lite.training.learner import check_compiler, pick_device
from pmd_lite.training.seeds import Stream, derive_seed
from pmd_lite.training.snapshot import clone, preserved_rng
from pmd_lite.training.student import Plan, Student


def check_machine(config: Config, group: Group, students: int) -> torch.device:
    """The device to train on. Raises UserError when this machine, or this number of processes, cannot do the run."""
    if config.train.turns == "together":
        check_one_each(group, students)
    device = pick_device(config.train.device, config.train.precision)
    if config.train.compile:
        check_compiler(device)
    return device


def check_one_each(group: Group, students: int) -> None:
    """Raises UserError when the students cannot be given out one by one."""
    if group.size not in (1, students):
        raise UserError(
            f"turns=together: {group.size} processes for {students} students. Every process trains one student, so "
            f"start {students}, or one for all of them; or set turns=in-turn"
        )


class Algorithm1:
    """Students, their distiller and the clock; `step` is one turn of the loop of Alg. 1."""

    def __init__(
        self, encoded: EncodedCorpus, config: Config, samplers: Sequence[Sampler], make_distiller: MakeDistiller,
        first_seat: int = 0,
    ):  # fmt: skip
        self.encoded, self.config = encoded, config
        self.group = current()
        self.together = config.train.turns == "together"
        self.device = check_machine(config, self.group, len(samplers))
        with preserved_rng():
            self.students = [
                Student(i, first_seat + i, encoded, config, sampler, self.device) for i, sampler in enumerate(samplers)
            ]
        for student in self.students:  # "auto" goes by timing, and ranks must not differ
            student.learner.use(self.group.rank_0s(student.learner.precision))
        models = [student.learner.model for student in self.students]
        self.distiller = make_distiller(models, len(encoded.pairs), config.distill)
        self.clock = Clock.of(config, self.students[0].batches_per_pass, self.distiller.waits)
        self.cost = Cost()
        self.dev = [
            batch.to(self.device)
            for pair, split in enumerate(encoded.valid)
            for batch in eval_batches(split, pair, 2 * config.train.tokens)
        ]

    def step(self) -> int:
        """Lines 3 to 6: one update of every student, in turn or together; returns the target tokens they trained on."""
        return self._together() if self.together else sum(map(self.update, self.students))

    def update(self, student: Student) -> int:
        """Alg. 1, lines 4-6, for one student; returns the target tokens it trained on."""
        plan = self.plan(student)
        sums = self.gradients(student, plan, self.group)
        student.learner.finish(self.group, sums)
        self.record(student, plan, sums)
        return plan.tokens

    def plan(self, student: Student) -> Plan:
        """Lines 4 and 5: what the student will train on, and how much it will be taught."""
        draws, started = student.draw(self.config.train.accumulate), self.clock.step > self.clock.start
        return Plan(draws, [self.distiller.weight(student.index, draw.pair) if started else 0.0 for draw in draws])

    def target(self, student: int, batch: Batch, dropout: bool, micro: int = 0) -> Target:
        """What the teachers predict on a batch; a teacher's dropout is seeded as a student's is."""
        if dropout:
            torch.manual_seed(derive_seed(self.config.train.seed, Stream.TEACHER, student, self.clock.step, micro))
        with self.students[student].learner.autocast():
            return self.distiller.target(student, batch, dropout)

    def gradients(self, student: Student, plan: Plan, group: Group) -> Tensor:
        """Line 6 without the step: this rank's share of the gradients. Returns [micro-batch, 3] sums of L_ce, L_kd and
        NLL in nats, 0 for other ranks' micro-batches."""
        dropout = self.config.distill.resolved.teacher_dropout
        sums = torch.zeros(len(plan.draws), 3, device=self.device)
        student.learner.begin()
        for micro in group.mine(len(plan.draws)):
            batch, alpha = plan.draws[micro].batch().to(self.device), plan.alphas[micro]
            target = self.target(student.index, batch, dropout, micro) if alpha else None
            sums[micro] = student.learner.accumulate(batch, alpha, target, self.distiller, plan.tokens, micro)
        return sums

    def record(self, student: Student, plan: Plan, sums: Tensor) -> None:
        """Enter an update's cost and losses."""
        for draw, alpha in zip(plan.draws, plan.alphas, strict=True):
            self.cost.add("train", student.learner.model, draw, FORWARD_AND_BACKWARD)
            if alpha:
                self.count_teaching("teacher", student.index, draw, FORWARD, 1)
        student.note(plan.draws, sums, self.clock.step)

    def _together(self) -> int:
        """One update of every student; returns the target tokens they trained on."""
        group, students = self.group, self.students
        plans = [self.plan(student) for student in students]
        mine = range(len(students)) if group.size == 1 else [group.rank]
        sums = [torch.zeros(len(plan.draws), 3, device=self.device) for plan in plans]
        for i in mine:
            sums[i] = self.gradients(students[i], plans[i], ALONE)
        for i, student in enumerate(students):  # not before: those above were teachers in what has just been computed
            if i in mine:
                student.learner.finish()
            else:
                student.learner.updates += 1
        for i, student in enumerate(students):
            group.spread(i, [*(p.data for p in student.learner.model.parameters()), sums[i]])
        for student, plan, found in zip(students, plans, sums, strict=True):
            self.record(student, plan, found)
        return sum(plan.tokens for plan in plans)

    def share_moments(self) -> None:
        """Every process gets what is left of each student's learner: Adam's moments, and the scaler of fp16."""
        group = self.group
        for i, student in enumerate(self.students):
            state = group.of_rank(i, clone(student.learner.state_dict(), "cpu") if group.rank == i else None)
            if group.rank != i:
                student.learner.load_state_dict(state)

    @property
    def parameters(self) -> int:
        """Parameters of one student."""
        return sum(p.numel() for p in self.students[0].learner.model.parameters())

    def dev_bleu(self, model: Transformer) -> tuple[Tensor, Tokens]:
        """[pair] BLEU of a model's greedy translations of the dev set, float64, and the tokens computed for them."""
        return greedy_bleu(model, self.encoded, self.config)

    def count_teaching(
        self, purpose: str, student: int, batch: Batch | Draw, passes: int, listeners: int, kept: bool = False
    ) -> None:
        """Enter what a batch's teachers compute, and what a gate does.

        passes: of each teacher. listeners: models that are taught by what it says; each projects the teacher's states
        for itself, once for the loss and once more for a gate, unless they are `kept` projected.
        """
        looks = 2 if self.distiller.gated else 1
        for teacher, _ in self.distiller.teachers(student, batch.pair):
            self.cost.add(purpose, teacher, batch, passes, 1 if kept else looks * listeners)
        # Before it is trained on, a gated batch is projected by the student, too: its own gold log-probabilities.
        self.cost.add(purpose, self.students[student].learner.model, batch, 0, (looks - 1) * listeners)
