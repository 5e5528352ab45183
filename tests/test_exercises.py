"""Every exercise of every lesson: its right answer passes, each of its mistakes fails and is named as what it is."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from pmd_lite.teaching import checks
from pmd_lite.teaching.checks.core import Exercise

LESSONS = sorted(m.name for m in pkgutil.iter_modules(checks.__path__) if m.name.startswith("lesson"))
FOUND = {
    f"{lesson}.{name}": value
    for lesson in LESSONS
    for name, value in vars(importlib.import_module(f"{checks.__name__}.{lesson}")).items()
    if isinstance(value, Exercise)
}
SEEDS = range(4)


def test_the_lessons_exercises_are_found() -> None:
    assert {"lesson01.PACK", "lesson02.VISITS", "lesson09.UP"} <= FOUND.keys()


@pytest.mark.parametrize("name", FOUND)
def test_the_librarys_answer_is_right(name: str) -> None:
    assert all(FOUND[name].verdict(FOUND[name].right, seed=seed)[0] for seed in SEEDS)


@pytest.mark.parametrize("name", FOUND)
def test_each_of_four_mistakes_or_more_is_named_as_itself(name: str) -> None:
    exercise = FOUND[name]
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        for seed in SEEDS:
            assert exercise.verdict(mistake.answer, seed=seed) == (False, f"Not yet. {mistake.says}")
