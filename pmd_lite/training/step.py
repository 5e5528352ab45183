"""Algorithm 1: several students, trained side by side, each taught by the others.

while not converged:
    for each student i:                                   # line 3; student 2 sees the updated student 1
        draw a pair l from P_i, then a batch B_l          # lines 4-5
        step on (1 - alpha_i[l]) L_ce + alpha_i[l] L_kd   # line 6
    every T updates: renew alpha with the strategy        # lines 7-8

In Alg. 1 the students step in turn, so the teacher of the second student has already made its update. The paper names
training time as its limitation. With `turns="together"`, each student learns from the others as they were before the
step. Then no student waits for another within a step, and each may have a process and a device of its own.
"""

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
from pmd_lite.training.dev import greedy_score
from pmd_lite.training.distributed import ALONE, Group, current
from pmd_lite.training.learner import check_compiler, pick_device
from pmd_lite.training.precision import Precision
from pmd_lite.training.seeds import Stream, derive_seed, seed_torch
from pmd_lite.training.snapshot import clone, preserved_rng
from pmd_lite.training.student import Plan, Student


def check_machine(config: Config, group: Group, students: int) -> torch.device:
    """The device to train on. Raises UserError when this machine, or this number of processes, cannot do the run."""
    if config.train.turns == "together" and group.size not in (1, students):
        raise UserError(f"turns=together: {group.size} processes for {students} students. Every process trains one "
                        f"student, so start {students}, or one for all of them; or set turns=in-turn")  # fmt: skip
    device = pick_device(config.train.device, config.train.precision)
    if config.train.compile:
        check_compiler(device)
    return device


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
        # precision="auto" chooses by timing, which may differ between ranks; all must compute alike.
        for student in self.students:
            student.learner.use(Precision(**self.group.of_rank(0, vars(student.learner.precision))))
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
        # Every rank makes the same plan from the same seeds; only the gradients are shared out, and then summed.
        plan = self.plan(student)
        sums = self.gradients(student, plan, self.group)
        student.learner.finish(sums)
        self.record(student, plan, sums)
        return plan.tokens

    def plan(self, student: Student) -> Plan:
        """Lines 4 and 5: the student's next micro-batches and their distillation weights."""
        draws, started = student.draw(self.config.train.accumulate), self.clock.step > self.clock.start
        return Plan(draws, [self.distiller.weight(student.index, draw.pair) if started else 0.0 for draw in draws])

    def target(self, student: int, batch: Batch, dropout: bool, micro: int = 0) -> Target:
        """The teachers' predictions on a batch. dropout: whether the teachers' dropout is active."""
        # Seeded here and not left to chance, so that a resumed run and every rank draw the same dropout.
        if dropout:
            seed_torch(derive_seed(self.config.train.seed, Stream.TEACHER, student, self.clock.step, micro))
        with self.students[student].learner.autocast():
            return self.distiller.target(student, batch, dropout)

    def gradients(self, student: Student, plan: Plan, group: Group) -> Tensor:
        """Line 6 without the step: this rank's share of the gradients.

        Returns: [micro-batch, 3] sums of L_ce, L_kd and NLL in nats; 0 for the micro-batches of other ranks.
        """
        dropout = self.config.distill.resolved.teacher_dropout
        sums = torch.zeros(len(plan.draws), 3, device=self.device)
        student.learner.begin(group)
        for micro in (mine := group.mine(len(plan.draws))):
            batch, alpha = plan.draws[micro].batch().to(self.device), plan.alphas[micro]
            # At weight 0 no teacher runs: plain training costs nothing extra.
            target = self.target(student.index, batch, dropout, micro) if alpha else None
            sums[micro] = student.learner.accumulate(
                batch, alpha, target, self.distiller, plan.tokens, micro, last=micro == mine[-1]
            )
        return sums

    def record(self, student: Student, plan: Plan, sums: Tensor) -> None:
        """Count an update's cost and note its losses."""
        # Every rank counts the whole update, not only its own micro-batches, so the cost is the same on any number.
        for draw, alpha in zip(plan.draws, plan.alphas, strict=True):
            self.cost.add("train", student.learner.model, draw, FORWARD_AND_BACKWARD)
            if alpha:
                self.count_teaching("teacher", student.index, draw, FORWARD, 1)
        student.note(plan.draws, sums, self.clock.step)

    def _together(self) -> int:
        """One update of every student; returns the target tokens they trained on."""
        group, students = self.group, self.students
        # Every rank plans for all students, though it trains one: samplers and streams must stay equal on all ranks.
        plans = [self.plan(student) for student in students]
        mine = range(len(students)) if group.size == 1 else [group.rank]
        sums = [torch.zeros(len(plan.draws), 3, device=self.device) for plan in plans]
        for i in mine:
            sums[i] = self.gradients(students[i], plans[i], ALONE)
        # Steps come only now: up to here each student was a teacher with its old weights.
        for i, student in enumerate(students):
            if i in mine:
                student.learner.finish()
            else:
                student.learner.updates += 1
        # Every rank gets the new weights of all students, because each of them may be a teacher in the next step.
        for i, student in enumerate(students):
            group.spread(i, [*(p.data for p in student.learner.model.parameters()), sums[i]])
            self.record(student, plans[i], sums[i])
        return sum(plan.tokens for plan in plans)

    def share_moments(self) -> None:
        """With turns="together", give each student's Adam moments and fp16 scaler to all ranks.

        Training does not need them on other ranks, so they travel only before searches and checkpoints.
        """
        group = self.group
        for i, student in enumerate(self.students):
            state = group.of_rank(i, clone(student.learner.state_dict(), "cpu") if group.rank == i else None)
            if group.rank != i:
                student.learner.load_state_dict(state)

    def dev_bleu(self, model: Transformer) -> tuple[Tensor, Tokens]:
        """[pair] BLEU of a model's greedy translations of the dev set, float64, and the number of tokens computed."""
        return greedy_score(model, self.encoded, self.config, group=self.group)

    def count_teaching(
        self, purpose: str, student: int, batch: Batch | Draw, passes: int, listeners: int, kept: bool = False
    ) -> None:
        """Count what a batch's teachers compute, and what a gate needs.

        passes: forward passes of each teacher. listeners: models that learn from them. kept: whether the teachers'
        states are projected once for all listeners.
        """
        # Without `kept`, each listener projects the teachers' states itself: once for the loss, once more for a gate.
        projections = 2 if self.distiller.gated else 1
        for teacher, _ in self.distiller.teachers(student, batch.pair):
            self.cost.add(purpose, teacher, batch, passes, 1 if kept else projections * listeners)
        # A gate also needs the student's own gold log-probabilities: one more projection of its states.
        self.cost.add(purpose, self.students[student].learner.model, batch, 0, (projections - 1) * listeners)
