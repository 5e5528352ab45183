"""Eq. 2, temperature-based sampling: the numbers of both corpora, and the laws that hold for any sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.sampling.temperature import TemperatureSampler, temperature_probabilities

TED8 = (5664, 9840, 18798, 25335, 134327, 174444, 192304, 205640)  # bos mar hin mkd ell bul fra kor
WMT6 = (3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000)  # fr de zh et ro tr

SIZES = st.lists(st.integers(1, 10**8), min_size=1, max_size=12)
TAUS = st.floats(0.2, 50)


def powers(sizes: Sequence[int], tau: float) -> Tensor:
    """Eq. 2 as it is printed, without logarithms."""
    raised = [n ** (1 / tau) for n in sizes]
    return torch.tensor([x / math.fsum(raised) for x in raised], dtype=torch.float64)


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (1, (0.0074, 0.0128, 0.0245, 0.0331, 0.1753, 0.2276, 0.2509, 0.2683)),
        (3, (0.0559, 0.0672, 0.0833, 0.0921, 0.1605, 0.1751, 0.1809, 0.1850)),
        (5, (0.0789, 0.0881, 0.1002, 0.1064, 0.1485, 0.1565, 0.1596, 0.1618)),
    ],
)
def test_ted8_shares_to_four_decimals(tau: float, expected: tuple[float, ...]) -> None:
    assert [round(p, 4) for p in temperature_probabilities(TED8, tau).tolist()] == list(expected)


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (1, (0.6006, 0.3003, 0.0801, 0.0160, 0.0020, 0.0010)),
        (5, (0.276, 0.240, 0.185, 0.134, 0.088, 0.077)),
    ],
)
def test_wmt6_shares(tau: float, expected: tuple[float, ...]) -> None:
    digits = 4 if tau == 1 else 3
    assert [round(p, digits) for p in temperature_probabilities(WMT6, tau).tolist()] == list(expected)


@pytest.mark.parametrize(("tau", "ratio"), [(1, 36.31), (3, 3.31), (5, 2.05)])
def test_ted8_largest_over_smallest_share(tau: float, ratio: float) -> None:
    p = temperature_probabilities(TED8, tau)
    assert float(p.max() / p.min()) == pytest.approx(ratio, abs=0.005)


@given(SIZES, TAUS)
@settings(deadline=None)
def test_eq_2_as_printed(sizes: list[int], tau: float) -> None:
    p = temperature_probabilities(sizes, tau)
    assert p.dtype == torch.float64
    torch.testing.assert_close(p, powers(sizes, tau), rtol=1e-10, atol=1e-15)


@given(SIZES, TAUS)
@settings(deadline=None)
def test_ratio_of_two_shares_is_the_root_of_the_ratio_of_their_sizes(sizes: list[int], tau: float) -> None:
    p = temperature_probabilities(sizes, tau)
    for size, share in zip(sizes, p.tolist(), strict=True):
        assert share / float(p[0]) == pytest.approx((size / sizes[0]) ** (1 / tau), rel=1e-9)


@given(SIZES, TAUS, st.integers(2, 1000))
@settings(deadline=None)
def test_multiplying_every_size_changes_nothing(sizes: list[int], tau: float, factor: int) -> None:
    larger = temperature_probabilities([n * factor for n in sizes], tau)
    torch.testing.assert_close(larger, temperature_probabilities(sizes, tau), rtol=1e-10, atol=1e-15)


@given(SIZES, TAUS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_their_shares(sizes: list[int], tau: float, random: Random) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    permuted = temperature_probabilities([sizes[i] for i in order], tau)
    torch.testing.assert_close(permuted, temperature_probabilities(sizes, tau)[order], rtol=1e-12, atol=1e-15)


@given(SIZES)
def test_infinite_tau_is_exactly_uniform_and_tau_1_is_the_share_of_the_data(sizes: list[int]) -> None:
    uniform = temperature_probabilities(sizes, math.inf).tolist()
    assert uniform == pytest.approx([1 / len(sizes)] * len(sizes), rel=1e-15)
    assert len(set(uniform)) == 1
    shares = [n / sum(sizes) for n in sizes]
    assert temperature_probabilities(sizes, 1).tolist() == pytest.approx(shares, rel=1e-10)


@given(SIZES, TAUS, st.floats(1.05, 3))
@settings(deadline=None)
def test_a_higher_tau_flattens(sizes: list[int], tau: float, factor: float) -> None:
    sharp, flat = (temperature_probabilities(sizes, t) for t in (tau, tau * factor))
    smallest, largest = sizes.index(min(sizes)), sizes.index(max(sizes))
    assert flat[smallest] >= sharp[smallest] - 1e-12  # no temperature takes from the smallest pair
    assert flat[largest] <= sharp[largest] + 1e-12
    if max(sizes) >= 1.5 * min(sizes):
        assert flat.max() / flat.min() < sharp.max() / sharp.min()


def test_a_tiny_tau_puts_everything_on_the_largest_pair() -> None:
    for tau in (1e-3, 1e-300, 5e-324):
        assert temperature_probabilities([7, 3000, 20], tau).tolist() == [0.0, 1.0, 0.0], "tau -> 0, and never NaN"


@pytest.mark.parametrize("tau", [0, -1, -math.inf, math.nan])
def test_a_temperature_must_be_positive(tau: float) -> None:
    with pytest.raises(UserError, match=f"tau={tau}"):
        temperature_probabilities([1, 2], tau)


@pytest.mark.parametrize("sizes", [[], [10, 0], [-3, 5]])
def test_every_pair_needs_a_sentence(sizes: list[int]) -> None:
    with pytest.raises(UserError, match="at least one training sentence"):
        temperature_probabilities(sizes, 1)


def test_the_sampler_gives_copies_and_never_changes() -> None:
    sampler = TemperatureSampler(TED8, 3)
    sampler.probabilities().zero_()
    torch.testing.assert_close(sampler.probabilities(), temperature_probabilities(TED8, 3), rtol=0, atol=0)
    assert not any(sampler.due(Clock(step, 100, 10)) for step in range(101))


@pytest.mark.parametrize("tau", [1.0, 5.0, math.inf])
def test_the_sampler_loads_its_own_state_and_refuses_that_of_another_temperature(tau: float) -> None:
    sampler = TemperatureSampler(TED8, tau)
    sampler.load_state_dict(TemperatureSampler(TED8, tau).state_dict())
    with pytest.raises(UserError, match="tau=3"):
        sampler.load_state_dict(TemperatureSampler(TED8, 3).state_dict())
