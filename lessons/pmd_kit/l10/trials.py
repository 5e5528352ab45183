"""A finished run opened again: for single trials with its students, and a look at what they leave behind."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.errors import UserError
from pmd_lite.methods import make_distiller, make_samplers
from pmd_lite.run import Run
from pmd_lite.training.snapshot import clone, differences
from pmd_lite.training.trainer import Trainer

PARTS = {".weights": "weights", ".exp_avg": "Adam's moments", ".step": "Adam's count of steps",
         ".param_groups": "learning rate", ".updates": "count of updates", ".random": "random state"}  # fmt: skip
"""What a part of a name that `differences` gives stands for."""


def reopen(run: Run, corpus: Corpus, **distill: Any) -> Trainer:
    """A trainer that stands where a finished run ended: same students, moments, clock.

    distill: fields of the run's distillation settings to change, such as rollback=False. Nothing is written.
    Raises UserError for a run that is not finished, or another corpus than its own.
    """
    if not run.dir.finished:
        raise UserError(f"{run.path} is not finished: train it to its end first")
    if corpus.fingerprint != run.corpus["fingerprint"]:
        raise UserError(f"{run.path} was trained on another corpus than {corpus.name}")
    config = dataclasses.replace(run.config, distill=dataclasses.replace(run.config.distill, **distill))
    encoded = encode_corpus(corpus, run.tokenizer, config.model.max_len)
    samplers = make_samplers(run.method.samplers, encoded.sizes, config)
    distiller = make_distiller(run.method.distiller, run.method.options, config)
    trainer = Trainer(encoded, config, samplers, distiller, run.dir, "off", first_seat=run.method.first_seat)
    trainer.run()  # loads the last checkpoint; there is no step left to make
    return trainer


def student_state(trainer: Trainer, student: int) -> dict[str, Any]:
    """All that the next update of a student depends on, as an independent copy."""
    learner = trainer.students[student].learner
    return dict(clone({
        "weights": dict(learner.model.state_dict()), "optimizer": learner.optimizer.state_dict(),
        "updates": learner.updates, "random": torch.get_rng_state(),
    }))  # fmt: skip


def changed_parts(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Which parts of two `student_state`s differ in any bit."""
    names = list(differences(before, after))
    return [part for sign, part in PARTS.items() if any(sign in name for name in names)]
