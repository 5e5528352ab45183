"""What a run will take: the estimate counts as the run itself does, and leaves no files behind."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pmd_lite as pmd
from pmd_lite.cli.arguments import main
from pmd_lite.config import Config, preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit
from pmd_lite.errors import UserError
from pmd_lite.methods import METHODS, get_method
from pmd_lite.planning.counting import Effort, Work, count, shape_of
from pmd_lite.planning.stand_in import SAMPLE, Facts, described, full_vocabulary, sampled
from pmd_lite.planning.timing import Speed, parameters
from pmd_lite.training.cost import per_token
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import Trainer
from tests.conftest import SHORT, TINY, MakeTrainer

WMT6 = {"fr-en": 3_000_000, "de-en": 1_500_000, "zh-en": 400_000, "et-en": 80_000, "ro-en": 10_000, "tr-en": 5_000}
QUICK: dict[str, Any] = {"seconds": 0.1, **SHORT}
SPEED = Speed(forward=1e-5, teacher=2e-5, backward=3e-5, step=1e-2, sentence=0.1, budget=160, device="paper")


def facts_of(corpus: Corpus, config: Config) -> Facts:
    return sampled(corpus, config).facts


def counted(corpus: Corpus, method: str, **overrides: Any) -> Work:
    config = preset("toy", **{**TINY, **overrides})
    return count(facts_of(corpus, config), get_method(method), config)


# --- counting ---------------------------------------------------------------------------------------------------------

LONG: dict[str, Any] = {"steps": 24, "eval_every": 10, "update_every": 9, "trial_ratio": 0.3, "scorer_every": 9}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("tau=5", {}),
    "moving sampler": ("cooldown", {}),
    "taught all the time": ("bi-pmd", {"start": 0.4}),
    "searches": ("auto-pmd", {}),
    "searches that end early": ("auto-pmd", {"update_every": 7, "step_size": "early_stop", "start": 0.2}),
    "one search by chrf": ("auto-pmd", {"decide_by": "chrf", "teacher": "ensemble", "update_every": 20}),
    "no rollback": ("auto-pmd", {"fidelity": "released", "start": 0.0, "accumulate": 2}),
    "gradients": ("multidds-s", {}),
    "uncertainty": ("multiuat", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_counted_is_what_the_run_itself_counts(name: str, three_pairs: Corpus, make_short: MakeTrainer) -> None:
    method, settings = RUNS[name]
    trainer = make_short(method, **{**LONG, **settings})
    trainer.run()
    work = counted(three_pairs, method, **{**SHORT, **LONG, **settings})
    for purpose, counted_there in trainer.cost.multiply_adds.items():
        # Dev sets are counted to the token. Which batches are drawn is luck, all the more in so short a run.
        room = 0 if purpose == "dev" else 0.2 * counted_there
        assert work.cost[purpose] == pytest.approx(counted_there, abs=room), purpose
    lines = [line for line in trainer.rundir.metrics() if line.get("student") == 0]
    assert work.evaluations == sum(line["event"] == "eval" for line in lines) == 3
    assert work.searches == sum(line["event"] == "search" for line in lines)
    assert (work.searches > 0) == (method == "auto-pmd")


@pytest.mark.parametrize("method", ["uni-pmd", "lssd", "multi-distill", "ccl-m", "chi-ibr", "lsmd", "ensemble-distill"])
@pytest.mark.slow
def test_every_other_method_is_counted_with_the_runs_it_needs(method: str, tiny_corpus: Corpus) -> None:
    work = counted(tiny_corpus, method, **{**LONG, "steps": 100})  # long enough for LSSD to have teachers
    needs = {"multi-distill": 6, "ccl-m": 6, "chi-ibr": 1, "lsmd": 1, "ensemble-distill": 2}.get(method, 0)
    assert len(work.helpers) == needs and (work.efforts["auxiliary"].multiply_adds > 0) == (needs > 0)
    assert (work.cost["teacher"] > 0) == (METHODS[method].distiller.__name__ != "NoDistillation")


@pytest.mark.slow
def test_what_multi_distill_prepares_is_counted(tiny_corpus: Corpus, tiny_encoded: EncodedCorpus) -> None:
    """Its teachers' passes over all training data, and their translations of the dev set."""
    once = per_token(shape_of(preset("toy", **TINY), tiny_encoded.tokenizer.vocab_size))

    def passes(splits: tuple[EncodedSplit, ...]) -> float:
        return sum(once.multiply_adds(split.src_tokens, split.trg_tokens, 1, 1) for split in splits)

    train, dev = passes(tiny_encoded.train), passes(tiny_encoded.valid)
    for cache, criterion, expected in ((True, "loss", train), (False, "bleu", dev), (True, "bleu", train + dev)):
        work = counted(tiny_corpus, "multi-distill", md_cache=cache, md_criterion=criterion)
        assert work.cost["prepare"] == pytest.approx(expected)
        assert work.efforts["prepare"].sentences == (criterion == "bleu") * sum(map(len, tiny_encoded.valid))
    assert counted(tiny_corpus, "bi-pmd").cost["prepare"] == 0


