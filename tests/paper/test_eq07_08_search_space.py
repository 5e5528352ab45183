"""Eq. 7 and 8: the actions F, and the search space O they span, as weights rather than as names."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.distillation.actions import ACTIONS, act, logit
from pmd_lite.distillation.search import full_space, reduced_space, trial_logits


def shifted(alpha: Tensor, mu: float) -> Tensor:
    """sigma(sigma^-1(alpha) + mu) in closed form, without the library."""
    return alpha * math.exp(mu) / (1 - alpha + alpha * math.exp(mu))


F = (shifted, lambda alpha, mu: shifted(alpha, -mu), lambda alpha, mu: alpha)  # up, down, keep
WEIGHTS = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4)


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def assert_same_vectors(one: Tensor, other: Tensor) -> None:
    """The same weight vectors [trial, pair], in any order."""
    sorted_rows = [f64(sorted([round(x, 9) for x in row] for row in table.tolist())) for table in (one, other)]
    torch.testing.assert_close(*sorted_rows, rtol=0, atol=2e-9)


@given(st.floats(0.01, 0.99), st.floats(0.05, 1))
@settings(deadline=None)
def test_eq_7_the_actions_are_the_three_functions_up_down_and_keep(alpha: float, mu: float) -> None:
    moved = {name: torch.sigmoid(act(logit(f64([alpha])), name, mu)).item() for name in ACTIONS}
    expected = sorted(f(f64([alpha]), mu).item() for f in F)
    assert sorted(moved.values()) == pytest.approx(expected, abs=1e-12)
    assert moved["down"] < moved["keep"] < moved["up"]


@given(WEIGHTS, st.floats(0.05, 1))
@settings(deadline=None, max_examples=50)
def test_eq_8_the_space_is_the_product_of_every_pairs_next_weights(alphas: list[float], mu: float) -> None:
    """O^k = X_l { f(alpha[l]) | f in F }, and so |O^k| = |F|^|L|."""
    alpha = f64(alphas)
    made = torch.sigmoid(trial_logits(logit(alpha), full_space(len(alphas)), mu))
    next_weights = [[f(weight, mu).item() for f in F] for weight in alpha]
    product = f64(list(itertools.product(*next_weights)))
    assert made.shape == (3 ** len(alphas), len(alphas))
    assert_same_vectors(made, product)


@given(WEIGHTS, st.floats(0.05, 1))
@settings(deadline=None, max_examples=50)
def test_the_reduced_space_holds_each_action_on_all_pairs_at_once(alphas: list[float], mu: float) -> None:
    alpha = f64(alphas)
    made = torch.sigmoid(trial_logits(logit(alpha), reduced_space(len(alphas)), mu))
    assert_same_vectors(made, torch.stack([f(alpha, mu) for f in F]))
