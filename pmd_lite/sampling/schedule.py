"""Turns probabilities over pairs into a sequence of pairs, reproducibly from (seed, block number)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from torch import Tensor

BLOCK = 64


class PairSchedule:
    """Draws pairs in blocks of 64.

    `iid` draws each pair on its own, as Alg. 1 says. `stratified` takes 64 evenly spaced points with one random offset
    on the cumulative distribution (systematic sampling) and shuffles them: every draw has the same expectation, but the
    counts of a block differ from 64 p by less than one, so a rare pair is neither forgotten nor doubled by luck.
    """

    def __init__(self, seed: tuple[int, ...], draws: Literal["iid", "stratified"]):
        self.seed, self.draws = seed, draws
        self._block = 0
        self._queue: list[int] = []

    def next(self, probabilities: Tensor) -> int:
        """The next pair's index, given [pair] probabilities; they are read when a block begins."""
        if not self._queue:
            rng = np.random.default_rng((*self.seed, self._block))
            cumulative = np.cumsum(probabilities.numpy())
            points = rng.random(BLOCK) if self.draws == "iid" else (rng.random() + np.arange(BLOCK)) / BLOCK
            drawn = np.searchsorted(cumulative, points * cumulative[-1], side="right")
            # A point that rounds up to the total lies behind the last step: it belongs to the last pair that has one.
            drawn = np.minimum(drawn, np.searchsorted(cumulative, cumulative[-1]))
            self._queue = (drawn if self.draws == "iid" else rng.permutation(drawn)).tolist()
            self._block += 1
        return self._queue.pop(0)

    def restart_block(self) -> None:
        """Forget the rest of this block; a sampler that changed its probabilities calls for it."""
        self._queue = []

    def state_dict(self) -> dict[str, Any]:
        """Block number and what is left of it."""
        return {"block": self._block, "queue": list(self._queue)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._block, self._queue = state["block"], list(state["queue"])
