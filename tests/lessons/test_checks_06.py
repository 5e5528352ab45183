"""Lesson 06: the notebook's solutions, the student's own area, the rule for two seeds, figure and slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pmd_kit import l06
from pmd_kit.l06.figures import sweep_point, tau_points
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import dominates, hypervolume, pareto_front

STUDENTS = ["Emmy", "Ada", "Nr. 17", "x", "Grace", "Jun"]
Points = Sequence[tuple[float, ...]]


def test_the_notebooks_solutions_are_right() -> None:
    def better(a: Sequence[float], b: Sequence[float]) -> bool:
        pairs = list(zip(a, b, strict=True))
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)

    def frontier(points: Points) -> list[int]:
        return [i for i, p in enumerate(points) if not any(dominates(q, p) for q in points)]

    def area(points: Points, reference: Sequence[float]) -> float:
        inside = sorted((p for p in points if p[0] > reference[0] and p[1] > reference[1]), reverse=True)
        total, height = 0.0, reference[1]
        for x, y in inside:
            total += (x - reference[0]) * max(0.0, y - height)
            height = max(height, y)
        return total

    def verdict(before: list[float], after: list[float]) -> str:
        delta = sum(after) / len(after) - sum(before) / len(before)
        spread = max(max(scores) - min(scores) for scores in (before, after))
        if abs(delta) <= spread:
            return "noise"
        return "better" if delta > 0 else "worse"

    exercises = (l06.checks.DOMINATES, l06.checks.FRONTIER, l06.checks.AREA, l06.checks.VERDICT)
    for exercise, answer in zip(exercises, (better, frontier, area, verdict), strict=True):
        for seed in range(4):
            assert exercise.verdict(answer, seed=seed)[0], exercise.name


@pytest.mark.parametrize("student", STUDENTS)
def test_the_area_by_hand_is_the_students_own(student: str) -> None:
    (points, reference), exercise = l06.checks.my_points(student), l06.checks.my_area(student)
    assert len(pareto_front(points)) == 3 and all(x > reference[0] and y > reference[1] for x, y in points)
    assert exercise.verdict(hypervolume(points, reference))[0]
    assert len(exercise.mistakes) >= 5
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_neighbours_have_other_points() -> None:
    assert len({str(l06.checks.my_points(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError, match="write your name"):
        l06.checks.my_points(" ")


def test_the_rule_for_two_seeds_by_hand() -> None:
    assert l06.checks.verdict([10, 12], [13, 14]) == "better"  # 2.5 apart, seeds 2 and 1 apart
    assert l06.checks.verdict([10, 12], [12, 14]) == "noise"  # 2 apart, and so are the seeds
    assert l06.checks.verdict([13, 14], [10, 12]) == "worse"


class FakeRun:
    """The parts of a run that the slider reads."""

    def __init__(self, point: tuple[float, float], p: Sequence[float]):
        self.pairs, self._point, self._p = ["fra-eng", "tur-eng"], point, p

    def point(self) -> tuple[float, float]:
        return self._point

    def curve(self, field: str) -> tuple[list[int], dict[str, list[float]]]:
        assert field == "p"
        return [1], {pair: [p] for pair, p in zip(self.pairs, self._p, strict=True)}


@pytest.mark.slow
def test_the_slider_walks_along_the_sweep() -> None:
    sweep: Any = {"tau=1": [FakeRun((8, 80), (0.9, 0.1)), FakeRun((10, 78), (0.9, 0.1))],
                  "tau=inf": [FakeRun((12, 60), (0.5, 0.5))]}  # fmt: skip
    _, tau, picture = tau_points(sweep).children
    assert "tau=1 draws fra-eng 0.90, tur-eng 0.10. Mean BLEU of small pairs 9.0, of large pairs 79.0" in picture.value
    tau.value = "tau=inf"
    assert "tau=inf draws fra-eng 0.50, tur-eng 0.50. Mean BLEU of small pairs 12.0" in picture.value
    with pytest.raises(UserError, match="is not in the sweep"):
        sweep_point(["a"], {"tau=1": [1.0]}, {"tau=1": (1, 2)}, "tau=2", alt="x")
