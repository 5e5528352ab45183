"""How fast this machine trains and translates, and how much memory that needs, measured on a few real steps."""

from __future__ import annotations

import copy
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from torch import Tensor

from pmd_lite.config import Config
from pmd_lite.data.batching import Batch, PairStream, collate
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.distillation.mutual import BiPMD
from pmd_lite.model.decoding import translate_batch
from pmd_lite.planning.counting import Effort, shape_of
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.training.dev import dev_losses
from pmd_lite.training.learner import Learner, pick_device
from pmd_lite.training.seeds import derive_seed
from pmd_lite.training.snapshot import preserved_rng

LEAST_BUDGET = 256
"""Token budget of the first micro-batch; it is doubled while there is time, up to the run's own budget."""
ROUNDS = (3, 9)
"""Smallest and largest number of repetitions of each measurement."""


@dataclass(frozen=True)
class Speed:
    """Seconds of each part of a run: per target token, per optimiser step, per translated sentence."""

    forward: float
    teacher: float
    """Additional seconds of a distilled micro-batch: the teacher's forward pass and L_kd."""
    backward: float
    step: float
    sentence: float
    budget: int
    """Token budget of the measured micro-batches; 0: nothing was measured."""
    device: str
    memory: float | None = None
    """Peak bytes with one student and one teacher, at the run's own token budget; None: unknown."""

    def seconds(self, effort: Effort) -> float:
        """Seconds for an amount of computing."""
        passes = self.forward * effort.forward + self.teacher * effort.teacher + self.backward * effort.backward
        return passes + self.step * effort.steps + self.sentence * effort.sentences

    @classmethod
    def known(cls, tokens_per_second: float, sentence_tokens: float, config: Config) -> Speed:
        """Calculated from a given speed of training one model, which takes three passes per token.

        Beam search is assumed to take one pass per token of every hypothesis.
        """
        one = 1 / (3 * tokens_per_second)
        return cls(one, one, 3 * one, 0.0, one * sentence_tokens * config.train.beam, 0, "as given")


def measure(encoded: EncodedCorpus, shares: Tensor, config: Config, teaches: bool, seconds: float) -> Speed:
    """Measure real steps on this machine: discard the first, take the median of the others.

    Args:
        encoded: sentences to train on. shares: [pair] how often each pair is drawn.
        teaches: whether the method has a teacher.
        seconds: about how long to measure; a single step of a large model may take longer than that.
    Raises: UserError as in training, when the device is absent or does not support the precision.
    The state of the random generators does not change.
    """
    device = pick_device(config.train.device, config.train.precision)
    with preserved_rng():
        bench = _Bench(encoded, shares, config, teaches, device, seconds)
        with bench.learner.precision.active():
            return bench.run()


