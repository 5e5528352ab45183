"""The exercises of lesson 01, their diagnoses, its figures and its widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pmd_kit import l01
from pmd_kit.exercise import Exercise
from pmd_kit.l01.figures import corpus_sizes, padding, size_scale
from pmd_lite.data.batching import cut_batches
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text, figure_html

EXERCISES = [l01.checks.UNEQUAL, l01.checks.TAGS, l01.checks.PACK, l01.checks.KEEP_MASK]
STUDENTS = ["Emmy", "Ada", "Nr. 17", "x"]
SEEDS = range(6)


# The solutions as the notebook writes them.


def unequal(sizes: list[int]) -> tuple[float, float]:
    ordered = sorted(sizes, reverse=True)
    larger = ordered[: len(ordered) // 2]
    return ordered[0] / ordered[-1], sum(larger) / sum(ordered)


def tags(pairs: list[str], pair: str, style: str) -> dict[str, str | None]:
    source, target = pair.split("-")
    if style == "paper":
        return {"source": f"__{target}__", "target": None}
    one_target = len({p.split("-")[1] for p in pairs}) == 1
    return {"source": f"__{source if one_target else target}__", "target": f"__{target}__"}


def pack(lengths: list[int], budget: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for n in sorted(lengths):
        if batches and n * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(n)
        else:
            batches.append([n])
    return batches


def keep_mask(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths.max())) < lengths[:, None]


ANSWERS = [unequal, tags, pack, keep_mask]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("exercise", "answer"), list(zip(EXERCISES, ANSWERS, strict=True)))
def test_the_notebooks_solution_is_right(exercise: Exercise, answer: Callable[..., Any], seed: int) -> None:
    assert exercise.verdict(answer, seed=seed)[0]


@pytest.mark.parametrize("student", STUDENTS)
def test_the_batch_by_hand_is_the_students_own(student: str) -> None:
    lengths, exercise = l01.checks.my_lengths(student), l01.checks.my_padding(student)
    assert lengths == l01.checks.my_lengths(f" {student.upper()} ")
    answer = 1 - sum(lengths) / (len(lengths) * max(lengths))
    assert exercise.verdict(answer)[0] and exercise.verdict(round(answer, 3))[0]
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_neighbours_compute_other_batches_and_nobody_stays_nameless() -> None:
    assert len({tuple(l01.checks.my_lengths(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError, match="write your name"):
        l01.checks.my_lengths("")


def test_an_in_place_sort_and_a_wrong_shape_are_named() -> None:
    def sorts(lengths: list[int], budget: int) -> list[list[int]]:
        lengths.sort()
        return pack(lengths, budget)

    assert l01.checks.PACK.verdict(sorts)[1].startswith("pack changes its input")
    message = l01.checks.KEEP_MASK.verdict(lambda lengths: keep_mask(lengths)[:, :-1])[1]
    assert "has shape [3, 3], expected [3, 4]" in message


@pytest.mark.parametrize("seed", SEEDS)
def test_the_exercise_packs_into_as_few_batches_as_the_library(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 40, size=60)
    batches = l01.checks.pack(lengths.tolist(), 90)
    assert len(batches) == len(cut_batches(lengths, np.arange(60), 90))
    assert all(max(batch) * len(batch) <= 90 for batch in batches)


@pytest.mark.slow
def test_the_scale_widget_redraws() -> None:
    widget = size_scale({"big": {"fr-en": 3_000_000, "tr-en": 5_000}, "small": {"kor-eng": 205_640, "bos-eng": 5_664}})
    _, corpus, scale, picture = widget.children
    assert 'alt="Training sentences of big, linear scale: fr-en 3,000,000, tr-en 5,000"' in picture.value
    corpus.value = "small"
    scale.value = "log"
    assert 'alt="Training sentences of small, log scale: kor-eng 205,640, bos-eng 5,664"' in picture.value
    with pytest.raises(UserError):
        size_scale({})


def test_bars_stand_in_order_and_the_log_scale_starts_at_one() -> None:
    fig = corpus_sizes({"tr-en": 5_000, "fr-en": 3_000_000}, scale="log", alt="two bars")
    (ax,) = fig.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["fr-en", "tr-en"]
    assert ax.get_yscale() == "log" and ax.get_ylim()[0] == 1
    assert [text.get_text() for text in ax.texts] == ["3,000,000", "5,000"]
    for sizes, scale in (({}, "log"), ({"a-b": 0}, "log"), ({"a-b": 3}, "cube")):
        with pytest.raises(UserError):
            corpus_sizes(sizes, scale=scale, alt="x")  # type: ignore[arg-type]


def test_padding_is_counted_per_panel() -> None:
    fig = padding({"in order": [[2, 4], [1]], "sorted": [[1, 2], [4]]}, alt="two ways")
    assert alt_text(fig) == "two ways" and "data:image/png" in figure_html(fig)
    titles = [ax.get_title(loc="left") for ax in fig.axes]
    assert titles == ["in order\n2 batches, 22% padding", "sorted\n2 batches, 12% padding"]
    for wrong in ({}, {"x": []}, {"x": [[1], []]}):
        with pytest.raises(UserError):
            padding(wrong, alt="x")
