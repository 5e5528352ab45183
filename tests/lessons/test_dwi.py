"""What a pair's loss depends on, by hand; and stored searches, whose sentences follow from their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_kit.l11.dwi import OTHERS, OWN, TOGETHER, StoredSearches
from pmd_kit.l11.dwi_tables import mean_grid, replay, simulate
from pmd_kit.l11.figures import action_grids, disagreement, shares_by_step, variance_bars
from pmd_kit.l11.shares import own_share, share_explained
from pmd_kit.l11.widgets import interaction_picker
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.search import choose, full_space, reduced_space
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text
from pmd_lite.training.rundir import FORMAT

PAIRS = ["fra-eng", "est-eng", "tur-eng"]
SPACE = full_space(3)
STORED = Path(__file__).resolve().parents[2] / "lessons" / "results" / "dwi_longtail.json"


# ---------------------------------------------------------------- shares of the variance


def additive(effects: list[dict[str, float]]) -> Tensor:
    """One column: the sum of one effect per pair, over the full space of three pairs."""
    return torch.tensor([[sum(of[a] for of, a in zip(effects, vector, strict=True))] for vector in SPACE]).double()


def effect(strength: float) -> dict[str, float]:
    return {"keep": 0.0, "up": strength, "down": -strength}


def test_shares_of_additive_effects_by_hand() -> None:
    results = additive([effect(3.0), effect(2.0), effect(1.0)])  # variances in proportion to 9, 4, 1
    assert [share_explained(results, SPACE, 0, by) for by in range(3)] == pytest.approx([9 / 14, 4 / 14, 1 / 14])
    assert own_share(results, SPACE, 0) == pytest.approx(9 / 14)


def test_under_independence_the_own_share_is_1_and_of_pure_interaction_it_is_0() -> None:
    assert own_share(additive([effect(1.0), effect(0.0), effect(0.0)]), SPACE, 0) == pytest.approx(1)
    number = {action: i for i, action in enumerate(ACTIONS)}
    latin = torch.tensor([[float((number[a] + number[b]) % 3)] for a, b, _ in SPACE]).double()
    assert [share_explained(latin, SPACE, 0, by) for by in range(3)] == pytest.approx([0, 0, 0], abs=1e-12)


def test_equal_losses_count_as_independence_and_a_diverged_trial_as_unknown() -> None:
    results = torch.ones(27, 1)
    assert [share_explained(results, SPACE, 0, by) for by in range(3)] == [1, 0, 0]
    results[3] = float("nan")
    assert own_share(results, SPACE, 0) != own_share(results, SPACE, 0)


@given(st.lists(st.floats(-5, 5), min_size=27, max_size=27))
@settings(deadline=None, max_examples=50)
def test_in_the_full_space_shares_never_add_up_to_more_than_1(losses: list[float]) -> None:
    results = torch.tensor(losses, dtype=torch.float64)[:, None]
    shares = [share_explained(results, SPACE, 0, by) for by in range(3)]
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares) and sum(shares) <= 1 + 1e-9


# ---------------------------------------------------------------- stored searches


def event(step: int, student: int, results: Tensor) -> dict[str, Any]:
    """As the benchmark's full search writes it."""
    same = [row for row, vector in enumerate(SPACE) if len(set(vector)) == 1]
    full, reduced = choose(results, SPACE), choose(results[same], [SPACE[row] for row in same])
    return {"event": "dwi", "step": step, "student": student, "mu": 0.5, "full": full, "reduced": reduced,
            "loss_full": results[SPACE.index(tuple(full))].tolist(),
            "loss_reduced": results[SPACE.index(tuple(reduced))].tolist(), "results": results.tolist()}  # fmt: skip


