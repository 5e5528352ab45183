"""Token-budget batches of one pair, grouped by length. Only seed and pass number decide the order."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pmd_lite.data.reading import Bools, Ints
from pmd_lite.data.tokenizer import BOS, PAD
from pmd_lite.data.tokens import EncodedSplit, TokenArray
from pmd_lite.errors import UserError


@dataclass(frozen=True)
class Batch:
    """Sentences of one pair, padded on the right."""

    pair: int
    src: Tensor
    """[batch, src_len] ids."""
    trg_in: Tensor
    """[batch, trg_len] decoder input: BOS, then the target without its last token."""
    keep: Tensor
    """[tokens] positions of real target tokens in the flattened [batch * trg_len]; with them the loss skips padding
    without waiting for the device."""
    gold: Tensor
    """[tokens] the target tokens at those positions."""
    tokens: int
    """Number of real target tokens, with EOS: known on the host, so nothing waits for the device."""
    src_tokens: int
    """Number of real source tokens, with tags and EOS."""
    rows: Ints
    """[batch] numbers of the sentences in their split."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        if device.type == "cpu":
            return self
        cuda = device.type == "cuda"
        # A copy from pinned memory does not wait: the host makes the next batch while the GPU computes.
        moved: dict[str, Any] = {
            name: (x.pin_memory() if cuda else x).to(device, non_blocking=cuda)
            for name, x in vars(self).items() if isinstance(x, Tensor)
        }  # fmt: skip
        return replace(self, **moved)

    @property
    def sentence(self) -> Tensor:
        """[tokens] the row of `src` and `trg_in` to which each target token belongs."""
        return self.keep // self.trg_in.shape[1]


def _pad(tokens: TokenArray, rows: Ints) -> tuple[Ints, Bools]:
    """[batch, longest] ids with PAD to the right of each sentence, and [batch, longest] True inside a sentence."""
    lengths = tokens.lengths[rows]
    columns = np.arange(int(lengths.max()))
    inside = columns < lengths[:, None]
    padded = np.full(inside.shape, PAD, dtype=np.int64)
    padded[inside] = tokens.flat[(tokens.starts[rows][:, None] + columns)[inside]]
    return padded, inside


def collate(split: EncodedSplit, rows: Ints, pair: int) -> Batch:
    """The batch of these sentences."""
    src, read = _pad(split.src, rows)
    trg, inside = _pad(split.trg, rows)
    keep = np.flatnonzero(inside)
    trg_in = np.full_like(trg, PAD)
    trg_in[:, 0] = BOS
    trg_in[:, 1:][inside[:, 1:]] = trg[:, :-1][inside[:, 1:]]  # before a real token comes a real token, or BOS
    src_t, in_t, keep_t, gold_t = (torch.from_numpy(x) for x in (src, trg_in, keep, trg.reshape(-1)[keep]))
    return Batch(pair, src_t, in_t, keep_t, gold_t, len(keep), int(read.sum()), rows)


