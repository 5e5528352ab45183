"""Alg. 2, lines 3-9: train copies of a student on the trial set, one per weight vector, and score each on the dev set.

`lockstep_trial` runs all trials side by side. So each micro-batch needs the teacher once, not once per trial, and as
only copies are trained, the student stays the same, bit for bit. `live_trial` does what the released code does: the
trials train the student itself, one after another, and only the learning rate and the update counter are restored.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_lite.data.batching import Batch, collate, cut_split, round_of
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.distillation.targets import TeacherStates
from pmd_lite.interfaces import Distiller, Target
from pmd_lite.training.distributed import current
from pmd_lite.training.learner import Learner

Teach = Callable[[Batch], Target]
Score = Callable[[Learner], Tensor]


def trial_sentences(sizes: Sequence[int], per_batch: Sequence[float], ratio: float) -> list[int]:
    """[pair] sentences in D_trial: the share rho of every pair, but at least one batch, so that each pair counts.

    Args:
        sizes: [pair] training sentences.
        per_batch: [pair] sentences in a batch of training (`data.batching.Round`). The sentences of a pair that is
            smaller than a batch are repeated until they fill one, as in training.
        ratio: rho.
    """
    return [max(math.ceil(ratio * n), int(one)) for n, one in zip(sizes, per_batch, strict=True)]


def per_pair_trial_set(encoded: EncodedCorpus, ratio: float, budget: int, seed: tuple[int, ...]) -> list[Batch]:
    """D_trial: random training sentences of every pair, as many as `trial_sentences` says, in shuffled batches.

    The same seed gives the same set.
    """
    rng = np.random.default_rng(seed)
    chosen: list[tuple[int, np.ndarray]] = []
    per_batch = [round_of(split, budget).per_batch for split in encoded.train]
    for pair, count in enumerate(trial_sentences(encoded.sizes, per_batch, ratio)):
        split = encoded.train[pair]
        rounds = math.ceil(count / len(split))
        rows = np.concatenate([rng.permutation(len(split)) for _ in range(rounds)])[:count]
        chosen += [(pair, batch) for batch in cut_split(split, rows, budget)]
    return [collate(encoded.train[chosen[i][0]], chosen[i][1], chosen[i][0]) for i in rng.permutation(len(chosen))]


def _train(
    learners: Sequence[Learner], alphas: Tensor, batches: Sequence[Batch], teach: Teach, distiller: Distiller, salt: int
) -> None:
    """One epoch on the trial set for all learners, with rows of `alphas` [learner, pair] and shared teacher passes."""
    group = current()
    size = learners[0].config.train.accumulate
    for portion in (batches[i : i + size] for i in range(0, len(batches), size)):
        tokens = sum(batch.tokens for batch in portion)
        for learner in learners:
            learner.begin(group)
        for micro in (mine := group.mine(len(portion))):
            batch = portion[micro].to(learners[0].device)
            weights = [float(alpha[batch.pair]) for alpha in alphas]
            target = teach(batch) if any(weights) else None
            if isinstance(target, TeacherStates) and sum(w > 0 for w in weights) > 1:
                target = target.kept()
            for learner, weight in zip(learners, weights, strict=True):
                learner.accumulate(batch, weight, target, distiller, tokens, micro, salt, micro == mine[-1])
        for learner in learners:
            learner.finish()


def lockstep_trial(
    learner: Learner, alphas: Tensor, batches: Sequence[Batch], teach: Teach, distiller: Distiller, score: Score,
    salt: int,
) -> Tensor:  # fmt: skip
    """Dev losses [trial, pair] after training a copy of `learner` with each row of `alphas` [trial, pair]."""
    twins = [learner.copy() for _ in alphas]
    _train(twins, alphas, batches, teach, distiller, salt)
    return torch.stack([score(twin) for twin in twins])


def live_trial(
    learner: Learner, alphas: Tensor, batches: Sequence[Batch], teach: Teach, distiller: Distiller, score: Score,
    salt: int,
) -> Tensor:  # fmt: skip
    """As `lockstep_trial`, but it trains the student itself, one trial after another, and keeps weights and moments."""
    updates, results = learner.updates, []
    for trial in range(len(alphas)):
        learner.updates = updates
        _train([learner], alphas[trial : trial + 1], batches, teach, distiller, salt)
        results.append(score(learner))
    learner.updates = updates
    return torch.stack(results)
