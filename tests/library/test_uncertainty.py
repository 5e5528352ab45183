"""The seven measures of uncertainty that MultiUAT can be rewarded with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, variance
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import Uncertainty
from pmd_lite.interfaces import TokenStats
from pmd_lite.sampling.uncertainty import MEASURES, choose_measure, comtp, enteos, enttp, exptp, pretp, vartp

LOSS = 2.5  # what `random_stats` and `constant` put into TokenStats.loss
NAMES = list(MEASURES)


def layout(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """`sentence` and `is_eos` [tokens] of sentences of these lengths."""
    sentence = torch.tensor([s for s, length in enumerate(lengths) for _ in range(length)])
    return sentence, torch.tensor([t == length - 1 for length in lengths for t in range(length)])


def constant(lengths: Sequence[int], log_top1: float, entropy: float, passes: int = 3) -> TokenStats:
    """A model that is equally sure of every token."""
    ones = torch.ones(passes, sum(lengths), dtype=torch.float64)
    return TokenStats(log_top1 * ones, entropy * ones, *layout(lengths), LOSS)


def random_stats(lengths: Sequence[int], passes: int, vocab: int, seed: int) -> TokenStats:
    """The statistics that a model with random logits would give."""
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(passes, sum(lengths), vocab, generator=rng, dtype=torch.float64)
    logp = logits.log_softmax(-1)
    return TokenStats(logp.max(-1).values, -(logp.exp() * logp).sum(-1), *layout(lengths), LOSS)


def reorder(stats: TokenStats, tokens: Tensor) -> TokenStats:
    """The tokens [tokens] of `stats`, in this order."""
    return TokenStats(
        stats.log_top1[:, tokens], stats.entropy[:, tokens], stats.sentence[tokens], stats.is_eos[tokens], stats.loss
    )


def only_passes(stats: TokenStats, passes: Sequence[int]) -> TokenStats:
    """Some of the passes of `stats`, some perhaps more than once."""
    rows = list(passes)
    return TokenStats(stats.log_top1[rows], stats.entropy[rows], stats.sentence, stats.is_eos, stats.loss)


def plain(name: str, stats: TokenStats) -> float:
    """The definitions, one sentence and one pass at a time."""
    ids, ends = stats.sentence.tolist(), stats.is_eos.tolist()
    passes = zip(stats.log_top1.tolist(), stats.entropy.tolist(), strict=True)
    return fmean(plain_pass(name, log_m, entropy, ids, ends, stats.loss) for log_m, entropy in passes)


def plain_pass(
    name: str, log_m: list[float], entropy: list[float], ids: list[int], ends: list[bool], loss: float
) -> float:
    sentences = [[x for x, i in zip(log_m, ids, strict=True) if i == s] for s in sorted(set(ids))]
    long = [s for s in sentences if len(s) > 1]
    return {
        "pretp": lambda: 1 - fmean(math.exp(sum(s)) for s in sentences),
        "exptp": lambda: 1 - fmean(math.exp(fmean(s)) for s in sentences),
        "vartp": lambda: fmean(variance(s) for s in long) if long else 0.0,
        "comtp": lambda: 1 - fmean(math.exp(variance(s) / fmean(s)) for s in long) if long else 0.0,
        "enttp": lambda: fmean(entropy),
        "enteos": lambda: fmean(h for h, end in zip(entropy, ends, strict=True) if end),
        "xentropy": lambda: loss,
    }[name]()


some_lengths = st.lists(st.integers(1, 6), min_size=1, max_size=5)
some_stats = st.builds(random_stats, some_lengths, st.integers(1, 4), st.integers(2, 9), st.integers(0, 10**6))


# ---------------------------------------------------------------- exact values


@pytest.mark.parametrize("vocab", [2, 10, 8000])
@pytest.mark.parametrize("lengths", [(1,), (3,), (1, 2, 5)])
def test_a_model_that_knows_nothing(lengths: tuple[int, ...], vocab: int) -> None:
    stats = constant(lengths, -math.log(vocab), math.log(vocab))
    assert exptp(stats) == pytest.approx(1 - 1 / vocab)
    assert enttp(stats) == pytest.approx(math.log(vocab), rel=1e-12)
    assert enteos(stats) == pytest.approx(math.log(vocab), rel=1e-12)
    assert vartp(stats) == pytest.approx(0, abs=1e-12)
    assert comtp(stats) == pytest.approx(0, abs=1e-12)
    assert pretp(stats) == pytest.approx(1 - fmean(vocab**-length for length in lengths))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "xentropy"])
@pytest.mark.parametrize("lengths", [(1,), (3,), (1, 2, 5)])
def test_a_model_that_is_certain_has_no_uncertainty(name: str, lengths: tuple[int, ...]) -> None:
    assert MEASURES[name](constant(lengths, 0.0, 0.0)) == 0


def test_a_certain_sentence_beside_an_uncertain_one_counts_as_stable() -> None:
    two, zero = math.log(2), 0.0
    stats = TokenStats(torch.tensor([[-two, -2 * two, zero, zero]]), torch.zeros(1, 4), *layout((2, 2)), LOSS)
    assert comtp(stats) == pytest.approx(1 - (math.exp(-two / 3) + 1) / 2)


def test_two_sentences_by_hand() -> None:
    """m = (1/2, 1/4) and (1/2); entropies 1, 2 and 6."""
    two = math.log(2)
    log_m = torch.tensor([[-two, -2 * two, -two]], dtype=torch.float64)
    stats = TokenStats(log_m, torch.tensor([[1.0, 2.0, 6.0]]), *layout((2, 1)), LOSS)
    expected = {
        "pretp": 1 - (1 / 8 + 1 / 2) / 2,
        "exptp": 1 - (math.sqrt(1 / 8) + 1 / 2) / 2,
        "vartp": two**2 / 2,  # of the first sentence alone: the second has a single token
        "comtp": 1 - math.exp(-two / 3),
        "enttp": 3.0,  # (1 + 2 + 6) / 3, weighted by tokens; the mean over sentences would be 3.75
        "enteos": 4.0,  # (2 + 6) / 2
        "xentropy": LOSS,
    }
    assert {name: measure(stats) for name, measure in MEASURES.items()} == pytest.approx(expected, abs=1e-12)


def test_a_small_spread_around_a_large_value_is_not_lost_in_rounding() -> None:
    log_m = torch.tensor([[-12 - 1e-8, -12 + 1e-8]], dtype=torch.float64)
    stats = TokenStats(log_m, torch.zeros(1, 2), *layout((2,)), LOSS)
    assert vartp(stats) == pytest.approx(2e-16, rel=1e-5)


def test_a_very_long_sentence_saturates_the_probability_of_the_whole_but_not_the_geometric_mean() -> None:
    stats = constant((2000,), math.log(0.5), 1.0)
    assert pretp(stats) == 1.0
    assert exptp(stats) == pytest.approx(0.5)


# ---------------------------------------------------------------- properties


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(some_stats)
@settings(deadline=None, max_examples=30)
def test_every_measure_equals_its_definition_taken_sentence_by_sentence(name: str, stats: TokenStats) -> None:
    assert MEASURES[name](stats) == pytest.approx(plain(name, stats), rel=1e-9, abs=1e-12)


@given(some_lengths, st.integers(1, 4), st.integers(2, 9), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_every_measure_stays_in_its_range(lengths: list[int], passes: int, vocab: int, seed: int) -> None:
    stats, tiny = random_stats(lengths, passes, vocab, seed), 1e-12
    top = {"pretp": 1.0, "exptp": 1 - 1 / vocab, "vartp": math.inf, "comtp": 1.0, "enttp": math.log(vocab),
           "enteos": math.log(vocab), "xentropy": math.inf}  # fmt: skip
    for name, measure in MEASURES.items():
        assert -tiny <= measure(stats) <= top[name] + tiny, name
    assert 0 < comtp(stats, official_sign=True) <= 1


@pytest.mark.parametrize("name", NAMES)
@given(some_stats, st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_neither_the_order_nor_the_names_of_the_sentences_matter(name: str, stats: TokenStats, seed: int) -> None:
    # A random order of all tokens mixes those of different sentences, too.
    moved = reorder(stats, torch.randperm(len(stats.sentence), generator=torch.Generator().manual_seed(seed)))
    renamed = TokenStats(moved.log_top1, moved.entropy, 100 - 7 * moved.sentence, moved.is_eos, moved.loss)
    assert MEASURES[name](renamed) == pytest.approx(MEASURES[name](stats), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(some_lengths, st.integers(1, 4), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_the_value_is_the_mean_over_the_passes(name: str, lengths: list[int], passes: int, seed: int) -> None:
    stats, measure = random_stats(lengths, passes, 5, seed), MEASURES[name]
    one_by_one = [measure(only_passes(stats, [k])) for k in range(passes)]
    assert measure(stats) == pytest.approx(fmean(one_by_one), rel=1e-9, abs=1e-12)
    # Without dropout all passes are equal, and their number does not matter.
    assert measure(only_passes(stats, [0] * 7)) == pytest.approx(one_by_one[0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("measure", [vartp, comtp])
@given(st.lists(st.integers(2, 6), min_size=1, max_size=4), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_sentences_of_one_token_have_no_spread_to_count(
    measure: Callable[[TokenStats], float], lengths: list[int], seed: int
) -> None:
    stats = random_stats([1, *lengths, 1], 2, 5, seed)
    long_only = reorder(stats, torch.arange(1, sum(lengths) + 1))
    assert measure(stats) == pytest.approx(measure(long_only), rel=1e-9, abs=1e-12)


def test_without_any_longer_sentence_the_spread_is_zero() -> None:
    stats = random_stats([1, 1, 1], 2, 5, seed=1)
    assert (vartp(stats), comtp(stats), comtp(stats, official_sign=True)) == (0.0, 0.0, 1.0)


def test_the_official_sign_of_comtp_rewards_the_steadier_model() -> None:
    steady = TokenStats(torch.tensor([[-1.0, -1.1]]), torch.zeros(1, 2), *layout((2,)), LOSS)
    restless = TokenStats(torch.tensor([[-0.1, -2.0]]), torch.zeros(1, 2), *layout((2,)), LOSS)
    assert comtp(steady) < comtp(restless)
    assert comtp(steady, official_sign=True) > comtp(restless, official_sign=True)
    assert comtp(restless, official_sign=True) == pytest.approx(1 - comtp(restless))


# ---------------------------------------------------------------- the table


def test_the_table_has_exactly_the_names_that_the_config_accepts() -> None:
    assert set(MEASURES) == set(get_args(Uncertainty))


@pytest.mark.parametrize("name", NAMES)
def test_the_official_sign_changes_comtp_alone(name: str) -> None:
    stats = random_stats([2, 3, 4], 2, 5, seed=2)
    plain_value, official = choose_measure(name)(stats), choose_measure(name, official_sign=True)(stats)
    assert plain_value == MEASURES[name](stats)
    assert official == pytest.approx(1 - plain_value if name == "comtp" else plain_value)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_statistics_are_reduced_in_float64(name: str) -> None:
    stats = random_stats([2, 3, 400], 2, 5, seed=3)
    small = TokenStats(stats.log_top1.float(), stats.entropy.float(), stats.sentence, stats.is_eos, stats.loss)
    widened = TokenStats(small.log_top1.double(), small.entropy.double(), stats.sentence, stats.is_eos, stats.loss)
    assert MEASURES[name](small) == MEASURES[name](widened)
