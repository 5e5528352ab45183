"""Samplers that learn their probabilities: the scorer itself, and the rewards of MultiDDS-S and MultiUAT."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.config import SamplingConfig
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock, Probe, TokenStats
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.sampling.scorer import MultiDDSSampler, MultiUATSampler, ScorerSampler, scorer_loss
from pmd_lite.sampling.temperature import temperature_probabilities
from pmd_lite.sampling.uncertainty import MEASURES

HALF = Clock(step=100, total=200, epoch=50)
NEAR = 2e-3
"""How near to its resting point Adam comes with a learning rate of 0.05: it keeps hopping around it."""


def f64(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def close(found: Tensor, expected: Any, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=0, atol=atol)


class Rewarded(ScorerSampler):
    """A scorer whose rewards are given by hand."""

    given: Tensor

    def rewards(self, student: int, probe: Probe) -> Tensor:
        return self.given


@dataclass
class FakeProbe:
    """Answers from tables, and records what it was asked."""

    clock: Clock = HALF
    gradients: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """(split, pair) -> [parameters]."""
    stats: Sequence[TokenStats] = ()
    """[pair]."""
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def gradient(self, student: int, split: Literal["train", "valid"], pair: int, tokens: int) -> Tensor:
        self.asked.append((student, split, pair, tokens))
        return self.gradients[split, pair]

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        self.asked.append((student, pair, passes, tokens))
        return self.stats[pair]


def scorer(rewards: Sequence[float], start: Sequence[float] | None = None, **config: Any) -> Rewarded:
    """A scorer with these rewards; it starts at the shares `start`, or uniform."""
    sizes = [round(10**6 * share) for share in start] if start else [1] * len(rewards)
    made = Rewarded(sizes, SamplingConfig(**config))
    made.given = f64(rewards)
    return made


def gradient_of(psi: Tensor, rewards: Tensor, scaled: bool) -> Tensor:
    psi = psi.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(scorer_loss(psi, rewards, scaled), psi)
    return gradient


numbers = st.floats(-3, 3, allow_nan=False, width=32)
logits_and_rewards = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6).map(lambda rows: f64(rows).T)


# ---------------------------------------------------------------- the loss


@given(logits_and_rewards)
@settings(deadline=None)
def test_the_gradient_is_the_closed_form(both: Tensor) -> None:
    psi, rewards = both
    p = psi.softmax(0)
    close(gradient_of(psi, rewards, scaled=False), rewards.sum() * p - rewards)
    close(gradient_of(psi, rewards, scaled=True), -p * (rewards - p @ rewards))


@given(logits_and_rewards)
@settings(deadline=None)
def test_the_gradient_is_what_finite_differences_say(both: Tensor) -> None:
    """Scaled, the objective itself is -p.R: the expected reward of a pair drawn from p."""
    psi, rewards = both
    steps = 1e-5 * torch.eye(len(psi), dtype=torch.float64)
    differences = [scorer_loss(psi + e, rewards, False) - scorer_loss(psi - e, rewards, False) for e in steps]
    close(gradient_of(psi, rewards, scaled=False), torch.stack(differences) / 2e-5, atol=1e-8)
    expected = [(psi - e).softmax(0) @ rewards - (psi + e).softmax(0) @ rewards for e in steps]
    close(gradient_of(psi, rewards, scaled=True), torch.stack(expected) / 2e-5, atol=1e-8)


def test_the_loss_is_a_weighted_sum_of_surprisals() -> None:
    psi, rewards = f64([0.25, 0.75]).log(), f64([2.0, 4.0])
    assert scorer_loss(psi, rewards, False).item() == pytest.approx(-2 * math.log(0.25) - 4 * math.log(0.75))
    assert scorer_loss(psi, rewards, True).item() == pytest.approx(-0.5 * math.log(0.25) - 3 * math.log(0.75))


def test_equal_rewards_leave_equal_shares_where_they_are() -> None:
    psi, rewards = torch.zeros(4, dtype=torch.float64), f64([0.5] * 4)
    for scaled in (False, True):
        close(gradient_of(psi, rewards, scaled), [0.0] * 4, atol=1e-15)
    sampler = scorer([0.5] * 4)
    sampler.update(0, FakeProbe())
    close(sampler.probabilities(), [0.25] * 4)


# ---------------------------------------------------------------- the scorer


@pytest.mark.parametrize("sizes", [[5, 5, 5], [900, 90, 10], [10, 90, 900]])
@pytest.mark.parametrize("tau", [1.0, 5.0, math.inf])
def test_it_starts_at_temperature_sampling(sizes: list[int], tau: float) -> None:
    sampler = ScorerSampler(sizes, SamplingConfig(scorer_tau=tau))
    close(sampler.probabilities(), temperature_probabilities(sizes, tau))
    close(sampler.psi.detach(), temperature_probabilities(sizes, tau).log())


def test_a_share_that_underflows_keeps_a_finite_logit_and_can_come_back() -> None:
    sampler = Rewarded([1, 36], SamplingConfig(scorer_tau=1e-3, scorer_lr=10.0))
    sampler.given = f64([1.0, 0.0])
    sampler.update(0, FakeProbe())
    assert sampler.probabilities()[0] > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("start", [(0.2, 0.3, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.9, 0.09, 0.01), (0.01, 0.01, 0.98)])
def test_positive_rewards_become_the_shares_wherever_it_starts(start: tuple[float, ...]) -> None:
    sampler = scorer([0.2, 0.3, 0.5], start, scorer_lr=0.05, scorer_steps=1500)
    sampler.update(0, FakeProbe())
    close(sampler.probabilities(), [0.2, 0.3, 0.5], atol=NEAR)


def test_only_the_proportions_of_positive_rewards_matter_in_the_end() -> None:
    sampler = scorer([4.0, 6.0, 10.0], scorer_lr=0.05, scorer_steps=1500)
    sampler.update(0, FakeProbe())
    close(sampler.probabilities(), [0.2, 0.3, 0.5], atol=NEAR)


def test_scaled_the_best_rewarded_pair_takes_all() -> None:
    sampler = scorer([0.2, 0.3, 0.5], scorer_lr=0.05, scorer_steps=1500, scorer_scaled=True)
    sampler.update(0, FakeProbe())
    assert sampler.probabilities()[2] > 0.99


def test_without_rewards_a_fresh_scorer_stays_and_a_used_one_drifts_on() -> None:
    sampler = scorer([0.0, 0.0], (0.8, 0.2))
    start = sampler.probabilities()
    sampler.update(0, FakeProbe())
    assert torch.equal(sampler.probabilities(), start)
    sampler.given = f64([0.0, 1.0])
    sampler.update(0, FakeProbe())
    used = sampler.probabilities()
    sampler.given = f64([0.0, 0.0])
    sampler.update(0, FakeProbe())
    assert sampler.probabilities()[1] > used[1] > start[1], "Adam's momentum outlives the update"


def test_a_negative_reward_has_no_resting_point() -> None:
    sampler = scorer([0.2, 0.3, -0.1], scorer_lr=1e-2)
    shares = [sampler.probabilities()[2].item()]
    for _ in range(8):
        sampler.update(0, FakeProbe())
        shares.append(sampler.probabilities()[2].item())
    assert all(later < 0.9 * before for before, later in pairwise(shares))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_an_update_moves_a_logit_by_the_steps_times_the_learning_rate(scale: float) -> None:
    """The step-size trap: 200 steps of 1e-4 change a logit by 0.02, however large the rewards are."""
    sampler = scorer([scale, 0.0, 0.0], scorer_lr=1e-4, scorer_steps=200)
    before = sampler.psi.detach().clone()
    sampler.update(0, FakeProbe())
    moved = (sampler.psi.detach() - before).abs()
    assert moved.max() <= 0.0201
    assert moved.min() >= 0.0195


@pytest.mark.parametrize(("every", "expected"), [(40, [40, 80]), (0, [25, 50, 75])])
def test_when_an_update_is_due(every: int, expected: list[int]) -> None:
    sampler = scorer([1.0], scorer_every=every)
    assert [step for step in range(101) if sampler.due(Clock(step, 100, 25, start=10))] == expected


def test_an_update_reports_what_it_saw_and_decided() -> None:
    sampler = scorer([0.2, 0.8], scorer_steps=3)
    (event,) = sampler.update(1, FakeProbe())
    p = sampler.probabilities().tolist()
    assert event == {"event": "scorer", "step": 100, "student": 1, "rewards": [0.2, 0.8], "p": p}
    assert p[1] > 0.5 > p[0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.booleans())
@settings(deadline=None, max_examples=30)
def test_whatever_the_rewards_probabilities_are_finite_and_sum_to_1(rewards: list[float], scaled: bool) -> None:
    sampler = scorer(rewards, scorer_steps=5, scorer_lr=0.5, scorer_scaled=scaled)
    for _ in range(3):
        sampler.update(0, FakeProbe())
        p = sampler.probabilities()
        assert p.dtype == torch.float64 and bool((p >= 0).all())
        assert p.sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_model_that_diverged_is_reported_and_changes_nothing(reward: float) -> None:
    sampler = scorer([0.5, reward])
    before = sampler.state_dict()
    with pytest.raises(UserError, match=r"student 1 .* at step 100: training has diverged"):
        sampler.update(1, FakeProbe())
    assert torch.equal(sampler.psi, before["psi"]) and sampler.adam.state_dict() == before["adam"]


def test_an_update_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    scorer([0.2, 0.8]).update(0, FakeProbe())
    assert torch.equal(torch.get_rng_state(), before)


def test_probabilities_are_a_copy() -> None:
    sampler = scorer([0.2, 0.8])
    sampler.probabilities().fill_(9.0)
    assert sampler.probabilities().tolist() == [0.5, 0.5]


# ---------------------------------------------------------------- MultiDDS-S


def gradient_probe(dev: Sequence[Tensor], train: Sequence[Tensor]) -> FakeProbe:
    rows = {("valid", j): g for j, g in enumerate(dev)} | {("train", i): g for i, g in enumerate(train)}
    return FakeProbe(gradients=rows)


def dds(n: int, **config: Any) -> MultiDDSSampler:
    return MultiDDSSampler([1] * n, SamplingConfig(**config))


def quadratic_gradient(theta: Tensor, centre: Sequence[float], curvature: float) -> Tensor:
    """Gradient of curvature/2 |theta - centre|^2."""
    return curvature * (theta - f64(centre))


def test_the_reward_is_the_mean_cosine_of_quadratic_losses_worked_out_by_hand() -> None:
    theta = f64([1.0, 1.0])
    # Dev gradients point along (1, 0), (0, 1) and (1, 1); train gradients along (1, 0), (-3, 4) and (-1, -1).
    dev = [quadratic_gradient(theta, c, 2.0) for c in ([0.0, 1.0], [1.0, -4.0], [0.0, 0.0])]
    train = [quadratic_gradient(theta, c, 0.5) for c in ([-7.0, 1.0], [4.0, -3.0], [3.0, 3.0])]
    root = math.sqrt(0.5)
    expected = [(1 + 0 + root) / 3, (-0.6 + 0.8 + 0.2 * root) / 3, (-root - root - 1) / 3]
    close(dds(3).rewards(0, gradient_probe(dev, train)), expected, atol=1e-9)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6))
@settings(deadline=None)
def test_the_reward_equals_the_mean_of_all_pairwise_cosines(n: int, size: int, seed: int) -> None:
    dev, train = torch.randn(2, n, size, generator=torch.Generator().manual_seed(seed))
    cosines = torch.cosine_similarity(train[:, None].double(), dev[None].double(), dim=-1)  # [train, dev]
    found = dds(n).rewards(0, gradient_probe(list(dev), list(train)))
    close(found, cosines.mean(1), atol=1e-6)
    assert found.abs().max() <= 1 + 1e-12


@given(st.integers(0, 10**6), st.floats(1e-3, 1e12), st.integers(0, 3), st.sampled_from(["train", "valid"]))
@settings(deadline=None)
def test_rescaling_a_loss_changes_no_reward(seed: int, factor: float, pair: int, split: str) -> None:
    dev, train = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(seed))
    probe = gradient_probe(list(dev), list(train))
    before = dds(4).rewards(0, probe)
    probe.gradients[split, pair] = factor * probe.gradients[split, pair]
    close(dds(4).rewards(0, probe), before, atol=1e-6)


def test_gradients_whose_squares_overflow_in_single_precision_are_compared_all_the_same() -> None:
    huge, tiny = torch.tensor([3e30, 4e30]), torch.tensor([3.0, -4.0])
    close(dds(2).rewards(0, gradient_probe([huge, huge], [huge, tiny])), [1.0, -7 / 25], atol=1e-6)


def test_a_gradient_of_zero_is_worth_nothing_and_adds_nothing() -> None:
    one, none = f64([0.0, 2.0]), torch.zeros(2)
    close(dds(2).rewards(0, gradient_probe([one, none], [one, none])), [0.5, 0.0], atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_gradient_is_asked_for_once(n: int) -> None:
    probe = gradient_probe([f64([1.0])] * n, [f64([1.0])] * n)
    dds(n, probe_tokens=77, scorer_steps=2).update(1, probe)
    assert len(probe.asked) == 2 * n
    assert set(probe.asked) == {(1, split, pair, 77) for split in ("train", "valid") for pair in range(n)}


def test_a_pair_that_helps_is_sampled_more_and_one_that_harms_less() -> None:
    good, bad, other = f64([1.0, 0.2]), f64([-1.0, 0.0]), f64([0.0, 1.0])
    sampler = dds(3)
    (event,) = sampler.update(0, gradient_probe([good, good, good], [good, bad, other]))
    p = sampler.probabilities()
    assert p[0] > p[2] > p[1] and event["rewards"][0] == pytest.approx(1, abs=1e-9)


# ---------------------------------------------------------------- MultiUAT


def token_stats(seed: int) -> TokenStats:
    """Two passes over three sentences of three tokens, vocabulary 7."""
    logp = (2 * torch.randn(2, 9, 7, generator=torch.Generator().manual_seed(seed))).log_softmax(-1)
    sentence = torch.arange(9) // 3
    return TokenStats(
        logp.max(-1).values, -(logp.exp() * logp).sum(-1), sentence, torch.arange(9) % 3 == 2, 1.0 + seed % 5
    )


def uat(n: int, **config: Any) -> MultiUATSampler:
    return MultiUATSampler([1] * n, SamplingConfig(**config))


@pytest.mark.parametrize("name", list(MEASURES))
def test_the_reward_is_the_measure_of_each_pair(name: Any) -> None:
    stats = [token_stats(seed) for seed in range(3)]
    found = uat(3, uncertainty=name).rewards(0, FakeProbe(stats=stats))
    assert found.tolist() == [MEASURES[name](s) for s in stats]
    assert len(set(found.tolist())) == 3 and found.dtype == torch.float64


def test_the_official_sign_reaches_the_reward() -> None:
    stats = [token_stats(seed) for seed in range(3)]
    ours = uat(3, uncertainty="comtp").rewards(0, FakeProbe(stats=stats))
    theirs = uat(3, uncertainty="comtp", official_sign=True).rewards(0, FakeProbe(stats=stats))
    close(theirs, 1 - ours)


def test_every_pair_is_measured_once_with_the_passes_and_tokens_of_the_config() -> None:
    probe = FakeProbe(stats=[token_stats(seed) for seed in range(3)])
    uat(3, uncertainty_passes=9, probe_tokens=77, scorer_steps=2).update(1, probe)
    assert probe.asked == [(1, pair, 9, 77) for pair in range(3)]


def test_uncertainty_becomes_the_shares() -> None:
    probe = FakeProbe(stats=[token_stats(seed) for seed in range(3)])
    sampler = uat(3, scorer_lr=0.05, scorer_steps=1500)
    (event,) = sampler.update(0, probe)
    rewards = f64(event["rewards"])
    assert rewards.min() > 0
    close(sampler.probabilities(), rewards / rewards.sum(), atol=NEAR)


# ---------------------------------------------------------------- state, symmetry

BOTH = [MultiDDSSampler, MultiUATSampler]
SIZES = [10, 40, 20, 80]


def random_probe(seed: int, order: Sequence[int] = range(4)) -> FakeProbe:
    """Four pairs; gradients and statistics drawn from `seed`, the pairs in this order."""
    dev, train = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(seed))
    probe = gradient_probe([dev[k] for k in order], [train[k] for k in order])
    probe.stats = [token_stats(4 * seed + k) for k in order]
    return probe


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
@given(st.integers(0, 10**6), st.integers(0, 3))
@settings(deadline=None, max_examples=20)
def test_a_reloaded_scorer_goes_on_to_the_same_bits(kind: type[ScorerSampler], seed: int, updates: int) -> None:
    config = SamplingConfig(scorer_steps=4, scorer_lr=0.1)
    original, resumed = kind(SIZES, config), kind(SIZES, config)
    for k in range(updates):
        original.update(0, random_probe(seed + k))
    saved = original.state_dict()
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    read = torch.load(file, weights_only=True)
    resumed.load_state_dict(read)
    untouched = copy.deepcopy(saved)
    assert torch.equal(original.probabilities(), resumed.probabilities())
    schedules = PairSchedule((seed,), "iid"), PairSchedule((seed,), "iid")
    for _ in range(100):
        assert schedules[0].next(original.probabilities()) == schedules[1].next(resumed.probabilities())
    for k in range(3, 6):
        assert original.update(0, random_probe(seed + k)) == resumed.update(0, random_probe(seed + k))
        assert torch.equal(original.psi, resumed.psi)
    for state in (saved, read):
        torch.testing.assert_close(state, untouched, rtol=0, atol=0)  # neither the saved state nor the loaded one moved


def test_adams_momentum_is_part_of_the_state() -> None:
    """With the logits alone, a reloaded scorer would take other steps."""
    original, resumed = scorer([1.0, 0.0]), scorer([0.0, 1.0])
    original.update(0, FakeProbe())
    resumed.load_state_dict(original.state_dict())
    for sampler in (original, resumed):
        sampler.given = f64([0.0, 0.0])
        sampler.update(0, FakeProbe())
    assert torch.equal(original.psi, resumed.psi)
    forgetful = scorer([0.0, 0.0])
    forgetful.load_state_dict({"psi": original.psi.detach(), "adam": forgetful.adam.state_dict()})
    forgetful.update(0, FakeProbe())
    assert torch.equal(forgetful.psi, original.psi), "without momentum nothing moves"


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
@given(st.integers(0, 10**6), st.permutations(range(4)))
@settings(deadline=None, max_examples=20)
def test_permuting_the_pairs_permutes_rewards_and_probabilities(
    kind: type[ScorerSampler], seed: int, order: list[int]
) -> None:
    config = SamplingConfig(scorer_steps=10, scorer_lr=0.05)
    plain, permuted = kind(SIZES, config), kind([SIZES[k] for k in order], config)
    for k in range(2):
        (one,), (two,) = plain.update(0, random_probe(seed + k)), permuted.update(0, random_probe(seed + k, order))
        close(f64(two["rewards"]), f64(one["rewards"])[order])
    close(permuted.probabilities(), plain.probabilities()[order], atol=1e-9)
