"""From probabilities to a sequence of pairs: fair at any moment, reproducible, resumable."""

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

from pmd_lite.sampling.schedule import PairSchedule, batch_shares

Draws = Literal["iid", "stratified"]
BOTH: list[Draws] = ["iid", "stratified"]
WMT6 = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]


def shares(sizes: Sequence[float]) -> Tensor:
    p = torch.tensor(sizes, dtype=torch.float64)
    return p / p.sum()


def draw(schedule: PairSchedule, p: Tensor, n: int) -> list[int]:
    return [schedule.next(p) for _ in range(n)]


def behind(drawn: Sequence[int], p: Tensor) -> np.ndarray:
    """[draw, pair] draws that each pair is still owed after every draw."""
    made = np.eye(len(p))[np.array(drawn)].cumsum(axis=0)
    return np.arange(1, len(drawn) + 1)[:, None] * p.numpy() - made


WEIGHTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any)


@given(WEIGHTS, st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_at_any_moment_every_pair_has_had_its_share_up_to_one_draw(weights: list[int], seed: int) -> None:
    p = shares(weights)
    assert np.abs(behind(draw(PairSchedule((seed,), "stratified"), p, 300), p)).max() < 1 + 1e-9


def test_even_the_rarest_of_the_long_tail_comes_in_time() -> None:
    """Turkish has 1 draw in 999: after 20,000 draws it came 20 times, neither 19 nor 21."""
    p = shares(WMT6)
    drawn = draw(PairSchedule((1, 0), "stratified"), p, 19_980)
    assert Counter(drawn)[5] == 20
    assert np.abs(behind(drawn, p)).max() < 1 + 1e-9


def test_equal_pairs_take_turns_in_an_order_left_to_chance() -> None:
    drawn = np.array(draw(PairSchedule((3,), "stratified"), shares([1, 1, 1, 1]), 40)).reshape(10, 4)
    assert (np.sort(drawn, axis=1) == np.arange(4)).all()
    assert len({tuple(turn) for turn in drawn.tolist()}) > 5


def test_probabilities_that_change_count_at_once() -> None:
    old, new = shares([1, 0]), shares([0, 1])
    schedule = PairSchedule((0,), "stratified")
    assert draw(schedule, old, 10) == [0] * 10
    assert draw(schedule, new, 5) == [1] * 5


@pytest.mark.slow
@given(st.lists(WEIGHTS.map(lambda row: [*row, *[0] * 12][:12]).filter(any), min_size=2, max_size=6))
@settings(deadline=None, max_examples=60)
def test_a_sampler_that_changes_its_mind_still_gets_what_it_asked_for(rows: list[list[int]]) -> None:
    """Draws follow the sum of all probabilities so far; only a pair that fell to 0 keeps what it was owed."""
    schedule, asked, made = PairSchedule((4,), "stratified"), np.zeros(12), np.zeros(12)
    for row in rows:
        p = shares([weight + 1 for weight in row])
        for _ in range(50):
            asked += p.numpy()
            made[schedule.next(p)] += 1
    assert np.abs(asked - made).max() < 2


def test_iid_frequencies_pass_a_chi_square_test() -> None:
    p = shares([30, 20, 20, 15, 10, 5])
    drawn = draw(PairSchedule((3, 1), "iid"), p, 32_000)
    expected = len(drawn) * p.numpy()
    chi_square = float(((np.bincount(drawn, minlength=6) - expected) ** 2 / expected).sum())
    assert chi_square < 20.52  # 99.9 % point with 5 degrees of freedom


def test_iid_counts_vary_as_binomial_counts_do() -> None:
    p = shares([6, 4])
    counts = [Counter(draw(PairSchedule((seed,), "iid"), p, 64))[0] for seed in range(500)]
    assert np.var(counts) == pytest.approx(64 * 0.6 * 0.4, rel=0.25)


@pytest.mark.parametrize("draws", BOTH)
def test_a_seed_decides_every_draw(draws: Draws) -> None:
    p = shares([2, 2, 1])
    first, again, other = (draw(PairSchedule(seed, draws), p, 300) for seed in ((7, 0, 2), (7, 0, 2), (7, 1, 2)))
    assert first == again
    assert first != other
    assert first[:64] != first[64:128]


@pytest.mark.parametrize("draws", BOTH)
@given(done=st.integers(0, 200))
@settings(deadline=None, max_examples=30)
@pytest.mark.slow
def test_a_reloaded_schedule_continues_with_the_same_draws(draws: Draws, done: int) -> None:
    p = shares([5, 3, 1, 1])
    schedule, resumed = PairSchedule((9, 0), draws), PairSchedule((9, 0), draws)
    draw(schedule, p, done)
    saved = schedule.state_dict()
    written = json.dumps(saved)
    resumed.load_state_dict(json.loads(written))
    expected = draw(schedule, p, 150)
    assert json.dumps(saved) == written, "drawing on must not change a state that was saved"
    assert draw(resumed, p, 150) == expected
    resumed.load_state_dict(saved)
    assert draw(resumed, p, 150) == expected
    assert json.dumps(saved) == written, "nor may drawing after a load"


@pytest.mark.parametrize("draws", BOTH)
@given(weights=WEIGHTS, seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
@pytest.mark.slow
def test_a_pair_of_probability_0_is_never_drawn(draws: Draws, weights: list[int], seed: int) -> None:
    padded = [0, *weights, 0, 0]
    drawn = Counter(draw(PairSchedule((seed,), draws), shares(padded), 200))
    assert not [pair for pair in drawn if padded[pair] == 0]


def test_nor_after_it_was_owed_something() -> None:
    schedule = PairSchedule((0,), "stratified")
    draw(schedule, shares([3, 3, 3, 1]), 5)
    assert not set(draw(schedule, shares([0, 0, 0, 1]), 50)) - {3}


class Constant:
    """A random generator whose uniform numbers are all equal."""

    def __init__(self, value: float):
        self.value = value

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.value)


@pytest.mark.parametrize("draws", BOTH)
@pytest.mark.parametrize("value", [0.0, float(np.nextafter(1.0, 0.0))], ids=["0", "just below 1"])
def test_not_even_at_the_two_ends_of_the_unit_interval(
    draws: Draws, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Constant(value))
    assert set(draw(PairSchedule((0,), draws), shares([0, 1, 1, 0, 0]), 64)) <= {1, 2}


def test_batch_shares_by_hand() -> None:
    """Half of the sentences each; the second pair's batches hold a third as many, so three times as many are drawn."""
    p, per_batch = torch.tensor([0.5, 0.5]), torch.tensor([30.0, 10.0])
    assert batch_shares(p, per_batch, "sentences").tolist() == pytest.approx([0.25, 0.75])
    assert batch_shares(p, per_batch, "batches").tolist() == [0.5, 0.5]
