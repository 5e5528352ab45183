"""Our remedies beside the paper's method: a limit of alpha, an ensemble that teaches, searches by what matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.api import train
from pmd_lite.config import DistillConfig
from pmd_lite.data.batching import Batch, collate
from pmd_lite.data.corpus import Corpus
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, soft_target, token_logits
from pmd_lite.distillation.mutual import BiPMD, UniPMD
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import chrf_only
from pmd_lite.evaluation.translation import translate_ids
from pmd_lite.methods import Resources
from pmd_lite.run import Run
from pmd_lite.training import dev
from pmd_lite.training.dev import dev_losses, greedy_score
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.seeds import derive_seed
from pmd_lite.training.trainer import Trainer
from pmd_lite.training.trial import lockstep_trial
from tests.conftest import SHORT, MakeTrainer, stopped_at
from tests.paper.test_eq05_06_strategies import DOWN, HALF, TRIALS, FakeProbe, close, students
from tests.paper.test_resume import assert_same


def resumed(make_short: MakeTrainer, tmp_path: Path, **settings: Any) -> None:
    """Stop a run in the middle, between two searches; its end has the bits of an undisturbed run."""
    settings = {"steps": 9, **settings}
    make_short(path=tmp_path / "whole", **settings).run()
    with stopped_at(6):
        make_short(path=tmp_path / "broken", **settings).run()
    make_short(path=tmp_path / "broken", **settings).run()
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_with_a_limit_resumes_to_the_same_bits(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    settings = {"method": "auto-pmd", "alpha_max": 0.12, "steps": 8, "update_every": 2, "step_size": "constant"}
    resumed(make_trainer, tmp_path, **settings)
    searches = [line for line in RunDir(tmp_path / "whole").metrics() if line["event"] == "search"]
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


def test_equal_students_teach_themselves(make_short: MakeTrainer) -> None:
    """L_kd is the entropy of the prediction itself, and has no gradient: (1 - alpha) times that of L_ce is left."""
    trainer = make_short("bi-pmd", teacher="ensemble", dropout=0.0)
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
    peers = make_short("bi-pmd", dropout=0.0)
    peers.students[1].learner.model.load_state_dict(peers.students[0].learner.model.state_dict())
    assert torch.equal(update_of(peers, 0.6, batch)[0], sums), "equal students: the mean is the peer"


def test_without_dropout_it_is_the_peer_with_a_smaller_weight(make_short: MakeTrainer) -> None:
    """alpha .6 of the mean of both is alpha .6 / 1.4 of the peer, times .7 (see `BaseDistiller`)."""
    ensemble, peers = (make_short("bi-pmd", teacher=who, dropout=0.0) for who in ("ensemble", "peers"))
    batch = batch_of(peers)
    sums, found = update_of(ensemble, 0.6, batch)
    others, expected = update_of(peers, 0.6 / 1.4, batch)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, 0.7 * theirs, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(sums[1], others[1]), "the targets differ, and so do the losses"


def test_with_dropout_it_learns_from_itself_too(make_short: MakeTrainer) -> None:
    """p' is the prediction without dropout: then the gradient is no longer that of the peer alone."""
    ensemble, peers = (make_short("bi-pmd", teacher=who, dropout=0.4) for who in ("ensemble", "peers"))
    batch = batch_of(peers)
    _, found = update_of(ensemble, 0.6, batch)
    _, expected = update_of(peers, 0.6 / 1.4, batch)
    assert any(float((a - 0.7 * b).abs().max()) > 1e-4 for a, b in zip(found, expected, strict=True))


def test_an_ensemble_costs_one_more_pass(make_short: MakeTrainer) -> None:
    found = {}
    for who in ("peers", "ensemble"):
        trainer = make_short("bi-pmd", teacher=who, steps=2)
        trainer.run()
        found[who] = trainer.cost.multiply_adds
    assert found["ensemble"]["teacher"] == 2 * found["peers"]["teacher"]
    assert found["ensemble"]["train"] == found["peers"]["train"]


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [{}, {"turns": "together"}, {"fidelity": "released", "start": 0.0}])
def test_an_ensemble_resumes_to_the_same_bits(
    make_short: MakeTrainer, tmp_path: Path, overrides: dict[str, Any]
) -> None:
    resumed(make_short, tmp_path, method="auto-pmd", teacher="ensemble", **overrides)


