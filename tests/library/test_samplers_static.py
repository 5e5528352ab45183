"""Samplers that never look at the model: UniMax, Cooldown, and large languages first (Order Matters)."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.sampling.planned import CooldownSampler, OrderMattersSampler, scheduled_tau, shares_within
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities
from pmd_lite.sampling.unimax import UniMaxSampler, unimax_probabilities

TED8 = (5664, 9840, 18798, 25335, 134327, 174444, 192304, 205640)  # bos mar hin mkd ell bul fra kor

SIZES = st.lists(st.integers(1, 10**7), min_size=1, max_size=10)
DISTINCT = st.lists(st.integers(1, 10**7), min_size=1, max_size=10, unique=True)
BUDGETS, CAPS = st.floats(1, 1e8), st.floats(0.1, 100)
TAUS = st.one_of(st.floats(0.2, 50), st.just(math.inf))
SHAPES = st.sampled_from(["linear", "cosine"])


@dataclass
class FakeProbe:
    """These samplers ask it for the time and nothing else."""

    clock: Clock


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def draws(sampler: BaseSampler, n: int = 100) -> list[int]:
    schedule = PairSchedule((1, 0, 2), "iid")
    return [schedule.next(sampler.probabilities()) for _ in range(n)]


# ---------------------------------------------------------------- UniMax


def test_unimax_by_hand() -> None:
    """Of 600 sentences the smallest may have 4 x 10 = 40; the others share 560."""
    p = unimax_probabilities((10, 100, 1000), budget=600, cap=4)
    assert p.tolist() == pytest.approx([40 / 600, 280 / 600, 280 / 600], rel=1e-12)
    assert p.dtype == torch.float64


def test_unimax_shares_of_ted8_with_one_pass_of_budget_and_five_at_the_most() -> None:
    p = unimax_probabilities(TED8, budget=sum(TED8), cap=5)
    assert [round(share, 4) for share in p.tolist()] == [0.0370, 0.0642, 0.1226] + [0.1552] * 5


@given(SIZES, BUDGETS, CAPS)
@settings(deadline=None)
def test_unimax_spends_the_budget_and_all_pairs_below_their_cap_are_exactly_equal(
    sizes: list[int], budget: float, cap: float
) -> None:
    p = unimax_probabilities(sizes, budget, cap)
    used = (p * min(budget, cap * sum(sizes))).tolist()
    most = max(used)
    for mine, size in zip(used, sizes, strict=True):
        assert mine <= cap * size * (1 + 1e-9)
        if mine < cap * size * (1 - 1e-9):
            assert mine == most, "who is not held back by the cap has as much as anybody"
    assert math.fsum(used) == pytest.approx(min(budget, cap * sum(sizes)), rel=1e-9)


@given(SIZES, BUDGETS)
@settings(deadline=None)
def test_a_cap_that_never_holds_makes_unimax_uniform(sizes: list[int], budget: float) -> None:
    for cap in (budget, math.inf):
        p = unimax_probabilities(sizes, budget, cap).tolist()
        assert p == pytest.approx([1 / len(sizes)] * len(sizes), rel=1e-12)
        assert len(set(p)) == 1


@given(SIZES, CAPS, st.floats(1, 10))
@settings(deadline=None)
def test_a_budget_beyond_all_caps_makes_unimax_proportional(sizes: list[int], cap: float, more: float) -> None:
    p = unimax_probabilities(sizes, cap * sum(sizes) * more, cap)
    torch.testing.assert_close(p, temperature_probabilities(sizes, 1.0), rtol=1e-9, atol=1e-15)


@given(SIZES, BUDGETS, CAPS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_unimax(sizes: list[int], budget: float, cap: float, random: Random) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    permuted = unimax_probabilities([sizes[i] for i in order], budget, cap)
    torch.testing.assert_close(permuted, unimax_probabilities(sizes, budget, cap)[order], rtol=1e-12, atol=1e-15)


def test_the_unimax_sampler_counts_its_budget_in_passes_over_all_data() -> None:
    config = SamplingConfig(unimax_budget=3.0, unimax_cap=6.0)
    same(UniMaxSampler(TED8, config).probabilities(), unimax_probabilities(TED8, 3.0 * sum(TED8), 6.0))


@pytest.mark.parametrize("name", ["unimax_budget", "unimax_cap", "cooldown_from", "cooldown_to"])
@pytest.mark.parametrize("value", [0.0, -2.0, math.nan])
def test_budget_cap_and_temperatures_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name):
        SamplingConfig(**{name: value})


@pytest.mark.parametrize("sizes", [[], [10, 0]])
def test_unimax_needs_a_sentence_of_every_pair(sizes: list[int]) -> None:
    with pytest.raises(UserError, match="at least one training sentence"):
        unimax_probabilities(sizes, 1, 1)


# ---------------------------------------------------------------- Cooldown


@given(TAUS, TAUS, SHAPES)
@settings(deadline=None)
def test_the_scheduled_temperature_has_exact_end_points(start: float, end: float, shape: Any) -> None:
    for before, after in ((0.0, 1.0), (-0.5, 1.5)):
        assert scheduled_tau(before, start, end, shape) == start
        assert scheduled_tau(after, start, end, shape) == end


@given(TAUS, TAUS, SHAPES, st.lists(st.floats(0, 1), min_size=2, max_size=10))
@settings(deadline=None)
def test_the_scheduled_temperature_is_monotone_and_stays_between_its_ends(
    start: float, end: float, shape: Any, progress: list[float]
) -> None:
    taus = [scheduled_tau(x, start, end, shape) for x in sorted(progress)]
    assert all(min(start, end) <= tau <= max(start, end) for tau in taus)
    for earlier, later in pairwise(taus):
        # A cosine near its flat ends may waver in the last bit.
        assert 1 / later >= 1 / earlier - 1e-15 if end <= start else 1 / later <= 1 / earlier + 1e-15


@pytest.mark.parametrize(
    ("progress", "start", "shape", "expected"),
    [
        (0.5, 5, "linear", 1 / 0.6),  # the exponent goes from 0.2 to 1
        (0.25, 5, "linear", 1 / 0.4),
        (0.5, 5, "cosine", 1 / 0.6),
        (0.25, 5, "cosine", 1 / (0.2 + 0.8 * (1 - math.sqrt(0.5)) / 2)),
        (0.5, math.inf, "linear", 2.0),
        (0.25, math.inf, "linear", 4.0),
    ],
)
def test_half_way_the_exponent_is_half_way(progress: float, start: float, shape: Any, expected: float) -> None:
    assert scheduled_tau(progress, start, 1.0, shape) == pytest.approx(expected, rel=1e-12)


@given(DISTINCT, TAUS, TAUS, SHAPES)
@settings(deadline=None)
def test_cooldown_begins_and_ends_as_static_temperature_sampling(
    sizes: list[int], start: float, end: float, shape: Any
) -> None:
    sampler = CooldownSampler(sizes, SamplingConfig(cooldown=shape, cooldown_from=start, cooldown_to=end))
    same(sampler.probabilities(), temperature_probabilities(sizes, start))
    assert sampler.update(0, FakeProbe(Clock(640, 640, 100))) == []
    same(sampler.probabilities(), temperature_probabilities(sizes, end))


@given(DISTINCT, SHAPES)
@settings(deadline=None)
def test_while_it_cools_the_smallest_pair_only_loses(sizes: list[int], shape: Any) -> None:
    assume(len(sizes) > 1)
    sampler = CooldownSampler(sizes, SamplingConfig(cooldown=shape, cooldown_from=math.inf, cooldown_to=1.0))
    smallest = [float(sampler.probabilities().min())]
    for step in range(64, 1000, 64):
        sampler.update(0, FakeProbe(Clock(step, 1000, 100)))
        smallest.append(float(sampler.probabilities().min()))
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(smallest))
    assert smallest[-1] < smallest[0]


def test_cooldown_moves_every_64_updates() -> None:
    sampler = CooldownSampler(TED8, SamplingConfig())
    due = [t for t in range(300) if sampler.due(Clock(t, 256, 10))]
    assert due == [64, 128, 192], "not before the first update, not after the last"


# ---------------------------------------------------------------- Order Matters


def test_shares_within_some_pairs_leave_exactly_nothing_for_the_others() -> None:
    p = shares_within((10, 40, 20, 30), [1, 3])
    assert p.tolist() == pytest.approx([0, 40 / 70, 0, 30 / 70], rel=1e-12)
    assert p.tolist()[::2] == [0.0, 0.0]


def test_the_large_pairs_come_first_and_all_at_tau_afterwards() -> None:
    sampler = OrderMattersSampler(TED8, 5.0, SamplingConfig(switch_at=0.25))
    total = sum(TED8[4:])
    assert sampler.probabilities().tolist() == pytest.approx([0] * 4 + [n / total for n in TED8[4:]], rel=1e-12)
    events = sampler.update(1, FakeProbe(Clock(250, 1000, 100)))
    same(sampler.probabilities(), temperature_probabilities(TED8, 5.0))
    p = sampler.probabilities().tolist()
    assert events == [{"event": "switch", "step": 250, "student": 1, "p": p}]


@pytest.mark.parametrize(
    ("switch_at", "expected"),
    [(0.0, []), (0.001, [1]), (0.3, [30]), (0.504, [50]), (0.5051, [51]), (0.99, [99]), (0.999, []), (1.0, [])],
)
def test_the_switch_is_due_once(switch_at: float, expected: list[int]) -> None:
    sampler = OrderMattersSampler(TED8, 5.0, SamplingConfig(switch_at=switch_at))
    assert [t for t in range(101) if sampler.due(Clock(t, 100, 10))] == expected


def test_switching_at_0_begins_with_all_pairs_and_at_1_never_reaches_them() -> None:
    at_0, at_1 = (OrderMattersSampler(TED8, 3.0, SamplingConfig(switch_at=fraction)) for fraction in (0, 1))
    same(at_0.probabilities(), temperature_probabilities(TED8, 3.0))
    assert at_1.probabilities().tolist()[:4] == [0.0] * 4


def test_a_small_pair_is_not_drawn_before_the_switch_and_is_after_it() -> None:
    sampler = OrderMattersSampler(TED8, 5.0, SamplingConfig())
    assert set(draws(sampler, 2000)) == {4, 5, 6, 7}
    sampler.update(0, FakeProbe(Clock(50, 100, 10)))
    assert set(draws(sampler, 2000)) == set(range(8))


# ---------------------------------------------------------------- what all have in common

MAKE: dict[str, Callable[[Any], BaseSampler]] = {
    "unimax": lambda sizes: UniMaxSampler(sizes, SamplingConfig()),
    "cooldown": lambda sizes: CooldownSampler(sizes, SamplingConfig(cooldown_from=math.inf)),
    "order-matters": lambda sizes: OrderMattersSampler(sizes, 3.0, SamplingConfig()),
}
NAMES = st.sampled_from(sorted(MAKE))


@given(NAMES, DISTINCT, st.integers(0, 1000))
@settings(deadline=None)
def test_probabilities_are_a_distribution_and_a_copy(name: str, sizes: list[int], step: int) -> None:
    sampler = MAKE[name](sizes)
    for _ in range(2):
        p = sampler.probabilities()
        assert p.shape == (len(sizes),) and p.dtype == torch.float64
        assert float(p.min()) >= 0 and float(p.sum()) == pytest.approx(1, abs=1e-12)
        before = p.clone()
        p.fill_(9.0)
        same(sampler.probabilities(), before)
        sampler.update(0, FakeProbe(Clock(step, 1000, 100)))


@given(NAMES, DISTINCT, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_the_probabilities(name: str, sizes: list[int], random: Random) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    plain, permuted = MAKE[name](sizes), MAKE[name]([sizes[i] for i in order])
    for _ in range(2):
        torch.testing.assert_close(permuted.probabilities(), plain.probabilities()[order], rtol=1e-12, atol=1e-15)
        for sampler in (plain, permuted):
            sampler.update(0, FakeProbe(Clock(300, 1000, 100)))


@pytest.mark.parametrize("name", sorted(MAKE))
def test_a_reloaded_sampler_draws_the_same_pairs_ever_after(name: str) -> None:
    original, resumed = MAKE[name](TED8), MAKE[name](TED8)
    original.update(0, FakeProbe(Clock(500, 1000, 100)))
    expected = draws(original)
    file = io.BytesIO()
    saved = original.state_dict()
    torch.save(saved, file)
    original.update(0, FakeProbe(Clock(900, 1000, 100)))
    resumed.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    assert draws(resumed) == expected
    resumed.load_state_dict(saved)
    assert draws(resumed) == expected, "a saved state is a copy"
    for sampler in (original, resumed):
        sampler.update(0, FakeProbe(Clock(900, 1000, 100)))
    same(resumed.probabilities(), original.probabilities())
