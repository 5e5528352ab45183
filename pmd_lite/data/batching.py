"""Token-budget batches of one pair, bucketed by length, in an order that follows from (seed, pass number) alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_lite.data.tokenizer import BOS, PAD
from pmd_lite.data.tokens import EncodedSplit, Ints, TokenArray


@dataclass(frozen=True)
class Batch:
    """Sentences of one pair, padded on the right."""

    pair: int
    src: Tensor
    """[batch, src_len] ids."""
    trg_in: Tensor
    """[batch, trg_len] decoder input: BOS, then the target without its last token."""
    keep: Tensor
    """[tokens] positions of real target tokens in the flattened [batch * trg_len]; lets the loss skip padding without a
    device sync."""
    gold: Tensor
    """[tokens] the target tokens at those positions."""
    tokens: int
    """Real target tokens, EOS included: known on the host, so nothing waits for the device."""

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        if device.type == "cpu":
            return self
        moved = [x.to(device, non_blocking=True) for x in (self.src, self.trg_in, self.keep, self.gold)]
        return Batch(self.pair, *moved, tokens=self.tokens)


def _pad(tokens: TokenArray, rows: Ints) -> tuple[Ints, Ints]:
    """[batch, longest] ids padded with PAD, and [batch] lengths."""
    starts, lengths = tokens.offsets[rows], tokens.offsets[rows + 1] - tokens.offsets[rows]
    columns = np.arange(int(lengths.max()))
    inside = columns < lengths[:, None]
    index = np.where(inside, starts[:, None] + columns, 0)
    return np.where(inside, tokens.flat[index], PAD).astype(np.int64), lengths


def collate(split: EncodedSplit, rows: Ints, pair: int) -> Batch:
    """The batch of these sentences."""
    src, _ = _pad(split.src, rows)
    trg, lengths = _pad(split.trg, rows)
    trg_in = np.concatenate([np.full((len(rows), 1), BOS), trg[:, :-1]], axis=1)
    trg_in[np.arange(trg.shape[1]) >= lengths[:, None]] = PAD
    keep = np.flatnonzero(trg != PAD)
    gold = trg.reshape(-1)[keep]
    return Batch(pair, *(torch.from_numpy(x) for x in (src, trg_in, keep, gold)), tokens=len(keep))


def _cut(lengths: Ints, budget: int) -> list[tuple[int, int]]:
    """Greedy slices of ascending `lengths`, each with longest x sentences <= budget (at least one sentence)."""
    slices, start = [], 0
    while start < len(lengths):
        window = lengths[start : start + max(1, budget // int(lengths[start]))]
        count = max(1, int((window * np.arange(1, len(window) + 1) <= budget).sum()))
        slices.append((start, start + count))
        start += count
    return slices


def cut_batches(lengths: Ints, order: Ints, budget: int) -> list[Ints]:
    """Cut `order` (sentence numbers) into batches of similar length within a token budget.

    Args:
        lengths: [sentence] max(source, target) tokens of every sentence.
        order: the sentences to use, shuffled; sentences of equal length keep this order.
        budget: longest x sentences a batch may hold. A single longer sentence makes a batch of its own.
    The last slice of a greedy cut can be a crumb that would count as a full draw of its pair, so the same number of
    batches is cut again at the smallest budget that still suffices.
    """
    ascending = order[np.argsort(lengths[order], kind="stable")]
    sorted_lengths = lengths[ascending]
    slices = _cut(sorted_lengths, budget)
    even = int(sorted_lengths.sum() / len(slices))
    while even < budget:
        candidate = _cut(sorted_lengths, even)
        if len(candidate) <= len(slices):
            slices = candidate
            break
        even += max(1, budget // 50)
    return [ascending[a:b] for a, b in slices]


class PairStream:
    """Endless batches of one pair: pass after pass over its sentences, each pass shuffled anew."""

    def __init__(self, split: EncodedSplit, pair: int, budget: int, seed: tuple[int, ...]):
        self.split, self.pair, self.budget, self.seed = split, pair, budget, seed
        self._lengths = np.maximum(split.src.lengths, split.trg.lengths)
        self._pass, self._position = 0, 0
        self._batches: list[Ints] | None = None

    def _rows(self) -> list[Ints]:
        if self._batches is None:
            rng = np.random.default_rng((*self.seed, self._pass))
            batches = cut_batches(self._lengths, rng.permutation(len(self.split)), self.budget)
            self._batches = [batches[i] for i in rng.permutation(len(batches))]
        return self._batches

    def next(self) -> Batch:
        """The next batch."""
        rows = self._rows()[self._position]
        self._position += 1
        if self._position == len(self._rows()):
            self._pass, self._position, self._batches = self._pass + 1, 0, None
        return collate(self.split, rows, self.pair)

    @property
    def visits(self) -> float:
        """Passes made so far: how often each sentence has been seen, on average."""
        return self._pass + self._position / len(self._rows())

    def state_dict(self) -> dict[str, Any]:
        """Pass and position; the order inside a pass follows from the seed."""
        return {"pass": self._pass, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._pass, self._position, self._batches = state["pass"], state["position"], None


def eval_batches(split: EncodedSplit, pair: int, budget: int) -> Iterator[Batch]:
    """All sentences once, in a fixed order."""
    lengths = np.maximum(split.src.lengths, split.trg.lengths)
    for rows in cut_batches(lengths, np.arange(len(split)), budget):
        yield collate(split, rows, pair)
