"""Alg. 2, lines 3-9: train copies of a student on the trial set, one per weight vector, and score each on the dev set.

`lockstep_trial` runs all trials side by side: each micro-batch needs the teacher once, not once per trial, and since
only copies are trained the student is untouched, bit for bit. `live_trial` is what the released code does: the trials
train the student itself one after another, and nothing but the learning rate and the update counter goes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_lite.data.batching import Batch, collate, cut_split
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.distillation.targets import TeacherStates
from pmd_lite.interfaces import Mixture, Target
from pmd_lite.training.distributed import current
from pmd_lite.training.learner import Learner

Teach = Callable[[Batch], Target]
Score = Callable[[Learner], Tensor]


def per_pair_trial_set(encoded: EncodedCorpus, ratio: float, budget: int, seed: tuple[int, ...]) -> list[Batch]:
    """D_trial: rho of every pair's training sentences, but at least one batch's worth, so that each pair has a say.

    The batches of all pairs are shuffled together. The same seed gives the same set.
    """
    rng = np.random.default_rng(seed)
    chosen: list[tuple[int, np.ndarray]] = []
    for pair, split in enumerate(encoded.train):
        lengths = np.maximum(split.src.lengths, split.trg.lengths)
        one_batch = budget // max(1, int(lengths.mean()))
        count = min(len(split), max(math.ceil(ratio * len(split)), one_batch))
        rows = rng.permutation(len(split))[:count]
        chosen += [(pair, batch) for batch in cut_split(split, rows, budget)]
    return [collate(encoded.train[chosen[i][0]], chosen[i][1], chosen[i][0]) for i in rng.permutation(len(chosen))]


def _train(
    learners: Sequence[Learner], alphas: Tensor, batches: Sequence[Batch], teach: Teach, mixture: Mixture, salt: int
) -> None:
    """One epoch on the trial set for each learner with its row of `alphas` [learner, pair], sharing teacher passes."""
    group = current()
    size = learners[0].config.train.accumulate
    for portion in (batches[i : i + size] for i in range(0, len(batches), size)):
        tokens = sum(batch.tokens for batch in portion)
        for learner in learners:
            learner.begin()
        for micro in group.mine(len(portion)):
            batch = portion[micro].to(learners[0].device)
            weights = [float(alpha[batch.pair]) for alpha in alphas]
            target = teach(batch) if any(weights) else None
            if isinstance(target, TeacherStates) and sum(w > 0 for w in weights) > 1:
                target = target.kept()
            for learner, weight in zip(learners, weights, strict=True):
                learner.accumulate(batch, weight, target, mixture, tokens, micro, salt)
        for learner in learners:
            learner.finish(group)


def lockstep_trial(
    learner: Learner,
    alphas: Tensor,
    batches: Sequence[Batch],
    teach: Teach,
    mixture: Mixture,
    score: Score,
    salt: int,
) -> Tensor:
    """Dev losses [trial, pair] after training a copy of `learner` with each row of `alphas` [trial, pair]."""
    twins = [learner.copy() for _ in alphas]
    _train(twins, alphas, batches, teach, mixture, salt)
    return torch.stack([score(twin) for twin in twins])


def live_trial(
    learner: Learner,
    alphas: Tensor,
    batches: Sequence[Batch],
    teach: Teach,
    mixture: Mixture,
    score: Score,
    salt: int,
) -> Tensor:
    """As `lockstep_trial`, on the student itself, one trial after another, with no rollback of weights or moments."""
    updates, results = learner.updates, []
    for trial in range(len(alphas)):
        learner.updates = updates
        _train([learner], alphas[trial : trial + 1], batches, teach, mixture, salt)
        results.append(score(learner))
    learner.updates = updates
    return torch.stack(results)
