"""What an epoch is, and what P(l) is a share of: sentences that were really drawn, counted one by one."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pmd_lite as pmd
from pmd_lite.api import load_corpus
from pmd_lite.config import Config, preset
from pmd_lite.data.batching import PairStream, round_of
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit, TokenArray, encode_corpus
from pmd_lite.interfaces import Clock
from pmd_lite.planning.stand_in import mean_per_batch
from pmd_lite.sampling.schedule import PairSchedule, batch_shares
from pmd_lite.sampling.temperature import temperature_probabilities
from pmd_lite.training.learner import Learner
from pmd_lite.training.progress import describe_passes
from tests.conftest import SHORT, MakeTrainer

FROM_30_TO_30_000 = (30_000, 3_000, 300, 30)


def split_of(src: Sequence[int], trg: Sequence[int]) -> EncodedSplit:
    """Sentences of these lengths; the ids do not matter here."""

    def side(lengths: Sequence[int]) -> TokenArray:
        return TokenArray.cut(np.ones(sum(lengths), np.int32), np.concatenate([[0], np.cumsum(lengths)]))

    return EncodedSplit(side(src), side(trg))


def invented(sizes: Sequence[int], means: Sequence[tuple[int, int]]) -> list[EncodedSplit]:
    """Pairs of these sizes whose sentences have these mean lengths (source, target), unevenly spread."""
    rng = np.random.default_rng(0)
    return [split_of(*(np.clip(rng.gamma(4, mean / 4, n), 2, 60).astype(int).tolist() for mean in both))
            for n, both in zip(sizes, means, strict=True)]  # fmt: skip


class Drawing:
    """A student's draws in Alg. 1, lines 4 and 5, without a model."""

    def __init__(self, splits: Sequence[EncodedSplit], budget: int, shares: Any = "sentences"):
        self.streams = [PairStream(split, i, budget, (i,)) for i, split in enumerate(splits)]
        self.schedule, self.shares = PairSchedule((1,), "stratified"), shares
        self.per_batch = torch.tensor([stream.round.per_batch for stream in self.streams], dtype=torch.float64)

    def sentences(self, p: torch.Tensor, micro_batches: int) -> np.ndarray:
        """[pair] sentences in this many draws."""
        drawn, shares = np.zeros(len(p)), batch_shares(p, self.per_batch, self.shares)
        for _ in range(micro_batches):
            pair = self.schedule.next(shares)
            drawn[pair] += len(self.streams[pair].draw().rows)
        return drawn


# ---------------------------------------------------------------- shares


@functools.cache
def splits_of(world: str) -> list[EncodedSplit]:
    """Kept by hand: in a random order of the tests, a fixture with parameters would be made again at every change."""
    if world == "30 to 30,000":
        return invented(FROM_30_TO_30_000, [(12, 12), (8, 16), (20, 10), (15, 15)])
    corpus, config = load_corpus(world), preset("toy")
    return list(encode_corpus(corpus, train_tokenizer(corpus, config.tokenizer), config.model.max_len).train)


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1, 5, math.inf])
@pytest.mark.parametrize("budget", [400, 8192])
@pytest.mark.parametrize("world", ["longtail", "toy", "30 to 30,000"])
def test_every_pair_gets_its_share_of_the_sentences(world: str, tau: float, budget: int) -> None:
    """Drawn / Eq. 2 within 3 % for every pair, or within one batch where 3 % are less than that."""
    splits = splits_of(world)
    sizes = [len(split) for split in splits]
    p, drawing = temperature_probabilities(sizes, tau), Drawing(splits, budget)
    drawn = drawing.sentences(p, 3_000 if budget == 400 else 1_000)
    asked = p.numpy() * drawn.sum()
    assert (np.abs(drawn - asked) <= np.maximum(0.03 * asked, drawing.per_batch.numpy())).all(), drawn / asked
    rounds = batch_shares(p, drawing.per_batch, "sentences") * drawing.per_batch  # and exactly so in the long run
    torch.testing.assert_close(rounds / rounds.sum(), p)


def test_as_alg_1_is_written_short_sentences_get_more_than_their_share() -> None:
    """The named option: each batch counts once, and holds three times as many sentences of a third of the length."""
    splits = [split_of([10] * 600, [10] * 600), split_of([30] * 600, [30] * 600)]
    p = temperature_probabilities([600, 600], 1)
    letter, share = (Drawing(splits, 300, shares).sentences(p, 400) for shares in ("batches", "sentences"))
    assert letter[0] / letter[1] == pytest.approx(3)
    assert share[0] / share[1] == pytest.approx(1, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 8])
