"""The checks, tried on answers of all kinds: wrong ones are refused and explained, right ones accepted."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from pmd_kit.exercise import Exercise, Judged
from tests.lessons.right_answers import RIGHT
from tests.lessons.test_exercises import FOUND
from tests.lessons.wrong_answers import WRONG

SEEDS = (0, 1)
PERSONAL = {
    "l01": "my_padding", "l03": "parameters", "l05": "scores", "l06": "my_area", "l08": "my_learners", "l09": "my_end",
    "l12": "my_amounts", "l13": "my_updates", "l14": "my_reading", "l15": "my_disk", "l16": "my_bill",
}  # fmt: skip


def judged(name: str, answer: Callable[..., Any], seed: int) -> Judged:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the wrong answers' own making
        return FOUND[name].judged(answer, seed=seed)


def named(verdict: Judged) -> bool:
    """Whether it says what was done wrong, and not only where the numbers differ."""
    return verdict.kind in ("mistake", "slip", "input") or (verdict.kind == "raised" and verdict.message.endswith("."))


@pytest.mark.slow
def test_no_wrong_answer_is_accepted_and_nine_of_ten_are_explained() -> None:
    answers = [(name, number, answer) for name, all_ in WRONG.items() for number, answer in enumerate(all_)]
    assert len(answers) >= 150 and {name[:3] for name in WRONG} == {f"l{n:02d}" for n in range(1, 17)}
    verdicts = {(name, number): [judged(name, answer, seed) for seed in SEEDS] for name, number, answer in answers}
    accepted = [where for where, found in verdicts.items() if any(verdict.solved for verdict in found)]
    assert accepted == []
    unnamed = [where for where, found in verdicts.items() if not all(map(named, found))]
    assert len(unnamed) <= 0.1 * len(answers), unnamed


def test_right_answers_in_other_styles_are_accepted() -> None:
    assert sum(map(len, RIGHT.values())) >= 60
    refused = [(name, number, verdict.message) for name, all_ in RIGHT.items() for number, answer in enumerate(all_)
               for seed in SEEDS if not (verdict := judged(name, answer, seed)).solved]  # fmt: skip
    assert refused == []


@pytest.mark.parametrize("room", PERSONAL)
def test_no_wrong_answer_to_a_personal_exercise_brings_the_right_one(room: str) -> None:
    exercise: Exercise = getattr(importlib.import_module(f"pmd_kit.{room}.checks"), PERSONAL[room])("Ada")
    right = exercise.right()
    assert exercise.student == "Ada" and exercise.verdict(right)[0]
    numbers = [right] if isinstance(right, (int, float)) else [x for x in _flat(right) if not isinstance(x, str)]
    shown = {text for x in numbers for text in (str(x), f"{x:.6g}", f"{x:.4g}", f"{x:.3f}") if len(text) > 2}
    wrong = [
        0,
        1,
        -1,
        0.5,
        1e9,
        "a",
        [],
        [0],
        {},
        right * 1.1 if isinstance(right, float) else 3,
        print,
        [0] * len(numbers),
    ]
    for answer in (*wrong, *(mistake.answer() for mistake in exercise.mistakes)):
        solved, message = exercise.verdict(answer)
        assert not solved and not shown & set(re.findall(r"[-\d.e+]+\d", message)), message


def _flat(x: Any) -> list[Any]:
    x = x.tolist() if hasattr(x, "tolist") else x
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (list, tuple)) else [x]
