"""The student of lesson 10's restore exercise, what a restore of it must put back, and ways to get that wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pmd_kit.exercise import Case
from pmd_kit.l10.trials import changed_parts
from pmd_lite.model.optimizer import Adam
from pmd_lite.training.snapshot import clone, preserved_rng


class TinyStudent:
    """A student small enough to inspect completely: a network with dropout, Adam, and a count of its updates.

    The learning rate grows with the count, and dropout draws from torch's global generator.
    """

    def __init__(self, seed: int):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))
        self.optimizer = Adam(self.model.parameters(), lr=0.0)
        self.updates = 0

    def train(self, x: Tensor, y: Tensor) -> None:
        """One update on a batch: x [sentence, 4], y [sentence] classes from 0 to 2."""
        self.updates += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.01 * self.updates
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """All that the next update depends on, as it is now (an independent copy)."""
        return dict(clone({
            "weights": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "updates": self.updates,
            "random": torch.get_rng_state(),
        }))  # fmt: skip


Pair = tuple[Callable[[TinyStudent], Any], Callable[[TinyStudent, Any], Any]]


def snapshot(student: TinyStudent) -> dict[str, Any]:
    """Exercise 3: everything a restore needs, in tensors of its own."""
    return student.state()


def restore(student: TinyStudent, saved: Mapping[str, Any]) -> None:
    """Exercise 3: put `saved` back. Adam takes the tensors it is given as its own, so it gets copies."""
    student.model.load_state_dict(saved["weights"])
    student.optimizer.load_state_dict(clone(saved["optimizer"]))
    student.updates = saved["updates"]
    torch.set_rng_state(saved["random"])


def batches(seed: int, number: int) -> list[tuple[Tensor, Tensor]]:
    """Random batches for a TinyStudent."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(5, 4, generator=generator), torch.randint(3, (5,), generator=generator)) for _ in range(number)
    ]


def what_stays(answer: Callable[..., Pair], case: Case) -> list[list[str]] | None:
    """What of a student's state differs after each of three trials that were undone, and what its next update does.

    None when the snapshot is still to be written. The last list names the parts in which the student differs, one
    update later, from a twin that made no trial.
    """
    (seed,), (take, put_back) = case, answer(*case)
    with preserved_rng():
        student, twin = TinyStudent(seed), TinyStudent(seed)
        *before, following = batches(seed, 4)
        torch.manual_seed(seed)
        for batch in before:
            twin.train(*batch)
        untouched = twin.state()
        twin.train(*following)
        expected = twin.state()
        torch.manual_seed(seed)
        for batch in before:
            student.train(*batch)
        saved = take(student)
        if saved is None or saved is Ellipsis:
            return None
        found = []
        for trial in range(3):
            for batch in batches(seed + 1 + trial, 2):
                student.train(*batch)
            put_back(student, saved)
            found.append(changed_parts(untouched, student.state()))
        student.train(*following)
        return [*found, changed_parts(expected, student.state())]


def taking(**instead: Callable[[TinyStudent], Any]) -> Callable[[TinyStudent], dict[str, Any]]:
    """A snapshot in which some parts are taken in another way."""
    return lambda student: {**student.state(), **{name: take(student) for name, take in instead.items()}}


def without(part: str) -> Callable[[TinyStudent, Mapping[str, Any]], None]:
    """A restore that leaves one part as the trial left it."""

    def put_back(student: TinyStudent, saved: Mapping[str, Any]) -> None:
        now = student.state()
        restore(student, {**saved, part: now[part]})

    return put_back


def shared_moments(student: TinyStudent, saved: Mapping[str, Any]) -> None:
    """A restore after which Adam writes into the snapshot: it was given the saved moments, not a copy of them."""
    restore(student, saved)
    student.optimizer.load_state_dict(saved["optimizer"])


def other_model(student: TinyStudent, saved: Mapping[str, Any]) -> None:
    """A restore that puts a new model in place: the optimizer still holds the parameters of the old one."""
    model = copy.deepcopy(student.model)
    restore(student, saved)
    model.load_state_dict(saved["weights"])
    student.model = model


LIVE: dict[str, Callable[[TinyStudent], Any]] = {
    "weights": lambda student: student.model.state_dict(),
    "optimizer": lambda student: student.optimizer.state_dict(),
}
"""What a snapshot holds that copies nothing."""