@pytest.mark.parametrize("method", ["tau=inf", "unimax", "multidds-s", "cooldown"])
def test_trained_students_drew_what_their_samplers_asked_for(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, method: str, accumulate: int
) -> None:
    """Static and learnt samplers: the sum of P(l) over all sentences drawn, pair by pair, within one batch and 3 %.

    The updates have no gradients, which take most of the time; the probe of MultiDDS computes its own.
    """
    monkeypatch.setattr(Learner, "accumulate", lambda *args, **words: torch.zeros(3))
    trainer = make_trainer(method, steps=160 // accumulate, accumulate=accumulate, eval_every=160, scorer_every=20)
    (student,), asked = trainer.students, np.zeros(6)
    drawn, next_pair = np.zeros(6), student.schedule.next

    def noted(shares: torch.Tensor) -> int:
        p = student.sampler.probabilities()
        asked[:] += p.numpy() / float((p / student._per_batch).sum())  # sentences that a draw brings, mean
        pair = next_pair(shares)
        return pair

    student.schedule.next = noted  # type: ignore[method-assign]
    trainer.run()
    for pair, stream in enumerate(student.streams):
        drawn[pair] = stream.visits * len(stream.split)
    assert (np.abs(drawn - asked) <= np.maximum(0.03 * asked, student._per_batch.numpy())).all(), drawn / asked


@pytest.mark.slow
def test_a_search_and_a_resume_change_nothing(make_short: MakeTrainer) -> None:
    """Auto-PMD's students see what single models of the same seats see, also after a stop."""
    from tests.conftest import stopped_at

    plain, mutual = make_short("tau=1", steps=12), make_short("auto-pmd", steps=12)
    plain.run()
    path = mutual.rundir.path
    with stopped_at(7):
        mutual.run()
    resumed = make_short("auto-pmd", steps=12, path=path)
    resumed.run()
    assert [s.visits for s in resumed.students[0].streams] == [s.visits for s in plain.students[0].streams]


# ---------------------------------------------------------------- rounds: pairs that are smaller than a batch


def test_a_pair_smaller_than_a_batch_goes_round_again() -> None:
    """Four sentences of 5 tokens take 20 of 70: three passes fit, in one batch of twelve."""
    small = split_of([5] * 4, [4, 5, 5, 3])
    found = round_of(small, 70)
    assert (found.passes, found.batches, found.per_batch, found.batches_per_pass) == (3, 1, 12, 1 / 3)
    stream = PairStream(small, 0, 70, (1,))
    rows = sorted(stream.draw().rows.tolist())
    assert rows == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert stream.visits == 3


def test_a_pair_that_fills_a_batch_is_not_repeated() -> None:
    assert round_of(split_of([5] * 4, [5] * 4), 39).passes == 1  # two passes would take 40
    assert round_of(split_of([5] * 4, [5] * 4), 40).passes == 2


@given(st.lists(st.integers(2, 40), min_size=1, max_size=60), st.integers(8, 4000))
@settings(deadline=None, max_examples=200)
def test_rounds_are_what_streams_cut(lengths: list[int], budget: int) -> None:
    split = split_of(lengths, lengths)
    stream, found = PairStream(split, 0, budget, (2,)), round_of(split, budget)
    for _ in range(3):
        drawn = [stream.draw() for _ in range(found.batches)]
        assert stream.state_dict()["position"] == 0
        assert sum(len(draw.rows) for draw in drawn) == found.passes * len(lengths)
        assert found.batches * found.per_batch == pytest.approx(found.passes * len(lengths))
        counted = np.bincount(np.concatenate([draw.rows for draw in drawn]), minlength=len(lengths))
        assert (counted == found.passes).all()
        for draw in drawn:
            assert len(draw.rows) == 1 or len(draw.rows) * max(lengths[i] for i in draw.rows) <= budget
    assert found.passes == 1 or 2 * found.per_batch * max(lengths) > budget  # one pass more would be too much


# ---------------------------------------------------------------- epochs


LOPSIDED = {
    "long sources": [(50, 10), (40, 10)], "long targets": [(10, 50), (12, 48)], "both": [(50, 10), (10, 50)],
    "even": [(20, 20), (8, 8)],
}  # fmt: skip


@pytest.mark.parametrize("means", LOPSIDED.values(), ids=LOPSIDED)
@pytest.mark.parametrize("budget", [300, 1000])
def test_an_epoch_at_tau_1_shows_every_sentence_once(means: list[tuple[int, int]], budget: int) -> None:
    """Whatever the lengths of either side: one pass, up to one batch of each pair."""
    splits = invented([4_000, 500], means)
    drawing = Drawing(splits, budget)
    config = Config.from_dict({"train": {"epochs": 1, "tokens": budget}})
    clock = Clock.of(config, sum(stream.round.batches_per_pass for stream in drawing.streams), waits=False)
    drawing.sentences(temperature_probabilities([4_000, 500], 1), clock.total)
    for stream in drawing.streams:
        assert abs(stream.visits - 1) * len(stream.split) <= 1.01 * stream.round.per_batch


def test_an_epoch_by_hand() -> None:
    """30 batches in a pass, 4 in an update: an epoch is 8 updates; T, evaluations and `start` follow from it."""
    config = Config.from_dict({"train": {"epochs": 2.5, "accumulate": 4}, "distill": {"start": 0.3}})
    clock = Clock.of(config, 30, waits=True)
    assert (clock.epoch, clock.total, clock.start) == (8, 20, 6)
    assert Clock.of(config, 30, waits=False).start == 0
    assert Clock.of(config, 0.1, waits=False).epoch == 1
    by_steps = Config.from_dict({"train": {"steps": 7, "accumulate": 4}})
    assert Clock.of(by_steps, 30, waits=False).total == 7


def test_training_and_estimate_mean_the_same_epoch(make_trainer: MakeTrainer, tiny_encoded: EncodedCorpus) -> None:
    trainer = make_trainer("tau=1", epochs=2.0)
    batches = sum(len(PairStream(split, 0, 160, (1,))._rows()) / round_of(split, 160).passes
                  for split in tiny_encoded.train)  # fmt: skip
    assert trainer.clock.epoch == math.ceil(batches)
    assert trainer.clock.total == 2 * math.ceil(batches)
    for split in tiny_encoded.train:
        assert mean_per_batch(split, len(split), 160) == round_of(split, 160).per_batch


@pytest.mark.slow
def test_train_says_what_an_epoch_is_and_how_often_sentences_are_seen(
    make_short: MakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_short("auto-pmd", steps=12)
    trainer.show = "lines"
    trainer.run()
    out = capsys.readouterr().out
    assert f"an epoch is {trainer.clock.epoch} updates; the run has 12" in out
    run_visits = [stream.visits for stream in trainer.students[0].streams]
    said = next(line for line in out.splitlines() if "model_1 sees each sentence" in line)
    told = [float(word) for word in said.replace(",", "").split() if word.replace(".", "").isdigit()]
    largest = trainer.students[0].streams[0]
    assert told[0] == pytest.approx(run_visits[0], abs=1.1 / largest.round.batches_per_pass)


@pytest.mark.slow
def test_show_says_it_afterwards(three_pairs: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from pmd_lite.cli.arguments import main

    run = pmd.train(three_pairs, "tau=1", "toy", out=tmp_path / "run", show="off", score=False, **SHORT)
    visits = run.evaluations()[-1]["visits"]
    capsys.readouterr()
    main(["show", str(tmp_path / "run")])
    out = capsys.readouterr().out
    assert "an epoch is" in out and f"has seen each sentence so many times: {run.pairs[0]} {visits[0]:.3g}" in out


def test_estimate_says_it_beforehand(tiny_corpus: Any) -> None:
    from tests.conftest import TINY

    found = pmd.estimate(tiny_corpus, "tau=1", "toy", tokens_per_second=1000.0, **TINY)
    text = found.to_text()
    assert f"an epoch is {found.work.clock.epoch} updates" in text
    first = found.work.visits[0, 0].item()
    assert f"sees each sentence so many times: {found.facts.pairs[0]} {first:.3g}" in text
    *_, many = describe_passes(found.work.clock, ["a", "b", "c"], [[1014.0, 55.73, 2.0]])
    assert many == "sees each sentence so many times: a 1,010, b 55.7, c 2"
    alone = found.config.train.steps * batch_shares(
        temperature_probabilities(found.facts.sizes, 1), torch.tensor(found.facts.per_batch, dtype=torch.float64),
        "sentences",
    )[0] * found.facts.per_batch[0] / found.facts.sizes[0]  # fmt: skip
    assert first == pytest.approx(alone.item())
