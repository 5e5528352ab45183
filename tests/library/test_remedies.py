"""Our remedies beside the paper's method: a limit of alpha, an ensemble that teaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import DistillConfig
from pmd_lite.data.batching import Batch, collate
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.distillation.losses import ce_loss, log_probs, token_logits
from pmd_lite.distillation.mutual import BiPMD, UniPMD
from pmd_lite.errors import UserError
from pmd_lite.training.trainer import Trainer
from tests.conftest import MakeTrainer, stopped_at
from tests.paper.test_eq05_06_strategies import DOWN, HALF, TRIALS, FakeProbe, close, students
from tests.paper.test_resume import assert_same


def resumed(make_trainer: MakeTrainer, tmp_path: Path, **settings: Any) -> None:
    """Stop a run in the middle, between two searches; its end has the bits of an undisturbed run."""
    make_trainer(path=tmp_path / "whole", **settings).run()
    with stopped_at(6):
        make_trainer(path=tmp_path / "broken", **settings).run()
    make_trainer(path=tmp_path / "broken", **settings).run()
    assert_same(tmp_path / "whole", tmp_path / "broken")


# ---------------------------------------------------------------- a limit of alpha


def test_a_search_at_the_limit_by_hand() -> None:
    """TRIALS as in the paper's search by hand: .1 up is .155 there, and .12 here; down from there is below .1."""
    distiller = AutoPMD(students(), 3, DistillConfig(alpha0=0.1, alpha_max=0.12))
    probe = FakeProbe(HALF, results=lambda student, alphas: TRIALS[student])
    distiller.update(probe)
    close(probe.asked[0][1], [[0.1] * 3, [0.12] * 3, [DOWN] * 3])
    close(distiller.weights(), [[0.12, DOWN, 0.1], [DOWN, 0.12, 0.12]])
    distiller.update(again := FakeProbe(HALF, results=lambda student, alphas: TRIALS[student]))
    assert again.asked[0][1][0, 0] == again.asked[0][1][1, 0], "keep and up are one trial at the limit"
    assert again.asked[0][1][2, 0] == pytest.approx(
        0.0764, abs=1e-4
    )  # odds .12 / .88 by e^-.5: no clip on the way down


RESULTS = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=12)


@given(RESULTS, st.floats(0.1, 1))
@settings(deadline=None)
def test_no_search_crosses_the_limit_and_below_it_nothing_changes(results: list[list[int]], most: float) -> None:
    free, bounded = (AutoPMD(students(), 1, DistillConfig(alpha_max=x)) for x in (1.0, most))
    touched = False
    for row in results:
        for distiller in (free, bounded):
            distiller.update(probe := FakeProbe(HALF, results=lambda *_, row=row: [[float(x)] for x in row]))
            assert float(probe.asked[0][1].max()) <= distiller.config.alpha_max + 1e-12
        touched = touched or bool((free.weights() > most).any())
        assert touched or torch.equal(free.weights(), bounded.weights())
        assert float(bounded.weights().max()) <= most + 1e-12


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.3]))
@settings(deadline=None)
def test_up_to_the_limit_of_the_rule_gold_has_the_largest_share(seed: int, smoothing: float) -> None:
    """Against any teacher, also one that is certain of another token; beyond the limit, that teacher wins."""
    vocab, gold, other = 2500, 3, 4
    most = (1 - smoothing) / (2 - smoothing)
    q = torch.full((vocab,), smoothing / (vocab - 1), dtype=torch.float64)
    q[gold] = 1 - smoothing
    sure = torch.zeros(vocab, dtype=torch.float64)
    sure[other] = 1
    torch.manual_seed(seed)
    for teacher in (sure, torch.softmax(9 * torch.randn(vocab, dtype=torch.float64), 0)):
        alpha = most - 0.001
        assert int(((1 - alpha) * q + alpha * teacher).argmax()) == gold
    assert int(((1 - most - 0.001) * q + (most + 0.001) * sure).argmax()) == other


def test_a_first_weight_above_the_limit_is_refused() -> None:
    with pytest.raises(UserError, match=r"alpha0=0.3 with alpha_max=0.2: begin at most at the limit"):
        DistillConfig(alpha0=0.3, alpha_max=0.2)


