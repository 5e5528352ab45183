"""Lesson 14: the loss scale is torch's, the memory rule keeps the update, everyone has a log of their own."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_kit import l14
from pmd_kit.exercise import OPEN
from pmd_lite.config import preset
from pmd_lite.errors import UserError


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_the_scale_moves_as_torchs_does(finite: list[bool], interval: int) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=l14.checks.SCALE, growth_interval=interval)
    used = []
    for ok in finite:
        used.append(scaler.get_scale())
        scaler.scale((weight * (1.0 if ok else float("inf"))).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert l14.checks.right_scales(finite, interval) == used


@given(st.floats(4, 200), st.floats(0.5, 3.5), st.floats(0.01, 5))
def test_what_fits_fits_and_keeps_the_update(memory: float, fixed: float, per_token: float) -> None:
    tokens, accumulate = l14.checks.right_fit(memory, fixed, per_token)
    if tokens:
        assert tokens * accumulate == l14.checks.UPDATE and fixed + per_token / 1000 * tokens <= memory
        assert accumulate == 1 or fixed + per_token / 1000 * 2 * tokens > memory


def test_the_update_is_the_presets() -> None:
    train = preset("ted8").train
    assert train.tokens * train.accumulate == l14.checks.UPDATE


@pytest.mark.parametrize("student", ["Ada", "Alan", "Grace", "Edsger", "Barbara"])
def test_every_student_has_a_log_with_overflows_and_growth(student: str) -> None:
    log = l14.checks.my_log(student)
    assert log == l14.checks.my_log(f" {student.upper()} ") != l14.checks.my_log(student + "x")
    skipped, scale, made = l14.checks.read_log(log)
    assert 2 <= len(skipped) <= 4 and made == 14 - len(skipped) and scale == log[-1][1]
    assert any(b > a for (_, a), (_, b) in itertools.pairwise(log))
    exercise = l14.checks.my_reading(student)
    assert exercise.verdict((skipped, scale, made))[0]
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")
    assert exercise.verdict(None) == (False, OPEN)


def test_a_log_needs_a_name() -> None:
    with pytest.raises(UserError, match="write your name"):
        l14.checks.my_log(" ")
