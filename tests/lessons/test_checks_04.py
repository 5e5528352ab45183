"""Lesson 04: the notebook's solutions, the small training that is killed and brought back, figures and widget."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pmd_kit import l04
from pmd_kit.l04.figures import learning_rates, loss_of_confidence, losses_over, rate_sliders
from pmd_kit.l04.small_training import SmallTraining, checkpoint, load, restarted
from pmd_lite.distillation.losses import ce_loss, log_probs
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text
from pmd_lite.training.learner import learning_rate


def gradient(weight: Tensor, batches: Any) -> Tensor | None:
    weight = weight.clone().requires_grad_()
    tokens = sum(len(gold) for _, gold in batches)
    for x, gold in batches:
        loss = torch.nn.functional.cross_entropy(x @ weight, gold, reduction="sum")
        (loss / tokens).backward()
    return weight.grad


def test_the_notebooks_solutions_are_right() -> None:
    def perplexity(logp: Tensor, gold: Tensor, pad: int) -> float:
        nats = -logp.gather(2, gold[:, :, None])[:, :, 0]
        real = gold != pad
        return math.exp(nats[real].sum() / real.sum())

    def saved(training: SmallTraining) -> dict[str, Any]:
        adam = copy.deepcopy(training.optimizer.state_dict())
        return {"weights": training.weights.detach().clone(), "optimizer": adam, "updates": training.updates,
                "order": list(training.order), "generator": training.generator.get_state(),
                "lr": training.optimizer.param_groups[0]["lr"]}  # fmt: skip

    for exercise, answer in ((l04.checks.PERPLEXITY, perplexity), (l04.checks.GRADIENT, gradient),
                             (l04.checks.CHECKPOINT, saved)):  # fmt: skip
        for seed in range(3):
            assert exercise.verdict(answer, seed=seed)[0]


def test_the_smoothed_table_is_what_ce_loss_computes() -> None:
    logp = log_probs(torch.randn(6, 9, generator=torch.Generator().manual_seed(0)))
    gold = torch.tensor([0, 3, 3, 8, 1, 5])
    table = l04.checks.smoothed_target(gold, 9, 0.2)
    torch.testing.assert_close(-(table * logp).sum(), ce_loss(logp, gold, 0.2))


def test_a_gradient_written_into_the_given_weight_or_a_forgotten_return_is_named() -> None:
    def in_place(weight: Tensor, batches: Any) -> Tensor | None:
        weight -= 0.1
        return gradient(weight, batches)

    assert l04.checks.GRADIENT.verdict(in_place)[1].startswith("gradient changes its input")
    assert l04.checks.GRADIENT.verdict(lambda weight, batches: None)[1].startswith("Not attempted yet")
    assert l04.checks.CHECKPOINT.verdict(lambda training: None)[1].startswith("Not attempted yet")


def test_a_restart_from_a_checkpoint_makes_the_same_updates() -> None:
    whole = SmallTraining(3)
    for _ in range(11):
        whole.step()
    assert torch.equal(restarted(checkpoint, 3, before=6, after=5), whole.weights)
    assert not torch.equal(restarted(lambda t: {"weights": t.weights.clone()}, 3, before=6, after=5), whole.weights)


def test_the_small_training_learns_and_load_knows_its_names() -> None:
    training = SmallTraining(1)
    losses = [training.step() for _ in range(200)]
    assert sum(losses[-50:]) < 0.6 * sum(losses[:50])
    with pytest.raises(UserError, match="it does not know step"):
        load(training, {"step": 3})
    assert "load knows weights" in l04.checks.CHECKPOINT.verdict(lambda t: {"step": t.updates})[1]
    load(training, {"lr": 0.5})
    assert training.optimizer.param_groups[0]["lr"] == 0.5


def test_figures_draw_what_they_are_given() -> None:
    p = [0.5, 0.7, 0.9, 0.99]
    fig = loss_of_confidence(p, [0, 0.1], 10, alt="two curves")
    plain, smooth, star = fig.axes[0].lines
    assert alt_text(fig) == "two curves" and list(plain.get_ydata()) == pytest.approx([-math.log(x) for x in p])
    assert star.get_xdata()[0] == pytest.approx(0.1)  # the doubt where a smoothing of 0.1 is content
    assert smooth.get_ydata()[3] > smooth.get_ydata()[2] < smooth.get_ydata()[1]
    with pytest.raises(UserError, match="strictly between"):
        loss_of_confidence([1.0], [0.1], 10, alt="x")
    with pytest.raises(UserError, match="Give one value per update"):
        learning_rates([1, 2], {"a": [0.1]}, alt="x")
    curves = losses_over({"a": [10, 20], "b": [20, 40]}, {"a": [[3, 2], [3, 1]], "b": [[4, 3]]}, alt="x").axes[0].lines
    assert [list(line.get_xdata()) for line in curves] == [[10, 20], [10, 20], [20, 40]]
    assert curves[0].get_color() == curves[1].get_color() != curves[2].get_color()


@pytest.mark.slow
def test_the_sliders_redraw_and_say_the_numbers() -> None:
    box = rate_sliders()
    _, peak, warmup, picture = box.children
    assert "0.004 at update 150" in picture.value
    peak.value, warmup.value = 0.01, 500
    assert f"{learning_rate(2000, 0.01, 500):.2g} at the last" in picture.value