# ---------------------------------------------------------------- what decides a search

ALPHAS = torch.tensor([[0.1] * 3, [0.9] * 3], dtype=torch.float64)


def trained_a_little(trainer: Trainer) -> Trainer:
    for step in range(1, 9):
        trainer.clock = trainer.clock.at(step)
        trainer.step()
    with torch.no_grad():  # so unsure that guesses and translations differ from sentence to sentence
        for weight in trainer.students[0].learner.model.parameters():
            weight.add_(0.5 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return trainer


@pytest.mark.slow
def test_a_search_by_accuracy_compares_the_share_of_wrong_tokens(make_trainer: MakeTrainer) -> None:
    trainer = trained_a_little(make_trainer("auto-pmd", decide_by="accuracy", steps=20, lr=0.05, trial_ratio=1.0))
    learner, wrong, tokens = trainer.students[0].learner, torch.zeros(6), torch.zeros(6)
    for batch in trainer.dev:
        learner.model.eval()
        guesses = token_logits(learner.model, batch.src, batch.trg_in, batch.keep).argmax(-1)
        wrong[batch.pair] += (guesses != batch.gold).sum()
        tokens[batch.pair] += batch.tokens
    errors = dev_losses(learner, trainer.dev, 6, errors=True)[2]
    close(errors, (wrong / tokens).tolist())
    assert len(set(errors.tolist())) > 2, "pairs differ"
    alphas = ALPHAS.repeat(1, 2)
    found = trainer.probe.trial(0, alphas)
    twins, salt = trainer.probe._trial_set(0), derive_seed(8, 0)
    by_hand = lockstep_trial(learner, alphas, twins, lambda batch: trainer.target(0, batch, False), trainer.distiller,
                             lambda twin: dev_losses(twin, trainer.dev, 6, errors=True)[2], salt)  # fmt: skip
    assert torch.equal(found, by_hand)
    assert not torch.equal(found[0], found[1])


@pytest.mark.slow
def test_a_search_by_chrf_scores_greedy_translations(make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trained_a_little(make_short("auto-pmd", decide_by="chrf", steps=20, lr=0.02))
    model, encoded, config = trainer.students[0].learner.model.eval(), trainer.encoded, trainer.config
    tokenizer = encoded.tokenizer

    def chrf(rows: list[int]) -> list[float]:
        found = []
        for pair, split in zip(encoded.pairs, encoded.valid, strict=True):
            sources, references = [split.src[i].tolist() for i in rows], [split.trg[i].tolist() for i in rows]
            hyps = translate_ids(model, sources, pair, tokenizer, limit=32, budget=960)
            found.append(chrf_only(hyps, [tokenizer.decode(ids) for ids in references])[0])
        return found

    assert {len(split) for split in encoded.valid} == {6}
    close(greedy_score(model, encoded, config, "chrf")[0], chrf(list(range(6))))
    monkeypatch.setattr(dev, "SAMPLE", 3)
    close(greedy_score(model, encoded, config, "chrf")[0], chrf([0, 2, 4]))
    before = trainer.cost.multiply_adds["trial"]
    verdict = trainer.probe._verdict(trainer.students[0].learner)
    close(verdict, [100 - score for score in chrf([0, 2, 4])])
    assert trainer.cost.multiply_adds["trial"] > before
    assert float(trainer.probe.trial(0, ALPHAS).max()) <= 100


@pytest.mark.parametrize("by", ["accuracy", "chrf"])
def test_a_trial_that_diverged_is_never_chosen(make_short: MakeTrainer, by: str) -> None:
    trainer = make_short("auto-pmd", decide_by=by)
    broken = trainer.students[0].learner.copy()
    with torch.no_grad():
        next(broken.model.parameters())[0] = torch.nan
    assert trainer.probe._verdict(broken).tolist() == [torch.inf] * 3


@pytest.mark.slow
@pytest.mark.parametrize("by", ["accuracy", "chrf"])
def test_whatever_decides_a_search_the_run_resumes_to_the_same_bits(
    make_short: MakeTrainer, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "SAMPLE", 1)
    resumed(make_short, tmp_path, method="auto-pmd", decide_by=by)
    lines = [line for line in RunDir(tmp_path / "whole").metrics() if line["event"] == "search"]
    assert len(lines) == 4
    assert all(0 <= x <= (1 if by == "accuracy" else 100) for line in lines for row in line["results"] for x in row)


@pytest.mark.parametrize("by", ["accuracy", "chrf"])
def test_other_decisions_compare_nll(make_short: MakeTrainer, by: str) -> None:
    trainer = make_short("uni-pmd", decide_by=by)
    assert torch.equal(trainer.probe.dev_loss(0), trainer.probe.losses(0)[0])


# ---------------------------------------------------------------- the ensemble of finished models, offline


@pytest.fixture(scope="module")
def singles(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A tau=1 and a tau=5 run with one tokenizer; the second is shorter and narrower: lengths and sizes are free."""
    folder = tmp_path_factory.mktemp("singles")
    one = single(three_pairs, "tau=1", folder / "one")
    return [one, single(three_pairs, "tau=5", folder / "five", tokenizer=one.path / "tokenizer", steps=4, d_model=8)]


def single(corpus: Corpus, method: str, out: Path, **words: Any) -> Run:
    return train(corpus, method, "toy", out=out, **{**SHORT, "score": False, "show": "off", "device": "cpu", **words})


def test_finished_runs_teach_one_student_together(singles: list[Run], three_pairs: Corpus, tmp_path: Path) -> None:
    words = {"use": [run.path for run in singles], "tokenizer": singles[0].path / "tokenizer"}
    run = single(three_pairs, "ensemble-distill", tmp_path / "run", alpha=0.3, **words)
    assert not (tmp_path / "run" / "auxiliary").exists(), "nothing was trained before"
    assert [one.path for one in run.auxiliary] == [one.path.resolve() for one in singles]
    assert run.compute_with_auxiliary == sum(one.compute for one in (run, *singles))
    assert run.labels == ["ensemble-distill"]
    assert {tuple(line["alpha"]) for line in run.evaluations()} == {(0.3,) * 3}
    with stopped_at(6):
        single(three_pairs, "ensemble-distill", tmp_path / "broken", alpha=0.3, **words)
    single(three_pairs, "ensemble-distill", tmp_path / "broken", alpha=0.3, **words)
    assert_same(run.path, tmp_path / "broken")


def test_the_target_is_the_mean_of_the_finished_models(make_short: MakeTrainer) -> None:
    others = make_short("bi-pmd", seed=7)
    models = [student.learner.model.requires_grad_(False) for student in others.students]
    trainer = make_short("ensemble-distill", found=Resources(singles=models), dropout=0.0)
    batch = batch_of(trainer)
    logp = log_probs(token_logits(trainer.students[0].learner.model, batch.src, batch.trg_in, batch.keep))
    mean = soft_target([(model, 0.5) for model in models], batch.src, batch.trg_in, batch.keep)
    trainer.clock = trainer.clock.at(1)
    assert trainer.plan(trainer.students[0]).alphas == [0.4], "it does not wait for `start`"
    sums, _ = update_of(trainer, 0.4, batch)
    assert float(sums[1]) == pytest.approx(float(kd_loss(logp, mean).detach()), rel=1e-5)


def test_a_teacher_with_another_tokenizer_or_corpus_is_refused_by_name(
    singles: list[Run], three_pairs: Corpus, tmp_path: Path
) -> None:
    foreign = single(three_pairs, "tau=5", tmp_path / "foreign", vocab_size=80, steps=4)
    few = single(three_pairs.only(list(three_pairs.pairs)[:2]), "tau=5", tmp_path / "few", steps=4,
                 tokenizer=singles[0].path / "tokenizer")  # fmt: skip
    for other, says in ((foreign, "its tokenizer differs"), (few, "its corpus differs")):
        with pytest.raises(UserError, match=f"cannot be used here.*For single-tau=5: {says}"):
            single(three_pairs, "ensemble-distill", tmp_path / "run", use=[singles[0].path, other.path],
                   tokenizer=singles[0].path / "tokenizer")  # fmt: skip
    assert not (tmp_path / "run" / "auxiliary").exists()
