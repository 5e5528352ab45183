"""Algorithm 1: several students, trained side by side, each taught by the others.

while not converged:
    for each student i:                                   # line 3; student 2 sees the updated student 1
        draw a pair l from P_i, then a batch B_l          # lines 4-5
        step on (1 - alpha_i[l]) L_ce + alpha_i[l] L_kd   # line 6
    every T updates: renew alpha with the strategy        # lines 7-8
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.config import Config, DistillConfig
from pmd_lite.data.batching import Batch, Draw, eval_batches
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Distiller, Events, Sampler, Target
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD, Cost, Tokens
from pmd_lite.training.dev import greedy_bleu, kept_by
from pmd_lite.training.distributed import Group, current, shared
from pmd_lite.training.learner import check_compiler, derive_seed, pick_device
from pmd_lite.training.precision import Precision
from pmd_lite.training.probe import ModelProbe
from pmd_lite.training.progress import Progress, Show, describe_passes
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import preserved_rng
from pmd_lite.training.student import Plan, Student
from pmd_lite.training.together import check_one_each, share_moments, step_together
from pmd_lite.training.weights import load_weights

MakeDistiller = Callable[[Sequence[nn.Module], int, DistillConfig], Distiller]


def check_machine(config: Config, group: Group, students: int) -> torch.device:
    """The device to train on. Raises UserError when this machine, or this number of processes, cannot do the run."""
    if config.train.turns == "together":
        check_one_each(group, students)
    device = pick_device(config.train.device, config.train.precision)
    if config.train.compile:
        check_compiler(device)
    return device


class Interrupted(UserError):
    """Ctrl-C: the state was saved; the message says how to go on."""


class Trainer:
    """Runs Alg. 1 in a run directory."""

    def __init__(
        self, encoded: EncodedCorpus, config: Config, samplers: Sequence[Sampler], make_distiller: MakeDistiller,
        rundir: RunDir, show: Show = "auto", name: str = "train", first_seat: int = 0, notes: Sequence[str] = (),
    ):  # fmt: skip
        self.encoded, self.config, self.rundir, self.show, self.name = encoded, config, rundir, show, name
        self.notes = notes  # said when training begins
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
        self.eval_every = config.train.eval_every or self.clock.epoch
        self.dev = [
            batch.to(self.device)
            for pair, split in enumerate(encoded.valid)
            for batch in eval_batches(split, pair, 2 * config.train.tokens)
        ]
        self.probe = ModelProbe(self)
        self.seconds, self.metrics_size = 0.0, 0
        self._asked = 0.0  # when Ctrl-C was pressed in this process
        self._stop = False  # in one of them, and all know

    # ---- one update

    def target(self, student: int, batch: Batch, dropout: bool, micro: int = 0) -> Target:
        """What the teachers predict on a batch; a teacher's dropout is seeded as a student's is."""
        if dropout:
            torch.manual_seed(derive_seed(self.config.train.seed, 5, student, self.clock.step, micro))
        with self.students[student].learner.autocast():
            return self.distiller.target(student, batch, dropout)

    def plan_of_passes(self) -> list[str]:
        """In words: how long an epoch is, and how often each student will see a sentence of each pair."""
        micro_batches = self.clock.total * self.config.train.accumulate
        visits = [student.expected_visits(micro_batches) for student in self.students]
        return describe_passes(self.clock, self.encoded.pairs, visits)

    @property
    def parameters(self) -> int:
        """Parameters of one student."""
        return sum(p.numel() for p in self.students[0].learner.model.parameters())

    def dev_bleu(self, model: Transformer) -> tuple[Tensor, Tokens]:
        """[pair] BLEU of a model's greedy translations of the dev set, float64, and the tokens computed for them."""
        return greedy_bleu(model, self.encoded, self.config)

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

    # ---- the loop

    def run(self) -> str:
        """Train to the end; returns why it ended. Raises Interrupted after Ctrl-C, UserError when training diverges."""
        with self.group.first():  # the others read what rank 0 has left whole
            self._resume()
        pairs, clock, before = self.encoded.pairs, self.clock, self.seconds
        progress = Progress(self.show, self.name, pairs, clock.total, clock.step, self.rundir.path)
        try:
            precision = self.students[0].learner.precision
            if self.config.train.precision == "auto":
                progress.say(f"{self.name}  precision {precision.why}")
            for line in (*self.notes, *self.plan_of_passes()):
                progress.say(f"{self.name}  {line}")
            with preserved_rng(), precision.active(), self._listening():
                while self.clock.step < self.clock.total and not self._converged():
                    self.clock = self.clock.at(self.clock.step + 1)
                    tokens = step_together(self) if self.together else sum(map(self.update, self.students))
                    progress.advance(self.clock.step, tokens)
                    self.seconds = before + progress.seconds
                    self._stop = self.group.any(self._asked > 0)
                    self._between_steps(progress)
        finally:
            progress.close()
        return "early stop" if self.clock.step < self.clock.total else "all steps made"

    def _between_steps(self, progress: Progress) -> None:
        """Evaluate, search, save: whatever is due after this step."""
        last = self.clock.step == self.clock.total
        evaluating = last or self.clock.step % self.eval_every == 0
        searching, sampling = self.distiller.due(self.clock), [s for s in self.students if s.sampler.due(self.clock)]
        events: Events = []
        if self.together and self.group.size > 1 and (evaluating or self._stop or searching or sampling):
            share_moments(self)
        if evaluating or self._stop or searching:
            for student in sorted(self.students, key=lambda one: one.broken_since):  # one breaks, then those it teaches
                student.check(self.clock.step, str(self.rundir.path))
        if evaluating:
            events += [self._evaluate(student, progress) for student in self.students]
        if searching:
            events += self.distiller.update(self.probe)
            shared(self.group, [self.distiller])
        for student in sampling:
            events += student.sampler.update(student.index, self.probe)
            shared(self.group, [student.sampler])
        if events:
            self.metrics_size = self.rundir.append_metrics(events)
            progress.recorded()
        if evaluating or self._stop:
            self.save()
        if self._stop and not last:
            raise Interrupted(f"stopped at step {self.clock.step} of {self.clock.total}; saved in {self.rundir.path}. "
                              "Give the same command again to go on")  # fmt: skip

    def _evaluate(self, student: Student, progress: Progress) -> dict[str, Any]:
        """Dev losses of one student; keeps its best weights; returns the metrics line."""
        losses = self.probe.losses(student.index, "dev")  # [2, pair]
        if not bool(torch.isfinite(losses).all()):
            now = ", ".join(f"{p} {x:.3g}" for p, x in zip(self.encoded.pairs, losses[0].tolist(), strict=True))
            raise UserError(
                f"model_{student.index + 1} diverged: dev losses after update {self.clock.step} are {now}. Lower lr "
                f"({self.config.optim.lr}) or set clip=1; {self.rundir.path} keeps the last good state"
            )
        dev_tokens = [split.trg_tokens for split in self.encoded.valid]
        kept = kept_by(losses, dev_tokens, self.config.distill.resolved.best)
        if kept < student.best:
            student.best, student.best_step, student.stale = kept, self.clock.step, 0
            self.rundir.save_best(student.index, student.learner.model.state_dict())
        else:
            student.stale += 1
        progress.evaluation(self.clock.step, student.index, losses[0].tolist())
        trained = (student.sums.cpu().double() / student.tokens[:, None]).tolist()
        tokens = student.tokens.tolist()
        alpha = self.distiller.weights()[student.index] * (self.clock.step > self.clock.start)  # 0 before the start
        student.sums.zero_()
        student.tokens.zero_()
        return {
            "event": "eval", "step": self.clock.step, "total": self.clock.total, "epoch": self.clock.epoch,
            "student": student.index,
            "dev_loss": losses[0].tolist(), "dev_smoothed": losses[1].tolist(), "dev_tokens": dev_tokens,
            "train_ce": _column(trained, 0), "train_kd": _column(trained, 1), "train_nll": _column(trained, 2),
            "alpha": alpha.tolist(), "p": student.sampler.probabilities().tolist(),
            "visits": [stream.visits for stream in student.streams], "lr": student.learner.lr, "tokens": tokens,
            "overflow_skips": student.learner.overflow_skips(), "seconds": round(self.seconds, 3),
            "multiply_adds": self.cost.state_dict(),
        }  # fmt: skip

    def _converged(self) -> bool:
        patience = self.config.train.patience
        return patience > 0 and all(student.stale >= patience for student in self.students)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Let Ctrl-C finish the current step and save; a later one stops at once (the last checkpoint stays whole)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_interrupt(number: int, frame: Any) -> None:
            # One Ctrl-C reaches a launched process twice: from the terminal, and passed on by the launcher.
            if self._asked and time.monotonic() - self._asked > 1:
                raise KeyboardInterrupt
            self._asked = self._asked or time.monotonic()

        previous = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs besides the weights."""
        return {
            "n_students": len(self.students), "step": self.clock.step, "seconds": self.seconds,
            "metrics_size": self.metrics_size, "distiller": self.distiller.state_dict(), "cost": self.cost.state_dict(),
            "students": [student.state_dict() for student in self.students],
            "precision": [self.device.type, asdict(self.students[0].learner.precision)],
        }  # fmt: skip

    def save(self) -> None:
        """Write a checkpoint."""
        models = [student.learner.model.state_dict() for student in self.students]
        self.rundir.save_checkpoint(self.clock.step, models, self.state_dict())

    def _resume(self) -> None:
        """Continue from the latest checkpoint if there is one."""
        loaded = self.rundir.load_checkpoint()
        if loaded is None:
            self.rundir.truncate_metrics(0)
            return
        models, state = loaded
        device, chosen = state.get("precision", ("", {}))
        for student, weights, saved in zip(self.students, models, state["students"], strict=True):
            if device == self.device.type:  # "auto" chose by timing: another choice would end in other bits
                student.learner.use(Precision(**chosen))
            load_weights(student.learner.model, weights)
            student.load_state_dict(saved)
        self.distiller.load_state_dict(state["distiller"])
        self.cost.load_state_dict(state["cost"])
        self.clock = self.clock.at(state["step"])
        self.seconds, self.metrics_size = state["seconds"], state["metrics_size"]
        self.rundir.truncate_metrics(self.metrics_size)


def _column(rows: list[list[float]], i: int) -> list[float | None]:
    """One column; None where a pair was not drawn since the last evaluation (0 / 0), or overflowed fp16."""
    return [row[i] if math.isfinite(row[i]) else None for row in rows]
