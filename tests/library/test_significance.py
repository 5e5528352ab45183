"""The hierarchical bootstrap: sacreBLEU's own scores, few marks under the null, seeds and sentences both drawn."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import corpus_bleu
from pmd_lite.evaluation.significance import Difference, SentenceStats, bleu_of, paired_bootstrap, sentence_stats

LENGTH = 12
System = list[list[SentenceStats]]

sentence = st.lists(st.sampled_from(list("abcde.")), max_size=9).map(" ".join)
lines = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=5)


def translations(rng: np.random.Generator, quality: np.ndarray) -> SentenceStats:
    """Statistics of translations of 12 words, each right with the probability of its sentence, quality [sentence]."""
    right = rng.random((len(quality), LENGTH)) < quality[:, None]
    windows = [np.lib.stride_tricks.sliding_window_view(right, k, axis=1).all(axis=2).sum(axis=1) for k in range(1, 5)]
    sizes = np.tile([LENGTH, LENGTH - 1, LENGTH - 2, LENGTH - 3, LENGTH, LENGTH], (len(quality), 1))
    return np.column_stack([*windows, sizes])


def system(rng: np.random.Generator, qualities: list[np.ndarray], seeds: int, gain: float = 0.0) -> System:
    return [[translations(rng, quality + gain) for quality in qualities] for _ in range(seeds)]


def qualities(rng: np.random.Generator, pairs: int = 2, sentences: int = 60) -> list[np.ndarray]:
    return [rng.uniform(0.4, 0.9, sentences) for _ in range(pairs)]


def constant(matches: int, sentences: int = 4) -> SentenceStats:
    """The same statistics for every sentence, so that drawing sentences changes nothing."""
    return np.tile([matches, matches - 1, matches - 2, matches - 3, 12, 11, 10, 9, 12, 12], (sentences, 1))


def bleu(stats: SentenceStats) -> float:
    return float(bleu_of(stats.sum(axis=0)))


# ---------------------------------------------------------------- statistics and BLEU
@given(lines)
@settings(deadline=None)
def test_summed_statistics_give_sacrebleus_corpus_score(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = [h for h, _ in pairs], [r for _, r in pairs]
    stats = sentence_stats(hyps, refs, "tr")
    assert stats.shape == (len(pairs), 10) and stats.dtype == np.int64
    assert bleu(stats) == pytest.approx(corpus_bleu(hyps, refs, "tr").bleu, abs=1e-9)


@pytest.mark.parametrize(
    ("hyp", "ref"),
    [
        ("a b c d e", "a b c d e"),
        ("a x b y c", "a b c d e"),  # no 2-, 3- and 4-gram: 1/2, 1/4 and 1/8 of a match
        ("a b x c d", "a b c d e f g h"),  # short, and without 3- and 4-gram
        ("x y z w v", "a b c d e"),  # no match at all
        ("a b c", "a b c"),  # too short for a 4-gram
        ("", "a b c d"),
    ],
)
def test_smoothing_is_sacrebleus(hyp: str, ref: str) -> None:
    assert bleu(sentence_stats([hyp], [ref], "en")) == pytest.approx(corpus_bleu([hyp], [ref], "en").bleu, abs=1e-9)


def test_statistics_by_hand() -> None:
    assert sentence_stats(["a b x c d"], ["a b c d e f"], "en").tolist() == [[4, 2, 0, 0, 5, 4, 3, 2, 5, 6]]


def test_bleu_keeps_every_leading_axis() -> None:
    rng = np.random.default_rng(0)
    stats = np.stack([translations(rng, q) for q in qualities(rng, pairs=3)]).sum(axis=1).reshape(3, 1, 10)
    assert bleu_of(stats).shape == (3, 1)
    assert bleu_of(stats).ravel().tolist() == pytest.approx([float(bleu_of(row)) for row in stats[:, 0]])


def test_the_tokenizer_follows_the_language() -> None:
    assert sentence_stats(["我喜欢茶"], ["我喜欢水"], "zh")[0, :5].tolist() == [3, 2, 1, 0, 4]
    assert sentence_stats(["我喜欢茶"], ["我喜欢水"], "en")[0, 4] == 1


def test_statistics_are_taken_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        sentence_stats(["a b c d"], ["a b c d"], "en")
    assert not caplog.records


def test_statistics_need_as_many_references_as_translations() -> None:
    with pytest.raises(UserError, match="2 translations but 1 references"):
        sentence_stats(["a", "b"], ["a"], "en")


# ---------------------------------------------------------------- what the bootstrap answers
@pytest.mark.parametrize("seeds", [1, 3])
def test_equally_good_systems_are_rarely_marked(seeds: int) -> None:
    p_values = []
    for trial in range(60):
        rng = np.random.default_rng(trial)
        hard = qualities(rng)
        found = paired_bootstrap(system(rng, hard, seeds), system(rng, hard, seeds), n=200, seed=trial)
        p_values.append(found.p_value)
    p = np.array(p_values)
    assert (p < 0.05).mean() <= 0.12
    assert 0.2 < (p < 0.5).mean() < 0.7 and p.min() < 0.2  # and p is not merely always large


def test_a_clear_difference_is_found_in_both_directions() -> None:
    rng = np.random.default_rng(1)
    hard = qualities(rng)
    worse, better = system(rng, hard, 3), system(rng, hard, 3, gain=0.1)
    up, down = paired_bootstrap(worse, better), paired_bootstrap(better, worse)
    assert up.mark == "▲" and up.p_value == pytest.approx(2 / 1001) and 0 < up.low < up.delta < up.high
    assert down.mark == "▼" and down.p_value == up.p_value
    assert (down.delta, down.low, down.high) == pytest.approx((-up.delta, -up.high, -up.low))


def test_delta_is_the_mean_over_pairs_and_seeds_of_corpus_bleu() -> None:
    rng = np.random.default_rng(2)
    hard = qualities(rng, pairs=3)
    a, b = system(rng, hard, 2), system(rng, hard, 2)
    gains = [[bleu(b[s][p]) - bleu(a[s][p]) for p in range(3)] for s in range(2)]
    assert paired_bootstrap(a, b, n=50).delta == pytest.approx(np.mean(gains))


def test_groups_of_pairs_are_tested_apart() -> None:
    rng = np.random.default_rng(3)
    hard = qualities(rng)
    a = system(rng, hard, 3)
    b = [[first, better] for (first, _), (_, better) in zip(a, system(rng, hard, 3, gain=0.1), strict=True)]
    first, second = ([[[model[pair]] for model in system] for system in (a, b)] for pair in (0, 1))
    assert paired_bootstrap(*first) == Difference(0.0, 0.0, 0.0, 1.0)
    assert paired_bootstrap(*second).mark == "▲"


def test_a_system_equals_itself_and_its_seeds_in_another_order() -> None:
    rng = np.random.default_rng(4)
    a = system(rng, qualities(rng), 3)
    same = paired_bootstrap(a, a)
    assert same == Difference(0.0, 0.0, 0.0, 1.0) and same.mark == ""
    turned = paired_bootstrap(a, [a[1], a[2], a[0]])
    assert turned.delta == pytest.approx(0, abs=1e-9) and turned.mark == ""


def test_systems_that_differ_in_one_sentence_cannot_be_told_apart() -> None:
    a, b = constant(10, 30), constant(10, 30)
    b[0, :4] += 1
    found = paired_bootstrap([[a]], [[b]], n=2000)
    assert found.p_value == pytest.approx(2 * (29 / 30) ** 30, abs=0.07)  # the sentence is not drawn at all
    assert found.low == 0 and found.delta > 0 and found.mark == ""


def test_the_same_arguments_give_the_same_numbers_and_another_seed_others() -> None:
    rng = np.random.default_rng(5)
    hard = qualities(rng)
    a, b = system(rng, hard, 3), system(rng, hard, 3)
    assert paired_bootstrap(a, b) == paired_bootstrap(a, b)
    assert paired_bootstrap(a, b).low != paired_bootstrap(a, b, seed=1).low


def test_marks_begin_below_one_in_twenty() -> None:
    marks = [Difference(delta, 0, 0, p).mark for delta, p in [(1, 0.049), (-1, 0.049), (1, 0.05), (-1, 1.0)]]
    assert marks == ["▲", "▼", "", ""]


# ---------------------------------------------------------------- what is drawn
def test_seeds_are_drawn_in_pairs_and_one_fewer_than_there_are() -> None:
    a = [[constant(8)], [constant(8)], [constant(8)]]
    b = [[constant(7)], [constant(9)], [constant(11)]]
    gains = [bleu(b[s][0]) - bleu(a[s][0]) for s in range(3)]
    found = paired_bootstrap(a, b)
    assert (found.low, found.high) == pytest.approx((min(gains), max(gains)))  # twice the same seed: 1/9 > 2.5 %
    below = sum(g + h <= 0 for g, h in itertools.product(gains, repeat=2)) / 9  # all draws of two seeds
    assert found.p_value == pytest.approx(2 * min(below, 1 - below), abs=0.08)


def test_a_seed_keeps_its_partner() -> None:
    levels = [6, 8, 11]  # seeds differ by far more than the systems
    a, b = [[constant(k)] for k in levels], [[constant(k + 1)] for k in levels]
    found = paired_bootstrap(a, b)
    gains = [bleu(y) - bleu(x) for (x,), (y,) in zip(a, b, strict=True)]
    assert (found.low, found.high) == pytest.approx((min(gains), max(gains))) and found.mark == "▲"


def test_all_seeds_get_the_same_sentences_and_pairs_get_their_own() -> None:
    rng = np.random.default_rng(6)
    (hard,) = qualities(rng, pairs=1)
    a, b = translations(rng, hard), translations(rng, hard)

    def width(seeds: int, pairs: int) -> float:
        found = paired_bootstrap([[a] * pairs] * seeds, [[b] * pairs] * seeds, n=2000)
        return found.high - found.low

    assert width(3, 1) / width(1, 1) == pytest.approx(1, abs=0.12)  # drawn apart, it would be 0.58 or more
    assert width(1, 3) / width(1, 1) == pytest.approx(3**-0.5, abs=0.12)


def test_a_test_set_of_one_sentence_leaves_nothing_to_draw() -> None:
    found = paired_bootstrap([[constant(8, 1)]], [[constant(9, 1)]], n=100)
    assert found.low == pytest.approx(found.delta) and found.high == pytest.approx(found.delta)


def test_order_of_pairs_and_of_sentences_does_not_change_the_difference() -> None:
    rng = np.random.default_rng(7)
    hard = qualities(rng)
    a, b = system(rng, hard, 2), system(rng, hard, 2)
    order = rng.permutation(60)

    def turned(s: System) -> System:
        return [[stats[order] for stats in reversed(model)] for model in s]

    assert paired_bootstrap(turned(a), turned(b)).delta == pytest.approx(paired_bootstrap(a, b).delta)


# ---------------------------------------------------------------- mistakes
def test_what_cannot_be_compared_is_refused() -> None:
    one, other = constant(8), constant(9)
    with pytest.raises(UserError, match="2 seeds against 1"):
        paired_bootstrap([[one], [one]], [[other]])
    with pytest.raises(UserError, match="0 seeds"):
        paired_bootstrap([], [])
    with pytest.raises(UserError, match="Model 2 has 2 pairs, the first has 1"):
        paired_bootstrap([[one]], [[other, other]])
    with pytest.raises(UserError, match="0 pairs"):
        paired_bootstrap([[]], [[]])
    with pytest.raises(UserError, match=r"shape \(5, 10\) beside \(4, 10\)"):
        paired_bootstrap([[one]], [[constant(9, 5)]])
    with pytest.raises(UserError, match="at least one"):
        paired_bootstrap([[one[:0]]], [[other[:0]]])
    with pytest.raises(UserError, match=r"shape \(4, 9\)"):
        paired_bootstrap([[one]], [[other[:, 1:]]])
    with pytest.raises(UserError, match="references differ"):
        paired_bootstrap([[one]], [[other + 1]])
