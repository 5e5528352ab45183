"""The three roles every method is made of: a Sampler per student, one Distiller, and the Probe they may look through.

*Which pair next* is a Sampler; *what to distil, from whom, how much* is a Distiller. Neither touches a model except
through a Probe, whose every call leaves weights, gradients, optimiser, mode and random state as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from pmd_lite.config import Config, DistillConfig
from pmd_lite.data.batching import Batch

Events = list[dict[str, Any]]
"""What an update decided, as JSON-ready lines for metrics.jsonl."""


@dataclass(frozen=True)
class Clock:
    """Where training stands."""

    step: int
    """Updates that each student has made (t of Alg. 1)."""
    total: int
    """Updates that each student will make (T_max)."""
    epoch: int
    """Updates in one epoch: ceil(batches in one pass over the training data / batches per update)."""
    start: int = 0
    """Updates before mutual distillation begins."""

    @classmethod
    def of(cls, config: Config, batches: float, waits: bool) -> Clock:
        """The clock of a run before its first update: the one place that says how long an epoch and a run are.

        Args:
            batches: micro-batches in one pass over the training data of all pairs (see `data.batching.Round`).
            waits: whether the distiller waits for `start`.
        """
        train = config.train
        epoch = max(1, math.ceil(batches / train.accumulate))
        total = math.ceil(train.epochs * epoch) or train.steps
        if train.epochs and train.max_steps:
            total = min(total, train.max_steps)
        return cls(0, total, epoch, round(config.distill.resolved.start * total) if waits else 0)

    def at(self, step: int) -> Clock:
        """The same clock after `step` updates."""
        return replace(self, step=step)

    def every(self, interval: int, since: int = 0) -> bool:
        """Whether something with this interval (0 = one epoch) acts now: Alg. 1's `t % T == 0`, counted from `since`.

        Never before the first update or after the last.
        """
        past = self.step - since
        return 0 < self.step < self.total and past >= 0 and past % (interval or self.epoch) == 0


@dataclass(frozen=True)
class TokenStats:
    """How sure a model is on a few dev sentences, over `passes` forward passes with dropout."""

    log_top1: Tensor
    """[passes, tokens] log-probability of the model's own first choice, in nats."""
    entropy: Tensor
    """[passes, tokens] of the next-token distribution, in nats."""
    sentence: Tensor
    """[tokens] which sentence each target token belongs to."""
    is_eos: Tensor
    """[tokens] whether the gold token ends its sentence."""
    loss: float
    """Label-smoothed cross-entropy without dropout, nats per token."""


class Probe(Protocol):
    """The only way a strategy may look at a model. Losses are per pair, in nats per target token, on the dev set."""

    @property
    def clock(self) -> Clock:
        """Where training stands."""
        ...

    def dev_loss(self, student: int) -> Tensor:
        """[pair], float64 on the CPU."""
        ...

    def dev_score(self, student: int) -> Tensor:
        """[pair] BLEU of greedy translations of the dev set, 0 to 100, float64 on the CPU."""
        ...

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """Alg. 2: dev losses [trial, pair] after trial training with each row of `alphas` [trial, pair]."""
        ...

    def gradient(self, student: int, split: Literal["train", "valid"], pair: int, tokens: int) -> Tensor:
        """[parameters] of the label-smoothed loss per token, dropout on, on a small random batch of about `tokens`."""
        ...

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        """Forward passes with dropout over a few random dev sentences, about `tokens` target tokens."""
        ...


class Sampler(Protocol):
    """Chooses the pair of the next micro-batch."""

    def probabilities(self) -> Tensor:
        """[pair], float64, non-negative, sums to 1."""
        ...

    def after_step(self, pair: int, loss: Tensor, tokens: int) -> None:
        """A micro-batch of `pair` was trained on. loss: [] label-smoothed nats per token, still on the device."""
        ...

    def due(self, clock: Clock) -> bool:
        """Whether `update` wants to be called now."""
        ...

    def update(self, student: int, probe: Probe) -> Events:
        """Look at the model and change the probabilities."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on to the same bits."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        ...


Scratch = tuple[Tensor, Tensor]
"""Two [chunk, vocab] tensors whose contents nobody needs, of the dtype of the logits: memory that is there already."""


class Target(Protocol):
    """What a student is to learn of a batch besides the gold tokens, asked for some consecutive tokens at a time."""

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch, each: bool) -> tuple[Tensor, Tensor, float]:
        """L_kd of a chunk of tokens, and its gradient on the student's logits z as push * softmax(z) - pull.

        rows: which tokens. logits: [chunk, vocab] z, fp32 or better, finite, not to be changed. scratch: room to
            compute in.
        each: whether tokens count unequally, so that the loss of each is needed; else their sum will do.
        Returns: rest [chunk] (or [], its sum), pull [chunk, vocab], push, with L_kd = rest + push * logsumexp(z) in
            nats. The caller only reads `pull`, but overwrites scratch[0] first: so it may lie in scratch[1].
        """
        ...

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability that the teacher gives to the gold tokens [chunk]."""
        ...


class Distiller(Protocol):
    """Decides for every student and pair: who teaches, how much it counts, and how the two losses are mixed."""

    waits: bool
    """Whether all weights count as 0 until `clock.start`."""
    gated: bool
    """Whether tokens count unequally, so that training asks `trust` (and looks at all tokens twice for it)."""

    def weight(self, student: int, pair: int) -> float:
        """alpha_i[l]; at 0 the trainer runs no teacher at all."""
        ...

    def factors(self, weight: float) -> tuple[float, float]:
        """Factors of L_ce and L_kd at this weight, above 0: Eq. 4 (1 - alpha, alpha) unless a method says otherwise."""
        ...

    def trust(self, student_gold_logp: Tensor, teacher_gold_logp: Tensor, batch: Batch) -> Tensor:
        """[tokens] factor of each token's L_kd, from [tokens] log-probabilities of the gold tokens; no gradient."""
        ...

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """Models and their shares, which sum to 1; empty when what they predict is read from a file."""
        ...

    def target(self, student: int, batch: Batch, dropout: bool) -> Target:
        """What the teachers predict on a batch, without gradient; `dropout`: with their own dropout active."""
        ...

    def due(self, clock: Clock) -> bool:
        """Whether `update` wants to be called now."""
        ...

    def update(self, probe: Probe) -> Events:
        """Look at the models and change the weights."""
        ...

    def weights(self) -> Tensor:
        """[student, pair], float64: every alpha, for logs and figures."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on to the same bits."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        ...


MakeDistiller = Callable[[Sequence[nn.Module], int, DistillConfig], Distiller]
