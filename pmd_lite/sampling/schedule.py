"""Turns probabilities over pairs into a sequence of pairs, reproducibly from a seed and the number of the draw."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

_BLOCK = 64  # draws whose random numbers are made together


def batch_shares(p: Tensor, per_batch: Tensor, shares: Literal["sentences", "batches"]) -> Tensor:
    """[pair] how often a micro-batch of each pair is drawn, so that the pair gets its share P(l) of the data.

    Args:
        p: [pair] P(l) of a sampler.
        per_batch: [pair] mean sentences in a micro-batch of the pair.
        shares: what P(l) is a share of. "sentences": a pair of long sentences, of which a batch holds fewer, is drawn
            more often. "batches": the letter of Alg. 1, each batch counts once, whatever it holds.
    """
    if shares == "batches":
        return p
    drawn = p / per_batch
    return drawn / drawn.sum()


class PairSchedule:
    """Draws one pair after another.

    `iid` draws each pair on its own, as Alg. 1 says; luck then decides how often a rare pair comes up.
    `stratified` deals the draws out: after any number of them, each pair has been drawn as often as its probabilities
    add up to, up to less than one draw. What a pair is still owed is its credit. Among the pairs that are owed
    something, the pair comes next whose credit would reach a whole draw first (earliest deadline first, which keeps
    every |credit| below 1); chance decides only between equals.
    """

    def __init__(self, seed: tuple[int, ...], draws: Literal["iid", "stratified"]):
        self.seed, self.draws = seed, draws
        self._made = 0
        self._credit: npt.NDArray[np.float64] = np.zeros(0)
        self._noise: npt.NDArray[np.float64] = np.zeros(0)

    def next(self, probabilities: Tensor) -> int:
        """The next pair's index, given [pair] probabilities, which may differ from draw to draw."""
        p = probabilities.numpy()
        noise = self._random(len(p))
        self._made += 1
        if self.draws == "iid":
            cumulative = np.cumsum(p)
            at = int(np.searchsorted(cumulative, noise[0] * cumulative[-1], side="right"))
            # A point that rounds up to the total lies behind the last step: it belongs to the last pair that has one.
            return min(at, int(np.searchsorted(cumulative, cumulative[-1])))
        if not len(self._credit):
            self._credit = np.zeros(len(p))
        self._credit += p
        possible = p > 0
        owed = possible & (self._credit > 0)
        candidates = np.flatnonzero(owed if owed.any() else possible)
        deadlines = (1 - self._credit[candidates]) / p[candidates]  # draws until a whole one is owed
        chosen = int(candidates[np.argmin(deadlines + 1e-6 * noise[candidates])])
        self._credit[chosen] -= 1
        return chosen

    def _random(self, n_pairs: int) -> npt.NDArray[np.float64]:
        """[pair] uniform numbers of this draw; they follow from the seed and the number of the draw alone."""
        at = self._made % _BLOCK
        if at == 0 or not len(self._noise):
            rng = np.random.default_rng((*self.seed, self._made // _BLOCK))
            self._noise = rng.random((_BLOCK, n_pairs))
        return self._noise[at]

    def state_dict(self) -> dict[str, Any]:
        """How many draws were made, and what each pair is owed."""
        return {"made": self._made, "credit": self._credit.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._made, self._credit = state["made"], np.array(state["credit"])
        self._noise = np.zeros(0)
