"""Batches: every sentence once a pass, within the budget, padded on the right, the same again from the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pmd_lite.data.batching import Batch, PairStream, collate, cut_batches, cut_split, eval_batches
from pmd_lite.data.tokenizer import BOS, EOS, PAD
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit, TokenArray
from pmd_lite.errors import UserError

FIRST = 1000  # the first source token of sentence i is FIRST + i, so a batch tells which sentences it holds


def split_of(lengths: Sequence[tuple[int, int]]) -> EncodedSplit:
    """Sentences with (source, target) lengths; all tokens of a side differ from those of its neighbours."""

    def target(i: int, n: int) -> list[int]:
        return [10 + (7 * i + k) % 50 for k in range(n - 1)] + [EOS]

    src = [[FIRST + i, *(10 + (3 * i + k) % 50 for k in range(n - 1))] for i, (n, _) in enumerate(lengths)]
    return EncodedSplit(TokenArray.build(src), TokenArray.build(target(i, n) for i, (_, n) in enumerate(lengths)))


def sentences(batch: Batch) -> list[int]:
    """The numbers of the sentences in a batch of `split_of`."""
    return (batch.src[:, 0] - FIRST).tolist()


def longest(lengths: Sequence[tuple[int, int]], rows: Iterable[int]) -> int:
    return max(max(lengths[i]) for i in rows)


def a_pass(stream: PairStream) -> list[Batch]:
    """The batches up to the end of the round: one pass, or several passes over a pair that is smaller than a batch."""
    return [stream.next() for _ in range(stream.round.batches)]


def equal(a: Batch, b: Batch) -> bool:
    same = all(torch.equal(getattr(a, name), getattr(b, name)) for name in ("src", "trg_in", "keep", "gold"))
    return same and (a.pair, a.tokens) == (b.pair, b.tokens)


side = st.integers(1, 30)
some_lengths = st.lists(st.tuples(side, side), min_size=1, max_size=60)
budgets = st.integers(1, 200)


# ---- collate


def slow_batch(split: EncodedSplit, rows: Sequence[int]) -> dict[str, list[Any]]:
    """The batch that is expected, built token by token."""
    src = [split.src[i].tolist() for i in rows]
    trg = [split.trg[i].tolist() for i in rows]
    src_len, trg_len = max(map(len, src)), max(map(len, trg))
    flat = [(k * trg_len + t, token) for k, sentence in enumerate(trg) for t, token in enumerate(sentence)]
    shifted = [[BOS, *sentence[:-1]] for sentence in trg]
    return {
        "src": [sentence + [PAD] * (src_len - len(sentence)) for sentence in src],
        "trg_in": [sentence + [PAD] * (trg_len - len(sentence)) for sentence in shifted],
        "keep": [place for place, _ in flat],
        "gold": [token for _, token in flat],
    }


@given(lengths=some_lengths, data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_batch_token_by_token(lengths: list[tuple[int, int]], data: st.DataObject) -> None:
    split = split_of(lengths)
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    batch = collate(split, np.array(rows), pair=3)
    for name, expected in slow_batch(split, rows).items():
        assert getattr(batch, name).tolist() == expected, name
        assert getattr(batch, name).dtype == torch.int64
    assert batch.pair == 3
    assert batch.tokens == sum(len(split.trg[i]) for i in rows)  # EOS included
    real = batch.src != PAD
    assert torch.equal(real.sum(1), torch.tensor([lengths[i][0] for i in rows]))
    assert not (real[:, 1:] & ~real[:, :-1]).any()  # nothing to the right of padding
    rebuilt = torch.full((batch.trg_in.numel(),), PAD).scatter(0, batch.keep, batch.gold).view_as(batch.trg_in)
    assert torch.equal(rebuilt[:, :-1].where(batch.trg_in[:, 1:] != PAD, PAD), batch.trg_in[:, 1:])


def test_a_batch_by_hand() -> None:
    src, trg = [[9, 8, EOS], [7, EOS]], [[20, EOS], [30, 31, 32, EOS]]
    split = EncodedSplit(TokenArray.build([[5], *src]), TokenArray.build([[5], *trg]))
    batch = collate(split, np.array([1, 2]), pair=0)
    assert batch.src.tolist() == [[9, 8, 3], [7, 3, 0]]
    assert batch.trg_in.tolist() == [[2, 20, 0, 0], [2, 30, 31, 32]]
    assert batch.keep.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.gold.tolist() == [20, 3, 30, 31, 32, 3]
    assert batch.tokens == 6


def test_moving_a_batch() -> None:
    batch = collate(split_of([(3, 4), (5, 2)]), np.array([0, 1]), pair=1)
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert {x.device.type for x in (moved.src, moved.trg_in, moved.keep, moved.gold)} == {"meta"}
    for name in ("src", "trg_in", "keep", "gold"):
        assert getattr(moved, name).shape == getattr(batch, name).shape, name
    assert (moved.pair, moved.tokens) == (1, 6)


def test_batches_of_a_selection(tiny_encoded: EncodedCorpus) -> None:
    """Sentences left out (over max_len) shift nothing: the selection's sentence 0 is the first that was kept."""
    whole = tiny_encoded.train[0]
    keep = np.arange(len(whole)) % 3 == 1
    part = EncodedSplit(whole.src.select(keep), whole.trg.select(keep))
    rows = np.arange(len(part))
    assert equal(collate(part, rows, 0), collate(whole, np.flatnonzero(keep), 0))


