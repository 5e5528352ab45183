"""Checks of lesson 16: what many students cost, shares among teachers, a sampler and a distiller of one's own.

How a sampler or a distiller is judged stands in `lesson16_lives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_kit.l16.lives import life_of_a_distiller, life_of_a_sampler
from pmd_kit.l16.own_strategies import SHARPNESS, Council, Resting, forward_passes, teacher_shares
from pmd_lite.distillation.mutual import UniPMD
from pmd_lite.sampling.temperature import BaseSampler

# ---------------------------------------------------------------- exercise 1: the bill


def my_plan(student: str) -> tuple[int, float]:
    """A number of students and a share of trial data that belong to one learner."""
    rng = personal(student, "bill")
    # With these numbers no two slips give one bill.
    return int(rng.integers(4, 7)), float(rng.choice([0.05, 0.1, 0.15, 0.25]))


def my_bill(student: str) -> Exercise:
    """What an update of all students of `my_plan` costs, with the usual slips."""
    m, rho = my_plan(student)
    return Exercise(
        "answer", lambda: forward_passes(m, rho),
        mistakes=[
            Mistake("That is the bill of one student. All of them make an update.", lambda: forward_passes(m, rho) / m),
            Mistake("A student is not its own teacher: it listens to one less than there are.",
                    lambda: m * (3 + m) + rho * m * (9 + m)),
            Mistake("With more than two students each listens to *all* its peers, not one.",
                    lambda: m * 4 + rho * m * 10),
            Mistake("Right without the search. It trains three trials of every student on rho of the data.",
                    lambda: m * (2 + m)),
            Mistake("A teacher only predicts: one forward pass, no backward.",
                    lambda: m * 3 * m + rho * m * (9 + 3 * (m - 1))),
            Mistake("The three trials share the teachers' passes, which count once a batch, not three times.",
                    lambda: m * (2 + m) + rho * m * 3 * (2 + m)),
            Mistake("Trials see only rho of the data.", lambda: m * (2 + m) + m * (8 + m)),
            Mistake("Each of the three trials is trained: 3 forward passes each, so 9.",
                    lambda: m * (2 + m) + rho * m * (2 + m)),
        ],
        student=student,
    )  # fmt: skip


# ---------------------------------------------------------------- exercise 2: shares


def _without_self(weights: Tensor, student: int) -> Tensor:
    weights = weights.clone()
    weights[student] = 0
    return weights


def _all_to_one(weights: Tensor) -> Tensor:
    return weights / weights.sum()


def _peers_only(losses: Tensor, student: int) -> Tensor:
    return torch.cat([losses[:student], losses[student + 1 :]])


def _share_cases(rng: np.random.Generator) -> Sequence[Case]:
    return [
        (torch.tensor([[1.0, 2.0], [1.2, 1.0], [2.0, 1.5]]), 0, 2.0),
        (torch.tensor([[1.0, 2.0], [1.2, 1.0], [2.0, 1.5]]), 2, 10.0),
        (torch.tensor([[1.0, 2.0, 3.0], [1.5, 1.0, 2.0], [2.0, 1.5, 0.5], [1.0, 1.1, 1.2]]), 1, 0.0),
        (torch.from_numpy(rng.uniform(0.5, 2.5, size=(4, 3))), int(rng.integers(4)), float(rng.uniform(1, 4))),
    ]


SHARES = Exercise(
    "shares", teacher_shares, _share_cases,
    [
        Mistake("A student is not its own teacher: its row must be 0, and the others must share what it had.",
                lambda losses, i, k: torch.softmax(-k * losses, 0)),
        Mistake("You take the student out after the softmax: then the shares of its peers no longer sum to 1.",
                lambda losses, i, k: _without_self(torch.softmax(-k * losses, 0), i)),
        Mistake("Upside down: a low loss is good, so it must earn a large share. Check the minus.",
                lambda losses, i, k: teacher_shares(-losses, i, k)),
        Mistake("You divide along the pairs. For each pair, the shares of the *students* sum to 1: dim=0.",
                lambda losses, i, k: _without_self(torch.softmax(-k * losses, 1), i)),
        Mistake("You divide along the pairs, and the student is its own teacher: dim=0, and its row is 0.",
                lambda losses, i, k: torch.softmax(-k * losses, 1)),
        Mistake("You divide by the sum over students and pairs together. For each pair the shares sum to 1.",
                lambda losses, i, k: _all_to_one(_without_self(torch.exp(-k * losses), i))),
        Mistake("These are weights, not shares: divide by their sum over the students.",
                lambda losses, i, k: _without_self(torch.exp(-k * losses), i)),
        Mistake("sharpness has no effect: these are the library's equal shares, which is sharpness = 0.",
                lambda losses, i, k: teacher_shares(losses, i, 0.0)),
        Mistake("sharpness has no effect: it multiplies the loss.",
                lambda losses, i, k: teacher_shares(losses, i, 1.0)),
        Mistake("All goes to the best peer, as with an infinite sharpness. Take the softmax.",
                lambda losses, i, k: teacher_shares(losses, i, 1e6)),
        Mistake("The student's own row is missing. Keep it, with zeros: rows are numbered like the students.",
                lambda losses, i, k: torch.softmax(-k * _peers_only(losses, i), 0)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: a sampler


def _slip(**methods: Callable[..., Any]) -> type[Resting]:
    """Resting with some methods replaced by wrong ones."""
    return type("Resting", (Resting,), methods)


def _resting(
    rise: Callable[[Any, Tensor], Tensor], share: Callable[[Any, Tensor], Tensor] = lambda me, w: w / w.sum()
) -> Callable[..., Any]:
    """An update that computes the rise of the losses, and shares from weights, by the given functions."""

    def update(self: Any, student: int, probe: Any) -> list[Any]:
        losses = probe.dev_loss(student)
        weights = self.base * torch.exp(-self.sharpness * rise(self, losses))
        self.lowest = torch.minimum(self.lowest, losses)
        self._p = share(self, weights)
        return []

    return update


def _above_lowest(me: Any, losses: Tensor) -> Tensor:
    return losses - torch.minimum(me.lowest, losses)


def _above_last(me: Any, losses: Tensor) -> Tensor:
    last, me.last = getattr(me, "last", losses), losses
    return (losses - last).clamp(min=0)


def _of_the_first(self: Any, student: int, probe: Any) -> Any:
    return Resting.update(self, 0, probe)


def _on_top(self: Any, student: int, probe: Any) -> list[Any]:
    """Takes the last P, not the base, as its start."""
    self.base, base = self._p, self.base
    events = Resting.update(self, student, probe)
    self.base = base
    return events


def _in_place(self: Any, student: int, probe: Any) -> list[Any]:
    losses = probe.dev_loss(student)
    torch.minimum(self.lowest, losses, out=self.lowest)
    weights = self.base * torch.exp(-self.sharpness * (losses - self.lowest))
    self._p.copy_(weights / weights.sum())
    return []


def _take(self: Any, state: dict[str, Any]) -> None:
    """Loads what there is."""
    self._p, self.lowest = state.get("p", self._p).clone(), state.get("lowest", self.lowest).clone()


def _sampler_cases(rng: np.random.Generator) -> Sequence[Case]:
    one = torch.tensor(
        [[2.0, 2.0, 2.0], [1.5, 1.8, 1.9], [1.2, 1.9, 2.1], [1.1, 1.85, 2.0], [1.0, 1.7, 2.2], [1.05, 1.75, 1.8]]
    ).double()
    noise = torch.from_numpy(rng.uniform(1.4, 1.8, size=(6, 2, 4)))
    return [([2000, 110, 30], torch.stack([one.flip(1) + 0.1, one], 1)), ([500, 60, 40, 20], noise)]


SAMPLER = Exercise(
    "Resting", Resting, _sampler_cases, through=life_of_a_sampler,
    mistakes=[
        Mistake("These are weights, not probabilities: divide by their sum.", _slip(update=_resting(
            _above_lowest, lambda me, w: w))),
        Mistake("Upside down: a pair whose loss has risen is drawn more. Check the minus in the exponent.",
                _slip(update=_resting(lambda me, losses: -_above_lowest(me, losses)))),
        Mistake("You compare with the loss of the last update. A pair that stays high after a rise would not rest: "
                "compare with the lowest so far.", _slip(update=_resting(_above_last))),
        Mistake("You compare with the lowest loss *before* this one, which at the first update is infinite. Renew the "
                "lowest first.", _slip(update=_resting(lambda me, losses: losses - me.lowest))),
        Mistake("sharpness has no effect: multiply the rise by it.",
                _slip(update=_resting(lambda me, losses: _above_lowest(me, losses) / me.sharpness))),
        Mistake("All pairs start from equal shares here. Eq. 2 is in self.base: multiply by it.", _slip(update=_resting(
            _above_lowest, lambda me, w: (w / me.base) / (w / me.base).sum()))),
        Mistake("A rest is added to the last one: you multiply the last P. Start from self.base each time.",
                _slip(update=_on_top)),
        Mistake("You always look at student 0. The sampler belongs to the student it is told in `student`.",
                _slip(update=_of_the_first)),
        Mistake("`lowest` is not in the state: after an interruption the sampler has forgotten what it compares with.",
                _slip(state_dict=lambda self: {"p": self._p.clone()}, load_state_dict=_take)),
        Mistake("P is not in the state: after an interruption it starts from the base until the next update.",
                _slip(state_dict=lambda self: {"lowest": self.lowest.clone()}, load_state_dict=_take)),
        Mistake("The state is not a copy: what you update in place afterwards changes it too. clone() it.",
                _slip(update=_in_place, state_dict=lambda self: {"p": self._p, "lowest": self.lowest})),
        Mistake("load_state_dict does nothing: a sampler that was loaded behaves like a new one.",
                _slip(load_state_dict=lambda self, state: None)),
        Mistake("due is always true: before the first update, after the last, and after each. Ask the clock.",
                _slip(due=lambda self, clock: True)),
        Mistake("due is never true, as in BaseSampler: then update is never called.",
                _slip(due=BaseSampler.due)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 4: a distiller


def _council(**methods: Callable[..., Any]) -> type[Council]:
    """Council with some methods replaced by wrong ones."""
    return type("Council", (Council,), methods)


def _sharing(rule: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    """An update whose shares follow another rule."""

    def update(self: Any, probe: Any) -> Any:
        losses = torch.stack([probe.dev_loss(i) for i in range(len(self.students))])
        self.shares = torch.stack([rule(losses, i) for i in range(len(losses))])
        return UniPMD.update(self, probe)

    return update


def _no_weights(self: Any, probe: Any) -> list[Any]:
    alpha = self.alpha
    Council.update(self, probe)
    self.alpha = alpha
    return []


def _without_shares(self: Any, state: dict[str, Any]) -> None:
    UniPMD.load_state_dict(self, state)


def _distiller_cases(rng: np.random.Generator) -> Sequence[Case]:
    told = torch.tensor([[[1.0, 2.0], [1.2, 1.0], [1.3, 1.1]], [[0.9, 1.8], [0.8, 1.2], [1.0, 1.1]]]).double()
    return [(told,), (torch.from_numpy(rng.uniform(1.0, 1.4, size=(2, 4, 3))),)]


DISTILLER = Exercise(
    "Council", Council, _distiller_cases, through=life_of_a_distiller,
    mistakes=[
        Mistake("Rows and columns are exchanged: self.shares is [student, teacher, pair], so the shares of a student's "
                "teachers are self.shares[student, :, pair].", _council(
                    teachers=lambda self, student, pair: [
                        (m, s) for m, s in zip(self.students, self.shares[:, student, pair].tolist(), strict=True)
                        if s > 0])),
        Mistake("The shares never change: these are UniPMD's equal ones. Store new ones in self.shares.",
                _council(update=UniPMD.update)),
        Mistake("Teachers are right, weights are not: they stay 0, so no student is taught. Call "
                "super().update(probe).",
                _council(update=_no_weights)),
        Mistake("All go to the worst peer: a low loss is good. Pass the losses to teacher_shares as they are.",
                _council(update=_sharing(lambda losses, i: teacher_shares(-losses, i, SHARPNESS)))),
        Mistake("One peer alone teaches, the best. The others have shares too.",
                _council(update=_sharing(lambda losses, i: teacher_shares(losses, i, 1e6)))),
        Mistake("The shares of the first pair serve for all pairs. Each pair has its own: [..., pair].",
                _council(teachers=lambda self, student, pair: [
                    (m, s) for m, s in zip(self.students, self.shares[student, :, 0].tolist(), strict=True) if s > 0])),
        Mistake("The student itself is among its teachers, with share 0: leave it out, each entry costs a pass.",
                _council(teachers=lambda self, student, pair: [
                    (m, s) for m, s in zip(self.students, self.shares[student, :, pair].tolist(), strict=True)])),
        Mistake("The shares are not in the state: after an interruption all peers count alike until the next update.",
                _council(state_dict=UniPMD.state_dict, load_state_dict=_without_shares)),
        Mistake("Only the shares are in the state: UniPMD's own, the weights, is lost. Add to super().state_dict().",
                _council(state_dict=lambda self: {"shares": self.shares.clone()},
                         load_state_dict=lambda self, state: setattr(self, "shares", state["shares"].clone()))),
    ],
)  # fmt: skip