def test_uni_pmd_distils_each_pair_in_one_direction(tiny_corpus: Corpus) -> None:
    uni, bi = (counted(tiny_corpus, method, **LONG).efforts["teacher"].teacher for method in ("uni-pmd", "bi-pmd"))
    assert 0 < uni < 0.8 * bi


def test_three_students_have_two_teachers_each(tiny_corpus: Corpus) -> None:
    config = preset("toy", **{**TINY, **LONG})
    facts = facts_of(tiny_corpus, config)
    two, three = (
        count(facts, get_method("bi-pmd", samplers), config).efforts["teacher"].teacher
        for samplers in (["tau=1", "tau=1"], ["tau=1", "tau=1", "tau=1"])
    )
    assert three == pytest.approx(3 * two)


@pytest.mark.slow
def test_the_wmt6_preset_is_counted_as_the_paper_plans_it() -> None:
    config = preset("wmt6", precision="fp32")
    work = count(described(WMT6, 30, 3000, config).facts, get_method("auto-pmd"), config)
    assert work.clock.total == 70 * work.clock.epoch and work.evaluations == 70
    assert work.searches == 69  # once an epoch, but not after the last update
    # 4,995,000 sentences whose longer side has about 32 tokens, in updates of 64K
    assert work.clock.epoch == pytest.approx(4_995_000 * 32 / 65_536, rel=0.03)
    trial, train = work.efforts["trial"], work.efforts["train"]
    assert trial.backward / train.backward == pytest.approx(0.3, rel=0.1)  # rho x 3, the paper's 30 %


def test_the_trial_set_has_a_batch_of_the_smallest_pair_at_least() -> None:
    config = preset("wmt6", precision="fp32", trial_ratio=1e-6, epochs=2)
    facts = described(WMT6, 30, 100, config).facts
    work = count(facts, get_method("auto-pmd"), config)
    per_search = work.efforts["trial"].backward / (3 * 2 * work.searches)
    assert per_search == pytest.approx(6 * facts.per_batch[0] * facts.tokens[0], rel=0.1)


# --- hours ------------------------------------------------------------------------------------------------------------


def planned(speed: Speed = SPEED, **overrides: Any) -> pmd.Estimate:
    """An estimate from made-up timings."""
    config = preset("wmt6", precision="fp32", **overrides)
    facts = described({"fr-en": 40_000, "tr-en": 500}, 30, 100, config).facts
    work = count(facts, get_method("auto-pmd"), config)
    return pmd.Estimate("paper", config, facts, work, speed, None, {"best weights": 1.0}, ())


def test_the_breakdown_adds_up() -> None:
    found = planned(epochs=4)
    assert sum(found.hours.values()) == found.total_hours > max(found.hours.values()) > 0
    whole = Effort()
    for effort in found.work.efforts.values():
        whole.add(effort)
    assert found.speed.seconds(whole) / 3600 == pytest.approx(found.total_hours)
    by_hand = whole.forward * 1e-5 + whole.teacher * 2e-5 + whole.backward * 3e-5 + whole.steps * 1e-2
    assert 3600 * found.total_hours == pytest.approx(by_hand + whole.sentences * 0.1)


def test_twice_the_steps_are_twice_the_training_and_no_more_translation() -> None:
    once, twice = planned(steps=300, epochs=0), planned(steps=600, epochs=0)
    assert twice.hours["training"] == pytest.approx(2 * once.hours["training"])
    assert twice.hours["test translation"] == once.hours["test translation"] > 0
    assert twice.tokens_per_second == pytest.approx(once.tokens_per_second)


