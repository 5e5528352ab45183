"""Multi-Distill (Tan et al. 2019): a bilingual teacher for each pair, until the student is better than its teacher."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pmd_lite.config import DistillConfig, TeacherConfig
from pmd_lite.data.batching import Batch
from pmd_lite.distillation.mutual import BaseDistiller
from pmd_lite.distillation.topk import TopKCache, TopKTarget, teacher_top_k
from pmd_lite.interfaces import Clock, Events, Probe


class MultiDistill(BaseDistiller):
    """Every student learns a pair from that pair's frozen bilingual model, on its k best tokens at a temperature.

    The weight is `md_weight` times a factor for each student and pair. The factor is 1 at first; every comparison with
    the teacher's dev score renews it. So a pair that falls behind again is distilled again.
    """

    waits = False

    def __init__(
        self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig, *, teachers: Sequence[nn.Module],
        scores: Tensor, settings: TeacherConfig, cache: TopKCache | None = None,
    ):  # fmt: skip
        """
        Args:
            teachers: one for each pair, with the students' tokenizer, not trained here; their sizes may differ.
            scores: [pair] A*, how good each teacher is on dev: BLEU, or nats per token when md_criterion is "loss".
            cache: the teachers' predictions on the training data; with None the teachers run at every step.
        """
        super().__init__(students, n_pairs, config)
        self.bilingual, self.settings, self.cache = list(teachers), settings, cache
        self.scores = scores.double()
        self.alpha.fill_(settings.md_weight)

    def teachers(self, student: int, pair: int) -> Sequence[tuple[nn.Module, float]]:
        """The pair's bilingual model; none when its predictions are read from the cache."""
        return [] if self.cache is not None else [(self.bilingual[pair], 1.0)]

    def target(self, student: int, batch: Batch, dropout: bool) -> TopKTarget:
        """The k best tokens of the pair's teacher, from the cache or a forward pass; always without dropout."""
        teacher, k = self.bilingual[batch.pair], self.settings.md_top_k
        best = self.cache.read(batch) if self.cache is not None else teacher_top_k(teacher, batch, k)
        return TopKTarget(best, self.settings.md_temperature)

    def due(self, clock: Clock) -> bool:
        """Every `md_every` updates; never when the weights are fixed."""
        return self.settings.md_rule != "fix" and clock.every(self.settings.md_every)

    def update(self, probe: Probe) -> Events:
        """Compare every student with every teacher."""
        by_loss = self.settings.md_criterion == "loss"
        events: Events = []
        for student in range(len(self.students)):
            score = probe.dev_loss(student) if by_loss else probe.dev_score(student)
            own, teacher = (-100 * score, -100 * self.scores) if by_loss else (score, self.scores)  # in points
            threshold, margin = self.settings.md_rule == "threshold", self.settings.md_margin
            factor = threshold_factor(own, teacher, margin) if threshold else adaptive_factor(own, teacher)
            self.alpha[student] = self.settings.md_weight * factor
            events.append({
                "event": "multi-distill", "step": probe.clock.step, "student": student,
                "score": score.tolist(), "alpha": self.alpha[student].tolist(),
            })  # fmt: skip
        return events


def threshold_factor(score: Tensor, teacher: Tensor, margin: float) -> Tensor:
    """1 while A < A* + margin, else 0 (Tan et al. 2019). [pair] points, higher is better -> [pair] float64."""
    return (score < teacher + margin).double()


def adaptive_factor(score: Tensor, teacher: Tensor) -> Tensor:
    """1 up to 2 points below the teacher, then halved with every further point (released code). [pair] -> [pair]."""
    return torch.pow(0.5, (score - teacher + 2).clamp(min=0))
