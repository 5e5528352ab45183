"""The only window through which strategies look at models. Looking does not change the course of training."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pmd_lite.config.sections import DecideBy
from pmd_lite.data.batching import Batch, Draw, collate
from pmd_lite.data.tokens import EncodedSplit
from pmd_lite.distillation.losses import ce_loss, log_probs, token_logits
from pmd_lite.distillation.targets import worth_keeping
from pmd_lite.interfaces import Clock, Target, TokenStats
from pmd_lite.model.mode import in_mode
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD
from pmd_lite.training.dev import dev_losses, greedy_score
from pmd_lite.training.learner import Learner
from pmd_lite.training.seeds import Stream, derive_seed, seed_torch
from pmd_lite.training.snapshot import preserved_rng
from pmd_lite.training.step import Algorithm1
from pmd_lite.training.trial import live_trial, lockstep_trial, per_pair_trial_set

_Split = Literal["train", "valid"]


class ModelProbe:
    """A Probe over the students of a run.

    With `rollback` (the paper) every call leaves weights, gradients, moments, scaler, counters, streams and random
    state bit-identical. Without it (the released code) the student keeps what a trial has trained. The run's cost
    counts every call.
    """

    def __init__(self, trainer: Algorithm1):
        self._trainer = trainer
        self._losses: dict[int, tuple[int, Tensor]] = {}
        self._scores: dict[int, tuple[int, Tensor]] = {}

    @property
    def clock(self) -> Clock:
        """Where training stands."""
        return self._trainer.clock

    def losses(self, student: int, purpose: str = "probe") -> Tensor:
        """[2, pair] dev losses, NLL and label-smoothed; computed at most once per update of the student."""
        learner = self._trainer.students[student].learner
        if self._losses.get(student, (-1,))[0] != learner.updates:
            self._losses[student] = (learner.updates, self._score(learner, purpose))
        return self._losses[student][1]

    def dev_loss(self, student: int) -> Tensor:
        """[pair] the dev loss by which this run decides (`decide_by`)."""
        return self.losses(student)[int(self._by == "smoothed")].clone()

    def dev_score(self, student: int) -> Tensor:
        """[pair] BLEU of greedy translations of the dev set; computed at most once per update of the student."""
        learner = self._trainer.students[student].learner
        if self._scores.get(student, (-1,))[0] != learner.updates:
            score, computed = self._trainer.dev_bleu(learner.model)
            self._trainer.cost.add("probe", learner.model, computed)
            self._scores[student] = (learner.updates, score)
        return self._scores[student][1].clone()

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """Alg. 2, lines 2-9. [trial, pair] weights -> [trial, pair] dev losses."""
        trainer, bundle = self._trainer, self._trainer.config.distill.resolved
        learner = trainer.students[student].learner
        batches = self._trial_set(student)
        run = lockstep_trial if bundle.rollback else live_trial

        def teach(batch: Batch) -> Target:  # no dropout: in the released code too, a trial's teacher is in eval mode
            return trainer.target(student, batch, dropout=False)

        for batch in batches:
            trainer.cost.add("trial", learner.model, batch, FORWARD_AND_BACKWARD * len(alphas))
            taught = int((alphas[:, batch.pair] > 0).sum())  # trials that need the teachers
            # Trials side by side share the teachers' passes, and their projections if these fit in memory.
            kept = bundle.rollback and taught > 1 and worth_keeping(batch.tokens, learner.model.vocab_size)
            passes = FORWARD * (min(taught, 1) if bundle.rollback else taught)
            trainer.count_teaching("trial", student, batch, passes, taught, kept)
        with preserved_rng():
            salt = derive_seed(self.clock.step, student)
            results = run(learner, alphas, batches, teach, trainer.distiller, self._verdict, salt)
        if not bundle.rollback:
            self._losses.pop(student, None)
            self._scores.pop(student, None)
        return results

    def gradient(self, student: int, split: _Split, pair: int, tokens: int) -> Tensor:
        """[parameters], fp32, of the label-smoothed loss per token on a small random batch, dropout on."""
        learner = self._trainer.students[student].learner
        batch = self._small_batch(student, split, pair, tokens)
        self._trainer.cost.add("probe", learner.model, batch, FORWARD_AND_BACKWARD)
        with preserved_rng(), in_mode(learner.model, True):
            seed_torch(self._seed(student, split, pair))
            logp = log_probs(token_logits(learner.model, batch.src, batch.trg_in, batch.keep))
            loss = ce_loss(logp, batch.gold, learner.config.optim.label_smoothing) / batch.tokens
            grads = torch.autograd.grad(loss, list(learner.model.parameters()))
        return torch.cat([grad.reshape(-1) for grad in grads])

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        """From `passes` forward passes with dropout and one without, over a few random dev sentences."""
        learner = self._trainer.students[student].learner
        batch = self._small_batch(student, "valid", pair, tokens)
        self._trainer.cost.add("probe", learner.model, batch, FORWARD * (passes + 1))
        top, entropy = [], []
        with preserved_rng(), in_mode(learner.model, True), torch.no_grad(), learner.autocast():
            seed_torch(self._seed(student, "valid", pair))
            for _ in range(passes):
                logp = log_probs(token_logits(learner.model, batch.src, batch.trg_in, batch.keep))
                top.append(logp.max(dim=-1).values)
                entropy.append(torch.special.entr(logp.exp()).sum(dim=-1))  # 0 log 0 = 0
            learner.model.eval()
            logp = log_probs(token_logits(learner.model, batch.src, batch.trg_in, batch.keep))
            loss = float(ce_loss(logp, batch.gold, learner.config.optim.label_smoothing)) / batch.tokens
        last = torch.ones_like(batch.sentence, dtype=torch.bool)
        last[:-1] = batch.sentence[1:] != batch.sentence[:-1]  # every target ends with EOS
        return TokenStats(torch.stack(top), torch.stack(entropy), batch.sentence, last, loss)

    def _seed(self, student: int, split: _Split, pair: int) -> int:
        seed = self._trainer.config.train.seed
        return derive_seed(seed, Stream.PROBE, self.clock.step, student, pair, split == "valid")

    def _small_batch(self, student: int, split: _Split, pair: int, tokens: int) -> Batch:
        """Random sentences of one pair, about `tokens` target tokens in all; other sentences at every update."""
        data: EncodedSplit = getattr(self._trainer.encoded, split)[pair]
        rows = np.random.default_rng(self._seed(student, split, pair)).permutation(len(data))
        upto = int(np.searchsorted(np.cumsum(data.trg.lengths[rows]), tokens)) + 1
        return collate(data, np.sort(rows[:upto]), pair).to(self._trainer.device)

    def _score(self, learner: Learner, purpose: str) -> Tensor:
        for batch in self._trainer.dev:
            self._trainer.cost.add(purpose, learner.model, batch)
        errors = purpose == "trial" and self._by == "accuracy"
        return dev_losses(learner, self._trainer.dev, len(self._trainer.encoded.pairs), self._trainer.group, errors)

    @property
    def _by(self) -> DecideBy:
        return self._trainer.config.distill.resolved.decide_by

    def _verdict(self, trained: Learner) -> Tensor:
        """[pair] what a search compares after a trial: the lowest is the best, inf and NaN are never chosen."""
        if self._by != "chrf":
            losses = self._score(trained, "trial")
            accurate = self._by == "accuracy"
            return losses[2].where(losses[0].isfinite(), torch.inf) if accurate else losses[int(self._by == "smoothed")]
        try:
            words = self._trainer.encoded, self._trainer.config
            chrf, computed = greedy_score(trained.model, *words, "chrf", self._trainer.group)
        except ValueError:  # weights that are not finite translate nothing
            return torch.full((len(self._trainer.encoded.pairs),), torch.inf, dtype=torch.float64)
        self._trainer.cost.add("trial", trained.model, computed)
        return 100 - chrf

    def _trial_set(self, student: int) -> list[Batch]:
        trainer, config = self._trainer, self._trainer.config
        if config.distill.resolved.trial_data == "per-pair":
            seed = (config.train.seed, Stream.TRIAL, self.clock.step)
            return per_pair_trial_set(trainer.encoded, config.distill.trial_ratio, config.train.tokens, seed)
        return self._head(student)

    def _head(self, student: int) -> list[Batch]:
        """The first updates of the coming epoch; training draws the same batches again afterwards.

        As in the released code, model_1's trial data come from both streams: every second update, beginning with the
        first, is one of model_2's. The update that model_1 would have drawn in its place is left out.
        """
        config, students = self._trainer.config, self._trainer.students
        own, size = students[student], config.train.accumulate
        before = [(one, one.position()) for one in students]
        draws: list[Draw] = []
        for update in range(int(config.distill.trial_ratio * self.clock.epoch) + 1):
            mine = own.draw(size)
            draws += students[1].draw(size) if student == 0 and update % 2 == 0 else mine
        for one, position in before:
            one.go_to(position)
        return [draw.batch() for draw in draws]
