"""Auto-PMD (section 3.3, Alg. 2): every T updates it searches weights for each pair on the dev set. And Dynamic-MD."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pmd_lite.config import DistillConfig
from pmd_lite.distillation.actions import ACTIONS, act, logit, lossy_trials, step_size
from pmd_lite.distillation.mutual import BaseDistiller
from pmd_lite.distillation.search import choose, choose_one, reduced_space, trial_logits
from pmd_lite.interfaces import Clock, Events, Probe

TIE_ORDER = {"keep": ACTIONS, "up": ("up", "keep", "down")}


class AutoPMD(BaseDistiller):
    """Three trials for each student (up, down, keep for all pairs at once), then the best action for each pair.

    The state is the float64 logit of alpha, [student, pair]. `update` returns one event for each student, with the
    trial matrix R, the chosen actions and the new weights. Lessons replay these events from `metrics.jsonl`.
    """

    saved = ("alpha", "logits")

    def __init__(self, students: Sequence[nn.Module], n_pairs: int, config: DistillConfig):
        super().__init__(students, n_pairs, config)
        self.alpha.fill_(config.alpha0)
        self.logits = logit(self.alpha)
        self.by_total = "" if config.step_size == "constant" else "mu, the step of the searches (Eq. 12)"

    def due(self, clock: Clock) -> bool:
        """Every T updates, the paper's one epoch. Once mu is 0, `update` searches nothing."""
        return clock.every(self.interval(clock), clock.start)

    def update(self, probe: Probe) -> Events:
        """One search: Alg. 2 for student 1, then for student 2 (and for further students)."""
        clock, bundle = probe.clock, self.config.resolved
        mu = step_size(clock.step - clock.start, clock.total - clock.start, self.config.step_size)
        events: Events = []
        if mu == 0:
            return events
        order = TIE_ORDER[bundle.ties]
        space = reduced_space(self.alpha.shape[1], order)
        for student in range(len(self.students)):
            trials, before = self._trials(student, space, order, mu)
            results = probe.trial(student, torch.sigmoid(trials))
            actions = self._decide(results, space, order)
            after = self._bounded(torch.stack([act(x, action, mu) for x, action in zip(before, actions, strict=True)]))
            self.logits[student] = after
            self.alpha[student] = torch.sigmoid(after)
            events.append({
                "event": "search", "step": clock.step, "student": student, "mu": mu, "trials": list(order),
                "results": results.tolist(), "actions": actions, "alpha": self.alpha[student].tolist(),
            })  # fmt: skip
        return events

    def _trials(
        self, student: int, space: Sequence[Sequence[str]], order: Sequence[str], mu: float
    ) -> tuple[Tensor, Tensor]:
        """Logits [trial, pair] of the trials, and the logits [pair] from which the chosen actions start."""
        clip, before = self.config.resolved.alpha_clip, self.logits[student]
        trials = trial_logits(before, space, mu)
        if clip < 1:
            trials, before = lossy_trials(before, order, mu, clip)
        return self._bounded(trials), before

    def _bounded(self, logits: Tensor) -> Tensor:
        """The logits, none above that of `alpha_max`. At the limit, "up" and "keep" are the same trial, a tie."""
        return logits.clamp(max=float(logit(torch.tensor(self.config.alpha_max, dtype=torch.float64))))

    def _decide(self, results: Tensor, space: Sequence[Sequence[str]], order: Sequence[str]) -> list[str]:
        return choose(results, space, order)


class DynamicMD(AutoPMD):
    """The paper's variant without language-adaptability: one action for all pairs, chosen by summed dev loss."""

    def _decide(self, results: Tensor, space: Sequence[Sequence[str]], order: Sequence[str]) -> list[str]:
        return [choose_one(results, order)] * results.shape[1]
