"""Lesson 07: what reaches whom, where two students settle, the figures and the widget."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmd_kit import l07
from pmd_kit.l07.figures import curves, framework, gains, target_bars
from pmd_kit.l07.students import gradients
from pmd_kit.l07.widgets import TEACHERS, WORDS, mixture, target_slider, targets
from pmd_lite.distillation.losses import probs
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text


def f64(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_the_mixed_target_by_hand() -> None:
    """V = 4, eps .1, alpha .4: .6 x .9 + .4 x .5 = .74 on the gold word, .6 x .1 / 3 + .4 x .3 = .14 on the next."""
    found = l07.checks.mixed_target(torch.tensor([0]), f64([[0.5, 0.3, 0.1, 0.1]]), 0.4, 0.1)
    torch.testing.assert_close(found, f64([[0.74, 0.14, 0.06, 0.06]]))


def test_a_loss_that_was_not_written_is_no_attempt() -> None:
    assert l07.checks.ISOLATION.verdict(lambda *_: None)[1].startswith("Not attempted")
    assert l07.checks.ISOLATION.verdict(lambda *_: ...)[1].startswith("Not attempted")


def test_gradients_are_those_of_this_call_and_models_stay_the_callers() -> None:
    def doubled(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
        return 2 * student(x).sum() + 0 * teacher(x).sum()

    case = (f64([[1, 2]]), f64([[3, 4]]), f64([[1, 1], [2, 0]]), torch.tensor([0, 0]), 0.5)
    reached = gradients(doubled, case)
    assert reached is not None
    assert reached["loss"].item() == 10.0
    assert reached["student"].tolist() == [[6.0, 2.0]] and reached["teacher"].tolist() == [[0.0, 0.0]]
    assert case[0].grad is None and not case[0].requires_grad


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.4, 0.8])
def test_two_students_settle_where_the_lesson_says(alpha: float) -> None:
    """p_1 = (d_1 + alpha d_2) / (1 + alpha)."""
    data = f64([[0.75, 0.2, 0.05], [0.25, 0.4, 0.35]])
    z = f64([[0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]).log()
    for _ in range(600):
        z = torch.stack(l07.checks.one_round(z[0], z[1], (data[0], data[1]), (alpha, alpha), 0.5))
    torch.testing.assert_close(probs(z), (data + alpha * data.flip(0)) / (1 + alpha), atol=2e-3, rtol=0)


def test_below_an_alpha_of_47_hundredths_no_teacher_outvotes_the_reference() -> None:
    sure_and_wrong = f64([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    for alpha, word in ((0.46, 0), (0.48, 1)):
        assert l07.checks.mixed_target(torch.tensor([0]), sure_and_wrong, alpha, 0.1).argmax().item() == word


@pytest.mark.slow
def test_teachers_are_distributions_and_the_widget_redraws() -> None:
    assert all(len(p) == len(WORDS) and sum(p) == pytest.approx(1) for p in TEACHERS.values())
    assert list(targets("is mistaken", 0.5, 0.1)) == [
        "smoothed reference", "teacher (is mistaken)", "target at alpha=0.50"
    ]  # fmt: skip
    widget = target_slider()
    _, teacher, alpha, eps, picture = widget.children
    assert "Teacher knows the scene, alpha 0.40, smoothing 0.10; target: rug 0.66" in picture.value
    teacher.value, alpha.value, eps.value = "is mistaken", 0.6, 0.0
    assert "Teacher is mistaken, alpha 0.60, smoothing 0.00; target: rug 0.42" in picture.value
    assert alt_text(mixture()).startswith("Teacher knows the scene")


def test_figures_draw_what_they_are_given() -> None:
    fig = curves([0, 1, 2], {"a": [3, 1, 2]}, "x", "y", alt="v", lowest=True)
    assert fig.axes[0].lines[1].get_xydata().tolist() == [[1.0, 1.0]], "a star on the lowest point"
    assert len(target_bars(["a", "b"], {"x": [0.5, 0.5], "y": [1, 0]}, alt="v").axes[0].patches) == 4
    text = " ".join(t.get_text() for t in framework(["tau=1", "tau=5"], alt="v").axes[0].texts)
    assert "tau=1" in text and "tau=5" in text and "\\alpha_2" in text
    with pytest.raises(UserError, match="two students"):
        framework(["tau=1"], alt="v")
    fig = gains(["a", "b"], {"paper": {"b": [1.0]}, "here": {"a": [-1, 0.5, 0.2], "b": [1, 2, 3]}}, alt="v")
    paper, here = fig.axes
    assert len(paper.lines) == 2 and len(here.lines) == 5, "a line at 0, a mark per row, seeds where there are several"
    with pytest.raises(UserError, match="belong to these rows"):
        gains(["a"], {"paper": {"b": [1.0]}}, alt="v")
