"""Appendix A: a search of three weight vectors finds what a search of all finds, if pairs do not affect each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.auto import TIE_ORDER
from pmd_lite.distillation.search import choose, choose_one, full_space, reduced_space, trial_logits
from pmd_lite.errors import UserError

Table = dict[str, float]
ORDERS = [tuple(order) for order in TIE_ORDER.values()]
# Few different losses, so that ties are common.
TABLES = st.lists(
    st.fixed_dictionaries({action: st.sampled_from([1.0, 1.5, 2.0]) for action in ACTIONS}), min_size=1, max_size=4
)


def separable(tables: Sequence[Table], space: Sequence[Sequence[str]]) -> Tensor:
    """R [trial, pair] under the hypothesis: the loss of a pair depends on that pair's own action alone."""
    return torch.tensor([[table[action] for table, action in zip(tables, vector, strict=True)] for vector in space])


def best_by_eye(table: Table, order: Sequence[str]) -> str:
    """The first action in `order` that no other action beats."""
    return next(action for action in order if table[action] == min(table.values()))


# ---------------------------------------------------------------- the spaces


@pytest.mark.parametrize("n_pairs", [1, 2, 3, 4])
def test_sizes_of_the_spaces(n_pairs: int) -> None:
    reduced, full = reduced_space(n_pairs), full_space(n_pairs)
    assert len(reduced) == len(set(reduced)) == 3
    assert len(full) == len(set(full)) == 3**n_pairs
    assert set(reduced) <= set(full)
    assert all(len(vector) == n_pairs and set(vector) <= set(ACTIONS) for vector in full)
    assert all(len(set(vector)) == 1 for vector in reduced), "one action for every pair"


def test_logits_of_the_trials_by_hand() -> None:
    logits = torch.tensor([0.0, -1.0, math.inf], dtype=torch.float64)
    space = [("keep", "up", "down"), ("down", "keep", "up")]
    expected = [[0.0, -0.5, math.inf], [-0.5, -1.0, math.inf]]
    assert trial_logits(logits, space, 0.5).tolist() == expected


# ---------------------------------------------------------------- the theorem


@pytest.mark.parametrize("order", ORDERS)
@given(tables=TABLES)
@settings(deadline=None)
def test_both_spaces_choose_alike_when_losses_are_separable(order: tuple[str, ...], tables: list[Table]) -> None:
    by_eye = [best_by_eye(table, order) for table in tables]
    for space in (reduced_space, full_space):
        vectors = space(len(tables), order)
        assert choose(separable(tables, vectors), vectors, order) == by_eye


