"""How lesson 16 judges a sampler or a distiller: by living with it.

It is asked, updated, saved and loaded again, and what it answered on the way is compared. If it breaks its protocol, a
complaint in words takes the place of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pmd_kit.exercise import Case
from pmd_kit.values import Complaint
from pmd_lite.config import DistillConfig
from pmd_lite.interfaces import Clock


class Broken(Exception):
    """A strategy breaks its protocol; the message says how, in at most 75 characters."""


@dataclass
class Told:
    """A probe that has been told what to say."""

    losses: Tensor
    """[student, pair], float64."""
    clock: Clock

    def dev_loss(self, student: int) -> Tensor:
        """[pair] nats per token."""
        return self.losses[student].clone()


EPOCH, TOTAL = 3, 10
_CONFIG = DistillConfig(alpha=0.4)


def _check_due(strategy: Any) -> None:
    """Raises Broken unless it wants an update once an epoch; NotImplementedError for dots."""
    found = [strategy.due(Clock(step, TOTAL, EPOCH)) for step in range(TOTAL + 1)]
    if all(answer is None for answer in found):
        raise NotImplementedError
    steps = [step for step, answer in enumerate(found) if answer]
    if steps != [3, 6, 9]:
        raise Broken(f"due after updates {steps}, but its epochs end at [3, 6, 9]")


def _update(events: Any) -> None:
    if not isinstance(events, list):
        raise Broken(f"update() returns {type(events).__name__}, not a list of events ([] will do)")


def _savable(x: Any) -> bool:
    if isinstance(x, dict):
        return all(isinstance(key, str) for key in x) and all(_savable(value) for value in x.values())
    if isinstance(x, (list, tuple)):
        return all(_savable(value) for value in x)
    return x is None or isinstance(x, (Tensor, bool, int, float, str))


def _saved(strategy: Any) -> dict[str, Any]:
    """Its state, as it is. Raises Broken when a checkpoint could not hold it."""
    state = strategy.state_dict()
    if not isinstance(state, dict):
        raise Broken(f"state_dict() returns {type(state).__name__}, not a dict")
    if not _savable(state):
        raise Broken("a checkpoint holds tensors, numbers, text and lists of them only")
    return state


# ---------------------------------------------------------------- exercise 3: a sampler


def _distribution(sampler: Any, pairs: int) -> Tensor:
    """Its P. Raises Broken when that is not a distribution."""
    p = sampler.probabilities()
    if not isinstance(p, Tensor) or p.shape != (pairs,) or p.dtype != torch.float64:
        what = f"{p.dtype} {list(p.shape)}" if isinstance(p, Tensor) else type(p).__name__
        raise Broken(f"P is {what}, not torch.float64 [{pairs}]")
    if not bool(p.isfinite().all()) or float(p.min()) < 0:
        raise Broken("P has negative or undefined numbers")
    if abs(float(p.sum()) - 1) > 1e-9:
        raise Broken(f"P sums to {float(p.sum()):.4f}, not to 1")
    return p.clone()


def life_of_a_sampler(kind: Callable[[list[int]], Any], case: Case) -> Tensor | str:
    """[moment, pair]: P after each update, then P of a second sampler that continues from the first one's saved state.

    What is broken, in words, if something is. case: sizes, and [update, student, pair] dev losses; the sampler belongs
    to student 1.
    """
    sizes, losses = case
    half = len(losses) // 2

    def lived(sampler: Any, rows: Tensor) -> list[Tensor]:
        shown = []
        for row in rows:
            _update(sampler.update(1, Told(row, Clock(EPOCH, TOTAL, EPOCH))))
            shown.append(_distribution(sampler, len(sizes)))
        return shown

    try:
        first = kind(list(sizes))
        _check_due(first)
        shown = lived(first, losses[:half])
        state = _saved(first)
        shown += lived(first, losses[half:])
        second = kind(list(sizes))
        second.load_state_dict(state)
        shown += [_distribution(second, len(sizes)), *lived(second, losses[half:])]
    except Broken as broken:
        return Complaint(broken)
    return torch.stack(shown)


# ---------------------------------------------------------------- exercise 4: a distiller


def _listening(distiller: Any, n_pairs: int) -> Tensor:
    """[student, teacher, pair] shares as `teachers` gives them. Raises Broken if they are not shares of students."""
    numbers = {id(model): number for number, model in enumerate(distiller.students)}
    found = [[[0.0] * n_pairs for _ in numbers] for _ in numbers]
    for student, shares in enumerate(found):
        for pair in range(n_pairs):
            teachers = distiller.teachers(student, pair)
            if teachers is None or teachers is Ellipsis:
                raise NotImplementedError
            for model, share in teachers:
                if id(model) not in numbers:
                    raise Broken("teachers() names something that is not one of the students")
                if numbers[id(model)] == student:
                    raise Broken("a student is among its own teachers (a share of 0 still costs a pass)")
                shares[numbers[id(model)]][pair] += float(share)
            total = sum(row[pair] for row in shares)
            if abs(total - 1) > 1e-9:
                raise Broken(f"shares of a student's teachers sum to {total:.3f}")
    return torch.tensor(found, dtype=torch.float64)


def life_of_a_distiller(kind: Callable[..., Any], case: Case) -> Tensor | str:
    """[moment, student, teacher + 1, pair]: shares of the teachers and, last, weights: new, updated twice, reloaded.

    What is broken, in words, if something is. case: [update, student, pair] dev losses.
    """
    (losses,) = case
    _, n, pairs = losses.shape

    def shown(distiller: Any) -> Tensor:
        return torch.cat([_listening(distiller, pairs), distiller.weights()[:, None]], dim=1)

    def fresh() -> Any:
        return kind([nn.Identity() for _ in range(n)], pairs, _CONFIG)

    try:
        first = fresh()
        moments = [shown(first)]
        for row in losses:
            _update(first.update(Told(row, Clock(EPOCH, TOTAL, EPOCH))))
            moments.append(shown(first))
        second = fresh()
        second.load_state_dict(_saved(first))
        moments.append(shown(second))
    except Broken as broken:
        return Complaint(broken)
    return torch.stack(moments)
