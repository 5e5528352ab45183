"""Every exercise of every lesson: its right answer passes, each of its mistakes fails and gets its own message."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import pmd_kit
from pmd_kit.exercise import Exercise

ROOMS = sorted(m.name for m in pkgutil.iter_modules(pmd_kit.__path__) if re.fullmatch(r"l\d\d", m.name))
FOUND = {
    f"{room}.{name}": value
    for room in ROOMS
    for module in pkgutil.iter_modules(importlib.import_module(f"pmd_kit.{room}").__path__)
    for name, value in vars(importlib.import_module(f"pmd_kit.{room}.{module.name}")).items()
    if isinstance(value, Exercise)
}
SEEDS = range(4)


def test_the_lessons_exercises_are_found() -> None:
    assert {"l01.PACK", "l02.VISITS", "l09.UP"} <= FOUND.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_the_librarys_answer_is_right(name: str) -> None:
    assert all(FOUND[name].verdict(FOUND[name].right, seed=seed)[0] for seed in SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_each_of_four_mistakes_or_more_is_named_as_itself(name: str) -> None:
    exercise = FOUND[name]
    assert len(exercise.mistakes) >= 4
    for number, mistake in enumerate(exercise.mistakes):
        for seed in (SEEDS[number % 4], SEEDS[(number + 1) % 4]):  # two of the four for each mistake
            assert exercise.verdict(mistake.answer, seed=seed) == (False, f"Not yet. {mistake.says}")
