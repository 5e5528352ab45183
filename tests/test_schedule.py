"""From probabilities to a sequence of pairs: fair, reproducible, resumable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.sampling.schedule import BLOCK, PairSchedule

Draws = Literal["iid", "stratified"]
BOTH: list[Draws] = ["iid", "stratified"]
WMT6 = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]


def shares(sizes: Sequence[float]) -> Tensor:
    p = torch.tensor(sizes, dtype=torch.float64)
    return p / p.sum()


def draw(schedule: PairSchedule, p: Tensor, n: int) -> list[int]:
    return [schedule.next(p) for _ in range(n)]


def blocks(schedule: PairSchedule, p: Tensor, n: int) -> np.ndarray:
    """[block, draw] pairs."""
    return np.array(draw(schedule, p, n * BLOCK)).reshape(n, BLOCK)


def counts(drawn: np.ndarray, n_pairs: int) -> np.ndarray:
    """[block, pair] how often each pair came."""
    return np.stack([np.bincount(block, minlength=n_pairs) for block in drawn])


WEIGHTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any)


@given(WEIGHTS, st.integers(0, 2**32))
@settings(deadline=None)
def test_stratified_counts_differ_from_64_p_by_less_than_one(weights: list[int], seed: int) -> None:
    p = shares(weights)
    counted = counts(blocks(PairSchedule((seed,), "stratified"), p, 5), len(weights))
    assert np.abs(counted - BLOCK * p.numpy()).max() < 1 + 1e-9


def test_stratified_draws_are_unbiased_over_many_blocks() -> None:
    p, n = shares(WMT6), 3000
    mean = counts(blocks(PairSchedule((1, 0), "stratified"), p, n), 6).mean(axis=0)
    # A count is one of two neighbouring integers, so its standard deviation is at most 1/2.
    assert np.abs(mean - BLOCK * p.numpy()).max() < 5 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("draws", BOTH)
@pytest.mark.parametrize("place", [0, 17, BLOCK - 1])
def test_every_single_draw_has_the_asked_for_probabilities(draws: Draws, place: int) -> None:
    p, n = shares([6, 3, 1]), 3000
    at_place = blocks(PairSchedule((2, 0), draws), p, n)[:, place]
    frequency = np.bincount(at_place, minlength=3) / n
    sigma = np.sqrt(p.numpy() * (1 - p.numpy()) / n)
    assert (np.abs(frequency - p.numpy()) < 5 * sigma).all()


def test_iid_frequencies_pass_a_chi_square_test() -> None:
    p = shares([30, 20, 20, 15, 10, 5])
    drawn = draw(PairSchedule((3, 1), "iid"), p, 500 * BLOCK)
    expected = len(drawn) * p.numpy()
    chi_square = float(((np.bincount(drawn, minlength=6) - expected) ** 2 / expected).sum())
    assert chi_square < 20.52  # 99.9 % point with 5 degrees of freedom


def test_iid_counts_of_a_block_vary_as_binomial_counts_do_and_stratified_ones_hardly() -> None:
    p = shares([6, 4])
    variance = {d: counts(blocks(PairSchedule((4,), d), p, 500), 2)[:, 0].var() for d in BOTH}
    assert variance["iid"] == pytest.approx(BLOCK * 0.6 * 0.4, rel=0.25)
    assert variance["stratified"] <= 0.25


@pytest.mark.parametrize("draws", BOTH)
def test_a_seed_decides_every_draw(draws: Draws) -> None:
    p = shares([3, 2, 1])
    first, again, other = (draw(PairSchedule(seed, draws), p, 300) for seed in ((7, 0, 2), (7, 0, 2), (7, 1, 2)))
    assert first == again
    assert first != other
    assert first[:BLOCK] != first[BLOCK : 2 * BLOCK], "each block is drawn anew"


@pytest.mark.parametrize("draws", BOTH)
@given(done=st.integers(0, 3 * BLOCK))
@settings(deadline=None, max_examples=30)
def test_a_reloaded_schedule_goes_on_with_the_same_draws(draws: Draws, done: int) -> None:
    p = shares([5, 3, 1])
    schedule, resumed = PairSchedule((9, 0), draws), PairSchedule((9, 0), draws)
    draw(schedule, p, done)
    saved = schedule.state_dict()
    written = json.dumps(saved)
    resumed.load_state_dict(json.loads(written))
    expected = draw(schedule, p, 100)
    assert json.dumps(saved) == written, "drawing on must not change a state that was saved"
    assert draw(resumed, p, 100) == expected
    resumed.load_state_dict(saved)
    assert draw(resumed, p, 100) == expected
    assert json.dumps(saved) == written, "nor may drawing after a load"


def test_restart_block_makes_new_probabilities_count_at_once() -> None:
    old, new = shares([1, 0]), shares([0, 1])
    schedule = PairSchedule((0,), "stratified")
    assert draw(schedule, old, 10) == [0] * 10
    assert draw(schedule, new, 5) == [0] * 5, "a begun block is finished"
    schedule.restart_block()
    assert draw(schedule, new, 2 * BLOCK) == [1] * (2 * BLOCK)


@pytest.mark.parametrize("draws", BOTH)
def test_restart_block_goes_on_to_a_fresh_block(draws: Draws) -> None:
    p = shares([3, 2, 1])
    plain, restarted = PairSchedule((5,), draws), PairSchedule((5,), draws)
    first, second = draw(plain, p, BLOCK), draw(plain, p, BLOCK)
    assert draw(restarted, p, 10) == first[:10]
    restarted.restart_block()
    assert draw(restarted, p, BLOCK) == second


@pytest.mark.parametrize("draws", BOTH)
@given(weights=WEIGHTS, seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_a_pair_of_probability_0_is_never_drawn(draws: Draws, weights: list[int], seed: int) -> None:
    padded = [0, *weights, 0, 0]
    drawn = Counter(draw(PairSchedule((seed,), draws), shares(padded), 3 * BLOCK))
    assert not [pair for pair in drawn if padded[pair] == 0]


class Constant:
    """A generator whose uniform numbers are all the same."""

    def __init__(self, value: float):
        self.value = value

    def random(self, n: int | None = None) -> float | np.ndarray:
        return self.value if n is None else np.full(n, self.value)

    def permutation(self, x: np.ndarray) -> np.ndarray:
        return x


@pytest.mark.parametrize("draws", BOTH)
@pytest.mark.parametrize("value", [0.0, float(np.nextafter(1.0, 0.0))], ids=["0", "just below 1"])
def test_not_even_at_the_two_ends_of_the_unit_interval(
    draws: Draws, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stratified point (63 + 0.999...) / 64 rounds up to 1 itself."""
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Constant(value))
    assert set(draw(PairSchedule((0,), draws), shares([0, 1, 1, 0, 0]), BLOCK)) <= {1, 2}
