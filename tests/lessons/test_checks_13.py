"""Lesson 13: the exercises agree with the library's own bootstrap, and a student's numbers are their own."""

from __future__ import annotations

import numpy as np
import pytest

from pmd_kit import l13
from pmd_lite.evaluation.significance import paired_bootstrap


def test_the_parts_of_the_lesson_make_the_librarys_p_value() -> None:
    """One seed, one pair: draw sentences, take gains, take p; the library does no more."""
    rng = np.random.default_rng(3)
    base, other = l13.checks._stats(rng, 60, 0.6), l13.checks._stats(rng, 60, 0.62)
    other[:, -1] = base[:, -1]
    found = paired_bootstrap([[base]], [[other]], n=2000)
    draws = np.random.default_rng(4).integers(60, size=(2000, 60))
    mine = l13.checks.gains(base, other, draws)
    assert l13.checks.p_value(mine) == pytest.approx(found.p_value, abs=0.05)
    assert np.quantile(mine, 0.975) == pytest.approx(found.high, abs=0.6)


@pytest.mark.parametrize("student", ["Ada", "Grace", "x"])
def test_a_students_numbers(student: str) -> None:
    exercise = l13.checks.my_updates(student)
    made, single, mutual = l13.checks.my_costs(student)
    assert exercise.verdict(round(made * mutual / single))[0]
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_neighbours_have_different_numbers() -> None:
    assert len({l13.checks.my_costs(name) for name in ("Ada", "Grace", "Emmy", "Mary")}) == 4
