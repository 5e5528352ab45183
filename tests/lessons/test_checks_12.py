"""The exercises of lesson 12, their diagnoses, its figures and its widget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from pmd_kit import l12
from pmd_kit.exercise import Exercise
from pmd_kit.l12.figures import shares_over, teachers, water_level
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text

STUDENTS = ["Emmy", "Ada", "Nr. 17", "x", "Grace", "Émilie"]
SEEDS = range(5)


# The solutions as the notebook writes them.


def gradient(p: Tensor, rewards: Tensor) -> Tensor:
    return rewards.sum() * p - rewards


def response(p: Tensor, v: Tensor, rho: float) -> Tensor:
    mean = (p * v).sum()
    sigma = (p * (v - mean) ** 2).sum().sqrt()
    return p * (1 + math.sqrt(2 * rho) * (v - mean) / sigma)


def plan(losses: list[list[float]]) -> tuple[list[int], list[bool]]:
    best = []
    for pair in range(len(losses[0])):
        column = [row[pair] for row in losses]
        best.append(column.index(min(column)) + 1)
    return best, [epoch < len(losses) for epoch in best]


EXERCISES = [l12.checks.GRADIENT, l12.checks.RESPONSE, l12.checks.LSSD_PLAN]
ANSWERS = [gradient, response, plan]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise", "answer"), list(zip(EXERCISES, ANSWERS, strict=True)))
def test_the_notebooks_solution_is_right(exercise: Exercise, answer: Callable[..., Any], seed: int) -> None:
    assert exercise.verdict(answer, seed=seed)[0]


@pytest.mark.parametrize("student", STUDENTS)
def test_unimax_by_hand_is_the_students_own(student: str) -> None:
    (sizes, budget, cap), exercise = l12.checks.my_corpus(student), l12.checks.my_amounts(student)
    level = (budget - cap * (sizes[2] + sizes[3])) / 2
    assert level == int(level), "by hand: whole numbers"
    assert exercise.verdict([level, level, cap * sizes[2], cap * sizes[3]])[0]
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")
    assert exercise.verdict(None)[1].startswith("Not attempted")


def test_neighbours_have_other_corpora_and_nobody_stays_nameless() -> None:
    assert len({str(l12.checks.my_corpus(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError, match="write your name"):
        l12.checks.my_corpus("")


def test_an_in_place_update_and_a_wrong_shape_are_named() -> None:
    def in_place(p: Tensor, rewards: Tensor) -> Tensor:
        p *= rewards.sum()
        return p - rewards

    assert l12.checks.GRADIENT.verdict(in_place)[1].startswith("gradient changes its input")
    as_column = l12.checks.RESPONSE.verdict(lambda p, v, rho: response(p, v, rho)[:, None])[1]
    assert "an axis of length 1 too many" in as_column

    def sorts(losses: list[list[float]]) -> Any:
        losses.sort()
        return plan(losses)

    assert l12.checks.LSSD_PLAN.verdict(sorts)[1].startswith("plan changes its input")


def test_lssd_by_hand() -> None:
    losses = [[3.0, 3.0], [2.0, 2.9], [2.5, 2.8], [2.4, 2.7]]
    assert l12.checks.lssd_plan(losses) == ([2, 4], [True, False])
    assert l12.checks.lssd_plan(losses[:1]) == ([1, 1], [False, False])


def test_figures_draw_what_they_are_given() -> None:
    fig = water_level(["a", "b"], [100, 30], [10_000, 30], alt="two pairs")
    assert alt_text(fig) == "two pairs"
    assert [bar.get_height() for bar in fig.axes[0].patches] == [100, 30]
    assert [text.get_text() for text in fig.axes[0].texts] == ["10,000"], "a cap above the picture is a number"
    with pytest.raises(UserError):
        water_level(["a", "b"], [100], [10, 30], alt="x")
    assert len(shares_over([0, 1], {"a": [1, 0.5], "b": [0, 0.5]}, "radius", alt="x").axes[0].lines) == 2
    fig = teachers({"a": [2, 1, 3], "b": [3, 2, 1]}, {"a": [False, False, True], "b": [False] * 3}, alt="x")
    stars = [ax.lines[1].get_xdata()[0] for ax in fig.axes]  # type: ignore[index]
    assert stars == [2, 3]
    assert [len(ax.patches) for ax in fig.axes] == [1, 0]
    with pytest.raises(UserError, match="same pairs"):
        teachers({"a": [1]}, {"b": [True]}, alt="x")
