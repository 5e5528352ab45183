"""The exercises of lesson 11 and their diagnoses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from pmd_kit import l11
from pmd_kit.exercise import Exercise
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.search import full_space

SEEDS = range(6)


# The solutions as the notebook writes them.


def trials(n_pairs: int, n_actions: int) -> tuple[int, int]:
    return n_actions**n_pairs, n_actions


def choose_reduced(results: Tensor) -> list[str]:
    return [ACTIONS[row] for row in results.argmin(dim=0).tolist()]


def breaking_table(space: Sequence[Sequence[str]]) -> list[list[float]]:
    def loss(own: str, other: str) -> float:
        alone = {"keep": 2.0, "up": 1.8, "down": 2.3}[own]
        return alone + (0.5 if own == other == "up" else 0.0)

    return [[loss(first, second), loss(second, first)] for first, second in space]


def own_share(results: Tensor, space: Sequence[Sequence[str]], pair: int) -> Tensor:
    losses = results[:, pair]
    means = []
    for action in ACTIONS:
        rows = [row for row, vector in enumerate(space) if vector[pair] == action]
        means.append(losses[rows].mean())
    return torch.stack(means).var(unbiased=False) / losses.var(unbiased=False)


EXERCISES = [l11.checks.TRIALS, l11.checks.CHOICE, l11.checks.BREAKING, l11.checks.OWN_SHARE]
ANSWERS = [trials, choose_reduced, breaking_table, own_share]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise", "answer"), list(zip(EXERCISES, ANSWERS, strict=True)))
def test_the_notebooks_solution_is_right(exercise: Exercise, answer: Callable[..., Any], seed: int) -> None:
    assert exercise.verdict(answer, seed=seed)[0]


def test_names_that_are_wrong_without_being_a_known_mistake_are_wrong() -> None:
    assert not l11.checks.CHOICE.verdict(lambda results: ["keep"] * results.shape[1], seed=0)[0]
    assert "raised IndexError" in l11.checks.CHOICE.verdict(
        lambda results: [ACTIONS[column] for column in results.argmin(dim=1).tolist()] + [ACTIONS[3]], seed=0
    )[1]  # fmt: skip


def test_any_table_on_which_the_searches_differ_is_right() -> None:
    def meddling(space: Sequence[Sequence[str]]) -> Tensor:
        """Additive effects are enough: the second pair gains when it goes up, and the first pair loses by that."""
        first = {"keep": 2.0, "up": 1.9, "down": 2.1}
        harm = {"keep": 0.0, "up": 0.5, "down": 0.0}
        return torch.tensor([[first[a] + harm[b], 1.5 - 0.1 * (b == "up")] for a, b in space])

    assert l11.checks.BREAKING.verdict(meddling)[0]
    assert l11.checks.BREAKING.verdict(lambda space: meddling(space).numpy())[0]


def test_other_wrong_tables_are_described() -> None:
    says = l11.checks.BREAKING.verdict(lambda space: [[1.0, 2.0, 3.0]] * 9)[1]
    assert "a table of shape [9, 3]" in says
    assert l11.checks.BREAKING.verdict(lambda space: None)[1].startswith("Not attempted")
    assert l11.checks.BREAKING.verdict(lambda space: [[1.0], [1.0, 2.0]])[1].startswith("breaking_table(")


def test_an_in_place_sort_and_a_wrong_shape_are_named() -> None:
    def sorts(results: Tensor) -> list[str]:
        answer = choose_reduced(results)
        results.copy_(results.sort(dim=0).values)
        return answer

    assert l11.checks.CHOICE.verdict(sorts)[1].startswith("choose_reduced changes its input")
    per_pair = l11.checks.OWN_SHARE.verdict(lambda results, space, pair: [results.mean(), 0.2])[1]
    assert "has shape [2], expected []" in per_pair


def test_independence_is_what_the_hypothesis_says() -> None:
    space = full_space(2)
    table = l11.checks.competing(space)
    assert not l11.checks.independent(table, space)
    assert l11.checks.independent(torch.tensor([[len(a), len(b)] for a, b in space]).double(), space)