class _Bench:
    def __init__(
        self, encoded: EncodedCorpus, shares: Tensor, config: Config, teaches: bool, device: torch.device,
        seconds: float,
    ):  # fmt: skip
        self.encoded, self.shares, self.config, self.device = encoded, shares, config, device
        self.learner = Learner(encoded.tokenizer.vocab_size, config, device, derive_seed(config.train.seed, 0))
        # The cost of mixing losses depends little on the method: Eq. 3 and 4 represent all.
        peers = [self.learner.model, copy.deepcopy(self.learner.model)] if teaches else [self.learner.model]
        self.distiller, self.teaches = BiPMD(peers, len(encoded.pairs), config.distill), teaches
        self.until = time.perf_counter() + seconds

    def run(self) -> Speed:
        whole, resting = self.config.train.tokens, 0.0
        budget = min(LEAST_BUDGET, whole)
        while True:
            batches = self._batches(budget)
            with peak_memory(self.device) as peak:
                took = self._timed(self._micro, batches[0], self.teaches) + self._timed(self.learner.finish)
            resting, memory = resting or memory_now(self.device), peak()
            # Twice the budget, with a warm-up and three rounds, must fit into the time that is left.
            if budget == whole or took * 2 * 2 * (ROUNDS[0] + 1) > self._left:
                break
            budget = min(2 * budget, whole)
        rounds: list[tuple[float, float, float, float]] = []
        while len(rounds) < ROUNDS[0] or (len(rounds) < ROUNDS[1] and self._left > 3 * took):
            rounds.append(self._round(batches[len(rounds) % len(batches)]))
        forward, backward, teacher, step = (statistics.median(column) for column in zip(*rounds, strict=True))
        # Only what exceeds the memory between steps grows with the budget.
        memory += max(0.0, memory - resting) * (whole / budget - 1)
        extra, sentence = max(0.0, teacher - backward), self._sentence()
        return Speed(forward, extra, backward, step, sentence, budget, describe(self.device), memory or None)

    @property
    def _left(self) -> float:
        return self.until - time.perf_counter()

    def _batches(self, budget: int) -> list[Batch]:
        """A few micro-batches of this budget, whose pairs are drawn as in the run."""
        schedule = PairSchedule((0,), "stratified")
        streams = [PairStream(split, pair, budget, (0, pair)) for pair, split in enumerate(self.encoded.train)]
        return [streams[schedule.next(self.shares)].next().to(self.device) for _ in range(ROUNDS[0])]

    def _round(self, batch: Batch) -> tuple[float, float, float, float]:
        """Seconds per target token of a dev pass, a plain and a distilled micro-batch; seconds of an optimiser step."""
        forward = self._timed(dev_losses, self.learner, [batch], len(self.encoded.pairs))
        plain = self._timed(self._micro, batch, False)
        step = self._timed(self.learner.finish)
        taught = self._timed(self._micro, batch, True) if self.teaches else plain
        return forward / batch.tokens, plain / batch.tokens, taught / batch.tokens, step

    def _micro(self, batch: Batch, taught: bool) -> None:
        self.learner.begin()
        target = None
        if taught:
            with self.learner.autocast():
                target = self.distiller.target(0, batch, dropout=False)
        self.learner.accumulate(batch, 0.5 * taught, target, self.distiller, batch.tokens, 0)

    def _timed(self, work: Callable[..., object], *arguments: object, **options: object) -> float:
        synchronize(self.device)
        started = time.perf_counter()
        work(*arguments, **options)
        synchronize(self.device)
        return time.perf_counter() - started

    def _sentence(self) -> float:
        """Seconds per sentence to translate in batches, with translations as long as the references."""
        train, tokenizer = self.config.train, self.encoded.tokenizer
        pair, split = max(zip(self.encoded.pairs, self.encoded.valid, strict=True), key=lambda one: len(one[1]))
        prefix, banned = tokenizer.prefix(pair), [UNK, *tokenizer.tags.values()]
        longest = max(1, min(round(split.trg_tokens / len(split)), self.config.model.max_len - 1 - len(prefix)))
        most = min(len(split), max(1, 6 * train.tokens // longest))
        count, best = min(4, most), float("inf")
        while True:
            src = collate(split, np.arange(count), 0).src.to(self.device)
            took = self._timed(
                translate_batch, self.learner.model, src, beam=train.beam, max_len=longest, bos=BOS, eos=EOS, pad=PAD,
                prefix=prefix, banned=banned,
            )  # fmt: skip
            best = min(best, took / count)
            if count == most or 2 * took > max(self._left, 0.5):
                return best
            count = min(2 * count, most)


def parameters(config: Config, vocabulary: int) -> int:
    """Number of parameters of one student; no memory is allocated."""
    return shape_of(config, vocabulary).parameter_count()


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def describe(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"


def memory_now(device: torch.device) -> float:
    """Bytes in use: on the device if it counts them, else by this process."""
    if device.type == "cuda":
        return float(torch.cuda.memory_allocated(device))
    return float(psutil.Process().memory_info().rss)


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Callable[[], float]]:
    """Watch memory within the block; the yielded function returns the largest number of bytes so far.

    On CUDA the allocator counts (this resets its peak). Elsewhere a thread reads the process's memory again and again.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: float(torch.cuda.max_memory_allocated(device))
        return
    largest, done = [memory_now(device)], threading.Event()

    def watch() -> None:
        while not done.wait(0.004):
            largest.append(max(largest.pop(), memory_now(device)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: max(largest[0], memory_now(device))
    finally:
        done.set()
        watcher.join()
