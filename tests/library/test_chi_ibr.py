"""chi-IBR: the best response to given losses, and when and from which losses the sampler asks for it."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.interfaces import Clock
from pmd_lite.sampling.chi_ibr import ChiIBRSampler, best_response, chi_divergence
from pmd_lite.sampling.schedule import PairSchedule


def f64(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


P, V = f64([0.6, 0.3, 0.1]), f64([1, 2, 3])


def close(found: Tensor, expected: Any, atol: float = 1e-6) -> None:
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=0, atol=atol)


@st.composite
def problems(draw: st.DrawFn, least: int = 1) -> tuple[Tensor, Tensor]:
    """p with no share below 1 in 10000, and values with two decimals, so that ties occur."""
    n = draw(st.integers(least, 8))
    sizes = draw(st.lists(st.integers(1, 1000), min_size=n, max_size=n))
    values = draw(st.lists(st.integers(-500, 500), min_size=n, max_size=n))
    return f64(sizes) / sum(sizes), f64(values) / 100


RADII = st.floats(1e-6, 20)
FLOORS = st.sampled_from([0.0, 0.2, 0.9, 1.0])


# ---------------------------------------------------------------- the solver, by hand


def test_inside_the_simplex_it_is_the_closed_form() -> None:
    q = best_response(P, V, 0.05)
    close(q, [0.458579, 0.370711, 0.170711])
    assert float(q @ V) == pytest.approx(1.712132, abs=1e-6)


def test_at_a_larger_radius_the_easiest_pair_is_cut_off() -> None:
    q = best_response(P, V, 1.0)
    close(q, [0, 0.556351, 0.443649])
    assert q[0] == 0
    assert chi_divergence(q, P) == pytest.approx(1.0, abs=1e-9)


def test_beyond_the_largest_reachable_distance_it_is_the_point_on_the_hardest_pair() -> None:
    assert chi_divergence(f64([0, 0, 1]), P) == pytest.approx(4.5)
    for radius in (4.5001, 5.0, 1e9, math.inf):
        close(best_response(P, V, radius), [0, 0, 1], atol=0)


def test_equally_hard_pairs_share_the_extreme_point_as_they_share_the_data() -> None:
    close(best_response(P, f64([1, 3, 3]), 5.0), [0, 0.75, 0.25], atol=1e-12)


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_of_two_pairs_the_harder_gains_the_root_of_two_rho_p1_p2(floor: float) -> None:
    q = best_response(f64([0.9, 0.1]), f64([2.0, 7.0]), 0.05, floor)
    assert float(q[1]) - 0.1 == pytest.approx(math.sqrt(0.009), abs=1e-9)


@given(problems())
@settings(deadline=None)
def test_radius_0_and_equal_values_give_p_itself(problem: tuple[Tensor, Tensor]) -> None:
    p, values = problem
    assert torch.equal(best_response(p, values, 0.0), p)
    assert torch.equal(best_response(p, torch.full_like(p, 1.7), 3.0), p)
    for broken in (math.nan, math.inf):
        assert torch.equal(best_response(p, torch.where(values == values[0], broken, values), 3.0), p)


def test_the_answer_is_a_new_tensor_and_the_arguments_are_left_alone() -> None:
    p, v = P.clone(), V.clone()
    for radius in (0.0, 0.05, 9.0):
        best_response(p, v, radius, 0.2).fill_(7.0)
    assert torch.equal(p, P) and torch.equal(v, V)


def test_a_floor_holds_back_the_extreme_point() -> None:
    """Shares before renormalising: 0.2 x 0.6, 0.2 x 0.3, and 1 on the hardest."""
    close(best_response(P, V, 5.0, 0.2), [0.12 / 1.18, 0.06 / 1.18, 1 / 1.18], atol=1e-12)


def test_a_floor_below_every_share_changes_nothing() -> None:
    close(best_response(P, V, 0.05, 0.2), [0.458579, 0.370711, 0.170711])


def test_with_one_pair_on_the_floor_the_others_still_reach_the_radius() -> None:
    """The easiest has 0.2 x 0.6 of 1.12; the distance that is left gives a quadratic equation for the other two."""
    q0 = 0.12 / 1.12
    rest = 1 - q0
    # (x - .3)^2 / .3 + (rest - x - .1)^2 / .1 = 2 - (q0 - .6)^2 / .6, the smaller root
    a, b = 1 / 0.3 + 1 / 0.1, -2 - 2 * (rest - 0.1) / 0.1
    c = 0.3 + (rest - 0.1) ** 2 / 0.1 - 2 + (q0 - 0.6) ** 2 / 0.6
    x = (-b - math.sqrt(b * b - 4 * a * c)) / (2 * a)
    close(best_response(P, V, 1.0, 0.2), [q0, x, rest - x], atol=1e-9)


# ---------------------------------------------------------------- the solver, in general


@pytest.mark.slow
@given(problems(2), st.floats(1e-6, 0.5))
@settings(deadline=None)
def test_equals_the_closed_form_wherever_no_pair_is_cut_off(problem: tuple[Tensor, Tensor], radius: float) -> None:
    p, v = problem
    assume(v.max() > v.min())
    mean = (p * v).sum()
    sigma = (p * (v - mean) ** 2).sum().sqrt()
    closed = p * (1 + math.sqrt(2 * radius) * (v - mean) / sigma)
    assume(bool((closed >= 0).all()))
    q = best_response(p, v, radius)
    torch.testing.assert_close(q, closed, rtol=0, atol=1e-7)
    assert float(q @ v) == pytest.approx(float(mean + math.sqrt(2 * radius) * sigma), abs=1e-6)


@pytest.mark.slow
@given(problems(2), RADII, st.lists(st.lists(st.floats(0, 1), min_size=8, max_size=8), min_size=1, max_size=20))
@settings(deadline=None)
def test_no_other_mixture_in_the_ball_is_worse(
    problem: tuple[Tensor, Tensor], radius: float, others: list[list[float]]
) -> None:
    p, v = problem
    best = float(best_response(p, v, radius) @ v)
    corners = torch.eye(len(p), dtype=torch.float64).tolist()
    for other in others + corners:
        weights = f64(other[: len(p)])
        if float(weights.sum()) == 0:
            continue
        away = weights / weights.sum() - p
        distance = chi_divergence(p + away, p)
        inside = p + away * min(1.0, math.sqrt(radius / distance) if distance > 0 else 1.0)
        assert chi_divergence(inside, p) <= radius * (1 + 1e-9)
        assert float(inside @ v) <= best + 1e-6


@given(problems(2), RADII, FLOORS)
@settings(deadline=None)
def test_the_answer_is_a_distribution_on_the_edge_of_the_ball_or_extreme(
    problem: tuple[Tensor, Tensor], radius: float, floor: float
) -> None:
    p, v = problem
    assume(v.max() > v.min())
    q = best_response(p, v, radius, floor)
    assert float(q.min()) >= 0 and float(q.sum()) == pytest.approx(1, abs=1e-12)
    distance = chi_divergence(q, p)
    assert distance <= radius * (1 + 1e-9)
    if distance < radius * (1 - 1e-6):
        hardest = v == v.max()
        ratio = torch.where(hardest, 1 / p[hardest].sum(), floor).clamp(min=floor)
        torch.testing.assert_close(q, p * ratio / (p * ratio).sum(), rtol=0, atol=1e-9)


@given(problems(2), RADII, st.sampled_from([0.2, 0.9]))
@settings(deadline=None)
def test_with_a_floor_shares_still_follow_the_values_and_none_vanishes(
    problem: tuple[Tensor, Tensor], radius: float, floor: float
) -> None:
    p, v = problem
    ratio = (best_response(p, v, radius, floor) / p)[v.argsort()]
    assert bool((ratio.diff() >= -1e-9).all()), "who is harder gains no less"
    # Floored shares sum to at most 1 + floor before renormalising.
    assert float(ratio.min()) >= floor / (1 + floor) - 1e-9


@pytest.mark.slow
@given(problems(2), RADII, FLOORS, st.floats(-100, 100), st.floats(0.01, 100))
@settings(deadline=None)
def test_unit_and_origin_of_the_values_do_not_matter(
    problem: tuple[Tensor, Tensor], radius: float, floor: float, shift: float, scale: float
) -> None:
    p, v = problem
    expected = best_response(p, v, radius, floor)
    torch.testing.assert_close(best_response(p, v * scale, radius, floor), expected, rtol=0, atol=1e-7)
    assume(v.max() > v.min())  # equal values may not stay equal to the last bit when a constant is added
    assume(float(v.unique().diff().min()) > 1e-3)
    shifted = (v + round(shift)).round(decimals=2)
    torch.testing.assert_close(best_response(p, shifted, radius, floor), expected, rtol=0, atol=1e-7)


@given(problems(), RADII, FLOORS, st.randoms(use_true_random=False))
@settings(deadline=None)
@pytest.mark.slow
def test_permuting_the_pairs_permutes_the_answer(
    problem: tuple[Tensor, Tensor], radius: float, floor: float, random: Any
) -> None:
    p, v = problem
    order = list(range(len(p)))
    random.shuffle(order)
    permuted = best_response(p[order], v[order], radius, floor)
    torch.testing.assert_close(permuted, best_response(p, v, radius, floor)[order], rtol=0, atol=1e-7)


# ---------------------------------------------------------------- the sampler

SIZES = (600, 300, 100)


@dataclass
class FakeProbe:
    """This sampler asks it for the time and nothing else."""

    clock: Clock


def make(baselines: Sequence[float] = (0, 0, 0), **options: Any) -> ChiIBRSampler:
    return ChiIBRSampler(SIZES, f64(baselines), SamplingConfig(**options))


def feed(sampler: ChiIBRSampler, losses: Sequence[float | None], times: int = 1) -> None:
    for _ in range(times):
        for pair, loss in enumerate(losses):
            if loss is not None:
                sampler.after_step(pair, torch.tensor(loss), 100)


def end_epoch(sampler: ChiIBRSampler, number: int) -> list[dict[str, Any]]:
    return sampler.update(0, FakeProbe(Clock(10 * number, 1000, 10)))


def test_the_first_epoch_has_the_shares_of_the_data_and_the_second_the_best_response() -> None:
    sampler = make(baselines=(1, 0, 1))
    close(sampler.probabilities(), P, atol=1e-12)
    feed(sampler, [2, 2, 4])
    events = sampler.update(1, FakeProbe(Clock(10, 1000, 10)))
    close(sampler.probabilities(), [0.458579, 0.370711, 0.170711])
    (event,) = events
    assert (event["event"], event["step"], event["student"]) == ("chi-ibr", 10, 1)
    assert event["loss"] == pytest.approx([2, 2, 4], rel=1e-6)
    assert event["excess"] == pytest.approx([1, 2, 3], rel=1e-6)
    assert event["q"] == sampler.probabilities().tolist()


def test_the_running_loss_is_a_weighted_mean_of_what_was_seen() -> None:
    """Weights 1/8, 1/4, 1/2 of 1, 2, 4 make 2.625; divided by 7/8 that is 3."""
    sampler = make(chi_ema=0.5)
    for loss in (1.0, 2.0, 4.0):
        sampler.after_step(0, torch.tensor(loss), 100)
    feed(sampler, [None, 5, 6])
    assert end_epoch(sampler, 1)[0]["loss"] == [3.0, 5.0, 6.0]


def test_a_loss_that_overflowed_fp16_does_not_count() -> None:
    sampler = make(chi_ema=0.5)
    for loss in (1.0, math.inf, 2.0, math.nan, 4.0):
        sampler.after_step(0, torch.tensor(loss), 100)
    feed(sampler, [None, 5, math.inf])
    assert end_epoch(sampler, 1)[0]["loss"] == [3.0, 5.0, pytest.approx(4.0)], "the third was never seen: mean excess"


def test_a_pair_that_is_rarely_drawn_does_not_look_easy() -> None:
    sampler = make()
    feed(sampler, [2.5, None, None], times=100)
    feed(sampler, [None, 2.5, None], times=10)
    feed(sampler, [None, None, 2.5])
    assert end_epoch(sampler, 1)[0]["loss"] == pytest.approx([2.5] * 3, rel=1e-5)


def test_each_epoch_begins_its_means_anew() -> None:
    sampler = make()
    feed(sampler, [9, 9, 9], times=5)
    end_epoch(sampler, 1)
    feed(sampler, [1, 2, 3])
    assert end_epoch(sampler, 2)[0]["loss"] == pytest.approx([1, 2, 3], rel=1e-6)


@pytest.mark.parametrize(("warmup", "first"), [(0, 10), (1, 10), (2, 20), (3, 30)])
def test_q_changes_only_at_epoch_starts_and_never_in_the_warm_up(warmup: int, first: int) -> None:
    sampler = make(chi_warmup=warmup)
    before, changed = sampler.probabilities(), []
    for step in range(1, 51):
        feed(sampler, [1 + step / 50, 2, 3])
        clock = Clock(step, 50, 10)
        if sampler.due(clock):
            assert bool(sampler.update(0, FakeProbe(clock))) == (step >= first)
        if not torch.equal(sampler.probabilities(), before):
            changed.append(step)
            before = sampler.probabilities()
    assert changed == list(range(first, 50, 10))


def test_a_pair_not_drawn_in_an_epoch_keeps_its_loss() -> None:
    sampler = make(chi_warmup=2)
    feed(sampler, [1, 2, 3])
    assert end_epoch(sampler, 1) == []
    feed(sampler, [1.5, None, 2])
    assert end_epoch(sampler, 2)[0]["loss"] == pytest.approx([1.5, 2, 2], rel=1e-6)
    assert end_epoch(sampler, 3)[0]["loss"] == pytest.approx([1.5, 2, 2], rel=1e-6)


def test_a_pair_never_drawn_counts_as_the_others_do_on_average() -> None:
    sampler = make(baselines=(1, 5, 1))
    feed(sampler, [2, None, 4])
    (event,) = end_epoch(sampler, 1)
    assert event["excess"] == pytest.approx([1, 2, 3], rel=1e-6)
    assert event["loss"] == pytest.approx([2, 7, 4], rel=1e-6)


def test_when_nothing_was_ever_drawn_nothing_changes() -> None:
    sampler = make()
    before = sampler.probabilities()
    assert end_epoch(sampler, 1) == []
    assert torch.equal(sampler.probabilities(), before)


def test_a_model_better_than_its_baseline_everywhere_is_judged_by_its_plain_losses() -> None:
    sampler = make(baselines=(9, 8, 7))  # by excess the first pair would be the easiest at -8, the last at -4
    feed(sampler, [3, 2, 1])
    end_epoch(sampler, 1)
    q = sampler.probabilities()
    plain = make()
    feed(plain, [3, 2, 1])
    end_epoch(plain, 1)
    close(q, plain.probabilities(), atol=1e-7)
    assert q[0] > P[0]
    one_ahead = make(baselines=(9, 8, 1))  # excess -6, -6, 0: not all are negative
    feed(one_ahead, [3, 2, 1])
    end_epoch(one_ahead, 1)
    assert one_ahead.probabilities()[2] > P[2]


def test_no_pair_falls_below_the_share_of_the_rarest() -> None:
    """Without a floor the extreme point is (1, 0, 0): the others are raised to 0.1, and 1.2 is renormalised."""
    sampler = make(chi_radius=100.0, chi_floor=0.0)
    feed(sampler, [3, 2, 1])
    end_epoch(sampler, 1)
    close(sampler.probabilities(), [1 / 1.2, 0.1 / 1.2, 0.1 / 1.2])


def test_the_floor_of_the_config_is_used_inside_the_bisection() -> None:
    sampler = make(chi_radius=5.0, chi_floor=0.5)
    feed(sampler, [1, 2, 3])
    end_epoch(sampler, 1)
    close(sampler.probabilities(), best_response(P, V, 5.0, 0.5))  # (.3, .15, 1) / 1.45: above 0.1 anyway


def test_noting_a_loss_never_needs_its_value() -> None:
    """A meta tensor has no value: code that waited for its value would fail."""
    sampler = make()
    for pair in (0, 1, 0):
        sampler.after_step(pair, torch.empty((), device="meta", requires_grad=True), 100)


@pytest.mark.slow
@given(st.permutations(range(3)), st.lists(st.floats(0.5, 9), min_size=3, max_size=3))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_q(order: list[int], losses: list[float]) -> None:
    baselines = f64([1.0, 2.0, 1.5])
    plain = ChiIBRSampler(SIZES, baselines, SamplingConfig())
    permuted = ChiIBRSampler([SIZES[i] for i in order], baselines[order], SamplingConfig())
    feed(plain, losses)
    feed(permuted, [losses[i] for i in order])
    for sampler in (plain, permuted):
        end_epoch(sampler, 1)
    torch.testing.assert_close(permuted.probabilities(), plain.probabilities()[order], rtol=0, atol=1e-7)


def draws(sampler: ChiIBRSampler) -> list[int]:
    schedule = PairSchedule((1, 0, 2), "iid")
    return [schedule.next(sampler.probabilities()) for _ in range(100)]


def test_a_reloaded_sampler_goes_on_to_the_same_bits() -> None:
    original, resumed = make((1, 1, 1)), make((1, 1, 1))
    feed(original, [2, None, 5])
    end_epoch(original, 1)
    feed(original, [2.3, None, 4.1], times=3)  # in the middle of an epoch, one pair never seen
    saved, file = original.state_dict(), io.BytesIO()
    torch.save(saved, file)
    expected = draws(original)
    resumed.load_state_dict(saved)
    assert draws(resumed) == expected
    for sampler in (original, resumed):
        feed(sampler, [1.7, None, None])
    assert end_epoch(original, 2) == end_epoch(resumed, 2)
    feed(original, [1, 1, 9])
    end_epoch(original, 3)
    again = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert saved.keys() == again.keys()
    for name, value in again.items():
        torch.testing.assert_close(saved[name], value, rtol=0, atol=0, equal_nan=True, msg="a saved state is a copy")
    fresh = make((1, 1, 1))
    fresh.load_state_dict(again)
    feed(fresh, [1.7, None, None])
    end_epoch(fresh, 2)
    assert torch.equal(fresh.probabilities(), resumed.probabilities())
