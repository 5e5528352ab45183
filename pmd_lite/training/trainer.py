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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.config import Config, DistillConfig
from pmd_lite.data.batching import Batch, Draw, PairStream, eval_batches
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Distiller, Events, Sampler, Target
from pmd_lite.model.transformer import Transformer
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD, Cost
from pmd_lite.training.dev import greedy_bleu
from pmd_lite.training.distributed import check_enough_work, current, shared
from pmd_lite.training.learner import Learner, derive_seed, pick_device
from pmd_lite.training.probe import ModelProbe
from pmd_lite.training.progress import Progress, Show
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import preserved_rng

MakeDistiller = Callable[[Sequence[nn.Module], int, DistillConfig], Distiller]


class Interrupted(UserError):
    """Ctrl-C: the state was saved; the message says how to go on."""


class Student:
    """A learner with its own sampler, its own draws and its own order of batches."""

    def __init__(
        self, index: int, seat: int, encoded: EncodedCorpus, config: Config, sampler: Sampler, device: torch.device
    ):
        """`seat` decides initial weights, dropout and order of the data (see `Method.first_seat`)."""
        seed, train = config.train.seed, config.train
        self.index, self.sampler = index, sampler
        self.learner = Learner(encoded.tokenizer.vocab_size, config, device, derive_seed(seed, seat))
        self.schedule = PairSchedule((seed, seat, 2), train.draws)
        self.streams = [
            PairStream(split, pair, train.tokens, (seed, seat, 3, pair)) for pair, split in enumerate(encoded.train)
        ]
        self.sums = torch.zeros(len(encoded.pairs), 3, device=device)  # L_ce, L_kd, NLL since the last evaluation
        self.tokens = torch.zeros(len(encoded.pairs), dtype=torch.float64)
        self.best, self.best_step, self.stale = math.inf, 0, 0

    def draw(self, micro_batches: int) -> list[Draw]:
        """Alg. 1, lines 4-5, once for each micro-batch of an update."""
        probabilities = self.sampler.probabilities()
        return [self.streams[self.schedule.next(probabilities)].draw() for _ in range(micro_batches)]

    def state_dict(self) -> dict[str, Any]:
        """All but the weights."""
        return {
            "learner": self.learner.state_dict(), "sampler": self.sampler.state_dict(),
            "schedule": self.schedule.state_dict(), "streams": [s.state_dict() for s in self.streams],
            "sums": self.sums, "tokens": self.tokens,
            "best": self.best, "best_step": self.best_step, "stale": self.stale,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.learner.load_state_dict(state["learner"])
        self.sampler.load_state_dict(state["sampler"])
        self.schedule.load_state_dict(state["schedule"])
        for stream, saved in zip(self.streams, state["streams"], strict=True):
            stream.load_state_dict(saved)
        self.sums.copy_(state["sums"])
        self.tokens.copy_(state["tokens"])
        self.best, self.best_step, self.stale = state["best"], state["best_step"], state["stale"]


class Trainer:
    """Runs Alg. 1 in a run directory."""

    def __init__(
        self, encoded: EncodedCorpus, config: Config, samplers: Sequence[Sampler], make_distiller: MakeDistiller,
        rundir: RunDir, show: Show = "auto", name: str = "train", first_seat: int = 0,
    ):  # fmt: skip
        self.encoded, self.config, self.rundir, self.show, self.name = encoded, config, rundir, show, name
        self.group = current()
        check_enough_work(self.group, config.train.accumulate)
        self.device = pick_device(config.train.device, config.train.precision)
        with preserved_rng():
            self.students = [
                Student(i, first_seat + i, encoded, config, sampler, self.device) for i, sampler in enumerate(samplers)
            ]
        models = [student.learner.model for student in self.students]
        self.distiller = make_distiller(models, len(encoded.pairs), config.distill)
        epoch = max(1, math.ceil(encoded.trg_tokens / (config.train.tokens * config.train.accumulate)))
        total = math.ceil(config.train.epochs * epoch) or config.train.steps
        start = round(config.distill.resolved.start * total) if self.distiller.waits else 0
        self.clock = Clock(0, total, epoch, start)
        self.cost = Cost()
        self.eval_every = config.train.eval_every or epoch
        self.dev = [
            batch.to(self.device)
            for pair, split in enumerate(encoded.valid)
            for batch in eval_batches(split, pair, 2 * config.train.tokens)
        ]
        self.probe = ModelProbe(self)
        self.seconds, self.metrics_size = 0.0, 0
        self._asked = False  # Ctrl-C was pressed in this process
        self._stop = False  # in one of them, and all know

    # ---- one update

    def target(self, student: int, batch: Batch, dropout: bool, micro: int = 0) -> Target:
        """What the teachers predict on a batch; a teacher's dropout is seeded as a student's is."""
        if dropout:
            torch.manual_seed(derive_seed(self.config.train.seed, 5, student, self.clock.step, micro))
        with self.students[student].learner.autocast():
            return self.distiller.target(student, batch, dropout)

    @property
    def parameters(self) -> int:
        """Parameters of one student."""
        return sum(p.numel() for p in self.students[0].learner.model.parameters())

    def dev_bleu(self, model: Transformer) -> Tensor:
        """[pair] BLEU of a model's greedy translations of the dev set, float64."""
        return greedy_bleu(model, self.encoded, self.config)

    def update(self, student: Student) -> int:
        """Alg. 1, lines 4-6, for one student; returns the target tokens it trained on."""
        learner, draws = student.learner, student.draw(self.config.train.accumulate)
        started, dropout = self.clock.step > self.clock.start, self.config.distill.resolved.teacher_dropout
        alphas = [self.distiller.weight(student.index, draw.pair) if started else 0.0 for draw in draws]
        tokens = sum(draw.tokens for draw in draws)
        sums = torch.zeros(len(draws), 3, device=self.device)
        learner.begin()
        for micro in self.group.mine(len(draws)):
            batch, alpha = draws[micro].batch().to(self.device), alphas[micro]
            target = self.target(student.index, batch, dropout, micro) if alpha else None
            sums[micro] = learner.accumulate(batch, alpha, target, self.distiller, tokens, micro)
        learner.finish(self.group, sums)
        for draw, alpha, found in zip(draws, alphas, sums, strict=True):
            self.cost.add("train", draw, FORWARD_AND_BACKWARD)
            self.cost.add("teacher", draw, FORWARD * self._passes(student.index, draw.pair, alpha))
            student.sampler.after_step(draw.pair, found[0] / draw.tokens, draw.tokens)
            student.sums[draw.pair] += found
            student.tokens[draw.pair] += draw.tokens
        return tokens

    def _passes(self, student: int, pair: int, alpha: float) -> int:
        """Teachers that are asked at this weight."""
        return len(self.distiller.teachers(student, pair)) if alpha else 0

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
            with preserved_rng(), precision.active(), self._listening():
                while self.clock.step < self.clock.total and not self._converged():
                    self.clock = Clock(self.clock.step + 1, self.clock.total, self.clock.epoch, self.clock.start)
                    tokens = sum(self.update(student) for student in self.students)
                    progress.advance(self.clock.step, tokens)
                    self.seconds = before + progress.seconds
                    self._stop = self.group.any(self._asked)
                    self._between_steps(progress)
        finally:
            progress.close()
        return "early stop" if self.clock.step < self.clock.total else "all steps made"

    def _between_steps(self, progress: Progress) -> None:
        """Evaluate, search, save: whatever is due after this step."""
        last = self.clock.step == self.clock.total
        evaluating = last or self.clock.step % self.eval_every == 0
        events: Events = []
        if evaluating:
            events += [self._evaluate(student, progress) for student in self.students]
        if self.distiller.due(self.clock):
            events += self.distiller.update(self.probe)
            shared(self.group, [self.distiller])
        for student in self.students:
            if student.sampler.due(self.clock):
                events += student.sampler.update(student.index, self.probe)
                shared(self.group, [student.sampler])
                student.schedule.restart_block()
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
            losses_now = [round(loss, 3) for loss in losses[0].tolist()]
            raise UserError(
                f"model_{student.index + 1} diverged: dev loss {losses_now} at step {self.clock.step}. Lower lr "
                f"({self.config.optim.lr}) or set clip=1; {self.rundir.path} keeps the last good state"
            )
        mean = float(losses[0].mean())
        if mean < student.best:
            student.best, student.best_step, student.stale = mean, self.clock.step, 0
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
            "event": "eval", "step": self.clock.step, "total": self.clock.total, "student": student.index,
            "dev_loss": losses[0].tolist(), "dev_smoothed": losses[1].tolist(),
            "train_ce": _column(trained, 0), "train_kd": _column(trained, 1), "train_nll": _column(trained, 2),
            "alpha": alpha.tolist(), "p": student.sampler.probabilities().tolist(),
            "visits": [stream.visits for stream in student.streams], "lr": student.learner.lr, "tokens": tokens,
            "overflow_skips": student.learner.overflow_skips(), "seconds": round(self.seconds, 3),
            "cost": self.cost.state_dict(),
        }  # fmt: skip

    def _converged(self) -> bool:
        patience = self.config.train.patience
        return patience > 0 and all(student.stale >= patience for student in self.students)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Let Ctrl-C finish the current step and save; a second one stops at once (the last checkpoint stays whole)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_interrupt(number: int, frame: Any) -> None:
            if self._asked:
                raise KeyboardInterrupt
            self._asked = True

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
        for student, weights, saved in zip(self.students, models, state["students"], strict=True):
            load_weights(student.learner.model, weights)
            student.load_state_dict(saved)
        self.distiller.load_state_dict(state["distiller"])
        self.cost.load_state_dict(state["cost"])
        self.clock = Clock(state["step"], self.clock.total, self.clock.epoch, self.clock.start)
        self.seconds, self.metrics_size = state["seconds"], state["metrics_size"]
        self.rundir.truncate_metrics(self.metrics_size)


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights saved without the second names of tied tensors. Raises UserError when shapes or names differ."""
    own = model.state_dict()
    storage: dict[int, str] = {}
    for name, tensor in own.items():
        storage.setdefault(tensor.data_ptr(), name)
    missing = [name for name, tensor in own.items() if storage[tensor.data_ptr()] not in weights]
    wrong = [name for name in weights if name not in own or own[name].shape != weights[name].shape]
    if missing or wrong:
        raise UserError(f"these weights belong to another model shape: {', '.join((missing + wrong)[:4])} do not fit")
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)


def _column(rows: list[list[float]], i: int) -> list[float | None]:
    """One column; None where a pair was not drawn since the last evaluation (0 / 0)."""
    return [row[i] if row[i] == row[i] else None for row in rows]
