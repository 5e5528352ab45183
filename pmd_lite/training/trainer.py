"""The loop around the step of Alg. 1: the work between two steps, Ctrl-C, saving and resuming."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch

from pmd_lite.config import Config, Show
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.interfaces import Clock, Events, MakeDistiller, OnEvent, Sampler
from pmd_lite.training.averaging import keep
from pmd_lite.training.dev import kept_by
from pmd_lite.training.distributed import shared
from pmd_lite.training.precision import Precision
from pmd_lite.training.probe import ModelProbe
from pmd_lite.training.progress import Progress, describe_passes
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import preserved_rng
from pmd_lite.training.step import Algorithm1
from pmd_lite.training.student import Student
from pmd_lite.training.weights import load_weights

ASKING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
"""Signals that ask a run to save and stop: Ctrl-C, `kill` and Slurm's end, a closed terminal, Slurm's warning."""


@contextmanager
def handled(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """A block in which `handler` gets the signals of `ASKING`; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
        yield
        return
    previous = {number: signal.signal(number, handler) for number in ASKING}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


class Trainer(Algorithm1):
    """Alg. 1 in a run directory: the loop, the work between its steps, saving and resuming."""

    def __init__(
        self, encoded: EncodedCorpus, config: Config, samplers: Sequence[Sampler], make_distiller: MakeDistiller,
        rundir: RunDir, show: Show = "auto", name: str = "train", first_seat: int = 0, notes: Sequence[str] = (),
        redraw: Callable[[], None] | None = None, watch: Callable[[], None] = lambda: None, begun: Config | None = None,
        on_event: OnEvent | None = None,
    ):  # fmt: skip
        """watch: called at every evaluation. begun: the first configuration of a run that has become longer."""
        super().__init__(encoded, config, samplers, make_distiller, first_seat)
        self.asked = self.clock  # of a run that has this length from the start
        if begun is not None:  # what has begun must not end when the run gets longer
            first = Clock.of(begun, self.students[0].batches_per_pass, self.distiller.waits)
            self.clock = replace(self.clock, start=first.start)
        self.rundir, self.show, self.name = rundir, show, name
        self.redraw, self.watch, self.on_event = redraw, watch, on_event
        self.notes = notes  # printed when training begins
        self.eval_every = config.train.eval_every or self.clock.epoch
        self.probe = ModelProbe(self)
        self.seconds, self.metrics_size = 0.0, 0
        self._asked = 0.0  # when a signal came to this process
        self._signal: int = signal.SIGINT  # which one came
        self._stop = False  # whether it was pressed in any process; the same on all ranks

    def run(self) -> str:
        """Train to the end; returns why it ended. Raises Interrupted after Ctrl-C, UserError when training diverges."""
        with self.group.first():  # rank 0 may cut metrics.jsonl; the other ranks then read the result
            self._resume()
        pairs, clock, before = self.encoded.pairs, self.clock, self.seconds
        progress = Progress(self.show, self.name, pairs, clock.total, clock.step, self.redraw)
        try:
            asked, device = self.config.train, self.students[0].learner.device
            precision = self.students[0].learner.precision
            seen = f"auto: torch sees {'a' if device.type == 'cuda' else 'no'} CUDA device"
            how = f"device {device} ({seen if asked.device == 'auto' else 'as asked'}); precision "
            progress.say(f"{self.name}  {how}{precision.why if asked.precision == 'auto' else asked.precision}")
            evaluations = self.rundir.lines("eval", len(pairs))
            planned: int = evaluations[-1]["total"] if evaluations else clock.total
            longer = [self._prolonged(planned)] if planned != clock.total else []
            visits = [student.expected_visits(clock.total * self.config.train.accumulate) for student in self.students]
            for line in (*self.notes, *longer, *describe_passes(clock, pairs, visits)):
                progress.say(f"{self.name}  {line}")
            here = self.group.answered(lambda: f"update {self.clock.step}")
            with preserved_rng(), precision.active(), handled(self._on_signal), here:
                if clock.step == planned < clock.total:  # strategies do not decide at the end of a run, so they do now
                    self._tell(self._decide(*self._due()), progress)
                while self.clock.step < self.clock.total and not (self._stop or self._converged()):
                    self.clock = self.clock.at(self.clock.step + 1)
                    tokens = self.step()
                    progress.advance(self.clock.step, tokens)
                    self.seconds = before + progress.seconds
                    self._stop = self.group.any(self._asked > 0)
                    self._between_steps(progress)
                if self.group.any(self._asked > 0):  # also if it came in the last step: scoring may take long
                    what = f"stopped at step {self.clock.step} of {self.clock.total}; saved in {self.rundir.path}"
                    raise Interrupted(f"{what}. Give the same command again to continue", self._signal)
        finally:
            progress.close()
        return "early stop" if self.clock.step < self.clock.total else "all steps made"

    def _between_steps(self, progress: Progress) -> None:
        """Evaluate, search and save, if it is time for any of them after this step."""
        last = self.clock.step == self.clock.total
        evaluating = last or self.clock.step % self.eval_every == 0
        searching, sampling = self._due()
        events: Events = []
        # Between strategies and checkpoints a rank needs Adam's moments of its own student only; here it needs all.
        if self.together and self.group.size > 1 and (evaluating or self._stop or searching or sampling):
            self.share_moments()
        # A diverged student ruins the students that it teaches, so the first to break is named first.
        if evaluating or self._stop or searching:
            for student in sorted(self.students, key=lambda one: one.broken_since):
                student.check(self.clock.step, str(self.rundir.path))
        # Evaluate before the search: the line in metrics.jsonl holds the weights that were used up to here.
        if evaluating:
            self.watch()
            events += [self._evaluate(student, progress) for student in self.students]
        events += self._decide(searching, sampling)
        # Metrics before the checkpoint, which holds their length: after a kill, resume cuts off what came later.
        self._tell(events, progress)
        if evaluating or self._stop:
            self.save()

    def _tell(self, events: Events, progress: Progress) -> None:
        """Write events into metrics.jsonl, then show them and hand them to `on_event`."""
        if events:
            self.metrics_size = self.rundir.append_metrics(events)
            progress.recorded()
        if self.on_event and self.rundir.writes:
            for event in events:
                self.on_event(event)

    def _due(self) -> tuple[bool, list[Student]]:
        """Whether the distiller decides now, and the students whose samplers do."""
        return self.distiller.due(self.clock), [s for s in self.students if s.sampler.due(self.clock)]

    def _decide(self, searching: bool, sampling: Sequence[Student]) -> Events:
        """Let the distiller and some students' samplers decide."""
        events: Events = []
        if searching:
            events += self.distiller.update(self.probe)
            shared(self.group, self.distiller)
        for student in sampling:
            events += student.sampler.update(student.index, self.probe)
            shared(self.group, student.sampler)
        return events

    def _prolonged(self, planned: int) -> str:
        """What to say of a run that was planned for so many updates and goes on. UserError if it has converged."""
        now, whole = self.clock, self.asked
        if self._converged():
            raise UserError(f"{self.rundir.path} stopped early: {self.config.train.patience} evaluations had no gain. "
                            "Give a larger patience, or patience=0")  # fmt: skip
        other = [one.by_total for one in (self.distiller, *(student.sampler for student in self.students))]
        if now.start != whole.start:
            other.append(f"the start of distillation (here after update {now.start:,}, there {whole.start:,})")
        if planned % self.eval_every:
            other.append(f"the weights kept as best (here also evaluated after update {planned:,})")
        if (self.rundir.path / "auxiliary.json").exists():
            other.append("the runs it learns from")
        unlike = ", ".join(dict.fromkeys(filter(None, other)))
        same = f"Unlike a run of {now.total:,} from the start in: {unlike}" if unlike else (
            f"It ends in the same bits as a run of {now.total:,} from the start")  # fmt: skip
        return f"continues after update {now.step:,} of {planned:,}, up to {now.total:,}. {same}"

    def _evaluate(self, student: Student, progress: Progress) -> dict[str, Any]:
        """Dev losses of one student; keeps its best weights; returns the metrics line."""
        losses = self.probe.losses(student.index, "dev")  # [2, pair]
        if not bool(torch.isfinite(losses).all()):
            now = ", ".join(f"{p} {x:.3g}" for p, x in zip(self.encoded.pairs, losses[0].tolist(), strict=True))
            raise UserError(f"model_{student.index + 1} diverged: dev losses after update {self.clock.step} are {now}. "
                            f"Lower lr ({self.config.optim.lr}) or set clip=1; {self.rundir.path} keeps the last good "
                            "state")  # fmt: skip
        dev_tokens = [split.trg_tokens for split in self.encoded.valid]
        kept = kept_by(losses, dev_tokens, self.config.distill.resolved.best)
        if kept < student.best:
            student.best, student.best_step, student.stale = kept, self.clock.step, 0
            self.rundir.save_best(student.index, student.learner.model.state_dict(), self.clock.step)
        else:
            student.stale += 1
        keep(self.rundir, student.index, student.learner.model, self.clock.step, self.config.train.keep_last)
        progress.evaluation(self.clock.step, student.index, losses[0].tolist())
        # None where a pair was not drawn since the last evaluation (0 / 0), or its loss overflowed in fp16
        means = (student.sums.cpu().double() / student.tokens[:, None]).T.tolist()
        trained = [[x if math.isfinite(x) else None for x in column] for column in means]
        tokens = student.tokens.tolist()
        alpha = self.distiller.weights()[student.index] * (self.clock.step > self.clock.start)  # 0 before the start
        student.sums.zero_()
        student.tokens.zero_()
        return {
            "event": "eval", "step": self.clock.step, "total": self.clock.total, "epoch": self.clock.epoch,
            "student": student.index,
            "dev_loss": losses[0].tolist(), "dev_smoothed": losses[1].tolist(), "dev_tokens": dev_tokens,
            "train_ce": trained[0], "train_kd": trained[1], "train_nll": trained[2],
            "alpha": alpha.tolist(), "p": student.sampler.probabilities().tolist(),
            "visits": [stream.visits for stream in student.streams], "lr": student.learner.lr, "tokens": tokens,
            "overflow_skips": student.learner.overflow_skips(), "seconds": round(self.seconds, 3),
            "multiply_adds": dict(self.cost.multiply_adds),
        }  # fmt: skip

    def _converged(self) -> bool:
        return 0 < self.config.train.patience <= min(student.stale for student in self.students)

    def _on_signal(self, number: int, frame: Any) -> None:
        """A signal of `ASKING` finishes the current step and saves; a second Ctrl-C stops at once.

        Then too the last checkpoint stays whole.
        """
        # One Ctrl-C reaches a launched process twice: from the terminal and from the launcher.
        if number == signal.SIGINT and self._asked and time.monotonic() - self._asked > 1:
            raise KeyboardInterrupt
        if not self._asked:
            self._asked, self._signal = time.monotonic(), number

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs besides the weights."""
        return {
            "n_students": len(self.students), "step": self.clock.step, "seconds": self.seconds,
            "metrics_size": self.metrics_size, "distiller": self.distiller.state_dict(),
            "cost": dict(self.cost.multiply_adds), "students": [student.state_dict() for student in self.students],
            "precision": [self.device.type, asdict(self.students[0].learner.precision)], "machine": self._machine(),
        }  # fmt: skip

    def _machine(self) -> str:
        """What decides the last digits of every number, besides the precision."""
        return f"cpu (threads: {torch.get_num_threads()})" if self.device.type == "cpu" else self.device.type

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
        device, chosen = state["precision"]
        for student, weights, saved in zip(self.students, models, state["students"], strict=True):
            # precision="auto" chooses by timing. On the same kind of device, the old choice keeps the bits the same.
            if device == self.device.type:
                student.learner.use(Precision(**chosen))
            load_weights(student.learner.model, weights)
            student.load_state_dict(saved)
        if (before := state["machine"]) != (now := self._machine()):
            moved = f"trained on {before} so far, now on {now}: the last digits of its numbers will be others"
            self.notes = (*self.notes, moved)
        self.distiller.load_state_dict(state["distiller"])
        self.cost.multiply_adds = dict(state["cost"])
        self.clock = self.clock.at(state["step"])
        self.seconds, self.metrics_size = state["seconds"], state["metrics_size"]
        self.rundir.truncate_metrics(self.metrics_size)
