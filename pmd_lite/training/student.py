"""A student of Alg. 1: a learner with its own sampler, draws, order of batches, and sums of losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pmd_lite.config import Config
from pmd_lite.data.batching import Draw, PairStream
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Sampler
from pmd_lite.sampling.schedule import PairSchedule, batch_shares
from pmd_lite.training.learner import Learner
from pmd_lite.training.seeds import Stream, derive_seed

_NEVER = 2**62


@dataclass(frozen=True)
class Plan:
    """The micro-batches of one update of one student."""

    draws: list[Draw]
    alphas: list[float]
    """[micro-batch] distillation weights."""

    @property
    def tokens(self) -> int:
        """Target tokens of all micro-batches, which normalise the loss."""
        return sum(draw.tokens for draw in self.draws)


class Student:
    """A learner with its own sampler, its own draws and its own order of batches."""

    def __init__(
        self, index: int, seat: int, encoded: EncodedCorpus, config: Config, sampler: Sampler, device: torch.device
    ):
        """`seat` decides initial weights, dropout and order of the data (see `Method.first_seat`)."""
        seed, train = config.train.seed, config.train
        self.index, self.sampler, self.pairs = index, sampler, encoded.pairs
        self.learner = Learner(encoded.tokenizer.vocab_size, config, device, derive_seed(seed, seat))
        self.schedule = PairSchedule((seed, seat, Stream.DRAW), train.draws)
        self.streams = [
            PairStream(split, pair, train.tokens, (seed, seat, Stream.ORDER, pair))
            for pair, split in enumerate(encoded.train)
        ]
        self._shares = train.shares
        self._per_batch = torch.tensor([stream.round.per_batch for stream in self.streams], dtype=torch.float64)
        self.sums = torch.zeros(len(encoded.pairs), 3, device=device)  # L_ce, L_kd, NLL since the last evaluation
        self.tokens = torch.zeros(len(encoded.pairs), dtype=torch.float64)
        self.best, self.best_step, self.stale = math.inf, 0, 0
        # [pair] the first update whose loss was not finite. It stays on the device, so Python does not wait for it.
        self._broken = torch.full((len(encoded.pairs),), _NEVER, device=device)

    @property
    def shares(self) -> Tensor:
        """[pair] shares of the micro-batches at the sampler's present probabilities."""
        return batch_shares(self.sampler.probabilities(), self._per_batch, self._shares)

    def draw(self, micro_batches: int) -> list[Draw]:
        """Alg. 1, lines 4 and 5, once for each micro-batch of an update."""
        shares = self.shares
        return [self.streams[self.schedule.next(shares)].draw() for _ in range(micro_batches)]

    def position(self) -> dict[str, Any]:
        """Where this student stands in its data: the states of its schedule and of its streams."""
        return {"schedule": self.schedule.state_dict(), "streams": [stream.state_dict() for stream in self.streams]}

    def go_to(self, position: dict[str, Any]) -> None:
        """Continue from `position` in the data."""
        self.schedule.load_state_dict(position["schedule"])
        for stream, saved in zip(self.streams, position["streams"], strict=True):
            stream.load_state_dict(saved)

    @property
    def batches_per_pass(self) -> float:
        """Micro-batches in one pass over all sentences of all pairs."""
        return sum(stream.round.batches_per_pass for stream in self.streams)

    def expected_visits(self, micro_batches: int) -> list[float]:
        """[pair] how often each sentence will be seen in so many micro-batches, if the probabilities stay as now."""
        passes = torch.tensor([stream.round.batches_per_pass for stream in self.streams], dtype=torch.float64)
        return (micro_batches * self.shares / passes).tolist()

    def note(self, draws: Sequence[Draw], sums: Tensor, step: int) -> None:
        """Add the losses of an update. sums: [micro-batch, 3], of L_ce, L_kd and NLL, in nats."""
        for draw, losses in zip(draws, sums, strict=True):
            self.sampler.after_step(draw.pair, losses[0] / draw.tokens, draw.tokens)
            self.sums[draw.pair] += losses
            self.tokens[draw.pair] += draw.tokens
            before = self._broken[draw.pair]
            self._broken[draw.pair] = torch.where(losses.isfinite().all(), before, before.clamp(max=step))

    @property
    def broken_since(self) -> int:
        """The first update whose loss was not finite, or a number beyond all updates. Reads the device."""
        return int(self._broken.min())

    def check(self, step: int, saved: str) -> None:
        """Raises UserError when losses, weights or the fp16 scale show that training has diverged by `step`.

        saved: the directory with the last good state. This reads the device, so training calls it only when it reads
        the device anyway.
        """
        who, learner = f"model_{self.index + 1}", self.learner
        advice = f"Lower lr ({learner.config.optim.lr}) or set clip=1; {saved} keeps the last good state"
        # In fp16 a loss may overflow; then the scaler skips the update and lowers its scale. A scale below 1 means that
        # even unscaled gradients overflow.
        if learner.scaler.is_enabled() and learner.scaler.get_scale() < 1:
            raise UserError(f"{who}: gradients overflow fp16 even unscaled at update {step}, and "
                            f"{learner.overflow_skips()} of {learner.updates} updates were skipped. Take "
                            f"precision=bf16 or fp32. {advice}")  # fmt: skip
        first = self.broken_since
        if not learner.scaler.is_enabled() and first < _NEVER:
            pairs = [self.pairs[i] for i in (self._broken == first).nonzero().flatten().tolist()]
            raise UserError(f"{who} diverged: its loss on {', '.join(pairs)} at update {first} is not finite. {advice}")
        weights = dict(learner.model.named_parameters())
        finite = torch.stack([weight.isfinite().all() for weight in weights.values()]).tolist()  # one wait for all
        if broken := [name for name, fine in zip(weights, finite, strict=True) if not fine]:
            raise UserError(f"{who} diverged: weights of {broken[0]} are not finite after update {step}. {advice}")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the weights."""
        return {
            "learner": self.learner.state_dict(), "sampler": self.sampler.state_dict(), **self.position(),
            "sums": self.sums, "tokens": self.tokens, "best": self.best, "best_step": self.best_step,
            "stale": self.stale,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.learner.load_state_dict(state["learner"])
        self.sampler.load_state_dict(state["sampler"])
        self.go_to(state)
        self.sums.copy_(state["sums"])
        self.tokens.copy_(state["tokens"])
        self.best, self.best_step, self.stale = state["best"], state["best_step"], state["stale"]
