"""Lesson 15: the plans its exercises make are those of the library."""

from __future__ import annotations

import pytest

import pmd_lite as pmd
from pmd_corpora import wmt6
from pmd_kit import l15
from pmd_kit.exercise import OPEN
from pmd_kit.miniatures import WMT_SIZES
from pmd_lite.errors import UserError
from pmd_lite.planning.counting import count
from pmd_lite.planning.stand_in import described

PAIRS = {f"{code}-en": n for code, n in WMT_SIZES.items()}


def test_updates_are_those_of_a_run() -> None:
    config = pmd.preset("wmt6", precision="fp32", epochs=3)
    facts = described(PAIRS, 30, 100, config).facts
    mean = facts.train_tokens / sum(facts.sizes)
    work = count(facts, pmd.METHODS["tau=1"], config)
    # The exercise takes every update as full of target tokens; real batches have room for the longer side, and padding.
    assert 0.9 * work.clock.total < l15.checks.right_updates(facts.sizes, mean, l15.checks.UPDATE, 3) < work.clock.total
    assert config.train.tokens * config.train.accumulate == l15.checks.UPDATE


@pytest.mark.parametrize(("method", "passes"), [("tau=1", 3), ("bi-pmd", 8)])
def test_hours_are_those_of_estimate(method: str, passes: int) -> None:
    plan = pmd.estimate(sizes=PAIRS, method=method, preset_name="wmt6", epochs=1, tokens_per_second=20_000)
    tokens = plan.work.efforts["train"].backward / plan.work.students
    assert l15.checks.right_hours(tokens, 20_000, passes, 1) == pytest.approx(plan.hours["training"], rel=1e-6)


def test_disk_is_that_of_estimate() -> None:
    plan = pmd.estimate(sizes=PAIRS, method="bi-pmd", preset_name="wmt6", epochs=1, tokens_per_second=20_000)
    millions = plan.disk["best weights"] / 2 / 4 / 1e6
    kept, most = l15.checks.right_disk(millions, 2)
    assert kept == pytest.approx((plan.disk["latest checkpoint"] + plan.disk["best weights"]) / 1e9)
    assert most == pytest.approx(kept + plan.disk["while saving"] / 1e9)


@pytest.mark.parametrize("scale", [0.0005, 0.01, 0.3, 1.0])
def test_scaled_sizes_are_those_of_the_script(scale: float) -> None:
    assert l15.checks.right_scaled(WMT_SIZES, scale) == wmt6.scaled(scale)
    assert l15.checks.LEAST == wmt6.LEAST


@pytest.mark.parametrize("student", ["Ada", "Alan", "Grace", "Edsger"])
def test_every_student_has_a_model_of_their_own(student: str) -> None:
    exercise = l15.checks.my_disk(student)
    kept, most = l15.checks.right_disk(*l15.checks.my_model(student))
    assert exercise.verdict((round(kept, 2), round(most, 2)))[0] and exercise.verdict(None) == (False, OPEN)
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")
    with pytest.raises(UserError, match="write your name"):
        l15.checks.my_model("")
