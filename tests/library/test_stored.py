"""A stored comparison returns the numbers of its summary, and sentences that follow from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pmd_kit.l12.comparison import both_equalities, card, equal_compute, equal_compute_reading, reading, undominated
from pmd_kit.l12.widgets import method_picker
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text
from pmd_lite.training.rundir import FORMAT

RESULTS = Path(__file__).resolve().parents[2] / "lessons" / "results"


def system(label: str, high: list[float], low: list[float], p: list[float], **differences: Any) -> dict[str, Any]:
    """Two pairs, "big" and "small", as many seeds as values."""
    scores = [{"big": a, "small": b} for a, b in zip(high, low, strict=True)]
    return {"label": label, "method": label.split(" ")[0], "bleu": scores, "dev_loss": scores,
            "differences": differences, "steps": [10, 20],
            "p": {"big": p, "small": [1 - x for x in p]}}  # fmt: skip


def summary() -> dict[str, Any]:
    systems = [
        system("tau=1", [60.0, 62.0], [4.0, 6.0], [0.9, 0.9]),
        system("unimax", [50.0, 52.0], [10.0, 12.0], [0.6, 0.6], mean=[-2.0, ""], HRL=[-10.0, "▼"], LRL=[6.0, "▲"]),
        system("pair model_1 (x)", [59.0, 59.0], [4.0, 4.0], [0.9, 0.8], mean=[-1.5, ""], HRL=[-2.0, ""],
               LRL=[-1.0, ""]),
    ]  # fmt: skip
    return {"corpus": "c", "sizes": {"big": 9, "small": 1}, "seeds": [1, 2], "equal": "runs", "preset": "toy",
            "format": FORMAT, "failed": {}, "notes": [], "untested": [], "overrides": {"steps": 100},
            "groups": [["big"], ["small"]], "systems": systems,
            "costs": {"tau=1": {"train": 0.8, "dev": 0.2}, "unimax": {"train": 0.7, "dev": 0.2},
                      "pair": {"train": 2.0, "dev": 0.5}}}  # fmt: skip


@pytest.fixture
def stored(tmp_path: Path) -> Comparison:
    return load(summary(), tmp_path)


def load(data: dict[str, Any], folder: Path) -> Comparison:
    path = folder / "summary.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return Comparison.load(path)


def test_numbers_by_hand(stored: Comparison) -> None:
    assert stored.points("tau=1") == [(4.0, 60.0), (6.0, 62.0)]
    assert stored.mean_point("unimax") == (11.0, 51.0)
    assert stored.cost("pair model_1 (x)") == 2.5
    assert undominated(stored) == ["tau=1", "unimax"]
    assert stored.moving() == ["unimax", "pair model_1 (x)"]
    assert stored.difference("unimax", "HRL") == (-10.0, "▼")
    assert stored.difference("tau=1", "HRL") is None
    assert stored.command == ""
    with pytest.raises(UserError, match=r"No system is called 'x'. There are tau=1, unimax"):
        stored.points("x")


def test_the_table_has_a_row_for_each_system(stored: Comparison) -> None:
    text = stored.table().to_text()
    assert "33.0 ± 1.4" in text and "61.0 ± 1.4" in text and "+6.0\u00a0▲" in text and "p < 0.05 (" in text
    assert [row[0] for row in stored.table(["unimax"]).rows] == ["unimax"]
    assert stored.table().rows[0][2] == "", "the baseline differs from itself by nothing"


def test_the_reading_follows_from_the_marks(stored: Comparison, tmp_path: Path) -> None:
    text = reading(stored)
    assert "large pairs, against tau=1:\n  better (0): none\n  worse (1): unimax -10.0\n" in text
    assert "small pairs, against tau=1:\n  better (1): unimax +6.0\n" in text
    assert "2 of 6 differences are marked; about 0 would be" in text
    assert text.endswith("Not dominated by any other mean: tau=1 (compute 1.00), unimax (compute 0.90).")
    data = summary()
    data["systems"][1]["differences"]["HRL"] = [-10.0, ""]
    assert "large pairs, against tau=1:\n  better (0): none\n  worse (0): none" in reading(load(data, tmp_path))


def test_equal_compute_by_hand(stored: Comparison) -> None:
    table = equal_compute(stored, ["tau=1", "pair"])
    assert [list(row) for row in table.rows] == [
        ["tau=1", "1.00", 100, 250], ["unimax", "0.90", 111, 278], ["pair", "2.50", 40, 100]
    ]  # fmt: skip
    with pytest.raises(UserError, match="No method is called x"):
        equal_compute(stored, ["x"])


def test_one_table_has_equal_updates_and_equal_compute(stored: Comparison, tmp_path: Path) -> None:
    data = summary()
    (student,) = [system for system in data["systems"] if system["label"] == "pair model_1 (x)"]
    student["label"], data["equal"] = "pair model_1 (tau=1)", "equal-compute"
    data["systems"] = [data["systems"][0], student]
    fair = load(data, tmp_path)
    (one, flat) = both_equalities(stored, fair, ["tau=1", "unimax"]).rows
    assert one == ["tau=1", 61.0, 5.0, "1.00", 61.0, 5.0]
    assert flat == ["unimax", 51.0, 11.0, "0.90", None, None], "what nobody has trained is not measured"
    assert equal_compute_reading(fair).splitlines() == [
        "pair model_1 (tau=1) minus tau=1, large pairs: -2.0 BLEU (-1.0, -3.0)",
        "pair model_1 (tau=1) minus tau=1, small pairs: -1.0 BLEU (+0.0, -2.0)",
    ]


def test_figures_say_what_they_show(stored: Comparison) -> None:
    assert "unimax LRL 11.0 HRL 51.0" in alt_text(stored.plot_frontier(highlight=["unimax"]))
    probabilities = stored.plot_probabilities()
    assert "pair model_1 (x): big 0.80, small 0.20" in alt_text(probabilities)
    assert probabilities is not None and len(probabilities.axes) == len(stored.moving()) == 2
    costs = "Compute in units of tau=1: tau=1 1.00; unimax 0.90; pair 2.50"
    assert alt_text(stored.plot_costs()) == costs
    assert "LRL +6.0▲, HRL -10.0▼; compute 0.90" in alt_text(card(stored, "unimax"))
    left, right = card(stored, "unimax").axes
    assert len(left.lines) == 2 and {line.get_gid() for line in right.lines} == set(stored.systems)
    with pytest.raises(UserError, match="No system is called 'nobody'"):
        card(stored, "nobody")


def test_without_the_baseline_there_is_no_cross_and_no_error(tmp_path: Path) -> None:
    data = summary()
    del data["systems"][0]
    assert "tau=1" not in alt_text(load(data, tmp_path).plot_frontier())


@pytest.mark.slow
def test_the_picker_draws_every_system(stored: Comparison) -> None:
    widget = method_picker(stored)
    _, label, picture = widget.children
    for name in stored.systems:
        label.value = name
        assert f'alt="{name}: at the end it draws' in picture.value


@pytest.mark.parametrize("part", ["systems", "costs", "format", "groups", "sizes", "overrides"])
def test_a_file_that_lacks_a_part_is_refused(part: str, tmp_path: Path) -> None:
    data = summary()
    del data[part]
    with pytest.raises(UserError, match="no stored comparison"):
        load(data, tmp_path)


@pytest.mark.parametrize("value", [[0.5], None, {}])
def test_a_probability_that_is_not_a_number_is_refused_when_the_file_is_read(value: Any, tmp_path: Path) -> None:
    data = summary()
    of_pairs = data["systems"][0]["p"]
    data["systems"][0]["p"] = {pair: [value] * len(values) for pair, values in of_pairs.items()}
    with pytest.raises(UserError, match="no stored comparison"):
        load(data, tmp_path)


def test_a_difference_without_its_mark_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    data = summary()
    data["systems"][-1]["differences"] = {"mean": [0.5]}
    with pytest.raises(UserError, match="no stored comparison"):
        load(data, tmp_path)


def test_a_comparison_of_no_seed_has_no_finished_method(tmp_path: Path) -> None:
    request = {"corpus": "toy", "corpus_options": {}, "preset": "toy", "overrides": {}, "methods": ["tau=1"],
               "seeds": [], "failed": {}}  # fmt: skip
    (tmp_path / "runs.json").write_text(json.dumps(request), encoding="utf-8")
    with pytest.raises(UserError, match="no method has finished"):
        Comparison(tmp_path)


def test_a_missing_file_and_a_wrong_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no stored comparison"):
        Comparison.load(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match="no stored comparison"):
        Comparison.load(tmp_path / "list.json")


def test_what_was_not_measured_is_a_dash_and_not_a_number(stored: Comparison, tmp_path: Path) -> None:
    data = summary()
    data["systems"][1]["bleu"][0]["small"] = None
    found = load(data, tmp_path)
    rows = {row[0]: dict(zip(found.table().columns, row, strict=True)) for row in found.table().rows}
    assert rows["unimax"]["BLEU"] is None is rows["unimax"]["LRL"] and rows["unimax"]["HRL"] is not None
    assert "no BLEU for small" in found.table().caption and "no BLEU" not in stored.table().caption
    assert found.plot_frontier() is None
    assert found.summary["systems"][1]["bleu"][0] == {"big": 50.0, "small": None}


def test_the_comparison_of_lesson_12_is_there_and_complete() -> None:
    stored = Comparison.load(RESULTS / "compare_longtail.json")
    assert stored.command and set(stored.systems) >= {"tau=1", "unimax", "chi-ibr", "lssd", "auto-pmd model_1 (tau=1)"}
    assert len(stored.moving()) == 7


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another version made it, whose numbers mean something else"):
        load({**summary(), "format": FORMAT - 1}, tmp_path)