@given(TABLES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_the_order_of_the_trials_does_not_matter(tables: list[Table], random: Random) -> None:
    vectors = full_space(len(tables))
    expected = choose(separable(tables, vectors), vectors)
    random.shuffle(vectors)
    assert choose(separable(tables, vectors), vectors) == expected


def test_with_interaction_the_two_spaces_differ() -> None:
    """Two pairs compete for the model's capacity: each gains most from `up`, but only if the other does not go up too.

    So among uniform vectors `keep` is best for both, while the full space finds the gain of going up alone.
    """

    def loss(own: str, other: str) -> float:
        alone = {"keep": 2.0, "up": 1.8, "down": 2.3}[own]
        return alone + (0.5 if own == other == "up" else 0.0)

    def results(space: Sequence[Sequence[str]]) -> Tensor:
        return torch.tensor([[loss(a, b), loss(b, a)] for a, b in space])

    reduced, full = reduced_space(2), full_space(2)
    assert choose(results(reduced), reduced) == ["keep", "keep"]
    assert choose(results(full), full) == ["up", "up"], "each pair's best vector, though the two cannot be had at once"


@pytest.mark.parametrize("order", ORDERS)
@given(data=st.data(), n_pairs=st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_whatever_the_losses_each_pair_takes_its_action_in_a_best_trial(
    order: tuple[str, ...], data: st.DataObject, n_pairs: int
) -> None:
    space = full_space(n_pairs, order)
    losses = st.lists(st.sampled_from([1.0, 1.5, 2.0, 2.5]), min_size=n_pairs, max_size=n_pairs)
    rows = data.draw(st.lists(losses, min_size=len(space), max_size=len(space)))
    for pair, action in enumerate(choose(torch.tensor(rows), space, order)):
        least = min(row[pair] for row in rows)
        best = {vector[pair] for vector, row in zip(space, rows, strict=True) if row[pair] == least}
        assert action == next(a for a in order if a in best)


# ---------------------------------------------------------------- ties


@pytest.mark.parametrize(
    ("keep", "up", "down", "paper", "released"),
    [
        (1.0, 1.0, 1.0, "keep", "up"),
        (1.0, 1.0, 2.0, "keep", "up"),
        (1.0, 2.0, 1.0, "keep", "keep"),
        (2.0, 1.0, 1.0, "up", "up"),
        (2.0, 2.0, 1.0, "down", "down"),
    ],
)
def test_ties_go_to_keep_then_up_then_down_and_as_released_to_up_first(
    keep: float, up: float, down: float, paper: str, released: str
) -> None:
    table = {"keep": keep, "up": up, "down": down}
    for ties, expected in (("keep", paper), ("up", released)):
        order = TIE_ORDER[ties]
        for space in (reduced_space(2, order), full_space(2, order)):
            assert choose(separable([table, table], space), space, order) == [expected] * 2
        assert choose_one(torch.tensor([[table[action]] * 2 for action in order]), order) == expected


# ---------------------------------------------------------------- trials that diverged

BAD = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("bad", BAD)
def test_a_diverged_trial_is_never_chosen(bad: float) -> None:
    space = reduced_space(3)
    results = torch.tensor([[bad, 2.0, 2.0], [3.0, bad, bad], [4.0, 1.0, bad]])
    assert choose(results, space) == ["up", "down", "keep"]
    full = full_space(2)
    finite = [vector for vector in full if vector == ("down", "keep")]
    results = torch.tensor([[9.0, 9.0] if vector in finite else [bad, bad] for vector in full])
    assert choose(results, full) == ["down", "keep"]


@pytest.mark.parametrize("bad", BAD)
def test_a_pair_for_which_every_trial_diverged_is_an_error(bad: float) -> None:
    results = torch.tensor([[1.0, bad], [1.0, bad], [1.0, bad]])
    with pytest.raises(UserError, match="pair 1: training has diverged"):
        choose(results, reduced_space(2))


# ---------------------------------------------------------------- Dynamic-MD: one action for all


def test_one_action_for_all_pairs_by_hand() -> None:
    results = torch.tensor([[1.0, 5.0, 1.0], [0.5, 6.6, 0.5], [2.0, 2.0, 2.0]])  # sums 7, 7.6, 6
    assert choose_one(results) == "down"
    assert choose(results, reduced_space(3)) == ["up", "down", "up"]
    assert choose_one(results, TIE_ORDER["up"]) == "down", "rows are those of the actions given: up, keep, down"
    assert choose_one(results[[2, 0, 1]], TIE_ORDER["up"]) == "up"
    results = torch.tensor([[3.0, 3.0, 3.0], [4.0, 1.0, 1.0], [2.9, 3.1, 2.9]])
    assert choose_one(results) == "up", "the smallest sum, 6, though its worst pair is worse than anywhere else"


@pytest.mark.parametrize("bad", BAD)
def test_one_action_for_all_pairs_skips_diverged_trials(bad: float) -> None:
    assert choose_one(torch.tensor([[1.0, bad], [4.0, 4.0], [5.0, 5.0]])) == "up"
    with pytest.raises(UserError, match="training has diverged"):
        choose_one(torch.tensor([[1.0, bad], [bad, 1.0], [bad, bad]]))