# ---- cutting


def greedy_count(ascending: Sequence[int], budget: int) -> int:
    """How many batches come of filling one after another: with sorted lengths this is the smallest possible number."""
    count, size = 0, 0
    for length in ascending:
        if count == 0 or length * (size + 1) > budget:
            count, size = count + 1, 0
        size += 1
    return count


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=80), budget=budgets, data=st.data())
@settings(max_examples=200, deadline=None)
def test_cut(lengths: list[int], budget: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(lengths))))[: data.draw(st.integers(1, len(lengths)))]
    batches = [batch.tolist() for batch in cut_batches(np.array(lengths), np.array(order), budget)]
    assert sorted(i for batch in batches for i in batch) == sorted(order)
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
    # Sorted by length; sentences of equal length as they came.
    assert [i for batch in batches for i in batch] == sorted(order, key=lambda i: lengths[i])
    assert len(batches) == greedy_count(sorted(lengths[i] for i in order), budget)


def test_nothing_to_cut() -> None:
    assert cut_batches(np.array([3, 4]), np.array([], dtype=np.int64), 10) == []


@given(length=st.integers(1, 20), count=st.integers(1, 300), budget=budgets)
@settings(max_examples=150, deadline=None)
def test_equal_lengths_are_cut_into_equal_batches(length: int, count: int, budget: int) -> None:
    sizes = [len(batch) for batch in cut_batches(np.full(count, length), np.arange(count), budget)]
    assert max(sizes) - min(sizes) <= 1