def cut_batches(lengths: Ints, order: Ints, budget: int) -> list[Ints]:
    """Cut `order` (sentence numbers) into as few batches of similar length as a token budget allows.

    Args:
        lengths: [sentence] max(source, target) tokens of every sentence.
        order: the sentences to use, shuffled; sentences of equal length keep this order.
        budget: longest x sentences that a batch may hold. A single longer sentence makes a batch of its own.
    """
    if not len(order):
        return []
    # Batches of sentences of similar length hold little padding. The sort is stable, so `order` still shuffles equals.
    ascending = order[np.argsort(lengths[order], kind="stable")]
    long = lengths[ascending]
    # Filling greedily gives the smallest number of batches, but would leave a tiny last batch that still counts as one
    # full draw. So cut the same number of batches again, each as near to an equal share of the tokens as possible.
    latest = _fill(long, budget)
    before = np.concatenate([[0], np.cumsum(long)])  # tokens before each sentence
    stops = [len(long)]
    # From the longest sentences to the shortest: find where each batch begins.
    for batch in range(len(latest) - 1, 0, -1):
        stop = stops[-1]
        even = int(np.searchsorted(before, before[stop] * batch // (batch + 1)))
        # Not earlier than the start of a full batch, whose longest sentence is its last, and not so late that the
        # shorter sentences would no longer fit into the remaining batches.
        earliest = stop - max(1, budget // int(long[stop - 1]))
        stops.append(min(max(even, earliest), latest[batch - 1], stop - 1))
    stops.append(0)
    return [ascending[start:stop] for stop, start in itertools.pairwise(stops)][::-1]


def _fill(long: Ints, budget: int) -> list[int]:
    """The end of each batch that ascending lengths fill greedily: the fewest possible batches, the latest ends."""
    stops, start = [], 0
    while start < len(long):
        most = max(1, budget // int(long[start]))
        window = long[start : start + most]
        start += max(1, int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= budget)))
        stops.append(start)
    return stops


def cut_split(split: EncodedSplit, order: Ints, budget: int, rng: np.random.Generator | None = None) -> list[Ints]:
    """Cut `order` into batches (see `cut_batches`) whose sentences are alike on both sides.

    Sentences whose longer sides are equal are sorted by the difference of their sides: ascending for even lengths,
    descending for odd ones, so that neighbours stay alike from one length to the next. Equal ones keep their order.
    With `rng`, this difference changes by up to one token: else the same sentences would meet in almost every pass.
    """
    src, trg = split.src.lengths, split.trg.lengths
    longer = np.maximum(src, trg)
    snake = np.where(longer % 2, trg - src, src - trg)
    if rng is not None:
        snake += rng.integers(-1, 2, len(snake))
    return cut_batches(longer, order[np.argsort(snake[order], kind="stable")], budget)


@dataclass(frozen=True)
class Draw:
    """A batch that was drawn but not made: it knows its sentences, and training makes the tensors."""

    split: EncodedSplit
    rows: Ints
    """[batch] numbers of the sentences in their split."""
    pair: int

    @property
    def tokens(self) -> int:
        """Target tokens, with EOS."""
        return int(self.split.trg.lengths[self.rows].sum())

    @property
    def src_tokens(self) -> int:
        """Source tokens, with tags and EOS."""
        return int(self.split.src.lengths[self.rows].sum())

    def batch(self) -> Batch:
        """The batch of these sentences."""
        return collate(self.split, self.rows, self.pair)


@dataclass(frozen=True)
class Round:
    """A round of a pair: one or several passes over its sentences, shuffled and cut into batches together."""

    sentences: int
    passes: int
    """1; for a pair that is smaller than a batch, as many passes as fit into one batch."""
    batches: int
    """Number of batches, the same for every round."""

    @property
    def per_batch(self) -> float:
        """Mean sentences in a batch."""
        return self.passes * self.sentences / self.batches

    @property
    def batches_per_pass(self) -> float:
        """Number of batches for one pass; below 1 for a pair that is smaller than a batch."""
        return self.batches / self.passes


def round_of(split: EncodedSplit, budget: int) -> Round:
    """The rounds of a pair with this token budget.

    Without repetition, thirty sentences would make a tiny batch that weighs as much as a full one if it is a whole
    update. So a small pair is repeated, as in the upsampling of the released code: each draw has about one budget.
    """
    longer = np.sort(np.maximum(split.src.lengths, split.trg.lengths), kind="stable")
    passes = max(1, budget // max(1, len(longer) * int(longer[-1])))
    return Round(len(longer), passes, 1 if passes > 1 else len(_fill(longer, budget)))


class PairStream:
    """Endless batches of one pair, round after round; each pass of a round has a new random order."""

    def __init__(self, split: EncodedSplit, pair: int, budget: int, seed: tuple[int, ...]):
        self.split, self.pair, self.budget, self.seed = split, pair, budget, seed
        self.round = round_of(split, budget)
        self._round, self._position = 0, 0
        self._batches: list[Ints] | None = None

    def _rows(self) -> list[Ints]:
        if self._batches is None:
            rng = np.random.default_rng((*self.seed, self._round))
            order = np.concatenate([rng.permutation(len(self.split)) for _ in range(self.round.passes)])
            batches = cut_split(self.split, order, self.budget, rng)
            self._batches = [batches[i] for i in rng.permutation(len(batches))]
        return self._batches

    def next(self) -> Batch:
        """The next batch."""
        return self.draw().batch()

    def draw(self) -> Draw:
        """The next batch, before its tensors are made."""
        rows = self._rows()[self._position]
        self._position += 1
        if self._position == len(self._rows()):
            self._round, self._position, self._batches = self._round + 1, 0, None
        return Draw(self.split, rows, self.pair)

    @property
    def visits(self) -> float:
        """How often each sentence was drawn so far, on average."""
        return self.round.passes * (self._round + self._position / self.round.batches)

    def state_dict(self) -> dict[str, Any]:
        """Round and position; the order inside a round follows from the seed."""
        return {"round": self._round, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises UserError for a state that does not fit this stream."""
        if state["round"] != self._round:
            self._batches = None
        self._round, self._position = state["round"], state["position"]
        if not 0 <= self._position < self.round.batches:
            raise UserError(f"The saved run is at batch {self._position} of a round that now has {self.round.batches}: "
                            "corpus or token budget changed. Resume with those with which the run began.")  # fmt: skip


def eval_batches(split: EncodedSplit, pair: int, budget: int) -> Iterator[Batch]:
    """All sentences once, in a fixed order."""
    for rows in cut_split(split, np.arange(len(split)), budget):
        yield collate(split, rows, pair)