def test_a_machine_twice_as_fast_takes_half_the_hours() -> None:
    def at(speed: float) -> pmd.Estimate:
        return pmd.estimate(sizes=WMT6, preset_name="wmt6", precision="fp32", epochs=1, tokens_per_second=speed)

    assert at(20_000).total_hours == pytest.approx(at(10_000).total_hours / 2)
    plain = pmd.estimate(sizes=WMT6, method="tau=1", preset_name="wmt6", precision="fp32", epochs=1,
                         tokens_per_second=10_000)  # fmt: skip
    assert plain.tokens_per_second == pytest.approx(10_000)
    assert at(10_000).tokens_per_second == pytest.approx(10_000 * 3 / 4)  # one of four passes is the teacher's
    assert plain.memory is None and "memory" not in plain.to_text().split("Not measured")[0]


# --- on this machine --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_toy_run_costs_about_what_was_estimated(three_pairs: Corpus, tmp_path: Path) -> None:
    found = pmd.estimate(three_pairs, "auto-pmd", "toy", **QUICK)
    run = pmd.train(three_pairs, "auto-pmd", "toy", out=tmp_path / "run", show="off", score=False, **SHORT)
    assert sum(found.work.cost.values()) == pytest.approx(run.compute, rel=0.2)
    assert all(found.hours[part] > 0 for part in ("training", "search", "evaluation", "test translation"))
    assert found.hours["auxiliary runs"] == 0
    assert found.memory is not None and found.memory > 50e6  # a process with torch in it
    assert parameters(run.config, run.tokenizer.vocab_size) == run.finished["parameters"]

    def written(folder: str) -> int:
        return sum(path.stat().st_size for path in (run.path / folder).rglob("*") if path.is_file())

    weights = found.disk["latest checkpoint"] + found.disk["best weights"]
    assert written("checkpoint") == pytest.approx(weights, rel=0.5)  # so small a model has as much beside its weights
    assert written("checkpoint/best") == pytest.approx(found.disk["best weights"], rel=0.2)


def test_nothing_is_left_behind(tiny_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1], torch.is_grad_enabled()
    pmd.estimate(tiny_corpus, "auto-pmd", "toy", **QUICK)
    pmd.estimate(sizes={"a-b": 50, "c-b": 20}, preset_name="toy", mean_tokens=9, **QUICK)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1], torch.is_grad_enabled()
    assert not list(differences(list(before[:1]), list(after[:1])))
    assert before[1] == after[1] and (before[2] == after[2]).all() and after[3]
    assert list(tmp_path.iterdir()) == []


def test_a_description_always_stands_for_the_same_sentences() -> None:
    config = preset("small")
    assert described(WMT6, 20, 500, config).facts == described(WMT6, 20, 500, config).facts


# --- stand-ins --------------------------------------------------------------------------------------------------------


def test_a_small_corpus_stands_for_itself(tiny_corpus: Corpus, make_trainer: MakeTrainer) -> None:
    trainer: Trainer = make_trainer("tau=1")
    facts = facts_of(tiny_corpus, preset("toy", **TINY))
    assert facts.sizes == trainer.encoded.sizes
    assert facts.train_tokens == pytest.approx(trainer.encoded.trg_tokens)
    assert facts.dev == [split.trg_tokens for split in trainer.encoded.valid]
    assert facts.test_sentences == [6] * 6


def test_a_large_corpus_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch, tiny_corpus: Corpus) -> None:
    whole = facts_of(tiny_corpus, preset("toy", **TINY))
    monkeypatch.setattr("pmd_lite.planning.stand_in.SAMPLE", 12)
    found = sampled(tiny_corpus, preset("toy", **TINY))
    assert found.facts.sizes == pytest.approx(whole.sizes, abs=2) and max(map(len, found.encoded.train)) == 12
    assert found.facts.train_tokens == pytest.approx(whole.train_tokens, rel=0.15)
    assert any("lengths" in guess for guess in found.guesses)