@given(shortest=st.integers(4, 40), roomy=st.integers(16, 60), full=st.floats(1, 6), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_no_crumbs(shortest: int, roomy: int, full: float, seed: int) -> None:
    """If 16 sentences or more fit into a batch and lengths differ by a quarter, no batch is a third of another.

    Filling greedily sometimes leaves a single sentence: 1/16.
    """
    most = shortest * 5 // 4
    lengths = np.random.default_rng(seed).integers(shortest, most + 1, size=int(full * roomy))
    batches = cut_batches(lengths, np.arange(len(lengths)), roomy * most)
    assume(len(batches) > 1)
    padded = [int(lengths[batch].max()) * len(batch) for batch in batches]
    assert 3 * min(padded) >= max(padded)


@pytest.mark.parametrize("seed", range(8))
def test_batches_of_natural_lengths_are_even(seed: int) -> None:
    """Lengths as in real text (log-normal): the smallest batch has over 80 % of the size of the largest."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.7, 0.5, size=int(rng.integers(2_000, 6_000))), 2, 100).astype(np.int64)
    batches = cut_batches(lengths, rng.permutation(len(lengths)), 2_500)
    padded = [int(lengths[batch].max()) * len(batch) for batch in batches]
    assert min(padded) > 0.8 * max(padded)


def test_a_sentence_over_the_budget_stands_alone() -> None:
    batches = [batch.tolist() for batch in cut_batches(np.array([90, 5, 200, 5, 5]), np.array([2, 4, 3, 1, 0]), 20)]
    assert batches == [[4, 3, 1], [0], [2]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_both_sides_of_a_batch_are_alike(seed: int) -> None:
    """Targets of 0.4 to 1.1 times the source: sorting by the longer side alone pads the shorter one much more."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.lognormal(2.7, 0.4, size=8_000), 2, 60).astype(np.int64)
    trg = np.clip(src * rng.uniform(0.4, 1.1, size=8_000), 2, 60).astype(np.int64)
    split = split_of(list(zip(src.tolist(), trg.tolist(), strict=True)))
    order = rng.permutation(8_000)

    def padding(batches: list[Any]) -> int:
        padded = sum(len(rows) * (int(src[rows].max()) + int(trg[rows].max())) for rows in batches)
        return padded - int(src.sum() + trg.sum())

    plain = padding(cut_batches(np.maximum(src, trg), order, 1_500))
    assert padding(cut_split(split, order, 1_500)) < 0.5 * plain
    assert padding(cut_split(split, order, 1_500, rng)) < 0.65 * plain


def test_the_snake_by_hand() -> None:
    #           0       1       2       3       4       5       6       7
    lengths = [(4, 4), (4, 1), (1, 4), (5, 5), (5, 2), (2, 5), (4, 1), (3, 3)]
    (rows,) = cut_split(split_of(lengths), np.array([6, 7, 1, 0, 2, 4, 3, 5]), 1_000)
    # Longer side 3; 4, the short source first; 5, the short target first. Equal ones (6, 1) as they came.
    assert rows.tolist() == [7, 2, 0, 6, 1, 4, 3, 5]


# ---- streams


@pytest.mark.slow
@given(lengths=some_lengths, budget=budgets, seed=st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_pass_has_every_sentence_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int
) -> None:
    split = split_of(lengths)
    stream = PairStream(split, 4, budget, (seed,))
    passes = stream.round.passes
    for number in range(3):
        assert stream.visits == passes * number
        batches = a_pass(stream)
        once = list(range(len(lengths)))
        assert sorted(i for batch in batches for i in sentences(batch)) == sorted(passes * once)
        for batch in batches:
            rows = sentences(batch)
            assert batch.pair == 4
            assert len(rows) == 1 or longest(lengths, rows) * len(rows) <= budget
            assert equal(batch, collate(split, np.array(rows), 4))  # both sides of the same sentences
        assert sum(batch.tokens for batch in batches) == passes * split.trg_tokens


@pytest.mark.slow
@given(lengths=some_lengths, budget=budgets, before=st.integers(0, 40), other=st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_a_stream_goes_on_where_its_state_was_taken(
    lengths: list[tuple[int, int]], budget: int, before: int, other: int
) -> None:
    split = split_of(lengths)
    stream, resumed = (PairStream(split, 0, budget, (1, 2)) for _ in range(2))
    for _ in range(before):
        stream.next()
    for _ in range(other):  # wherever the other stream stands
        resumed.next()
    state = stream.state_dict()
    resumed.load_state_dict(dict(state))
    assert resumed.visits == stream.visits
    assert resumed.state_dict() == state
    for _ in range(8):
        assert equal(stream.next(), resumed.next())


def test_a_state_is_plain_numbers() -> None:
    """So that a checkpoint can be read without executing anything."""
    stream = PairStream(split_of([(3, 3)] * 9), 0, 9, (1,))
    stream.next()
    assert stream.state_dict() == {"round": 0, "position": 1}
    assert all(type(value) is int for value in stream.state_dict().values())


def test_a_state_of_other_data_is_a_user_error() -> None:
    many = PairStream(split_of([(3, 3)] * 40), 0, 9, (1,))
    for _ in range(12):
        many.next()
    few = PairStream(split_of([(3, 3)] * 4), 0, 9, (1,))
    with pytest.raises(UserError, match="batch 12 of a round that now has 2"):
        few.load_state_dict(many.state_dict())


def rows_of(stream: PairStream, count: int) -> list[list[int]]:
    return [sentences(stream.next()) for _ in range(count)]


def test_order_follows_from_seed_and_pass_alone() -> None:
    lengths = np.random.default_rng(5).integers(8, 15, size=(1_000, 2))
    split = split_of([(int(a), int(b)) for a, b in lengths])
    count = len(a_pass(PairStream(split, 0, 300, (7, 1))))
    np.random.seed(1)
    torch.manual_seed(1)
    first = PairStream(split, 0, 300, (7, 1))
    passes = [rows_of(first, count), rows_of(first, count)]
    np.random.seed(2)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert rows_of(PairStream(split, 5, 300, (7, 1)), count) == passes[0]
    assert torch.equal(torch.get_rng_state(), before)  # nor does a stream move the random state of others
    later = PairStream(split, 0, 300, (7, 1))
    later.load_state_dict({"round": 1, "position": 0})
    assert rows_of(later, count) == passes[1]
    assert rows_of(PairStream(split, 0, 300, (7, 2)), count) != passes[0]
    # A pass is shuffled twice over: which sentences meet (less than half of a batch meets again), and when.
    groups = [[set(rows) for rows in batches] for batches in passes]
    meeting_again = [max(len(group & other) for other in groups[1]) / len(group) for group in groups[0]]
    assert np.mean(meeting_again) < 0.5
    tops = [[int(lengths[rows].max()) for rows in batches] for batches in passes]
    assert sorted(tops[0]) != tops[0] != tops[1] != sorted(tops[1])


@pytest.mark.parametrize("budget", [1, 100])
def test_a_pair_with_one_sentence(budget: int) -> None:
    stream = PairStream(split_of([(4, 6)]), 2, budget, (0,))
    batches = [stream.next() for _ in range(5)]
    assert all(equal(batch, batches[0]) for batch in batches)
    times = max(1, budget // 6)  # it fills the batch by going round again
    assert batches[0].tokens == 6 * times
    assert stream.visits == 5 * times


# ---- evaluation


@given(lengths=some_lengths, budget=budgets)
@settings(max_examples=100, deadline=None)
def test_evaluation_sees_everything_once_in_a_fixed_order(lengths: list[tuple[int, int]], budget: int) -> None:
    split = split_of(lengths)
    batches = list(eval_batches(split, 1, budget))
    assert sorted(i for batch in batches for i in sentences(batch)) == list(range(len(lengths)))
    assert sum(batch.tokens for batch in batches) == split.trg_tokens
    for batch in batches:
        rows = sentences(batch)
        assert batch.pair == 1
        assert len(rows) == 1 or longest(lengths, rows) * len(rows) <= budget
    again = list(eval_batches(split, 1, budget))
    assert len(again) == len(batches) and all(map(equal, batches, again))


def test_released_tags_are_the_first_gold_tokens(tiny_encoded: EncodedCorpus) -> None:
    """The trainer's own corpus, encoded with a decoder tag: fed as the second input, predicted as the first token."""
    tag = 4
    split = tiny_encoded.train[0]
    tagged = TokenArray.build([tag, *split.trg[i].tolist()] for i in range(len(split)))
    batch = collate(EncodedSplit(split.src, tagged), np.arange(5), 0)
    assert batch.trg_in[:, :2].tolist() == [[BOS, tag]] * 5
    starts = np.flatnonzero(batch.keep.numpy() % batch.trg_in.shape[1] == 0)
    assert batch.gold[starts].tolist() == [tag] * 5
