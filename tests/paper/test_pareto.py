"""Dominance, frontier and hypervolume: laws that must hold for all points, and tables counted by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pmd_lite.config import SamplingConfig
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import dominates, hypervolume, larger_half, mean_by_group, pareto_front, split_high_low
from pmd_lite.sampling.ccl_m import CCLMSampler
from pmd_lite.sampling.planned import OrderMattersSampler

# Small whole numbers meet often, so that ties and equal points are not rare.
coordinate = st.integers(0, 4)


def clouds(most: int = 6) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.integers(1, 3).flatmap(lambda d: st.lists(st.tuples(*[coordinate] * d), min_size=1, max_size=most))


def counted_volume(points: list[tuple[int, ...]], reference: tuple[int, ...]) -> int:
    """Count the unit cells that lie below some point and above the reference."""
    cells = itertools.product(*[range(r, 6) for r in reference])
    return sum(any(all(c < x for c, x in zip(cell, p, strict=True)) for p in points) for cell in cells)


def volume_by_inclusion_exclusion(points: list[tuple[int, ...]], reference: tuple[int, ...]) -> int:
    """Union of boxes = sum over all subsets, with alternating sign, of the box below their smallest corner."""
    total = 0
    for size in range(1, len(points) + 1):
        for subset in itertools.combinations(points, size):
            corner = [min(xs) for xs in zip(*subset, strict=True)]
            total += (-1) ** (size + 1) * math.prod(max(0, c - r) for c, r in zip(corner, reference, strict=True))
    return total


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((2, 2), (1, 1), True), ((2, 1), (1, 1), True), ((1, 1), (1, 1), False), ((2, 0), (1, 1), False),
     ((1, 1), (2, 2), False), ((0.1, 0.3), (0.1, 0.2), True), ((3,), (2,), True)],
)  # fmt: skip
def test_dominates_table(a: tuple[float, ...], b: tuple[float, ...], expected: bool) -> None:
    assert dominates(a, b) is expected


@given(clouds())
def test_dominance_is_a_strict_partial_order(points: list[tuple[int, ...]]) -> None:
    for a, b, c in itertools.product(points, repeat=3):
        assert not dominates(a, a)
        assert not (dominates(a, b) and dominates(b, a))
        if dominates(a, b) and dominates(b, c):
            assert dominates(a, c)


@given(clouds(), st.randoms(use_true_random=False))
def test_front_is_what_nothing_dominates(points: list[tuple[int, ...]], rng: random.Random) -> None:
    front = pareto_front(points)
    assert front == sorted(front) and front
    for i, p in enumerate(points):
        beaten = any(dominates(points[j], p) for j in front)  # by a member of the front
        assert (i in front) != beaten
    order = list(range(len(points)))
    rng.shuffle(order)
    assert sorted(order[i] for i in pareto_front([points[i] for i in order])) == front


def test_front_of_the_first_figure() -> None:
    # (LRL, HRL): A and B trade off; A' and B' beat them; C is beaten by all; equal points stay together.
    points = [(12, 26), (16, 22), (15, 27), (17, 25), (11, 21), (17, 25)]
    assert pareto_front(points) == [2, 3, 5]
    assert pareto_front(points[:2]) == [0, 1]
    assert pareto_front([]) == []


def test_hypervolume_counted_on_paper() -> None:
    # Three steps of a staircase above (0, 0): columns of height 3, 2, 2 and 1.
    assert hypervolume([(1, 3), (3, 2), (4, 1)], (0, 0)) == 3 + 2 + 2 + 1
    assert hypervolume([(1, 3), (3, 2), (4, 1)], (1, 1)) == 2  # the first point is not above this reference
    assert hypervolume([(2, 2, 2), (1, 1, 3)], (0, 0, 0)) == 8 + 1
    assert hypervolume([], (0, 0)) == 0 and hypervolume([(5,), (7,)], (4,)) == 3


@given(clouds(), st.integers(0, 2))
def test_hypervolume_equals_counted_cells_and_inclusion_exclusion(points: list[tuple[int, ...]], r: int) -> None:
    reference = (r,) * len(points[0])
    volume = hypervolume(points, reference)
    assert volume == counted_volume(points, reference)
    assert volume == volume_by_inclusion_exclusion(points, reference)


@given(st.lists(st.tuples(*[coordinate] * 4), min_size=1, max_size=5))
def test_hypervolume_in_four_dimensions(points: list[tuple[int, ...]]) -> None:
    assert hypervolume(points, (0, 0, 0, 0)) == volume_by_inclusion_exclusion(points, (0, 0, 0, 0))


@given(st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=6))
def test_hypervolume_grows_exactly_with_undominated_points(points: list[tuple[int, ...]]) -> None:
    reference = (-1, -1)  # below every point, so that each can count
    *old, new = points
    before, after = hypervolume(old, reference), hypervolume(points, reference)
    covered = any(p == new or dominates(p, new) for p in old)
    assert after == before if covered else after > before


def test_hypervolume_of_real_scores_scales() -> None:
    points = [(12.1, 29.0), (14.3, 28.9), (15.2, 27.4)]
    shifted = [(2 * x + 1, 2 * y + 1) for x, y in points]
    assert hypervolume(shifted, (21, 41)) == pytest.approx(4 * hypervolume(points, (10, 20)))
    assert hypervolume(points, (10, 20)) == pytest.approx(2.1 * 9.0 + 2.2 * 8.9 + 0.9 * 7.4)


def test_points_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(UserError, match="different dimensions"):
        dominates((1, 2), (1, 2, 3))
    with pytest.raises(UserError, match="not a number"):
        pareto_front([(1.0, math.nan), (1.0, 2.0)])
    with pytest.raises(UserError, match="different dimensions"):
        hypervolume([(1, 2)], (0,))


def test_split_by_training_size() -> None:
    wmt6 = {"tr-en": 207, "fr-en": 3000, "et-en": 800, "zh-en": 2500, "ro-en": 600, "de-en": 3000}
    assert split_high_low(wmt6) == (("fr-en", "de-en", "zh-en"), ("et-en", "ro-en", "tr-en"))
    assert split_high_low({"a": 1, "b": 3, "c": 2}) == (("b", "c"), ("a",))  # the middle one of three is high
    with pytest.raises(UserError):
        split_high_low({})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((10, 40, 20, 30), [1, 3]),
        ((10, 40, 20), [1, 2]),  # the middle one of three is large
        ((5, 5, 5, 5), [0, 1]),  # of equal ones the earlier
        ((5, 7, 5), [1, 0]),
        ((3,), [0]),
    ],
)
def test_the_larger_half(sizes: tuple[int, ...], expected: list[int]) -> None:
    assert larger_half(sizes) == expected


@pytest.mark.parametrize("sampler", ["order-matters", "ccl-m"])
def test_samplers_and_scores_agree_on_who_is_large(sampler: str) -> None:
    """Equal sizes at the border of the halves: a sampler begins with the pairs that tables call high-resource."""
    sizes = {"tr-en": 5, "de-en": 7, "fr-en": 5, "et-en": 5}
    zeros = torch.zeros(4)
    of_sizes = list(sizes.values())
    begun = (OrderMattersSampler(of_sizes, 1.0, SamplingConfig()) if sampler == "order-matters"
             else CCLMSampler(of_sizes, zeros, torch.zeros(4, 4), SamplingConfig()))  # fmt: skip
    drawn = {pair for pair, p in zip(sizes, begun.probabilities(), strict=True) if p > 0}
    assert drawn == set(split_high_low(sizes)[0]) == {"de-en", "tr-en"}


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 5), min_size=1, max_size=9))
def test_split_parts_all_pairs_and_no_low_pair_is_larger(sizes: dict[str, int]) -> None:
    high, low = split_high_low(sizes)
    assert sorted(high + low) == sorted(sizes) and len(high) - len(low) in (0, 1)
    assert not low or min(sizes[p] for p in high) >= max(sizes[p] for p in low)


def test_mean_by_group() -> None:
    scores = {"fr-en": 30.0, "de-en": 26.0, "tr-en": 9.0}
    assert mean_by_group(scores, (("fr-en", "de-en"), ("tr-en",))) == (28.0, 9.0)
    with pytest.raises(UserError, match="No score for ro-en"):
        mean_by_group(scores, (("fr-en",), ("ro-en",)))
    high, low = mean_by_group(scores, split_high_low({"fr-en": 7}))
    assert high == 30.0 and math.isnan(low), "the smaller half of one pair is empty"
