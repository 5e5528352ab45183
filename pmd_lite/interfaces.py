"""The three roles in every method: a Sampler for each student, one Distiller, and a Probe.

A Sampler decides which pair comes next. A Distiller decides what to distil, from whom and how much. Both see a model
only through a Probe. A call of a Probe leaves weights, gradients, optimiser, mode and random state as they were.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from torch import Tensor, nn

from pmd_lite.config import Config, DistillConfig
from pmd_lite.data.batching import Batch

Events = list[dict[str, Any]]
"""The decisions of an update, as JSON-ready lines for metrics.jsonl."""
OnEvent = Callable[[dict[str, Any]], object]
"""What `train(on_event=...)` calls with each new line of metrics.jsonl."""


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
    def of(cls, config: Config, batches: float, waits: bool) -> Self:
        """The clock of a run before its first update. Only this function decides how long an epoch and a run are.

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

    def at(self, step: int) -> Self:
        """The same clock after `step` updates."""
        return type(self)(step, self.total, self.epoch, self.start)  # `replace` is slow, and an estimate makes millions

    def every(self, interval: int, since: int = 0) -> bool:
        """Whether a strategy with this interval (0 = one epoch) acts now: Alg. 1's `t % T == 0`, counted from `since`.

        False before the first update and after the last.
        """
        past = self.step - since
        return 0 < self.step < self.total and past >= 0 and past % (interval or self.epoch) == 0


@dataclass(frozen=True)
class TokenStats:
    """How certain a model is on a few dev sentences, over `passes` forward passes with dropout."""

    log_top1: Tensor
    """[passes, tokens] log-probability of the model's own first choice, in nats."""
    entropy: Tensor
    """[passes, tokens] of the next-token distribution, in nats."""
    sentence: Tensor
    """[tokens] the row of the sentence that each target token belongs to."""
    is_eos: Tensor
    """[tokens] whether the gold token ends its sentence."""
    loss: float
    """Label-smoothed cross-entropy without dropout, nats per token."""


class Probe(Protocol):
    """The only way in which a strategy sees a model. Losses are dev losses of each pair, in nats per target token."""

    @property
    def clock(self) -> Clock:
        """Where training stands."""

    def dev_loss(self, student: int) -> Tensor:
        """[pair], float64 on the CPU."""

    def dev_score(self, student: int) -> Tensor:
        """[pair] BLEU of greedy translations of the dev set, 0 to 100, float64 on the CPU."""

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """Alg. 2, lines 2-9: [trial, pair] dev losses (see `decide_by`) after training with each row of `alphas`."""

    def gradient(self, student: int, split: Literal["train", "valid"], pair: int, tokens: int) -> Tensor:
        """[parameters] of the label-smoothed loss per token, dropout on, on a small random batch of about `tokens`."""

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        """Forward passes with dropout over a few random dev sentences, about `tokens` target tokens."""


class Strategy(Protocol):
    """What a Sampler and a Distiller have in common: training asks both when to decide, and saves their state."""

    by_total: str
    """What of it depends on the length of the whole run, in words; "" if nothing does."""

    def due(self, clock: Clock) -> bool:
        """Whether training should call `update` now."""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to continue to the same bits."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""


class Sampler(Strategy, Protocol):
    """Chooses the pair of the next micro-batch."""

    def probabilities(self) -> Tensor:
        """[pair], float64, non-negative, sums to 1."""

    def after_step(self, pair: int, loss: Tensor, tokens: int) -> None:
        """The student has trained on a micro-batch of `pair`. loss: [] label-smoothed nats per token, on the device."""

    def update(self, student: int, probe: Probe) -> Events:
        """Look at the model and change the probabilities; returns what it decided."""


Scratch = tuple[Tensor, Tensor]
"""Two [chunk, vocab] tensors to compute in, of the dtype of the logits; their contents are not needed."""


class Target(Protocol):
    """What the teachers predict on a batch, asked for a chunk of consecutive tokens at a time."""

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch, each: bool) -> tuple[Tensor, Tensor, float]:
        """L_kd of a chunk of tokens, and its gradient on the student's logits z as push * softmax(z) - pull.

        rows: which tokens. logits: [chunk, vocab] z, fp32 or better, finite; do not change them.
        each: whether the caller needs the loss of each token (it weighs them unequally), or only their sum.
        Returns: rest [chunk] (or [], its sum), pull [chunk, vocab], push, with L_kd = rest + push * logsumexp(z) in
            nats. `pull` may lie in scratch[1]: the caller only reads it. It must not lie in scratch[0], which the
            caller overwrites first.
        """

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability that the teachers give to the gold tokens [chunk]."""


class Distiller(Strategy, Protocol):
    """Decides for every student and pair which models teach, how much they count, and how the losses are mixed."""

    waits: bool
    """Whether all weights count as 0 until `clock.start`."""
    gated: bool
    """Whether tokens count unequally: then training calls `trust`, for which it projects all tokens twice."""

    def weight(self, student: int, pair: int) -> float:
        """alpha_i[l]; at 0 no teacher runs."""

    def factors(self, weight: float) -> tuple[float, float]:
        """Factors of L_ce and L_kd at this weight, above 0: Eq. 4 (1 - alpha, alpha) unless a method says otherwise."""

    def trust(self, student_gold_logp: Tensor, teacher_gold_logp: Tensor, batch: Batch) -> Tensor:
        """[tokens] factor of each token's L_kd, from [tokens] log-probabilities of the gold tokens; no gradient."""

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """Models and their shares, which sum to 1; empty when their predictions are read from a file."""

    def target(self, student: int, batch: Batch, dropout: bool) -> Target:
        """What the teachers predict on a batch, without gradient. dropout: whether their own dropout is active."""

    def update(self, probe: Probe) -> Events:
        """Look at the models and change the weights; returns what it decided."""

    def weights(self) -> Tensor:
        """[student, pair], float64: every alpha, for logs and figures."""


MakeDistiller = Callable[[Sequence[nn.Module], int, DistillConfig], Distiller]
