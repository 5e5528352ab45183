"""How exercises are checked: right, not attempted, wrong with a known mistake, otherwise wrong, raising, mutating."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pmd_kit.exercise import OPEN, Case, Exercise, Mistake, personal, same
from pmd_lite.errors import UserError


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def cases(rng: np.random.Generator) -> Sequence[Case]:
    return [(torch.from_numpy(rng.normal(size=(3, 4))),) for _ in range(4)]


SOFTMAX = Exercise(
    "softmax", softmax, cases,
    [
        Mistake("You normalise over rows: dim=-1 is the vocabulary.", lambda x: torch.softmax(x, dim=0)),
        Mistake("You take exp without dividing by the sum.", torch.exp),
    ],
)  # fmt: skip


def in_place(x: Tensor) -> Tensor:
    x -= x.max(dim=-1, keepdim=True).values
    return softmax(x)


def wrong_shape(x: Tensor) -> Tensor:
    return softmax(x).sum(dim=-1)


def broken(x: Tensor) -> Tensor:
    raise IndexError("too many indices")


def undone(x: Tensor) -> Tensor:
    raise NotImplementedError


def test_the_right_answer_is_right_whatever_type_holds_its_numbers() -> None:
    for answer in (
        softmax,
        lambda x: softmax(x).numpy(),
        lambda x: tuple(softmax(x)),
        lambda x: softmax(x).tolist(),
        lambda x: softmax(x.float()),
    ):
        solved, message = SOFTMAX.verdict(answer)
        assert solved and message == "Right: softmax agrees with the library on 4 inputs."


@pytest.mark.parametrize("answer", [None, ..., lambda x: None, lambda x: ..., undone])
def test_an_open_exercise_is_not_a_wrong_one(answer: object) -> None:
    assert SOFTMAX.verdict(answer) == (False, OPEN)


def test_a_known_mistake_is_named_in_words() -> None:
    for mistake in SOFTMAX.mistakes:
        assert SOFTMAX.verdict(mistake.answer) == (False, f"Not yet. {mistake.says}")


def test_an_unknown_one_is_shown_by_example() -> None:
    solved, message = SOFTMAX.verdict(lambda x: softmax(x) * 1.5)
    assert not solved
    assert re.search(r"gives \d\.\d+ at \[0, 0\], expected 0\.", message) and "(4 of 4 inputs differ)" in message
    assert "(12 of 12 numbers differ; every number is 1.5 times the expected one)" in message
    once = SOFTMAX.verdict(lambda x: torch.where(torch.arange(4) == 2, 0.3, softmax(x)))[1]
    assert "gives 0.3 at [0, 2], expected 0." in once and "(3 of 12 numbers differ)" in once
    assert "has shape [3], expected [3, 4]" in SOFTMAX.verdict(wrong_shape)[1]


def test_what_the_answer_raises_is_a_message() -> None:
    solved, message = SOFTMAX.verdict(broken)
    assert not solved and message.endswith("raised IndexError: too many indices")


def test_a_changed_input_is_noticed_even_when_the_result_is_right() -> None:
    solved, message = SOFTMAX.verdict(in_place)
    assert not solved and message.startswith("softmax changes its input (input.0)")


def test_a_mistake_that_only_sometimes_shows_is_found_by_the_telling_case() -> None:
    exercise = Exercise("mean", lambda x: sum(x) / len(x), lambda rng: [([1.0, 1.0],), ([1.0, 3.0, 8.0],)],
                        [Mistake("That is the median.", lambda x: sorted(x)[len(x) // 2])])  # fmt: skip
    assert exercise.verdict(lambda x: sorted(x)[len(x) // 2]) == (False, "Not yet. That is the median.")
    assert exercise.verdict(lambda x: sum(x) / len(x))[0]


def test_a_value_is_checked_like_a_function() -> None:
    exercise = Exercise("visits", lambda: 12.5, mistakes=[Mistake("You forgot to divide by N.", lambda: 1250.0)])
    assert exercise.verdict(12.5) == (True, "Right: visits agrees with the library on 1 input.")
    assert exercise.verdict(1250)[1] == "Not yet. You forgot to divide by N."
    assert exercise.verdict(3)[1] == "Not yet. visits gives 3, expected 12.5."
    assert exercise.verdict(None)[1] == OPEN


def test_a_personal_exercise_never_shows_its_answer() -> None:
    exercise = Exercise("visits", lambda: 12.5, mistakes=[Mistake("Divide by N.", lambda: 1250.0)], student="Ada")
    assert exercise.verdict(12.5)[0]
    assert exercise.verdict(1250)[1] == "Not yet. Divide by N."
    assert exercise.verdict(3)[1] == "Not yet. visits is too small."
    assert exercise.verdict(25)[1] == "Not yet. visits is too large.", "half of it would be the answer"
    assert exercise.verdict("12.5")[1] == "Not yet. visits: It returns text, and a number is asked for."
    two = Exercise("two", lambda: (4, 7.25), student="Ada")
    assert (
        two.verdict((5, 7.2))[1]
        == "Not yet. two is not right: the first part is too large, the second part is too small."
    )
    assert two.verdict((4, 725.0))[1].startswith("Not yet. two: Only the second part is wrong. That is in per cent")
    assert two.verdict(4)[1] == "Not yet. two: Only the first of the numbers is there."


@pytest.mark.parametrize("name", ["your name", " Your Name ", "name"])
def test_a_name_that_was_not_filled_in_is_refused(name: str) -> None:
    exercise = Exercise("visits", lambda: 12.5, student=name)
    for answer in (12.5, 3):
        solved, message = exercise.verdict(answer)
        assert not solved and "write your name between the quotes" in message and "12.5" not in message
    assert exercise.verdict(None)[1] == OPEN


def test_a_forgotten_return_is_not_an_open_exercise() -> None:
    def forgets(x: Tensor) -> None:
        softmax(x)

    def prints(x: Tensor) -> None:
        print(softmax(x))

    def sometimes(n: int) -> int | None:
        if n > 0:
            return n
        return None

    assert "`return`" in SOFTMAX.verdict(forgets)[1] and "returns nothing" in SOFTMAX.verdict(forgets)[1]
    assert "prints its result" in SOFTMAX.verdict(prints)[1]
    absolute = Exercise("absolute", abs, lambda rng: [(3,), (-2,)])
    assert absolute.verdict(sometimes)[1].startswith("Not yet. absolute: For some inputs it returns None")


def test_true_is_true_whoever_says_so() -> None:
    exercise = Exercise("above", lambda x: x > 2, lambda rng: [(3,), (1,)])
    for answer in (lambda x: np.bool_(x > 2), lambda x: torch.tensor(x > 2), lambda x: np.array(x > 2)):
        assert exercise.verdict(answer)[0]
    assert "the other way round" in exercise.verdict(lambda x: np.bool_(x <= 2))[1]


def test_gradients_can_be_part_of_the_answer() -> None:
    def through(answer: object, case: Case) -> object:
        x = case[0].clone().requires_grad_()
        answer(x).backward()  # type: ignore[operator]
        return x.grad

    exercise = Exercise("square", lambda x: (x**2).sum(), lambda rng: [(torch.tensor([1.0, 2.0]),)],
                        [Mistake("No gradient flows.", lambda x: (x.detach() ** 2).sum() + 0 * x.sum())],
                        through)  # fmt: skip
    assert exercise.verdict(lambda x: (x * x).sum())[0]
    assert exercise.verdict(lambda x: (x.detach() ** 2).sum() + 0 * x.sum())[1] == "Not yet. No gradient flows."


def test_a_learner_reads_what_a_grader_raises(capsys: pytest.CaptureFixture[str]) -> None:
    SOFTMAX.grade(softmax, seed=1)
    for answer in (torch.exp, None):
        SOFTMAX.check(answer, seed=1)
        said = capsys.readouterr().out.strip()
        with pytest.raises(AssertionError) as raised:
            SOFTMAX.grade(answer, seed=1)
        assert str(raised.value) == said


def test_the_same_seed_gives_the_same_inputs() -> None:
    wrong = SOFTMAX.verdict(lambda x: x[:1] * 0, seed=3)
    assert wrong == SOFTMAX.verdict(lambda x: x[:1] * 0, seed=3)


def test_numbers_belong_to_a_student() -> None:
    first = personal("Ada").integers(1000, size=5).tolist()
    assert first == personal(" ada ").integers(1000, size=5).tolist()
    assert first != personal("Bob").integers(1000, size=5).tolist()
    assert first != personal("Ada", "exercise 2").integers(1000, size=5).tolist()
    with pytest.raises(UserError, match="write your name"):
        personal("  ")


def test_lists_of_words_are_compared_word_by_word() -> None:
    assert same(["a", "b"], ["a", "b"], 1e-5) and same(("a", None), ("a", None), 1e-5)
    assert not same(["a"], ["b"], 1e-5)
    assert not same(("a", None), ("b", None), 1e-5)
    assert not same([1.0, "a"], [1.0, "b"], 1e-5)
    assert not same([[1.0], [1.0, 2.0]], [[1.0], [1.0, 3.0]], 1e-5), "rows of different lengths"
    assert same([], [], 1e-5) and not same([], [1.0], 1e-5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(0.01, 1))
def test_equal_means_equal_up_to_the_tolerance(values: list[float], shift: float) -> None:
    assert same(values, torch.tensor(values, dtype=torch.float64), 1e-9)
    assert not same(values, [values[0] + shift * (1 + abs(values[0])), *values[1:]], 1e-4)
    assert not same(values, [*values, 0.0], 1e-4)
    assert same({"a": (values, "x")}, {"a": (np.array(values), "x")}, 1e-9)
    assert not same({"a": (values, "x")}, {"a": (values, "y")}, 1e-9)
