"""Eq. 9-12: the actions on a distillation weight, and the size of their step."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import StepSize
from pmd_lite.distillation.actions import ACTIONS, act, decrease, increase, keep, logit, step_size
from pmd_lite.errors import UserError

ALPHAS, STEPS = st.floats(0, 1), st.floats(0, 5)
INNER = st.floats(1e-6, 1 - 1e-6)


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(a: Tensor, b: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# ---------------------------------------------------------------- Eq. 9-11


def test_the_first_moves_from_a_tenth_by_hand() -> None:
    # odds 1/9; times e = 0.302031 -> 0.231969; divided by e = 0.040875 -> 0.039270
    assert increase(f64(0.1), 1.0).item() == pytest.approx(0.231969, abs=1e-6)
    assert decrease(f64(0.1), 1.0).item() == pytest.approx(0.039270, abs=1e-6)


@given(ALPHAS, STEPS)
@settings(deadline=None)
def test_eq_10_up_multiplies_the_odds_by_e_to_the_mu(alpha: float, mu: float) -> None:
    expected = alpha * math.exp(mu) / (1 - alpha + alpha * math.exp(mu))
    assert increase(f64(alpha), mu).item() == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(ALPHAS, STEPS)
@settings(deadline=None)
def test_eq_11_down_divides_the_odds_by_e_to_the_mu(alpha: float, mu: float) -> None:
    expected = alpha * math.exp(-mu) / (1 - alpha + alpha * math.exp(-mu))
    assert decrease(f64(alpha), mu).item() == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(ALPHAS, STEPS)
@settings(deadline=None)
def test_up_undoes_down_and_down_undoes_up(alpha: float, mu: float) -> None:
    close(decrease(increase(f64(alpha), mu), mu), f64(alpha), 1e-9)
    close(increase(decrease(f64(alpha), mu), mu), f64(alpha), 1e-9)


@given(ALPHAS, STEPS)
@settings(deadline=None)
def test_actions_stay_in_0_1_and_keep_their_order(alpha: float, mu: float) -> None:
    down, same, up = (x.item() for x in (decrease(f64(alpha), mu), keep(f64(alpha)), increase(f64(alpha), mu)))
    assert 0 <= down <= up <= 1
    assert same == alpha
    assert down <= alpha + 1e-15 and alpha - 1e-15 <= up


@given(INNER, INNER, st.floats(0.01, 5), st.floats(0.01, 5))
@settings(deadline=None)
def test_monotone_in_alpha_and_in_mu(a: float, b: float, mu: float, nu: float) -> None:
    if b - a > 1e-9:
        assert increase(f64(a), mu) < increase(f64(b), mu)
        assert decrease(f64(a), mu) < decrease(f64(b), mu)
    if nu - mu > 1e-6:
        assert increase(f64(a), mu) < increase(f64(a), nu)
        assert decrease(f64(a), mu) > decrease(f64(a), nu)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 1000.0])
def test_0_and_1_are_fixed_points_and_never_nan(mu: float) -> None:
    ends = f64(0, 1)
    assert logit(ends).tolist() == [-math.inf, math.inf]
    for moved in (increase(ends, mu), decrease(ends, mu), keep(ends)):
        assert moved.tolist() == [0.0, 1.0]
    for action in ACTIONS:
        assert act(logit(ends), action, mu).tolist() == [-math.inf, math.inf]


def test_eq_9_keep_gives_a_copy_of_the_same_weights() -> None:
    alpha = f64(0.1, 0.9)
    same = keep(alpha)
    assert same.tolist() == [0.1, 0.9]
    same.zero_()
    assert alpha.tolist() == [0.1, 0.9]


# ---------------------------------------------------------------- the logit as state


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 0.5, 0.999999])
def test_as_logits_up_then_down_is_exact_over_a_thousand_actions(alpha: float) -> None:
    start = logit(f64(alpha))
    by_turns, far = start, start
    for k in range(500):
        mu = step_size(k, 500)
        by_turns = act(act(by_turns, "up", mu), "down", mu)
    for _ in range(500):
        far = act(far, "up", 0.7)
    assert torch.sigmoid(far).item() == 1.0, "on the way alpha itself has been rounded to 1, where it would be stuck"
    for _ in range(500):
        far = act(far, "down", 0.7)
    for state in (by_turns, far):
        close(torch.sigmoid(state), f64(alpha))
        close(state, start, 1e-10)


def test_as_alphas_the_same_journey_would_be_lost() -> None:
    """Why the state is the logit: an alpha that was rounded to 1 is a fixed point."""
    alpha = f64(0.999999)
    for _ in range(500):
        alpha = increase(alpha, 0.7)
    for _ in range(500):
        alpha = decrease(alpha, 0.7)
    assert alpha.item() == 1.0


@given(st.floats(1e-12, 1 - 1e-12))
@settings(deadline=None)
def test_logit_inverts_the_sigmoid(alpha: float) -> None:
    close(torch.sigmoid(logit(f64(alpha))), f64(alpha), 1e-15)


def test_logit_works_in_float64_whatever_it_is_given() -> None:
    assert logit(torch.tensor([0.25])).dtype == torch.float64
    assert logit(torch.tensor([0.25])).item() == pytest.approx(-math.log(3), rel=1e-15)


def test_an_action_on_many_logits_moves_each_by_the_same_step() -> None:
    logits = torch.tensor([[0.0, -1.0], [2.0, math.inf]], dtype=torch.float64)
    assert act(logits, "up", 0.5).tolist() == [[0.5, -0.5], [2.5, math.inf]]
    assert act(logits, "down", 0.5).tolist() == [[-0.5, -1.5], [1.5, math.inf]]
    assert act(logits, "keep", 0.5).tolist() == logits.tolist()


@pytest.mark.parametrize("alpha", [-0.1, 1.0001, math.nan, math.inf])
def test_a_weight_outside_0_1_is_refused(alpha: float) -> None:
    for function in (logit, lambda a: increase(a, 1.0), lambda a: decrease(a, 1.0)):
        with pytest.raises(UserError, match=r"every weight lies in \[0, 1\]"):
            function(f64(0.5, alpha))


# ---------------------------------------------------------------- Eq. 12


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [  # t = 0, T/2, 0.8 T, T
        ("constant", (1, 1, 1, 1)),
        ("to_0.2", (1, 0.765685, 0.557771, 0.2)),  # 0.2 + 0.8 sqrt(1/2), 0.2 + 0.8 sqrt(1/5)
        ("early_stop", (1, 0.632456, 0.2, 0)),  # sqrt(0.4), sqrt(0.04)
        ("to_0", (1, 0.707107, 0.447214, 0)),  # sqrt(1/2), sqrt(1/5)
    ],
)
def test_eq_12_and_its_three_rivals_by_hand(schedule: StepSize, expected: tuple[float, ...]) -> None:
    for t_max in (100, 4000):
        found = [step_size(share * t_max, t_max, schedule) for share in (0, 0.5, 0.8, 1)]
        assert found == pytest.approx(expected, abs=1e-6)


def test_these_are_all_the_schedules_and_equation_12_is_the_default() -> None:
    assert set(get_args(StepSize)) == {"constant", "to_0.2", "early_stop", "to_0"}
    assert step_size(30, 100) == step_size(30, 100, "to_0") == pytest.approx(math.sqrt(0.7))


def test_early_stop_searches_nothing_in_the_last_sixth() -> None:
    mus = [step_size(t, 600, "early_stop") for t in range(601)]
    assert [t for t, mu in enumerate(mus) if mu == 0] == list(range(500, 601))


@pytest.mark.parametrize("schedule", get_args(StepSize))
def test_steps_never_grow(schedule: StepSize) -> None:
    mus = [step_size(t, 97, schedule) for t in range(98)]
    assert mus[0] == 1
    assert mus == sorted(mus, reverse=True)


@pytest.mark.parametrize(("t", "t_max"), [(-1, 10), (11, 10), (0, 0), (0, -5), (math.nan, 10)])
@pytest.mark.parametrize("schedule", get_args(StepSize))
def test_a_time_outside_the_run_is_refused(t: float, t_max: float, schedule: StepSize) -> None:
    with pytest.raises(UserError, match="t runs from 0 to t_max"):
        step_size(t, t_max, schedule)


def test_an_unknown_schedule_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'cosine'.*constant, to_0.2, early_stop, to_0"):
        step_size(0, 10, "cosine")  # type: ignore[arg-type]
