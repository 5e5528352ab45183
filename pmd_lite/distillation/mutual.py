"""The base of all distillers, and those with a weight given by hand: none, Bi-PMD, Uni-PMD, LSMD, EnsembleDistill."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.config import DistillConfig
from pmd_lite.data.batching import Batch
from pmd_lite.distillation.targets import teacher_states
from pmd_lite.interfaces import Clock, Events, Probe, Target


class BaseDistiller:
    """A Distiller whose weights are all 0 and stay 0, until a subclass sets or updates them.

    By default the teachers of a student are all other students with equal shares. For two students this is the
    paper's theta_{3-i}; any number of students may take part.

    With `teacher="ensemble"` (ours) all n students teach, the learner among them. On the learner's logits, of softmax
    p, the gradient of Eq. 4 is then (1 - a)(p - q) + a (n - 1) / n (p - mean of the peers) + a / n (p - p'), where p'
    is the learner's own prediction without dropout. If p' = p, this is learning from the peers with the weight
    a (n - 1) / (n - a), times 1 - a / n: for two students, alpha .6 is .43, times .7.
    """

    waits = True
    gated = False
    by_total: str = ""
    saved: tuple[str, ...] = ("alpha",)
    """Names of the tensors that a checkpoint holds."""

    def __init__(self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig):
        self.students, self.config = list(students), config
        self.alpha = torch.zeros(len(students), n_pairs, dtype=torch.float64)

    def weight(self, student: int, pair: int) -> float:
        """alpha_i[l]."""
        return float(self.alpha[student, pair])

    def weights(self) -> Tensor:
        """[student, pair]; a copy."""
        return self.alpha.clone()

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """All other students, or all of them (`teacher`), with equal shares."""
        everyone = self.config.teacher == "ensemble"
        chosen = [model for j, model in enumerate(self.students) if everyone or j != student]
        return [(model, 1 / len(chosen)) for model in chosen]

    def target(self, student: int, batch: Batch, dropout: bool) -> Target:
        """The share-weighted mean of the teachers' predictions."""
        return teacher_states(self.teachers(student, batch.pair), batch.src, batch.trg_in, batch.keep, dropout)

    def factors(self, weight: float) -> tuple[float, float]:
        """Eq. 4: L_ce counts 1 - alpha times, L_kd alpha times."""
        return 1 - weight, weight

    def trust(self, student_gold_logp: Tensor, teacher_gold_logp: Tensor, batch: Batch) -> Tensor:
        """All tokens count fully."""
        return torch.ones_like(student_gold_logp)

    def interval(self, clock: Clock) -> int:
        """T: updates between two decisions of the strategies that make any."""
        return self.config.update_every or max(1, round(self.config.update_epochs * clock.epoch))

    def due(self, clock: Clock) -> bool:
        """Never."""
        return False

    def update(self, probe: Probe) -> Events:
        """Nothing to decide."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """Copies of the tensors that `saved` names."""
        return {name: getattr(self, name).clone() for name in self.saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        for name in self.saved:
            setattr(self, name, state[name].clone())


class NoDistillation(BaseDistiller):
    """Every weight is 0: each student trains alone."""


class BiPMD(BaseDistiller):
    """Eq. 6: alpha_i[l] = alpha for every pair and student. With equal samplers this is vanilla mutual distillation."""

    def __init__(self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig):
        super().__init__(students, n_pairs, config)
        self.alpha.fill_(config.alpha)


class LSMD(BaseDistiller):
    """Language-specific mutual distillation: fixed weights, those that an Auto-PMD run ended with."""

    def __init__(self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig, alphas: Tensor):
        """alphas: [student, pair]."""
        super().__init__(students, n_pairs, config)
        self.alpha = alphas.double().clone()


class EnsembleDistill(BaseDistiller):
    """Offline distillation (ours): the mean of finished models teaches every student, with weight alpha (Eq. 4)."""

    waits = False

    def __init__(
        self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig, singles: Sequence[nn.Module]
    ):
        """singles: the finished models, which have the students' tokenizer; they are not trained here."""
        super().__init__(students, n_pairs, config)
        self.singles = list(singles)
        self.alpha.fill_(config.alpha)

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """All finished models, equal shares."""
        return [(model, 1 / len(self.singles)) for model in self.singles]


class UniPMD(BaseDistiller):
    """Eq. 5: for each pair only the worse student learns. Weights are 0 at first and are renewed every T updates.

    A student stops learning a pair when it leads every peer by more than `dead_zone`. That is 0 in the paper and
    0.05 bit in the released code, where near-equal students therefore teach each other. On an exact tie no student
    leads, so both learn. Of three students or more, all but the leader learn, each from all of its peers.
    """

    def due(self, clock: Clock) -> bool:
        """Every T updates, the paper's one epoch."""
        return clock.every(self.interval(clock), clock.start)

    def update(self, probe: Probe) -> Events:
        """Compare the students' dev losses pair by pair."""
        losses = torch.stack([probe.dev_loss(i) for i in range(len(self.students))])  # [student, pair]
        self.alpha = uni_weights(losses, self.config.alpha, self.config.resolved.dead_zone)
        return [{"event": "uni", "step": probe.clock.step, "alpha": self.alpha.tolist()}]


def uni_weights(losses: Tensor, alpha: float, dead_zone: float = 0.0) -> Tensor:
    """Eq. 5 from dev losses [student, pair] in nats per token; returns [student, pair] weights, 0 or alpha."""
    weights = torch.full_like(losses, alpha, dtype=torch.float64)
    for i in range(len(losses)):
        peers = torch.cat([losses[:i], losses[i + 1 :]]).min(dim=0).values
        weights[i, losses[i] + dead_zone < peers] = 0.0
    return weights
