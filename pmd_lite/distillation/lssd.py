"""LSSD (Huang et al. 2022): each pair's teacher is the student's own snapshot from the epoch that was best for it."""

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pmd_lite.config import DistillConfig, TeacherConfig
from pmd_lite.data.batching import Batch
from pmd_lite.distillation.mutual import BaseDistiller
from pmd_lite.interfaces import Clock, Events, Probe, Target

Gate = Literal["whole", "selective", "adaptive"]


class LSSD(BaseDistiller):
    """Language-specific self-distillation: pairs peak in different epochs, so each pair keeps a teacher of its own.

    After each epoch, a pair whose dev loss is strictly lower than ever before takes the present student as its
    teacher. In the next epoch the other pairs, whose teachers are older, are distilled. Pairs that peaked in the same
    epoch share one snapshot. A snapshot that no pair needs is dropped, so each student has 1 to L snapshots.

    Several students may train side by side; each learns only from its own snapshots. Teachers run without dropout, in
    the precision of the student (in the released code they are in half precision).
    """

    waits = False
    saved = ("alpha", "best", "peak")

    def __init__(
        self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig, *, gate: Gate, settings: TeacherConfig
    ):
        """gate: how far a student trusts its teacher. whole: fully; selective: per token; adaptive: per sentence."""
        super().__init__(students, n_pairs, config)
        self.gate, self.settings, self.gated = gate, settings, gate != "whole"
        self.best = torch.full_like(self.alpha, torch.inf)
        """[student, pair] lowest dev loss so far, nats per token."""
        self.peak = torch.zeros(self.alpha.shape, dtype=torch.int64)
        """[student, pair] epoch of that loss, counted from 1: the teacher's epoch. 0: no teacher yet."""
        self.snapshots: list[dict[int, nn.Module]] = [{} for _ in self.students]
        """Frozen models of each student by epoch."""

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """The student's snapshot from the pair's best epoch; none before the first epoch has ended."""
        epoch = int(self.peak[student, pair])
        return [(self.snapshots[student][epoch], 1.0)] if epoch else []

    def target(self, student: int, batch: Batch, dropout: bool) -> Target:
        """What the snapshot predicts; always without dropout."""
        return super().target(student, batch, dropout=False)

    def trust(self, student_gold_logp: Tensor, teacher_gold_logp: Tensor, batch: Batch) -> Tensor:
        """[tokens]: the gate of each token. No gradient flows through it."""
        if self.gate == "adaptive":
            return adaptive_gate(student_gold_logp, teacher_gold_logp, batch.sentence)
        return selective_gate(student_gold_logp, teacher_gold_logp)

    def factors(self, weight: float) -> tuple[float, float]:
        """1/2 and w/2 for weight = w / (1 + w): the loss is (L_ce + w L_kd) / 2, which is Eq. 4 times (1 + w) / 2.

        As in the released code, only distilled batches are halved: at weight 0 training takes L_ce itself.
        """
        return 0.5, weight / (1 - weight) / 2

    def due(self, clock: Clock) -> bool:
        """At the end of every epoch."""
        return clock.every(0)

    def update(self, probe: Probe) -> Events:
        """Renew the teachers of the pairs that improved, then decide which pairs to distil in the coming epoch."""
        return [self._renew(student, probe) for student in range(len(self.students))]

    def _renew(self, student: int, probe: Probe) -> dict[str, Any]:
        """One student at the end of an epoch; returns its event."""
        epoch, losses = probe.clock.step // probe.clock.epoch, probe.dev_loss(student)
        improved = losses < self.best[student]
        self.best[student, improved] = losses[improved]
        self.peak[student, improved] = epoch
        peak = self.peak[student]
        needed = set(peak.tolist())
        self.snapshots[student] = {e: model for e, model in self.snapshots[student].items() if e in needed}
        if improved.any():  # only now that unneeded snapshots are gone: never more than L in memory
            self.snapshots[student][epoch] = _frozen(self.students[student])
        coming, w = epoch + 1, self.settings.lssd_weight
        # A pair that has just peaked is not distilled: its teacher would be the student itself.
        distilled = (peak > 0) & (coming - peak > 1) & (coming > self.settings.lssd_warmup)
        self.alpha[student] = distilled.double() * (w / (1 + w))
        return {
            "event": "lssd", "step": probe.clock.step, "student": student,
            "teacher_epochs": peak.tolist(), "alpha": self.alpha[student].tolist(),
        }  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Weights, best losses and their epochs; for each student a dictionary epoch -> the snapshot's weights."""
        snapshots = [
            {epoch: {name: x.clone() for name, x in model.state_dict().items()} for epoch, model in kept.items()}
            for kept in self.snapshots
        ]
        return {**super().state_dict(), "snapshots": snapshots}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`; the snapshots get the shape of the present students."""
        super().load_state_dict(state)
        self.snapshots = [
            {epoch: _frozen(student, weights) for epoch, weights in saved.items()}
            for student, saved in zip(self.students, state["snapshots"], strict=True)
        ]


def selective_gate(student_gold_logp: Tensor, teacher_gold_logp: Tensor) -> Tensor:
    """The hard gate: 1 where the teacher is surer of the gold token than the student, else 0.2 (released code).

    [tokens] log-probabilities of the gold tokens, both -> [tokens], no gradient.
    """
    return torch.where(teacher_gold_logp > student_gold_logp, torch.ones_like(student_gold_logp), 0.2)


def adaptive_gate(student_gold_logp: Tensor, teacher_gold_logp: Tensor, sentence: Tensor) -> Tensor:
    """The soft gate of a sentence: min(1, a_T / a_S), a being the mean probability of its gold tokens.

    Args:
        student_gold_logp, teacher_gold_logp: [tokens] log-probabilities of the gold tokens.
        sentence: [tokens] row of each token's sentence; every row has at least one token.
    Returns: [tokens], equal within a sentence, no gradient.
    """

    def sums(logp: Tensor) -> Tensor:  # as good as means: both are over the same tokens. No more rows than tokens.
        return torch.zeros_like(logp).index_add_(0, sentence, logp.exp())

    student, teacher = sums(student_gold_logp.detach()), sums(teacher_gold_logp.detach())
    gate = torch.where(teacher < student, teacher / student, 1.0)  # also 1 where both are 0
    return gate.index_select(0, sentence)


def _frozen(model: nn.Module, weights: dict[str, Tensor] | None = None) -> nn.Module:
    """A copy in eval mode that gets no gradient, with these weights if given."""
    snapshot = copy.deepcopy(model).eval().requires_grad_(False)
    if weights is not None:
        snapshot.load_state_dict(weights)
    return snapshot