def test_a_run_with_a_limit_resumes_to_the_same_bits(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    settings = {"method": "auto-pmd", "alpha_max": 0.12, "steps": 12, "update_every": 2, "step_size": "constant"}
    resumed(make_trainer, tmp_path, **settings)
    searches = [line for line in make_trainer(path=tmp_path / "whole").rundir.metrics() if line["event"] == "search"]
    assert any(max(line["alpha"]) == pytest.approx(0.12) for line in searches), "the limit was met"


# ---------------------------------------------------------------- the ensemble teaches its members


@pytest.mark.parametrize("strategy", [BiPMD, UniPMD, AutoPMD])
@pytest.mark.parametrize("n", [2, 3])
def test_all_students_teach_in_equal_shares(strategy: type[BiPMD], n: int) -> None:
    models = students(n)
    distiller = strategy(models, 2, DistillConfig(teacher="ensemble"))
    for student in range(n):
        assert list(distiller.teachers(student, 1)) == [(model, 1 / n) for model in models]


def update_of(trainer: Trainer, alpha: float, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """[3] sums and the gradients of student 1 on one batch with this weight."""
    learner = trainer.students[0].learner
    learner.begin()
    target = trainer.target(0, batch, dropout=False)
    sums = learner.accumulate(batch, alpha, target, trainer.distiller, batch.tokens, 0)
    return sums, [p.grad.clone() for p in learner.model.parameters() if p.grad is not None]


def batch_of(trainer: Trainer) -> Batch:
    return collate(trainer.encoded.train[0], range(5), 0)


def test_equal_students_teach_themselves(make_trainer: MakeTrainer) -> None:
    """L_kd is the entropy of the prediction itself, and has no gradient: (1 - alpha) times that of L_ce is left."""
    trainer = make_trainer("bi-pmd", teacher="ensemble", dropout=0.0)
    one, two = (student.learner.model for student in trainer.students)
    two.load_state_dict(one.state_dict())
    batch = batch_of(trainer)
    logp = log_probs(token_logits(one, batch.src, batch.trg_in, batch.keep))
    sums, found = update_of(trainer, 0.6, batch)
    assert float(sums[1]) == pytest.approx(-float((logp.exp() * logp).sum().detach()), rel=1e-5)
    assert float(sums[0]) == pytest.approx(float(ce_loss(logp, batch.gold, 0.1).detach()), rel=1e-5)
    expected = torch.autograd.grad(0.4 * ce_loss(logp, batch.gold, 0.1) / batch.tokens, list(one.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    peers = make_trainer("bi-pmd", dropout=0.0)
    peers.students[1].learner.model.load_state_dict(peers.students[0].learner.model.state_dict())
    assert torch.equal(update_of(peers, 0.6, batch)[0], sums), "equal students: the mean is the peer"


def test_without_dropout_it_is_the_peer_with_a_smaller_weight(make_trainer: MakeTrainer) -> None:
    """alpha .6 of the mean of both is alpha .6 / 1.4 of the peer, times .7 (see `BaseDistiller`)."""
    ensemble, peers = (make_trainer("bi-pmd", teacher=who, dropout=0.0) for who in ("ensemble", "peers"))
    batch = batch_of(peers)
    sums, found = update_of(ensemble, 0.6, batch)
    others, expected = update_of(peers, 0.6 / 1.4, batch)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, 0.7 * theirs, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(sums[1], others[1]), "the targets differ, and so do the losses"


def test_with_dropout_it_learns_from_itself_too(make_trainer: MakeTrainer) -> None:
    """p' is the prediction without dropout: then the gradient is no longer that of the peer alone."""
    ensemble, peers = (make_trainer("bi-pmd", teacher=who, dropout=0.4) for who in ("ensemble", "peers"))
    batch = batch_of(peers)
    _, found = update_of(ensemble, 0.6, batch)
    _, expected = update_of(peers, 0.6 / 1.4, batch)
    assert any(float((a - 0.7 * b).abs().max()) > 1e-4 for a, b in zip(found, expected, strict=True))


def test_an_ensemble_costs_one_more_pass(make_trainer: MakeTrainer) -> None:
    found = {}
    for who in ("peers", "ensemble"):
        trainer = make_trainer("bi-pmd", teacher=who, steps=2)
        trainer.run()
        found[who] = trainer.cost.multiply_adds
    assert found["ensemble"]["teacher"] == 2 * found["peers"]["teacher"]
    assert found["ensemble"]["train"] == found["peers"]["train"]


@pytest.mark.parametrize("overrides", [{}, {"turns": "together"}, {"fidelity": "released", "start": 0.0}])
def test_an_ensemble_resumes_to_the_same_bits(
    make_trainer: MakeTrainer, tmp_path: Path, overrides: dict[str, Any]
) -> None:
    resumed(make_trainer, tmp_path, method="auto-pmd", teacher="ensemble", **overrides)
