"""Turns probabilities over pairs into a sequence of pairs; seed and number of the draw decide each one."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

_BLOCK = 64  # random numbers are made for so many draws at a time


def batch_shares(p: Tensor, per_batch: Tensor, shares: Literal["sentences", "batches"]) -> Tensor:
    """[pair] probability of drawing a micro-batch of each pair, so that the pair gets its share P(l) of the data.

    Args:
        p: [pair] P(l) of a sampler.
        per_batch: [pair] mean sentences in a micro-batch of the pair.
        shares: what P(l) is a share of. "sentences": a batch of long sentences holds fewer of them, so a pair of long
            sentences is drawn more often. "batches": as Alg. 1 says literally, each batch counts once.
    """
    if shares == "batches":
        return p
    drawn = p / per_batch
    return drawn / drawn.sum()


class PairSchedule:
    """Draws one pair after another.

    `iid` draws each pair independently, as in Alg. 1; then luck decides how often a rare pair comes.
    `stratified` keeps each pair close to its share: after any number of draws, a pair has been drawn as often as the
    sum of its probabilities, with a difference below one draw. This difference is the pair's credit. Of the pairs with
    a positive credit, the next is the one whose credit would reach a whole draw first (earliest deadline first, which
    keeps every |credit| below 1). Chance decides only between equals.
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
            # Rounding may put a point at the total, behind the last step: it belongs to the last pair with p > 0.
            return min(at, int(np.searchsorted(cumulative, cumulative[-1])))
        if not len(self._credit):
            self._credit = np.zeros(len(p))
        self._credit += p
        possible = p > 0
        owed = possible & (self._credit > 0)
        candidates = np.flatnonzero(owed if owed.any() else possible)
        deadlines = (1 - self._credit[candidates]) / p[candidates]  # draws until the credit is a whole draw
        chosen = int(candidates[np.argmin(deadlines + 1e-6 * noise[candidates])])
        self._credit[chosen] -= 1
        return chosen

    def _random(self, n_pairs: int) -> npt.NDArray[np.float64]:
        """[pair] uniform numbers of this draw; only the seed and the number of the draw decide them."""
        at = self._made % _BLOCK
        if at == 0 or not len(self._noise):
            rng = np.random.default_rng((*self.seed, self._made // _BLOCK))
            self._noise = rng.random((_BLOCK, n_pairs))
        return self._noise[at]

    def state_dict(self) -> dict[str, Any]:
        """The number of draws so far, and each pair's credit."""
        return {"made": self._made, "credit": self._credit.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._made, self._credit = state["made"], np.array(state["credit"])
        self._noise = np.zeros(0)