def test_a_tokenizer_from_a_part_of_the_text_gets_the_vocabulary_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tiny_corpus: Corpus
) -> None:
    monkeypatch.setattr("pmd_lite.planning.stand_in.TOKENIZER_SAMPLE", 40)
    config = preset("toy", **{**TINY, "vocab_size": 3000})
    found = sampled(tiny_corpus, config)
    assert found.encoded.tokenizer.vocab_size == 3000 + 7 == full_vocabulary(config.tokenizer, 7)
    assert found.encoded.tokenizer.decode([2999]) == ""
    assert any("40 sentences" in guess for guess in found.guesses)


def test_a_described_corpus_has_the_lengths_it_was_given() -> None:
    config = preset("wmt6", precision="fp32")
    facts = described(WMT6, 30, 3000, config).facts
    assert facts.sizes == list(WMT6.values()) and facts.test_sentences == [3000] * 6
    assert facts.tokens == pytest.approx([30] * 6, rel=0.05)
    assert sum(facts.dev_sentences) == 6 * 3000 and max(n * 30 for n in facts.per_batch) <= 8192
    assert full_vocabulary(config.tokenizer, 7) == 64_007
    assert full_vocabulary(preset("ted8").tokenizer, 9) == 260 + 9 * 7740 + 9
    assert described({"fr-en": 10 * SAMPLE}, 30, 9000, config).facts.dev_sentences == [9000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sizes": {}}, "whole numbers above 0"),
        ({"sizes": {"fr-en": 0}}, "whole numbers above 0"),
        ({"sizes": {"fr-en": 1.5}}, "whole numbers above 0"),
        ({"sizes": {"french": 10}}, "is not a pair of languages"),
        ({"sizes": {"fr-en": 10}, "mean_tokens": 500}, "max_len"),
        ({"sizes": {"fr-en": 10}, "corpus": "longtail"}, "not both"),
        ({"sizes": {"fr-en": 10}, "tokens_per_second": 0}, "must be at least 0.001"),
        ({"sizes": {"fr-en": 10}, "method": "auto"}, "no method"),
        ({"sizes": {"fr-en": 10}, "precision": "fp16", "device": "cpu"}, "fp16 needs a CUDA device"),
        ({"preset_name": dataclasses.replace(preset("toy")), "steps": 3}, "not both"),
    ],
)
def test_mistakes_are_said(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        pmd.estimate(**arguments)


@pytest.mark.slow
def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--sizes", "fr-en=300", "tr-en=20", "--mean-tokens", "9", "--seconds", "0.1", "--steps",
                 "20", "--d-model", "16", "--tokenizer.vocab-size", "90", "--eval-every", "10"]) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "auto-pmd on 2 pairs" in said and "20 updates of 2 students" in said and "test translation" in said
    assert "Not measured:" in said
    assert main(["estimate", "--sizes", "fr-en"]) == 2


@pytest.mark.slow
def test_more_processes_than_micro_batches_divide_the_update_as_the_run_will() -> None:
    """README: sixteen processes make the paper's 16 x 4,096 tokens of wmt6, in as many updates as eight."""
    changed: dict[str, Any] = {"precision": "fp32", "epochs": 4}  # as many as 70 take most of a second to count
    words: dict[str, Any] = {"sizes": WMT6, "preset_name": "wmt6", "tokens_per_second": 1e4, **changed}
    eight, sixteen = (pmd.estimate(**words, processes=count) for count in (8, 16))
    assert eight.config == preset("wmt6", **changed)
    assert (sixteen.config.train.accumulate, sixteen.config.train.tokens) == (16, 4096)
    assert sixteen.work.clock.total == pytest.approx(eight.work.clock.total, rel=0.01)
    assert "each of 16 x 4,096 tokens" in sixteen.to_text() and "with 16 processes" in sixteen.to_text()
    # 1 - 1/16 of a model goes round the ring twice, 4 bytes a number, for both students.
    numbers = parameters(sixteen.config, sixteen.facts.vocabulary)
    assert sixteen.sent == 2 * 15 / 16 * 4 * numbers * 2
    assert pmd.estimate(**words, processes=16, gradients="bf16").sent == sixteen.sent / 2
    assert sixteen.best_hours == pytest.approx(sixteen.total_hours / 16), "nothing is prepared"
    with pytest.raises(UserError, match="processes=0"):
        pmd.estimate(**words, processes=0)
