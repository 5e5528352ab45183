"""The released scripts' `--optimizer adam --weight-decay`: fairseq's, whose decay is decoupled from the gradient."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmd_lite.api import train
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.model.optimizer import Adam, AdamW
from pmd_lite.run import Run
from pmd_lite.training.learner import Learner
from tests.conftest import TINY, MakeTrainer

LR, WARMUP, BETAS, EPS = 5e-3, 4, (0.9, 0.98), 1e-6


def learner(decay: float) -> Learner:
    config = preset("toy", **{**TINY, "lr": LR, "warmup": WARMUP, "eps": EPS, "weight_decay": decay, "dropout": 0.0})
    return Learner(90, config, torch.device("cpu"), 1)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("ours, theirs", [(Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)])
def test_our_optimizers_are_pytorchs_to_the_last_bit(ours: Any, theirs: Any, fused: bool) -> None:
    """Three steps each; before the third, each goes on with the state of the other."""
    weights = [nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2)]
    made = [make([w], 0.1, weight_decay=0.3, fused=fused) for make, w in zip((ours, theirs), weights, strict=True)]
    for step in range(3):
        if step == 2:
            states = [optimizer.state_dict() for optimizer in made]
            for optimizer, state in zip(made, reversed(states), strict=True):
                optimizer.load_state_dict(copy.deepcopy(state))
        for optimizer, w in zip(made, weights, strict=True):
            optimizer.zero_grad()
            (w**2 * (step + 1)).sum().backward()
            optimizer.step()
        assert torch.equal(*weights) and not torch.equal(weights[0], torch.linspace(-1, 1, 7))


def test_a_training_does_not_import_the_compiler(
    tiny_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # from now on an import of it fails
    with pytest.raises(ImportError):
        torch.optim.Adam([nn.Parameter(torch.ones(1))]).step()
    run = train(tiny_corpus, "multiuat", out=tmp_path / "run", show="off", score=False, **{**TINY, "steps": 2})
    assert run.finished["step"] == 2


class Released:
    """One step of fairseq's `adam` after another, in float64 and without torch.optim.

    It has two branches. On a GPU with apex, FusedAdam: w -= lr (m / c1 / (sqrt(v / c2) + eps) + decay w), where c1 and
    c2 correct the moments' bias. Else its own class: w -= lr decay w, then w -= lr sqrt(c2) / c1 m / (sqrt(v) + eps).
    They differ only in eps, which the second divides by sqrt(c2): for the first few hundred updates, and only where
    gradients are as small as eps.
    """

    def __init__(self, weights: list[Tensor], decay: float, apex: bool):
        self.weights = [w.detach().double().clone() for w in weights]
        self.first = [torch.zeros_like(w) for w in self.weights]
        self.second = [torch.zeros_like(w) for w in self.weights]
        self.decay, self.apex, self.t = decay, apex, 0

    def step(self, gradients: list[Tensor]) -> None:
        self.t += 1
        lr = LR * min(self.t / WARMUP, (WARMUP / self.t) ** 0.5)
        for w, m, v, g in zip(self.weights, self.first, self.second, gradients, strict=True):
            m.mul_(BETAS[0]).add_((1 - BETAS[0]) * g.double())
            v.mul_(BETAS[1]).add_((1 - BETAS[1]) * g.double() ** 2)
            first, second = 1 - BETAS[0] ** self.t, 1 - BETAS[1] ** self.t
            eps = EPS if self.apex else EPS / second**0.5
            w -= self.decay * lr * w
            w -= lr * m / first / ((v / second).sqrt() + eps)


def gradients(own: Learner, step: int, size: float = 0.01) -> list[Tensor]:
    """Random gradients, none smaller than a tenth of `size`."""
    generator = torch.Generator().manual_seed(step)
    drawn = [torch.randn(w.shape, generator=generator) for w in own.model.parameters()]
    return [size * (x + 0.1 * x.sign()) for x in drawn]


def advance(own: Learner, steps: range, size: float = 0.01) -> None:
    for step in steps:
        for weight, gradient in zip(own.model.parameters(), gradients(own, step, size), strict=True):
            weight.grad = gradient.clone()
        own.finish()


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("resumed", [False, True], ids=["in one go", "resumed"])
@pytest.mark.parametrize(("apex", "size"), [(True, 1e-5), (True, 0.01), (False, 10.0)])
def test_steps_are_those_of_the_released_optimiser(decay: float, resumed: bool, apex: bool, size: float) -> None:
    own = learner(decay)
    theirs = Released(list(own.model.parameters()), decay, apex)
    for step in range(8):
        theirs.step(gradients(own, step, size))
    advance(own, range(3), size)
    if resumed:
        weights, state = copy.deepcopy(own.model.state_dict()), copy.deepcopy(own.state_dict())
        own = learner(decay)
        own.model.load_state_dict(weights)
        own.load_state_dict(state)
    advance(own, range(3, 8), size)
    for weight, expected in zip(own.model.parameters(), theirs.weights, strict=True):
        torch.testing.assert_close(weight.detach().double(), expected, atol=2e-6, rtol=1e-5)


def test_where_no_gradient_acts_the_decay_is_small() -> None:
    """With L2 in the gradient the same step moved weights a thousand times as far."""
    own = learner(0.01)
    weight = own.model.encoder[0].feed_forward.inner.weight
    before = weight.detach().clone()
    for parameter in own.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    own.updates = WARMUP - 1
    own.finish()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.01 * LR), atol=1e-8, rtol=1e-6)


def test_a_trial_copy_decays_as_its_student_does() -> None:
    own = learner(0.5)
    advance(own, range(3))
    twin = own.copy()
    advance(own, range(3, 6))
    advance(twin, range(3, 6))
    for mine, its in zip(own.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_a_state_written_under_the_old_rule_does_not_bring_it_back() -> None:
    """Adam's param_groups of earlier checkpoints say decoupled_weight_decay=False."""
    own = learner(0.01)
    advance(own, range(3))
    old = copy.deepcopy(own.state_dict())
    for group in old["optimizer"]["param_groups"]:
        group.update(decoupled_weight_decay=False, weight_decay=0.3, betas=(0.5, 0.5), eps=1.0)
    expected, found = learner(0.01), learner(0.01)
    for one, state in ((expected, own.state_dict()), (found, old)):
        one.model.load_state_dict(own.model.state_dict())
        one.load_state_dict(copy.deepcopy(state))
        advance(one, range(3, 5))
    for a, b in zip(expected.model.parameters(), found.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_a_run_of_an_older_version_is_refused_in_one_sentence(
    tiny_corpus: Corpus, tmp_path: Any, make_trainer: MakeTrainer
) -> None:
    import json

    run = train(tiny_corpus, "tau=1", "toy", out=tmp_path / "run", show="off", score=False, **TINY)
    path = run.path / "config.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about.pop("format") == 2
    path.write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(UserError, match="begun by another version of pmd_lite, in which an epoch"):
        train(tiny_corpus, "tau=1", "toy", out=tmp_path / "run", show="off", score=False, **TINY)
    with pytest.raises(UserError, match="begun by another version of pmd_lite, in which an epoch"):
        Run(run.path)
