"""CCL-M-style sampling: who resembles whom, how well a pair is mastered, who may join, and what is drawn."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.interfaces import Clock
from pmd_lite.sampling.ccl_m import CCLMSampler, competences, piece_similarity, relatives_competence
from pmd_lite.sampling.schedule import PairSchedule

SIZES = (100, 400, 200, 300)  # the larger half is 1, 3


def f64(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


SIMILARITY = f64([[1, 0.1, 0.5, 0.6], [0.1, 1, 0.3, 0.2], [0.5, 0.3, 1, 0.1], [0.6, 0.2, 0.1, 1]])  # 0: to 3; 2: to 1


@dataclass
class FakeProbe:
    """Dev losses from a table."""

    clock: Clock
    dev: Sequence[Sequence[float]]

    def dev_loss(self, student: int) -> Tensor:
        return f64(self.dev[student])


def probe(step: int, losses: Sequence[float], total: int = 1000) -> FakeProbe:
    return FakeProbe(Clock(step, total, 100), [losses])


def make(bilingual: Sequence[float] = (0, 0, 0, 0), **options: Any) -> CCLMSampler:
    return CCLMSampler(SIZES, f64(bilingual), SIMILARITY, SamplingConfig(**options))


def losses_of(c: Sequence[float]) -> list[float]:
    """Dev losses that make these competences against H* = 0."""
    return [-math.log(x) for x in c]


# ---------------------------------------------------------------- similarity


def test_similarity_is_the_share_of_the_most_frequent_pieces_in_common() -> None:
    counts = [{1: 9, 2: 8, 3: 7}, {2: 5, 3: 4, 1: 1}, {7: 5, 8: 5, 1: 4}]  # top 2: {1, 2}, {2, 3}, {7, 8}
    expected = f64([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    assert torch.equal(piece_similarity(counts, 2), expected)


def test_of_equally_frequent_pieces_the_smaller_ids_count() -> None:
    counts = [{5: 1, 4: 1, 3: 1, 9: 2}, {3: 1}]  # top 2 of the first: 9 and 3
    assert piece_similarity(counts, 2).tolist() == [[1.0, 0.5], [0.5, 0.5]]


def test_a_piece_that_never_occurs_makes_nobody_similar() -> None:
    assert piece_similarity([{1: 3, 2: 0}, {2: 0, 3: 1}], 2)[0, 1] == 0


COUNTS = st.lists(st.dictionaries(st.integers(0, 30), st.integers(1, 5), min_size=5), min_size=1, max_size=6)


@given(COUNTS, st.integers(1, 5), st.randoms(use_true_random=False))
@settings(deadline=None)
@pytest.mark.slow
def test_similarity_is_symmetric_one_with_oneself_and_follows_a_permutation(
    counts: list[dict[int, int]], top_k: int, random: Any
) -> None:
    found = piece_similarity(counts, top_k)
    assert torch.equal(found, found.T)
    assert found.diagonal().tolist() == [1.0] * len(counts)
    assert float(found.min()) >= 0 and float(found.max()) <= 1
    order = list(range(len(counts)))
    random.shuffle(order)
    shuffled = [dict(sorted(counts[i].items(), key=lambda item: -item[0])) for i in order]
    assert torch.equal(piece_similarity(shuffled, top_k), found[order][:, order])


# ---------------------------------------------------------------- competence


def test_competence_is_1_at_the_bilingual_loss_and_half_that_a_bit_above_it() -> None:
    bilingual = f64([2.0, 2.0, 2.0])
    c = competences(f64([2.0, 2.0 + math.log(2), 2.0 - math.log(2)]), bilingual)
    assert c.tolist() == pytest.approx([1, 0.5, 2], rel=1e-12), "and it is not clipped at 1"


def test_max_asks_the_most_similar_large_pair_even_if_it_is_the_less_competent() -> None:
    c = f64([0.0, 0.9, 0.0, 0.3])
    found = relatives_competence(c, SIMILARITY, [1, 3], "max")
    assert (float(found[0]), float(found[2])) == (0.3, 0.9)


def test_avg_weighs_the_large_pairs_by_similarity() -> None:
    c = f64([0.0, 0.9, 0.0, 0.3])
    found = relatives_competence(c, SIMILARITY, [1, 3], "avg")
    assert float(found[0]) == pytest.approx((0.1 * 0.9 + 0.6 * 0.3) / 0.7, rel=1e-12)
    assert float(found[2]) == pytest.approx((0.3 * 0.9 + 0.1 * 0.3) / 0.4, rel=1e-12)


def test_a_pair_that_resembles_no_large_one_gets_the_plain_mean_or_the_largest() -> None:
    c, alone = f64([0.0, 0.9, 0.0, 0.3]), torch.eye(4, dtype=torch.float64)
    assert float(relatives_competence(c, alone, [1, 3], "avg")[0]) == pytest.approx(0.6, rel=1e-12)
    assert float(relatives_competence(c, alone, [1, 3], "max")[0]) == 0.9
    assert float(relatives_competence(c, alone, [3, 1], "max")[0]) == 0.3


SHARES = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(SHARES, st.lists(SHARES, min_size=4, max_size=4))
@example([0.0, 0.0, 0.75, 0.0], [[0.0] * 4, [0.0] * 4, [0.0] * 4, [0.0, 0.0, 5e-324, 0.0]])
@settings(deadline=None)
def test_relatives_are_as_competent_as_something_between_the_worst_and_the_best(
    c: list[float], similarity: list[list[float]]
) -> None:
    average = relatives_competence(f64(c), f64(similarity), [0, 2], "avg")
    low, high = min(c[0], c[2]), max(c[0], c[2])
    assert bool(((average >= low - 1e-12) & (average <= high + 1e-12)).all())
    best = relatives_competence(f64(c), f64(similarity), [0, 2], "max").tolist()
    assert set(best) <= {c[0], c[2]}


# ---------------------------------------------------------------- the sampler


def test_it_begins_with_the_larger_half_in_proportion_to_size() -> None:
    assert make().probabilities().tolist() == pytest.approx([0, 4 / 7, 0, 3 / 7], rel=1e-12)
    assert make().probabilities().tolist()[::2] == [0.0, 0.0]


def test_probabilities_are_proportional_to_one_over_competence_and_0_for_those_that_wait() -> None:
    sampler = make(ccl_threshold=2.0)
    events = sampler.update(0, probe(100, losses_of([0.1, 0.5, 0.1, 1.0])))
    assert sampler.probabilities().tolist() == pytest.approx([0, 2 / 3, 0, 1 / 3], rel=1e-12)
    assert sampler.probabilities().tolist()[::2] == [0.0, 0.0]
    (event,) = events
    assert (event["event"], event["step"], event["student"]) == ("ccl-m", 100, 0)
    assert event["competence"] == pytest.approx([0.1, 0.5, 0.1, 1.0], rel=1e-12)
    assert event["active"] == [False, True, False, True]


def test_each_student_is_judged_by_its_own_losses_against_the_bilingual_ones() -> None:
    bilingual = [1.0, 2.0, 3.0, 4.0]
    sampler = make(bilingual, ccl_threshold=2.0)
    dev = [[9.0] * 4, [1.0, 2.0 + math.log(3), 3.0, 4.0]]
    (event,) = sampler.update(1, FakeProbe(Clock(100, 1000, 100), dev))
    assert event["student"] == 1
    assert event["competence"] == pytest.approx([1, 1 / 3, 1, 1], rel=1e-12)
    assert sampler.probabilities().tolist() == pytest.approx([0, 3 / 4, 0, 1 / 4], rel=1e-12)


def test_a_small_pair_joins_when_its_relative_reaches_the_threshold() -> None:
    sampler = make(ccl_threshold=0.8)
    sampler.update(0, probe(100, losses_of([0.25, 0.5, 0.1, 0.801])))  # pair 0 resembles pair 3, pair 2 pair 1
    assert sampler.probabilities()[0] > 0 and sampler.probabilities()[2] == 0
    weights = [1 / 0.25, 1 / 0.5, 0, 1 / 0.801]
    assert sampler.probabilities().tolist() == pytest.approx([w / sum(weights) for w in weights], rel=1e-9)
    exact = make(ccl_threshold=1.0)
    exact.update(0, probe(100, [5.0, 0.0, 5.0, 0.1]))
    assert (exact.probabilities() > 0).tolist() == [False, True, True, True], "c = 1 reaches a threshold of 1"


def test_the_rule_decides_who_joins() -> None:
    c = [0.1, 0.95, 0.1, 0.7]  # pair 0: max asks pair 3 (0.7), avg gives 0.7357; pair 2: 0.95 and 0.8875
    joined = {}
    for rule in ("max", "avg"):
        sampler = make(ccl_rule=rule, ccl_threshold=0.72)
        sampler.update(0, probe(100, losses_of(c)))
        joined[rule] = (sampler.probabilities() > 0).tolist()
    assert joined == {"max": [False, True, True, True], "avg": [True, True, True, True]}


def test_who_has_joined_stays() -> None:
    sampler = make(ccl_threshold=0.8)
    sampler.update(0, probe(100, losses_of([0.1, 0.9, 0.1, 0.2])))
    sampler.update(0, probe(200, losses_of([0.1, 0.3, 0.1, 0.2])))
    assert (sampler.probabilities() > 0).tolist() == [False, True, True, True]


@given(st.lists(st.lists(st.floats(0.1, 3), min_size=4, max_size=4), min_size=1, max_size=6))
@settings(deadline=None)
def test_the_active_set_never_shrinks(looks: list[list[float]]) -> None:
    sampler, before = make(ccl_threshold=0.5), {1, 3}
    for k, losses in enumerate(looks):
        sampler.update(0, probe(10 * (k + 1), losses))
        p = sampler.probabilities()
        now = {pair for pair in range(4) if p[pair] > 0}
        assert before <= now
        assert float(p.sum()) == pytest.approx(1, abs=1e-12)
        before = now


@pytest.mark.parametrize(("step", "expected"), [(299, False), (300, True), (301, True)])
def test_after_waiting_long_enough_all_are_let_in(step: int, expected: bool) -> None:
    sampler = make(ccl_wait=0.3, ccl_threshold=0.8)
    sampler.update(0, probe(step, losses_of([0.1] * 4)))
    assert (sampler.probabilities() > 0).tolist() == [expected, True, expected, True]


def test_a_hopeless_loss_does_not_overflow() -> None:
    sampler = make(ccl_wait=0.0)
    sampler.update(0, probe(100, [2000.0, 1.0, 1.0, 1.0]))
    assert sampler.probabilities().tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("every", "expected"), [(0, [25, 35]), (10, [10, 20, 30, 35, 40]), (100, [35])])
def test_a_look_is_due_every_interval_and_when_the_waiting_ends(every: int, expected: list[int]) -> None:
    sampler = make(ccl_every=every, ccl_wait=0.7)
    assert [t for t in range(51) if sampler.due(Clock(t, 50, 25))] == expected


@given(st.permutations(range(4)), st.lists(st.floats(0.1, 3), min_size=4, max_size=4), st.sampled_from(["max", "avg"]))
@settings(deadline=None)
@pytest.mark.slow
def test_permuting_the_pairs_permutes_the_probabilities(order: list[int], losses: list[float], rule: str) -> None:
    config = SamplingConfig(ccl_rule=rule, ccl_threshold=0.5)  # type: ignore[arg-type]
    bilingual = f64([0.1, 0.2, 0.3, 0.4])
    plain = CCLMSampler(SIZES, bilingual, SIMILARITY, config)
    permuted = CCLMSampler([SIZES[i] for i in order], bilingual[order], SIMILARITY[order][:, order], config)
    for step in (100, 200):
        torch.testing.assert_close(permuted.probabilities(), plain.probabilities()[order], rtol=1e-12, atol=0)
        plain.update(0, probe(step, losses))
        permuted.update(0, probe(step, [losses[i] for i in order]))
    torch.testing.assert_close(permuted.probabilities(), plain.probabilities()[order], rtol=1e-12, atol=0)


def draws(sampler: CCLMSampler) -> list[int]:
    schedule = PairSchedule((1, 0, 2), "iid")
    return [schedule.next(sampler.probabilities()) for _ in range(100)]


def test_a_reloaded_sampler_goes_on_to_the_same_bits() -> None:
    original, resumed = make(ccl_threshold=0.8), make(ccl_threshold=0.8)
    original.update(0, probe(100, losses_of([0.1, 0.9, 0.1, 0.2])))  # pair 2 joins
    saved, file = original.state_dict(), io.BytesIO()
    torch.save(saved, file)
    expected = draws(original)
    resumed.load_state_dict(saved)
    assert draws(resumed) == expected
    later = probe(200, losses_of([0.1, 0.3, 0.1, 0.2]))
    assert original.update(0, later) == resumed.update(0, later)
    assert torch.equal(original.probabilities(), resumed.probabilities())
    again = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert all(torch.equal(saved[name], value) for name, value in again.items()), "a saved state is a copy"
    fresh = make(ccl_threshold=0.8)
    fresh.load_state_dict(again)
    assert draws(fresh) == expected


def test_probabilities_are_a_copy() -> None:
    sampler = make()
    before = sampler.probabilities()
    sampler.probabilities().fill_(9.0)
    assert torch.equal(sampler.probabilities(), before)
