"""Which weights are kept, and when training stops early: by the mean over pairs, or as released by pooled tokens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import pmd_lite as pmd
from pmd_lite.api import describe
from pmd_lite.auxiliary import _best_losses
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import write_json
from pmd_lite.methods import get_method
from pmd_lite.run import Run
from pmd_lite.training.dev import kept_by
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import Trainer
from tests.conftest import TINY, MakeTrainer

# Three evaluations of two pairs, NLL and smoothed. The large dev set (900 tokens) is best at the second, the small one
# (100) at the first. Means of NLL 2.0, 2.4, 2.2; pooled smoothed loss 3.1, 2.3, 3.2.
NLL = [[3.0, 1.0], [2.0, 2.8], [3.1, 1.3]]
SMOOTHED = [[3.3, 1.3], [2.2, 3.2], [3.4, 1.4]]
TOKENS = [900, 100]
BEST = {"mean": 0, "pooled-smoothed": 1}


@pytest.mark.parametrize("rule", BEST)
def test_the_two_rules_by_hand(rule: Any) -> None:
    values = [kept_by([nll, smoothed], TOKENS, rule) for nll, smoothed in zip(NLL, SMOOTHED, strict=True)]
    assert values == pytest.approx({"mean": [2.0, 2.4, 2.2], "pooled-smoothed": [3.1, 2.3, 3.2]}[rule])
    assert values.index(min(values)) == BEST[rule]


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.integers(1, 10**6)), min_size=1, max_size=6))
def test_pooling_is_the_loss_of_all_tokens_and_equal_sizes_make_a_mean(pairs: list[tuple[float, float, int]]) -> None:
    nll, smoothed, tokens = (list(column) for column in zip(*pairs, strict=True))
    total = sum(loss * n for loss, n in zip(smoothed, tokens, strict=True)) / sum(tokens)
    assert kept_by([nll, smoothed], tokens, "pooled-smoothed") == pytest.approx(total)
    assert kept_by([nll, smoothed], [7] * len(nll), "pooled-smoothed") == pytest.approx(sum(smoothed) / len(smoothed))


def with_losses(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, made: list[Tensor]) -> None:
    """Make the evaluations of a trainer's only student return these losses, each [2, pair], one after another."""
    found = iter(made)
    monkeypatch.setattr(trainer.probe, "losses", lambda student, purpose: next(found))


def random_losses(tokens: list[int]) -> tuple[list[Tensor], dict[str, int]]:
    """Six evaluations [2, pair], and which of them each rule picks; a mean of smoothed losses would pick a third."""
    for seed in range(1000):
        made = np.random.default_rng(seed).uniform(1, 4, (6, 2, len(tokens)))
        pooled = np.average(made[:, 1], axis=1, weights=tokens)
        picks = [int(np.argmin(x)) for x in (made[:, 0].mean(axis=1), pooled, made[:, 1].mean(axis=1))]
        if len(set(picks)) == 3:
            return [torch.from_numpy(x) for x in made], dict(zip(BEST, picks, strict=False))
    raise AssertionError("no seed tells the rules apart")


@pytest.mark.parametrize("rule", BEST)
def test_the_trainer_keeps_what_the_rule_says_and_a_run_reports_it(
    rule: Any, make_trainer: MakeTrainer, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trainer = make_trainer("tau=1", path=tmp_path, steps=6, eval_every=1, best=rule)
    # Dev sets as unequal as the training sets: with nearly equal ones pooling would weigh nothing.
    trainer.encoded = dataclasses.replace(trainer.encoded, valid=trainer.encoded.train)
    tokens = [split.trg_tokens for split in trainer.encoded.valid]
    made, picks = random_losses(tokens)
    with_losses(trainer, monkeypatch, made)
    kept: list[int] = []
    monkeypatch.setattr(trainer.rundir, "save_best", lambda student, model, step: kept.append(step))
    trainer.run()
    assert trainer.students[0].best_step == kept[-1] == picks[rule] + 1
    write_json(tmp_path / "config.json", describe(tiny_corpus, get_method("tau=1"), trainer.config))
    run = Run(tmp_path)
    assert run.evaluations()[0]["dev_tokens"] == tokens
    assert list(run.best_dev_loss().values()) == made[picks[rule]][0].tolist()


@pytest.mark.parametrize(("rule", "last"), [("mean", 2), ("pooled-smoothed", 3)])
def test_patience_counts_by_the_same_rule(
    rule: Any, last: int, make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NLL rises from the first evaluation on, the smoothed loss falls once more: patience 1 ends at 2 or at 3."""
    trainer = make_trainer("tau=1", steps=9, eval_every=1, best=rule, patience=1)
    made = [torch.tensor([[nll] * 6, [smoothed] * 6], dtype=torch.float64)
            for nll, smoothed in ((1.0, 3.0), (1.1, 2.9), (1.2, 3.1))]  # fmt: skip
    with_losses(trainer, monkeypatch, made)
    assert trainer.run() == "early stop" and trainer.clock.step == last


def logged(folder: Path, corpus: Corpus, lines: list[dict[str, Any]], **overrides: Any) -> Run:
    config = pmd.preset("toy", **{**TINY, **overrides})
    write_json(folder / "config.json", describe(corpus, get_method("tau=1"), config))
    RunDir(folder).append_metrics([{"event": "eval", "student": 0, "step": i, **line} for i, line in enumerate(lines)])
    return Run(folder)


@pytest.mark.parametrize("rule", BEST)
def test_a_run_is_read_by_its_rule(rule: Any, tiny_corpus: Corpus, tmp_path: Path) -> None:
    two = tiny_corpus.only(tiny_corpus.pairs[:2])
    lines: list[dict[str, Any]] = [
        {"dev_loss": nll, "dev_smoothed": smoothed, "dev_tokens": TOKENS}
        for nll, smoothed in zip(NLL, SMOOTHED, strict=True)
    ]
    new = logged(tmp_path / "new", two, lines, best=rule)
    assert list(new.best_dev_loss().values()) == NLL[BEST[rule]]


def test_bilingual_losses_are_those_of_the_weights_that_teach(tiny_corpus: Corpus, tmp_path: Path) -> None:
    """One pair, so both rules look at it alone; but NLL and smoothed loss are lowest at different evaluations."""
    one = tiny_corpus.only(tiny_corpus.pairs[:1])
    lines = [{"dev_loss": [a], "dev_smoothed": [b], "dev_tokens": [50]} for a, b in ((1.0, 3.0), (1.5, 2.5))]
    runs = [logged(tmp_path / rule, one, lines, best=rule) for rule in BEST]
    assert _best_losses(runs).tolist() == [1.0, 1.5]


def test_released_pools_and_the_paper_takes_the_mean_for_single_models_too(tiny_corpus: Corpus, tmp_path: Path) -> None:
    assert pmd.preset("toy").distill.resolved.best == "mean"
    assert pmd.preset("toy", fidelity="released").distill.resolved.best == "pooled-smoothed"
    assert pmd.preset("toy", fidelity="released", best="mean").distill.resolved.best == "mean"
    about = json.loads(json.dumps(describe(tiny_corpus, get_method("tau=1"), pmd.preset("toy", best="mean"))))
    assert about["config"]["distill"]["best"] == "mean"
