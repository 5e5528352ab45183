"""An update never waits for the device: no value goes back to Python, and no Python runs for each token.

On a GPU `.item()`, `.cpu()`, `bool(x)` and index lists of unknown length make the host wait until all work is done. A
CPU does not show this, so here a watcher sees every operation of an update and knows those that would wait.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pmd_lite.training.dev import dev_losses
from pmd_lite.training.trainer import Student, Trainer
from tests.conftest import MakeTrainer

WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal",
         "is_nonzero", "repeat_interleave", "bincount", "item"}  # fmt: skip
"""`item` is what the first is called in inference mode."""
HOST = ("cpu", "numpy", "tolist", "item")


class Watcher(TorchDispatchMode):
    """The names of all operations while it is open, including those of backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    @property
    def waiting(self) -> list[str]:
        return [name for name in self.names if name in WAITS]


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    """Watch operations, and the methods that bring a tensor to Python without an operation."""
    watcher = Watcher()

    def reporting(name: str) -> Callable[..., Any]:
        real = getattr(torch.Tensor, name)

        def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            watcher.names.append("_local_scalar_dense")
            return real(self, *args, **kwargs)

        return method

    with monkeypatch.context() as patches, watcher:
        for name in HOST:
            patches.setattr(torch.Tensor, name, reporting(name))
        yield watcher


def prepare(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> Student:
    """Draw pairs before the update, and fix the weights: both are in the host's memory, wherever the model is."""
    student = trainer.students[0]
    trainer.clock = trainer.clock.__class__(1, trainer.clock.total, trainer.clock.epoch, 0)
    for other in trainer.students:
        trainer.update(other)  # Adam's moments come into being
    draws = student.draw(trainer.config.train.accumulate)
    monkeypatch.setattr(student, "draw", lambda _: draws)
    weights = trainer.distiller.weights()[0].tolist()
    monkeypatch.setattr(trainer.distiller, "weight", lambda _, pair: weights[pair])
    return student


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("tau=1", {}),
        ("tau=1", {"clip": 1.0, "accumulate": 3}),
        ("bi-pmd", {"precision": "bf16"}),
        ("auto-pmd", {"alpha0": 0.4, "accumulate": 2}),
        ("auto-pmd", {"alpha0": 0.4, "fidelity": "released", "start": 0.0}),
        ("multidds-s", {}),
    ],
)
def test_an_update_waits_for_nothing(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: str, settings: dict[str, Any]
) -> None:
    trainer = make_trainer(method, **settings)
    student = prepare(trainer, monkeypatch)
    with watched(monkeypatch) as watcher:
        trainer.update(student)
    assert "_fused_adamw_" in watcher.names and "native_layer_norm_backward" in watcher.names  # all of it was seen
    assert watcher.waiting == []


@pytest.mark.parametrize(
    "look",
    [lambda x: x.item(), float, lambda x: bool(x > 0), lambda x: x.tolist(), lambda x: x.cpu(), torch.nonzero],
)
def test_the_watcher_sees_a_look(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, look: Callable[[torch.Tensor], Any]
) -> None:
    trainer = make_trainer("tau=1")
    student = prepare(trainer, monkeypatch)
    monkeypatch.setattr(student.sampler, "after_step", lambda pair, loss, tokens: look(loss))
    with watched(monkeypatch) as watcher:
        trainer.update(student)
    assert watcher.waiting


def effort(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """(target tokens, operations, calls of Python functions) of one update, drawing left out."""
    student = prepare(trainer, monkeypatch)
    with watched(monkeypatch) as watcher:
        tokens = trainer.update(student)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        trainer.update(student)
    finally:
        sys.setprofile(before)
    return tokens, len(watcher.names), calls


def test_more_tokens_are_no_more_python(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    little = effort(make_trainer("auto-pmd", alpha0=0.4, tokens=40), monkeypatch)
    much = effort(make_trainer("auto-pmd", alpha0=0.4, tokens=400), monkeypatch)
    assert much[0] > 4 * little[0]
    assert much[1] == little[1]
    assert much[2] <= 1.02 * little[2]


def test_dev_losses_come_to_the_host_once(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No value returns, not even once a batch; and no list of Python numbers (an index) is sent for each batch."""
    trainer = make_trainer("tau=1")
    assert len(trainer.dev) > 3
    with watched(monkeypatch) as watcher:
        dev_losses(trainer.students[0].learner, trainer.dev, len(trainer.encoded.pairs))
    assert len(watcher.waiting) == 1
    assert "index" not in watcher.names
