"""A process without a micro-batch in an update makes the same step as the others, with fp16's scaler too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from pmd_lite.data.batching import Batch, eval_batches
from pmd_lite.training import learner as learning
from pmd_lite.training import trial
from pmd_lite.training.distributed import Group
from pmd_lite.training.learner import Learner
from pmd_lite.training.precision import Precision
from pmd_lite.training.snapshot import differences
from tests.conftest import MakeTrainer


class Passed:
    """In place of SummedGradients: the busy rank leaves its gradients, and the idle one, after it, takes them all."""

    left: ClassVar[list[list[Tensor]]] = []

    def __init__(self, model: nn.Module, group: Group, sent_as: torch.dtype):
        self.model, self.group = model, group

    def last_pass(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def finish(self, extra: Tensor) -> None:
        if self.group.rank == 0:
            self.left.append([p.grad.clone() for p in self.model.parameters() if p.grad is not None])
            return
        for mine, gradient in zip(self.model.parameters(), self.left.pop(0), strict=True):
            mine.grad = gradient


class Shares(Group):
    """Of two ranks: the first has all the work."""

    def mine(self, count: int) -> range:
        return range(0 if self.rank else count)


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
        monkeypatch.setattr(learning, "SummedGradients", Passed)
        trial._train([one], torch.zeros(1, len(trainer.encoded.pairs)), batches, lambda batch: None,  # type: ignore[arg-type, return-value]
                     trainer.distiller, 1)  # fmt: skip
        return one

    busy, idle = trained(Shares(0, 2)), trained(Shares(1, 2))
    assert Passed.left == []
    assert busy.scaler.is_enabled() and busy.overflow_skips() == idle.overflow_skips() == 0
    assert not list(differences(busy.state_dict(), idle.state_dict()))
    assert not list(differences(busy.model.state_dict(), idle.model.state_dict()))
    assert list(differences(busy.model.state_dict(), learner.model.state_dict())), "they did step"