def sample(meddling: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """Two seeds, two students, three searches each: the first pair is independent, the last depends on the others."""
    rng = torch.Generator().manual_seed(seed)
    searches = []
    for _ in range(2):
        for step in (100, 200, 300):
            for student in range(2):
                columns = []
                for pair in range(3):
                    effects = [effect(0.0)] * 3
                    for by in range(3):
                        shift = torch.rand(3, generator=rng).mul(0.01).tolist()
                        scale = 1.0 if by == pair else meddling * pair
                        effects[by] = {a: scale * x for a, x in zip(ACTIONS, shift, strict=True)}
                    columns.append(additive(effects) + 1.5)
                searches.append(event(step, student, torch.cat(columns, dim=1)))
    return {"format": FORMAT, "command": "how", "pairs": PAIRS, "searches": searches}


def load(data: dict[str, Any], folder: Path) -> StoredSearches:
    path = folder / "dwi.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return StoredSearches.load(path)


@pytest.fixture
def stored(tmp_path: Path) -> StoredSearches:
    return load(sample(), tmp_path)


def test_independent_pairs_lose_nothing_and_the_words_say_so(tmp_path: Path) -> None:
    calm = load(sample(meddling=0.0), tmp_path)
    for pair in range(3):
        assert calm.differ(pair) == [False] * 12 and calm.lost(pair) == [0.0] * 12
        assert calm.rates()[PAIRS[pair]] == (pytest.approx(1), 0)
    text = " ".join(calm.reading().split())
    assert calm.chance == pytest.approx(16 / 27) and "(noise alone: 59 %)" in text
    assert "12 searches on fra-eng, est-eng, tur-eng. In 0 of them" in text
    assert "the reduced choice changes nothing on average, 0 % of the range" in text
    assert "tur-eng: its own action explains 100 % of the variance" in text
    assert text.endswith("For fra-eng, est-eng, tur-eng the assumption is nearly true.")
    assert "wrong" not in text


def test_meddling_pairs_are_called_wrong(stored: StoredSearches) -> None:
    text = " ".join(stored.reading().split())
    own = {name: of[OWN] for name, of in stored.mean_causes().items()}
    assert own["fra-eng"] == pytest.approx(1) and own["tur-eng"] < 0.5
    assert "For fra-eng the assumption is nearly true." in text and "tur-eng the assumption is wrong." in text
    rate = sum(stored.differ(2)) / 12
    assert rate > 0 and f"another action in {100 * rate:.0f} % of the searches" in text


def test_causes_sum_to_one_and_find_the_culprit(stored: StoredSearches) -> None:
    for search in range(12):
        for pair in range(3):
            causes = stored.causes(search, pair)
            assert sum(causes.values()) == pytest.approx(1) and causes[TOGETHER] == pytest.approx(0, abs=1e-9)
    search, pair, other = stored.least_own()
    assert pair != other and stored.causes(search, pair)[OTHERS] > 0.5


def test_numbers_by_hand(stored: StoredSearches) -> None:
    results = stored.results(4)
    assert stored.name(4) == "5: model_1 at step 300"
    assert stored.ranges(1)[4] == pytest.approx(float(results[:, 1].max() - results[:, 1].min()))
    grid = mean_grid(results, SPACE, 0, 2)
    assert grid[1][2] == pytest.approx(float(results[[SPACE.index(("up", a, "down")) for a in ACTIONS], 0].mean()))
    assert stored.table().rows[0][1] == "0 of 12"


def test_weights_are_replayed_from_the_choices_and_start_anew_with_every_run() -> None:
    def step(t: int, student: int, *reduced: str) -> dict[str, Any]:
        return {"step": t, "student": student, "mu": 1.0, "reduced": list(reduced)}

    run = [step(10, 0, "up", "keep"), step(10, 1, "down", "down"), step(20, 0, "up", "up"), step(20, 1, "up", "keep")]
    weights = replay(run * 2)
    assert weights[:4] == weights[4:]
    up, down = 0.231969, 0.039270  # of lesson 09
    for found, expected in zip(weights, [[0.1, 0.1], [0.1, 0.1], [up, 0.1], [down, down]], strict=False):
        assert found == pytest.approx(expected, abs=1e-6)


def test_own_shares_by_weight(stored: StoredSearches) -> None:
    rows = stored.by_weight().rows
    assert sum(int(row[1]) for row in rows) == 36  # type: ignore[arg-type]
    assert rows[0][0] in ("0 to 0.05", "0.05 to 0.3")


def test_rules_by_hand(tmp_path: Path) -> None:
    """When the second pair goes up, the first loses more than the second gains; the third has no choice."""
    own = [effect(0.0), {"keep": 0.0, "up": -0.01, "down": 0.01}, effect(0.0)]
    results = torch.cat([additive([effect(0.0), {"keep": 0.0, "up": 0.05, "down": 0.0}, effect(0.0)]), additive(own),
                         additive([effect(0.0)] * 3)], dim=1) + 1  # fmt: skip
    data = {"format": FORMAT, "command": "", "pairs": PAIRS, "searches": [event(100, 0, results)]}
    stored = load(data, tmp_path)
    reduced, full, three, all_27 = stored.gains().values()
    assert reduced == full == pytest.approx([0.05, -0.01, 0])
    assert three == all_27 == pytest.approx([0, 0, 0])
    text = " ".join(stored.rules_reading().split())
    assert "the full search changes the dev loss by +0.0133 nats, the reduced one by +0.0133: searching in" in text
    assert text.endswith("full makes hardly a difference here. The best vector for all together: +0.0000.")
    assert stored.rules().rows[1][0] == "full search, each pair for itself"


def test_figures_say_what_they_show(stored: StoredSearches) -> None:
    assert "Dev loss of tur-eng in search 1: model_1 at step 100. tur-eng keep, fra-eng keep:" in alt_text(
        stored.grid(0, 2, 0)
    )
    assert "fra-eng: its own action 100 %" in alt_text(stored.bars())
    assert "model_2: fra-eng 1.00 to 1.00" in alt_text(stored.by_step())
    assert "Measured: fra-eng: own share 1.00, disagreement 0.00" in alt_text(stored.beside_noise([(0, 1), (1, 0)]))
    grids = {"one": [[1.0, 2.0, 3.0]] * 3, "two": [[1.0] * 3] * 3}
    fig = action_grids(grids, ACTIONS, "fr", "tr", alt="x")
    assert [text.get_text() for text in fig.axes[0].texts[:3]] == ["1.00", "2.00", "3.00"]
    for wrong in (
        lambda: action_grids({}, ACTIONS, "fr", "tr", alt="x"),
        lambda: action_grids({"a": [[1.0]]}, ACTIONS, "fr", "tr", alt="x"),
        lambda: variance_bars({}, alt="x"),
        lambda: shares_by_step([1], {}, alt="x"),
        lambda: disagreement([(0, 1)], {}, 0.6, alt="x"),
    ):
        with pytest.raises(UserError):
            wrong()


def test_the_picker_shows_every_search_and_refuses_a_pair_beside_itself(stored: StoredSearches) -> None:
    widget = interaction_picker(stored)
    _, search, pair, other, picture = widget.children
    search.value = 11
    assert "12: model_2 at step 300" in picture.value
    pair.value, other.value = 0, 1
    assert "Dev loss of fra-eng" in picture.value and "est-eng" in picture.value
    other.value = 0
    assert picture.value == "<p>Choose two different pairs.</p>"


def test_a_file_that_is_not_of_this_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no stored searches"):
        StoredSearches.load(tmp_path / "none.json")
    short, liar, empty = sample(), sample(), sample()
    short["searches"][0]["results"] = short["searches"][0]["results"][:9]
    liar["searches"][0]["full"] = [{"keep": "up", "up": "down", "down": "keep"}[a] for a in liar["searches"][0]["full"]]
    empty["searches"] = []
    old = {**sample(), "format": FORMAT - 1}
    for data, says in ((short, "shape"), (liar, "which its results do not say"), (empty, "no search"), ({}, "pairs"),
                       (old, "another version")):  # fmt: skip
        with pytest.raises(UserError, match=says):
            load(data, tmp_path)


# ---------------------------------------------------------------- random losses


def test_random_losses_disagree_less_the_more_the_own_action_explains() -> None:
    curve = simulate([0.0, 0.3, 1.0, 10.0], draws=400)
    assert curve[0] == (pytest.approx(1), 0)
    assert [x for x, _ in curve] == sorted((x for x, _ in curve), reverse=True)
    assert [y for _, y in curve] == sorted(y for _, y in curve)
    assert curve[-1][1] == pytest.approx(16 / 27, abs=0.08), "8 of 9 times two of three guesses are wrong"
    assert curve == simulate([0.0, 0.3, 1.0, 10.0], draws=400)


def test_the_spaces_of_the_simulation_are_those_of_the_search() -> None:
    assert {vector[0] for vector in reduced_space(3)} == set(ACTIONS)
    assert simulate([0.0], draws=5, n_pairs=2) == [(pytest.approx(1), 0)]


@pytest.mark.skipif(not STORED.exists(), reason="the searches have not been stored yet")
def test_the_searches_of_lesson_11_are_there_and_complete() -> None:
    stored = StoredSearches.load(STORED)
    assert stored.command and len(stored.pairs) == 3 and stored.reading()
