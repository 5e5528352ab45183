"""What each strategy does with the answers of a probe: none, Bi (Eq. 6), Uni (Eq. 5), Auto (Alg. 2), Dynamic-MD."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pmd_lite.config import DistillConfig
from pmd_lite.distillation.actions import logit, lossy_trials
from pmd_lite.distillation.auto import AutoPMD, DynamicMD
from pmd_lite.distillation.mutual import BaseDistiller, BiPMD, NoDistillation, UniPMD, uni_weights
from pmd_lite.interfaces import Clock
from tests.conftest import MakeTrainer

Rows = Sequence[Sequence[float]]


@dataclass
class FakeProbe:
    """Answers from tables, and records what it was asked."""

    clock: Clock
    dev: Rows = ()
    """[student, pair] dev losses."""
    results: Callable[[int, Tensor], Rows] = lambda student, alphas: ()
    """(student, alphas [trial, pair]) -> R [trial, pair]."""
    asked: list[tuple[int, Tensor]] = field(default_factory=list)

    def dev_loss(self, student: int) -> Tensor:
        return torch.tensor(self.dev[student], dtype=torch.float64)

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        self.asked.append((student, alphas.clone()))
        return torch.tensor(self.results(student, alphas), dtype=torch.float64)


def students(n: int = 2) -> list[nn.Module]:
    return [nn.Linear(1, 1) for _ in range(n)]


def f64(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def close(found: Tensor, expected: Any, atol: float = 1e-6) -> None:
    torch.testing.assert_close(found, f64(expected), rtol=0, atol=atol)


STRATEGIES = [NoDistillation, BiPMD, UniPMD, AutoPMD, DynamicMD]


# ---------------------------------------------------------------- what all have in common


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_each_student_is_taught_by_all_others_in_equal_shares(strategy: type[BaseDistiller], n: int) -> None:
    models = students(n)
    distiller = strategy(models, 2, DistillConfig())
    for student in range(n):
        teachers = distiller.teachers(student, 1)
        assert [model for model, _ in teachers] == [m for m in models if m is not models[student]]
        assert [share for _, share in teachers] == pytest.approx([1 / (n - 1)] * (n - 1))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_before_the_first_decision(strategy: type[BaseDistiller]) -> None:
    start = {NoDistillation: 0.0, BiPMD: 0.6, UniPMD: 0.0, AutoPMD: 0.2, DynamicMD: 0.2}[strategy]
    distiller = strategy(students(3), 4, DistillConfig(alpha=0.6, alpha0=0.2))
    assert distiller.weights().tolist() == [[start] * 4] * 3
    assert {distiller.weight(i, pair) for i in range(3) for pair in range(4)} == {start}
    distiller.weights().fill_(9.0)
    assert distiller.weight(0, 0) == start, "weights() gives a copy"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_losses_are_combined_as_equation_4_says(strategy: type[BaseDistiller]) -> None:
    distiller = strategy(students(), 1, DistillConfig())
    assert distiller.factors(0.25) == (0.75, 0.25)


@pytest.mark.parametrize("strategy", [UniPMD, AutoPMD, DynamicMD])
@pytest.mark.parametrize(
    ("every", "start", "expected"),
    [
        (10, 0, [10, 20, 30, 40]),  # t % T == 0, but neither before the first step nor after the last
        (0, 0, [25]),  # 0 is one epoch
        (10, 15, [15, 25, 35, 45]),  # counted from the start of distillation
    ],
)
def test_when_a_decision_is_due(strategy: type[BaseDistiller], every: int, start: int, expected: list[int]) -> None:
    distiller = strategy(students(), 1, DistillConfig(update_every=every))
    assert [t for t in range(51) if distiller.due(Clock(t, 50, 25, start))] == expected


@pytest.mark.parametrize("strategy", [NoDistillation, BiPMD])
def test_fixed_weights_never_change(strategy: type[BaseDistiller]) -> None:
    distiller = strategy(students(), 2, DistillConfig(alpha=0.6, update_every=1))
    before = distiller.weights()
    assert not any(distiller.due(Clock(t, 50, 25)) for t in range(51))
    assert distiller.update(FakeProbe(Clock(5, 50, 25))) == []
    assert torch.equal(distiller.weights(), before)


# ---------------------------------------------------------------- Bi-PMD, Eq. 6


def test_eq_6_every_weight_of_a_run_is_alpha(make_trainer: MakeTrainer) -> None:
    """alpha_i[l] = alpha, for both students and every pair, whatever the dev losses are."""
    trainer = make_trainer("bi-pmd", alpha=0.35)
    trainer.run()
    logged = [event["alpha"] for event in trainer.rundir.metrics() if event["event"] == "eval"]
    assert len(logged) == 2 * 3 and {tuple(alphas) for alphas in logged} == {(0.35,) * 6}


# ---------------------------------------------------------------- Uni-PMD, Eq. 5

DEV = [[2.0, 1.00, 1.5], [1.9, 1.02, 1.5]]  # student 2 leads pair 0 by 0.10, student 1 pair 1 by 0.02; pair 2 is a draw


def test_only_the_worse_student_of_a_pair_learns_and_on_a_draw_both() -> None:
    distiller = UniPMD(students(), 3, DistillConfig(alpha=0.4))
    events = distiller.update(FakeProbe(Clock(10, 50, 10), DEV))
    expected = [[0.4, 0.0, 0.4], [0.0, 0.4, 0.4]]
    assert distiller.weights().tolist() == expected
    assert events == [{"event": "uni", "step": 10, "alpha": expected}]


def test_a_lead_inside_the_dead_zone_does_not_count() -> None:
    distiller = UniPMD(students(), 3, DistillConfig(alpha=0.4, dead_zone=0.05))
    distiller.update(FakeProbe(Clock(10, 50, 10), DEV))
    assert distiller.weights().tolist() == [[0.4, 0.4, 0.4], [0.0, 0.4, 0.4]]


def test_the_released_dead_zone_is_a_twentieth_of_a_bit_in_nats() -> None:
    """0.05 bit is 0.0347 nats: a lead of 0.030 nats lies inside, one of 0.040 outside (and 0.040 < 0.05)."""
    distiller = UniPMD(students(), 2, DistillConfig(alpha=0.4, fidelity="released"))
    distiller.update(FakeProbe(Clock(10, 50, 10), [[1.0, 1.0], [1.030, 1.040]]))
    assert distiller.weights().tolist() == [[0.4, 0.0], [0.4, 0.4]]


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=6), st.floats(0.01, 1))
@settings(deadline=None)
def test_eq_5_as_printed(pairs: list[tuple[float, float]], alpha: float) -> None:
    """alpha_i[l] = alpha x 1{i = argmax_j L_ce(D_valid_l; theta_j)}, where the argmax is unique."""
    losses = f64([(one, two) for one, two in pairs if one != two] or [(1.0, 2.0)]).T  # [student, pair]
    worse = losses.argmax(dim=0)
    expected = alpha * torch.stack([worse == student for student in (0, 1)]).double()
    assert torch.equal(uni_weights(losses, alpha), expected)


@given(st.lists(st.tuples(st.sampled_from([1.0, 1.5, 2.0]), st.sampled_from([1.0, 1.5, 2.0])), min_size=1, max_size=6))
@settings(deadline=None)
def test_exactly_one_of_two_students_learns_unless_they_are_equal(pairs: list[tuple[float, float]]) -> None:
    weights = uni_weights(f64(pairs).T, 0.4)
    for (one, two), column in zip(pairs, weights.T.tolist(), strict=True):
        assert column == ([0.4, 0.4] if one == two else [0.4 * (one > two), 0.4 * (two > one)])


def test_of_three_students_all_but_the_leader_learn() -> None:
    losses = f64([[1.0, 2.0, 2.0, 1.0], [1.5, 1.0, 3.0, 1.0], [2.0, 1.5, 1.0, 1.5]])
    assert uni_weights(losses, 0.6).tolist() == [[0, 0.6, 0.6, 0.6], [0.6, 0, 0.6, 0.6], [0.6, 0.6, 0, 0.6]]


# ---------------------------------------------------------------- Auto-PMD, Alg. 2

# R of one search, rows keep, up, down. Student 1 wants up, down, (draw) keep; student 2 down, up, (up = down) up.
TRIALS = [
    [[2.0, 3.0, 1.0], [1.9, 3.1, 1.0], [2.1, 2.5, 1.0]],
    [[1.0, 1.0, 5.0], [1.0, 0.9, 4.0], [0.9, 1.1, 4.0]],
]
HALF = Clock(300, 400, 100)  # mu = sqrt(100 / 400) = 0.5
UP, DOWN = 0.154828, 0.063137  # odds 1/9 times, or by, e^0.5


def test_one_full_search_by_hand() -> None:
    distiller = AutoPMD(students(), 3, DistillConfig(alpha0=0.1))
    probe = FakeProbe(HALF, results=lambda student, alphas: TRIALS[student])
    events = distiller.update(probe)
    assert [student for student, _ in probe.asked] == [0, 1]
    for _, alphas in probe.asked:
        close(alphas, [[0.1] * 3, [UP] * 3, [DOWN] * 3])
    close(distiller.weights(), [[UP, DOWN, 0.1], [DOWN, UP, UP]])
    assert [event["actions"] for event in events] == [["up", "down", "keep"], ["down", "up", "up"]]
    for student, event in enumerate(events):
        assert (event["event"], event["step"], event["student"]) == ("search", 300, student)
        assert (event["mu"], event["trials"]) == (0.5, ["keep", "up", "down"])
        assert event["results"] == TRIALS[student]
        assert event["alpha"] == distiller.weights()[student].tolist()


def test_student_2_searches_after_student_1_has_decided() -> None:
    distiller = AutoPMD(students(), 3, DistillConfig(alpha0=0.1))
    seen: list[Tensor] = []

    def results(student: int, alphas: Tensor) -> Rows:
        seen.append(distiller.weights())
        return TRIALS[student]

    distiller.update(FakeProbe(HALF, results=results))
    close(seen[0], [[0.1] * 3, [0.1] * 3])
    close(seen[1], [[UP, DOWN, 0.1], [0.1] * 3])


def test_the_next_search_starts_from_what_the_last_one_chose() -> None:
    distiller = AutoPMD(students(), 3, DistillConfig(alpha0=0.1))
    distiller.update(FakeProbe(HALF, results=lambda student, alphas: TRIALS[student]))
    probe = FakeProbe(HALF, results=lambda student, alphas: TRIALS[1 - student])
    distiller.update(probe)
    # By odds: up twice is 1/9 e = 0.231969 as alpha, down twice 0.039270, and up undoes down.
    close(probe.asked[0][1], [[UP, DOWN, 0.1], [0.231969, 0.1, UP], [0.1, 0.039270, DOWN]])
    close(distiller.weights(), [[0.1, 0.1, UP], [0.1, 0.1, UP]])


def test_mu_runs_from_the_start_of_distillation_to_the_end_of_training() -> None:
    for step, mu in ((100, 1.0), (200, math.sqrt(0.75)), (400, 0.5)):
        distiller = AutoPMD(students(), 3, DistillConfig(alpha0=0.1))
        events = distiller.update(FakeProbe(Clock(step, 500, 50, 100), results=lambda student, alphas: TRIALS[student]))
        assert events[0]["mu"] == pytest.approx(mu)
        odds = math.exp(mu) / 9
        assert distiller.weight(0, 0) == pytest.approx(odds / (1 + odds))


def test_where_mu_is_0_nothing_is_searched() -> None:
    distiller = AutoPMD(students(), 3, DistillConfig(step_size="early_stop"))
    probe = FakeProbe(Clock(350, 400, 50), results=lambda student, alphas: TRIALS[student])
    before = distiller.weights()
    assert distiller.update(probe) == []
    assert probe.asked == []
    assert torch.equal(distiller.weights(), before)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_weight_of_0_or_1_stays_for_ever(end: float) -> None:
    distiller = AutoPMD(students(), 3, DistillConfig(alpha0=end))
    for student_results in (TRIALS[0], TRIALS[1], TRIALS[0]):
        probe = FakeProbe(HALF, results=lambda student, alphas, r=student_results: r)
        distiller.update(probe)
        assert all(bool((alphas == end).all()) for _, alphas in probe.asked)
        assert distiller.weights().tolist() == [[end] * 3] * 2


def test_as_released_the_order_is_up_keep_down_and_a_draw_goes_up() -> None:
    distiller = AutoPMD(students(), 2, DistillConfig(alpha0=0.1, fidelity="released"))
    # rows up, keep, down: pair 0 is a draw of all three, pair 1 of keep and down
    probe = FakeProbe(HALF, results=lambda student, alphas: [[1.0, 2.0], [1.0, 1.0], [1.0, 1.0]])
    events = distiller.update(probe)
    close(probe.asked[0][1], [[UP] * 2, [0.1] * 2, [DOWN] * 2])
    assert events[0]["trials"] == ["up", "keep", "down"]
    assert events[0]["actions"] == ["up", "keep"]
    close(distiller.weights(), [[UP, 0.1]] * 2)


def test_as_released_a_weight_is_clipped_at_98_hundredths_before_it_moves() -> None:
    distiller = AutoPMD(students(), 1, DistillConfig(alpha0=0.999, fidelity="released"))
    probe = FakeProbe(HALF, results=lambda student, alphas: [[2.0], [1.0], [3.0]])
    distiller.update(probe)
    up, keep, down = (alphas.item() for alphas in probe.asked[0][1])
    # Odds: .98 is 49. Up by mu = .5; that is cut to 49 again before it comes back down, and so the others begin lower.
    assert up / (1 - up) == pytest.approx(49 * math.exp(0.5))
    assert (keep / (1 - keep), down / (1 - down)) == pytest.approx((49 * math.exp(-0.5), 49 * math.exp(-1.0)))
    assert distiller.weight(0, 0) == pytest.approx(keep, abs=1e-12)
    low = AutoPMD(students(), 1, DistillConfig(alpha0=0.001, fidelity="released"))
    low.update(probe := FakeProbe(HALF, results=lambda student, alphas: [[2.0], [1.0], [3.0]]))
    assert probe.asked[0][1][1].item() == pytest.approx(0.001, abs=1e-12), "there is no clip from below"


@pytest.mark.parametrize(("action", "odds"), [("up", math.exp(1)), ("keep", 1.0), ("down", math.exp(-1))])
def test_as_released_097_is_kept_as_0947(action: str, odds: float) -> None:
    """The released functions, run: .97 goes up to .98875, back to .947; from there the chosen action starts."""
    first = Clock(0, 100, 10)  # mu = 1
    rows = {"up": [[1.0], [2.0], [2.0]], "keep": [[2.0], [1.0], [2.0]], "down": [[2.0], [2.0], [1.0]]}[action]
    released, paper = DistillConfig(alpha0=0.97, fidelity="released"), DistillConfig(alpha0=0.97)
    for wanted, config in ((0.9474, released), (0.97, paper)):
        order = AutoPMD(students(), 1, config)
        tables = rows if config.fidelity == "released" else [rows[1], rows[0], rows[2]]  # keep, up, down
        order.update(probe := FakeProbe(first, results=lambda student, alphas, tables=tables: tables))
        after = order.weight(0, 0)
        assert after / (1 - after) == pytest.approx(odds * wanted / (1 - wanted), rel=2e-3)
        if config.fidelity == "released":
            assert probe.asked[0][1][0].item() == pytest.approx(0.98875, abs=1e-5)
            assert [x.item() for x in probe.asked[0][1][1:]] == pytest.approx([0.9474, 0.8689], abs=1e-4)


@given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=4), st.floats(0.05, 1))
def test_as_released_small_weights_come_back_whole(alphas: list[float], mu: float) -> None:
    """.5 goes up to .73 at most: it never reaches the clip, and the trials are those of the paper."""
    before = logit(f64(alphas))
    tried, left = lossy_trials(before, ("up", "keep", "down"), mu, 0.98)
    torch.testing.assert_close(left, before, rtol=0, atol=1e-12)
    torch.testing.assert_close(tried, torch.stack([before + mu, before, before - mu]), rtol=0, atol=1e-12)


def test_an_interval_in_epochs() -> None:
    """T = 3 epochs of 10 updates from the start of distillation at 4 epochs; an interval in updates has priority."""
    for config, expected in (
        (DistillConfig(update_epochs=3.0), [40, 70]),
        (DistillConfig(update_epochs=1.0), [40, 50, 60, 70, 80, 90]),
        (DistillConfig(update_epochs=3.0, update_every=25), [40, 65, 90]),
    ):
        distiller = UniPMD(students(), 1, config)
        assert [t for t in range(101) if distiller.due(Clock(t, 100, 10, 40))] == expected


def test_three_students_search_one_after_another() -> None:
    distiller = AutoPMD(students(3), 3, DistillConfig(alpha0=0.1))
    probe = FakeProbe(HALF, results=lambda student, alphas: TRIALS[student % 2])
    distiller.update(probe)
    assert [student for student, _ in probe.asked] == [0, 1, 2]
    close(distiller.weights(), [[UP, DOWN, 0.1], [DOWN, UP, UP], [UP, DOWN, 0.1]])


# ---------------------------------------------------------------- Dynamic-MD


def test_dynamic_md_takes_one_action_for_all_pairs() -> None:
    distiller = DynamicMD(students(), 3, DistillConfig(alpha0=0.1))
    # sums 6, 6, 5.6: down, though two pairs would rather do something else; and 7, 5.9, 6: up
    events = distiller.update(FakeProbe(HALF, results=lambda student, alphas: TRIALS[student]))
    assert [event["actions"] for event in events] == [["down"] * 3, ["up"] * 3]
    close(distiller.weights(), [[DOWN] * 3, [UP] * 3])


# ---------------------------------------------------------------- state, symmetry

AnyStrategy = st.sampled_from(STRATEGIES)


def random_probe(seed: int, clock: Clock, order: Sequence[int]) -> FakeProbe:
    """Two students; tables drawn from `seed`, their columns permuted by `order`."""
    rng = torch.Generator().manual_seed(seed)
    tables = torch.randint(10, (3, 2, 3, len(order)), generator=rng)[..., order] / 10 + 1
    return FakeProbe(clock, tables[0, :, 0].tolist(), lambda student, alphas: tables[1, student].tolist())


@given(AnyStrategy, st.integers(0, 10**6))
@settings(deadline=None)
def test_a_reloaded_strategy_decides_the_same_ever_after(strategy: type[BaseDistiller], seed: int) -> None:
    config, order = DistillConfig(step_size="constant"), range(4)
    original, resumed = strategy(students(), 4, config), strategy(students(), 4, config)
    for k in range(3):
        original.update(random_probe(seed + k, HALF, order))
    saved = original.state_dict()
    resumed.load_state_dict(saved)
    untouched = {name: tensor.clone() for name, tensor in saved.items()}
    for k in range(3, 6):
        one, two = (random_probe(seed + k, HALF, order) for _ in range(2))
        assert original.update(one) == resumed.update(two)
        assert torch.equal(original.weights(), resumed.weights())
    assert saved.keys() == untouched.keys()
    assert all(torch.equal(saved[name], untouched[name]) for name in saved), "a saved state is a copy"


def test_a_reloaded_auto_pmd_remembers_what_alpha_alone_has_lost() -> None:
    """After fifty steps up, alpha is exactly 1; from its logit it can still come down again."""
    config = DistillConfig(alpha0=0.1, step_size="constant")
    original, resumed = AutoPMD(students(), 1, config), AutoPMD(students(), 1, config)
    go_up = FakeProbe(HALF, results=lambda student, alphas: [[2.0], [1.0], [3.0]])
    go_down = FakeProbe(HALF, results=lambda student, alphas: [[2.0], [3.0], [1.0]])
    for _ in range(50):
        original.update(go_up)
    assert original.weight(0, 0) == 1.0
    resumed.load_state_dict(original.state_dict())
    for _ in range(50):
        resumed.update(go_down)
    assert resumed.weight(0, 0) == pytest.approx(0.1, abs=1e-9)


@given(AnyStrategy, st.integers(0, 10**6), st.permutations(range(4)))
@settings(deadline=None)
def test_permuting_the_pairs_permutes_the_weights(strategy: type[BaseDistiller], seed: int, order: list[int]) -> None:
    plain, permuted = strategy(students(), 4, DistillConfig()), strategy(students(), 4, DistillConfig())
    for k in range(3):
        clock = Clock(100 + 50 * k, 400, 50)
        plain.update(random_probe(seed + k, clock, range(4)))
        permuted.update(random_probe(seed + k, clock, order))
    assert torch.equal(permuted.weights(), plain.weights()[:, order])
