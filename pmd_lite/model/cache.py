"""A decoder layer's memory of the target, from one step of a search to the next."""

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]  # two tensors [rows or sentences, heads, length, d_head]

BLOCK = 32
"""Positions by which the memory grows."""


class Past:
    """Keys and values of one layer for all target positions so far, in memory that is reused at every step.

    Those of a new token are written behind the earlier ones. A new choice of rows is copied into a second set of
    tensors, and then the two sets change places. So for BLOCK tokens, no memory is allocated and only the chosen rows
    move. No gradient flows through.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """keys, values: [rows, heads, length, d_head]; they are copied before they change for the first time."""
        self._now: KeysValues = (keys.detach(), values.detach())
        self._spare: KeysValues | None = None
        self.rows, _, self.length, _ = keys.shape

    def extend(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Append [rows, heads, more, d_head] -> all keys and values, [rows, heads, length + more, d_head]."""
        start, self.length = self.length, self.length + keys.shape[2]
        if self._spare is None or self.length > self._now[0].shape[2]:
            self._make_room(self.rows, start)
        for space, new in zip(self._now, (keys, values), strict=True):
            space[: self.rows, :, start : self.length] = new.detach()
        return self._filled()

    def select(self, rows: Tensor) -> None:
        """Replace the present rows by rows `rows` [new_rows]; a row may be repeated."""
        if self._spare is None or len(rows) > len(self._now[0]):
            self._make_room(max(len(rows), self.rows), self.length)
        filled, target = self._filled(), self._spare
        assert target is not None
        self.rows = len(rows)
        for old, new in zip(filled, target, strict=True):
            torch.index_select(old, 0, rows, out=new[: self.rows, :, : self.length])
        self._now, self._spare = target, self._now

    def _filled(self) -> KeysValues:
        keys, values = (space[: self.rows, :, : self.length] for space in self._now)
        return keys, values

    def _make_room(self, rows: int, filled: int) -> None:
        """New memory for `rows` rows and BLOCK further positions; the first `filled` positions are copied."""
        old = self._now
        heads, width, capacity = old[0].shape[1], old[0].shape[3], max(self.length, filled) + BLOCK
        fresh = [old[0].new_empty(rows, heads, capacity, width) for _ in range(4)]
        for space, before in zip(fresh, old, strict=False):
            space[: self.rows, :, :filled] = before[: self.rows, :, :filled]
        self._now, self._spare = (fresh[0], fresh[1]), (fresh[2], fresh[3])
