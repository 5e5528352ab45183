"""The one window through which strategies look at models; whatever they see, training goes on as if they had not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from pmd_lite.data.batching import Batch
from pmd_lite.interfaces import Clock
from pmd_lite.training.dev import dev_losses
from pmd_lite.training.learner import Learner, derive_seed
from pmd_lite.training.snapshot import preserved_rng
from pmd_lite.training.trial import live_trial, lockstep_trial, per_pair_trial_set

if TYPE_CHECKING:
    from pmd_lite.training.trainer import Trainer


class ModelProbe:
    """A Probe over a trainer's students.

    With `rollback` (the paper) every call leaves weights, gradients, moments, scaler, counters, streams and random
    state bit-identical. Without it (the released code) a trial leaves its training behind.
    """

    def __init__(self, trainer: Trainer):
        self._trainer = trainer
        self._cache: dict[int, tuple[int, Tensor]] = {}

    @property
    def clock(self) -> Clock:
        """Where training stands."""
        return self._trainer.clock

    def losses(self, student: int) -> Tensor:
        """[2, pair] dev losses, NLL and label-smoothed; computed once per update of the student."""
        learner = self._trainer.students[student].learner
        if self._cache.get(student, (-1,))[0] != learner.updates:
            self._cache[student] = (learner.updates, self._score(learner))
        return self._cache[student][1]

    def dev_loss(self, student: int) -> Tensor:
        """[pair] dev loss by which this run decides (`decide_by`)."""
        return self._decisive(self.losses(student)).clone()

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """Alg. 2, lines 2-9. [trial, pair] weights -> [trial, pair] dev losses."""
        trainer, bundle = self._trainer, self._trainer.config.distill.resolved
        learner = trainer.students[student].learner
        batches = self._trial_set(student)
        run = lockstep_trial if bundle.rollback else live_trial

        def target(batch: Batch) -> Tensor:
            return trainer.target(
                student, batch, dropout=False
            )  # the released code's trials, too, have the teacher in eval

        def score(trained: Learner) -> Tensor:
            return self._decisive(self._score(trained))

        with preserved_rng():
            salt = derive_seed(self.clock.step, student)
            results = run(learner, alphas, batches, target, trainer.distiller.combine, score, salt)
        if not bundle.rollback:
            self._cache.pop(student, None)
        return results

    def _score(self, learner: Learner) -> Tensor:
        return dev_losses(learner, self._trainer.dev, len(self._trainer.encoded.pairs))

    def _decisive(self, losses: Tensor) -> Tensor:
        return losses[0 if self._trainer.config.distill.resolved.decide_by == "nll" else 1]

    def _trial_set(self, student: int) -> list[Batch]:
        trainer, config = self._trainer, self._trainer.config
        if config.distill.resolved.trial_data == "per-pair":
            seed = (config.train.seed, 4, self.clock.step)
            return per_pair_trial_set(trainer.encoded, config.distill.trial_ratio, config.train.tokens, seed)
        # The head of the coming epoch, drawn as training will draw it, and drawn again by training afterwards.
        owner = trainer.students[student]
        before = owner.schedule.state_dict(), [stream.state_dict() for stream in owner.streams]
        updates = int(config.distill.trial_ratio * self.clock.epoch) + 1
        batches = [batch for _ in range(updates) for batch in owner.draw(config.train.accumulate)]
        owner.schedule.load_state_dict(before[0])
        for stream, state in zip(owner.streams, before[1], strict=True):
            stream.load_state_dict(state)
        return batches
