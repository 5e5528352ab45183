"""A process without a micro-batch in an update makes the same step as the others, with fp16's scaler too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pmd_lite.data.batching import Batch, eval_batches
from pmd_lite.training import trial
from pmd_lite.training.distributed import Group
from pmd_lite.training.learner import Learner
from pmd_lite.training.precision import Precision
from pmd_lite.training.snapshot import differences
from tests.conftest import MakeTrainer


@dataclass(frozen=True)
class Idle(Group):
    """A rank that gets all its gradients from another rank, which has finished the same update."""

    peer: Any = None

    def mine(self, count: int) -> range:
        return range(0)

    def sum_gradients(self, model: nn.Module, extra: Tensor) -> None:
        for mine, gradient in zip(model.parameters(), self.peer.pop(0), strict=True):
            mine.grad = gradient


class Busy(Group):
    """The other rank: it stores its gradients before the step, so that the idle rank can fetch them."""

    def __init__(self, left: list[list[Tensor]]):
        super().__init__(0, 2)
        object.__setattr__(self, "left", left)

    def mine(self, count: int) -> range:
        return range(count)

    def sum_gradients(self, model: nn.Module, extra: Tensor) -> None:
        self.left.append([p.grad.clone() for p in model.parameters() if p.grad is not None])  # type: ignore[attr-defined]


@pytest.mark.parametrize("copied", [False, True], ids=["a student", "a trial's copy"])
@pytest.mark.parametrize("begun", [False, True], ids=["first update", "later"])
def test_a_rank_with_nothing_to_do_steps_as_the_others_do(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, copied: bool, begun: bool
) -> None:
    trainer = make_trainer("bi-pmd", steps=2, clip=1.0)
    learner = trainer.students[0].learner
    learner.use(Precision(torch.float16))
    batches: list[Batch] = [next(iter(eval_batches(trainer.encoded.valid[0], 0, 400)))]
    if begun:
        learner.begin()
        learner.accumulate(batches[0], 0.0, None, None, batches[0].tokens, 0)
        learner.finish()

    def trained(group: Group) -> Learner:
        one = learner.copy()
        if not copied and not begun:
            one.scaler = torch.amp.GradScaler("cpu")  # as a student begins
        monkeypatch.setattr(trial, "current", lambda: group)
        trial._train([one], torch.zeros(1, len(trainer.encoded.pairs)), batches, lambda batch: None,  # type: ignore[arg-type, return-value]
                     trainer.distiller, 1)  # fmt: skip
        return one

    left: list[list[Tensor]] = []
    busy = trained(Busy(left))
    idle = trained(Idle(1, 2, peer=left))
    assert busy.scaler.is_enabled() and busy.overflow_skips() == idle.overflow_skips() == 0
    assert not list(differences(busy.state_dict(), idle.state_dict()))
    assert not list(differences(busy.model.state_dict(), idle.model.state_dict()))
    assert list(differences(busy.model.state_dict(), learner.model.state_dict())), "they did step"
