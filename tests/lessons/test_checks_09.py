"""The exercises of lesson 09, their diagnoses, its figures and its widget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pmd_kit import l09
from pmd_kit.exercise import Exercise
from pmd_kit.l09.figures import alpha_walk, distance_moved, spelled, step_sizes, three_trials, trajectory, walk
from pmd_lite.distillation.actions import decrease, increase
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text

STUDENTS = ["Emmy", "Ada", "Nr. 17", "x"]
SEEDS = range(6)


# The solutions as the notebook writes them.


def f_up(alpha: Tensor, mu: float) -> Tensor:
    return torch.sigmoid(torch.log(alpha / (1 - alpha)) + mu)


def f_down(alpha: Tensor, mu: float) -> Tensor:
    scaled = alpha * math.exp(-mu)
    return scaled / (1 - alpha + scaled)


def distances(alpha: Tensor, mu: float) -> Tensor:
    return torch.stack([increase(alpha, mu) - alpha, alpha - decrease(alpha, mu)])


def mu(t: float, t_max: float, schedule: str) -> float:
    root = math.sqrt((t_max - t) / t_max)
    if schedule == "to_0":
        return root
    if schedule == "to_0.2":
        return 0.2 + 0.8 * root
    if schedule == "early_stop":
        return math.sqrt(max(t_max - 1.2 * t, 0) / t_max)
    return 1.0


EXERCISES = [l09.checks.UP, l09.checks.DOWN, l09.checks.DISTANCES, l09.checks.MU]
ANSWERS = [f_up, f_down, distances, mu]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise", "answer"), list(zip(EXERCISES, ANSWERS, strict=True)))
def test_the_notebooks_solution_is_right(exercise: Exercise, answer: Callable[..., Any], seed: int) -> None:
    assert exercise.verdict(answer, seed=seed)[0]


@pytest.mark.parametrize("student", STUDENTS)
def test_the_path_by_hand_is_the_students_own(student: str) -> None:
    (alpha, actions, step), exercise = l09.checks.my_path(student), l09.checks.my_end(student)
    odds = alpha / (1 - alpha) * math.exp(step * (actions.count("up") - actions.count("down")))
    answer = odds / (1 + odds)
    assert exercise.verdict(answer)[0] and exercise.verdict(round(answer, 3))[0]
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_neighbours_walk_other_paths_and_nobody_stays_nameless() -> None:
    assert len({str(l09.checks.my_path(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError, match="write your name"):
        l09.checks.my_path("")


def test_an_in_place_move_a_wrong_shape_and_a_root_of_less_than_nothing_are_named() -> None:
    def moves(alpha: Tensor, mu: float) -> Tensor:
        alpha[:] = increase(alpha, mu)
        return alpha

    assert l09.checks.UP.verdict(moves)[1].startswith("f_up changes its input")
    assert "has shape [6], expected [2, 3]" in l09.checks.DISTANCES.verdict(lambda a, mu: distances(a, mu).flatten())[1]

    def rooted(t: float, t_max: float, schedule: str) -> float:
        return math.sqrt((t_max - 1.2 * t) / t_max) if schedule == "early_stop" else mu(t, t_max, schedule)

    assert "mu(90, 100, 'early_stop') raised ValueError" in l09.checks.MU.verdict(rooted)[1]


def test_a_walk_is_a_sequence_of_actions() -> None:
    path = walk(0.1, ["up", "down", "keep"])
    assert path == pytest.approx([0.1, 0.231969, 0.1, 0.1], abs=1e-6)
    shrinking = walk(0.1, ["up", "down", "keep"], "to_0")  # mu 1, then sqrt(2/3): up does not quite come undone
    assert shrinking[2] == pytest.approx(increase(torch.tensor(0.1), 1 - math.sqrt(2 / 3)).item(), abs=1e-6)
    assert spelled("Uu =d") == ["up", "up", "keep", "down"]
    for wrong in ("", "up", "u" * 25):
        with pytest.raises(UserError):
            spelled(wrong)


@pytest.mark.slow
def test_the_walk_widget_redraws_and_says_what_is_wrong() -> None:
    widget = alpha_walk()
    _, actions, alpha, schedule, picture = widget.children
    assert "it ends at 0.100" in picture.value and "mu constant" in picture.value
    actions.value = "ud"
    schedule.value = "to_0"
    assert "Weight from 0.10 over up, down with mu to_0: it ends at 0.130" in picture.value
    alpha.value = 0.5
    assert "Weight from 0.50" in picture.value
    actions.value = "ux"
    assert picture.value.startswith("<p>x: write u for up")


def test_figures_draw_what_they_are_given() -> None:
    fig = trajectory({"a": walk(0.1, ["up"] * 8)}, ["up"] * 8, alt="a climb")
    left, right = fig.axes
    assert alt_text(fig) == "a climb" and len(left.lines) == len(right.lines) == 1
    steps = right.lines[0].get_ydata()
    assert steps[1] - steps[0] == pytest.approx(1) and steps[8] - steps[7] == pytest.approx(1)
    with pytest.raises(UserError, match="2 weights each"):
        trajectory({"a": [0.1]}, ["up"], alt="x")
    trials = {"keep": [0.1, 0.5], "up": [0.23, 0.73], "down": [0.04, 0.27]}
    fig = three_trials(["fr", "tr"], [0.1, 0.5], trials, ["down", "up"], alt="two pairs")
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == ["fr", "tr"]
    with pytest.raises(UserError):
        three_trials(["fr"], [0.1, 0.5], trials, ["down", "up"], alt="x")
    assert len(distance_moved([0.1, 0.9], {"up": [0.1, 0.05], "down": [0.06, 0.1]}, alt="x").axes[0].lines) == 2
    assert len(step_sizes([0, 1], {"constant": [1, 1], "to_0": [1, 0]}, alt="x").axes[0].lines) == 2
