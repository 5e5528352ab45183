"""What a decoder layer remembers of the target from one step of a search to the next."""

from __future__ import annotations

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]  # two tensors [rows or sentences, heads, length, d_head]

BLOCK = 32
"""Positions by which the memory grows."""


class Past:
    """Keys and values of one layer for all target positions so far, in memory that is used again and again.

    A new token's are written behind the earlier ones, and a new choice of rows is copied into a second set of tensors,
    which then changes places with the first. So shapes in memory stay the same for BLOCK tokens, and nothing is
    allocated or moved but what the choice itself moves. No gradient flows through.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        """keys, values: [rows, heads, length, d_head], which are copied when they first have to change."""
        self._now: KeysValues = (keys.detach(), values.detach())
        self._spare: KeysValues | None = None
        self.rows, _, self.length, _ = keys.shape

    def extend(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Add [rows, heads, more, d_head] behind -> all keys and values, [rows, heads, length + more, d_head]."""
        start, self.length = self.length, self.length + keys.shape[2]
        if self._spare is None or self.length > self._now[0].shape[2]:
            self._make_room(self.rows, start)
        for space, new in zip(self._now, (keys, values), strict=True):
            space[: self.rows, :, start : self.length] = new.detach()
        return self._seen()

    def select(self, rows: Tensor) -> None:
        """Put rows `rows` [new_rows], repeats allowed, in place of the present ones."""
        if self._spare is None or len(rows) > len(self._now[0]):
            self._make_room(max(len(rows), self.rows), self.length)
        seen, target = self._seen(), self._spare
        assert target is not None
        self.rows = len(rows)
        for old, new in zip(seen, target, strict=True):
            torch.index_select(old, 0, rows, out=new[: self.rows, :, : self.length])
        self._now, self._spare = target, self._now

    def _seen(self) -> KeysValues:
        keys, values = (space[: self.rows, :, : self.length] for space in self._now)
        return keys, values

    def _make_room(self, rows: int, filled: int) -> None:
        """New memory for at least `rows` rows and BLOCK further positions; what is `filled` comes along."""
        old = self._now
        heads, width, capacity = old[0].shape[1], old[0].shape[3], max(self.length, filled) + BLOCK
        fresh = [old[0].new_empty(rows, heads, capacity, width) for _ in range(4)]
        for space, before in zip(fresh, old, strict=False):
            space[: self.rows, :, :filled] = before[: self.rows, :, :filled]
        self._now, self._spare = (fresh[0], fresh[1]), (fresh[2], fresh[3])
