"""Lesson 08: every student's own table, its diagnoses, second opinions, the stored grid, figures and widget."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

import pmd_lite as pmd
from pmd_kit import l08
from pmd_kit.l08.alpha_grid import AlphaGrid
from pmd_kit.l08.figures import change_grid, directions, effect_of_alpha, error_shares, leads, learners, who_learns
from pmd_kit.l08.second_opinions import right_tokens
from pmd_kit.l08.widgets import alpha_grid
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text
from tests.conftest import TINY

RESULTS = Path(__file__).resolve().parents[2] / "lessons" / "results"

STUDENTS = ["Emmy", "Ada", "Nr. 17", "x"]


@pytest.mark.parametrize("student", STUDENTS)
def test_the_table_by_hand_is_the_students_own(student: str) -> None:
    table, exercise = l08.checks.my_losses(student), l08.checks.my_learners(student)
    zone = 0.05 * math.log(2)
    answer = ["both" if abs(a - b) < zone else "1" if a > b else "2" for a, b in table]
    assert exercise.verdict(answer)[0]
    assert answer.count("both") == 1
    assert len(exercise.mistakes) >= 5
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_numbers_are_as_good_as_words_and_no_answer_is_no_attempt() -> None:
    exercise = l08.checks.my_learners("Ada")
    words = exercise.right()
    assert exercise.verdict([int(w) if w != "both" else " Both" for w in words])[0]
    assert exercise.verdict(None)[1].startswith("Not attempted")
    assert exercise.verdict(["1"])[1] == "Not yet. learners should have 4 parts."
    assert "has 2 of 4 parts right" in exercise.verdict(["none", "none", *words[2:]])[1]


def test_neighbours_have_other_tables_and_nobody_stays_nameless() -> None:
    assert len({str(l08.checks.my_losses(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError, match="write your name"):
        l08.checks.my_losses("")


def test_a_zone_of_any_width_lies_between_equation_5_and_equation_6() -> None:
    losses = torch.tensor([[1.0, 1.00, 2.0], [1.2, 1.02, 1.0]])
    assert l08.checks.with_zone(losses, 0.4, 0.0).tolist() == [[0, 0, 0.4], [0.4, 0.4, 0]]
    assert l08.checks.with_zone(losses, 0.4, 0.05).tolist() == [[0, 0.4, 0.4], [0.4, 0.4, 0]]
    assert l08.checks.with_zone(losses, 0.4, math.inf).tolist() == [[0.4] * 3] * 2


# ---------------------------------------------------------------- second opinions


@pytest.mark.slow
def test_what_models_get_right_is_judged_token_by_token(tiny_corpus: Corpus, tmp_path: Path) -> None:
    config = pmd.preset("toy", **{**TINY, "steps": 4})
    run = pmd.train(tiny_corpus, "bi-pmd", config, out=tmp_path / "run", show="off", score=False)
    found = right_tokens([(run, 0), (run, 1), (run, 0)], tiny_corpus)
    assert list(found) == list(tiny_corpus.pairs)
    tokens = [len(run.tokenizer.encode_trg(trg, pair)) for pair in found for _, trg in tiny_corpus.valid[pair]]
    assert sum(rows.shape[1] for rows in found.values()) == sum(tokens)
    assert all(torch.equal(rows[0], rows[2]) for rows in found.values())
    assert not all(torch.equal(rows[0], rows[1]) for rows in found.values())
    other = pmd.train(tiny_corpus, "tau=1", pmd.preset("toy", **{**TINY, "steps": 1, "vocab_size": 80}),
                      out=tmp_path / "other", show="off", score=False)  # fmt: skip
    with pytest.raises(UserError, match="other tokens"):
        right_tokens([(run, 0), (other, 0)], tiny_corpus)


# ---------------------------------------------------------------- the stored grid


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A small grid made from the stored comparison: its mutual rows under other names, with known gains."""
    many = json.loads((RESULTS / "compare_longtail.json").read_text(encoding="utf-8"))
    few: dict[str, Any] = copy.deepcopy(many)
    few["systems"] = few["systems"][:2]
    assert [system["label"] for system in few["systems"]] == ["tau=1", "tau=5"]
    for alpha, gain in ((0.8, -2.0), (0.4, 1.0)):
        for system in many["systems"]:
            if system["method"] in ("uni-pmd", "bi-pmd"):
                new = copy.deepcopy(system)
                method, student = system["label"].split(" ", 1)
                new["label"] = f"{method} alpha={alpha}: {student}"
                twin = next(s for s in many["systems"] if f"({s['label']})" in student)
                new["bleu"] = [{pair: score + gain for pair, score in twin["bleu"][0].items()}]
                new["dev_loss"] = [{pair: loss - gain / 10 for pair, loss in twin["dev_loss"][0].items()}]
                few["systems"].append(new)
    (tmp_path / "grid.json").write_text(json.dumps(few), encoding="utf-8")
    return tmp_path / "grid.json", RESULTS / "compare_longtail.json"


def test_the_grid_compares_with_the_twin_of_the_same_seed(files: tuple[Path, Path]) -> None:
    grid = AlphaGrid.load(*files)
    assert grid.alphas("bi-pmd") == [0.4, 0.8]
    for student in ("model_1", "model_2"):
        assert [row[0] for row in grid.better("bi-pmd", student, "bleu")] == pytest.approx([1.0] * 6)
        assert [row[1] for row in grid.better("uni-pmd", student, "dev_loss")] == pytest.approx([-0.2] * 6)
    assert set(grid.spread["bleu"]["bi-pmd", "model_2"]) == {0.0, 0.4}
    alone = fmean(grid.scores["bleu"]["bi-pmd", "model_2"][0.0].values())
    assert f"Bi-PMD model_2  best BLEU at alpha 0.4: {alone + 1:5.2f}, alone {alone:5.2f}; all alphas" in grid.reading()
    assert "Bi-PMD model_2  best loss at alpha 0.4" in grid.reading()


def test_files_that_do_not_belong_together_are_refused(files: tuple[Path, Path]) -> None:
    data = json.loads(files[0].read_text(encoding="utf-8"))
    data["overrides"] = {"steps": 5}
    files[0].write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UserError, match="different data or with different settings"):
        AlphaGrid.load(*files)
    with pytest.raises(UserError, match="no row of uni-pmd"):
        AlphaGrid.load(files[1], files[1])


def test_the_widget_redraws_either_strategy_and_measure(files: tuple[Path, Path]) -> None:
    widget = alpha_grid(AlphaGrid.load(*files))
    _, strategy, measure, picture = widget.children
    assert "at alpha 0.4, 0.8. Bi-PMD model_1: nats of dev loss saved: fra-eng +0.10 -0.20, " in picture.value
    strategy.value, measure.value = "uni-pmd", "bleu"
    assert "Uni-PMD model_1: BLEU gained: fra-eng +1.00 -2.00, " in picture.value


def test_the_effect_has_a_line_per_strategy_and_bars_where_there_are_seeds(files: tuple[Path, Path]) -> None:
    fig = AlphaGrid.load(*files).effect("bleu")
    for ax in fig.axes:
        assert [line.get_label() for line in ax.lines if not str(line.get_label()).startswith("_")] == [
            "Uni-PMD",
            "Bi-PMD",
        ]
        assert len(ax.containers) == 4
    (five,) = (of for of in json.loads(files[0].read_text("utf-8"))["systems"] if of["label"] == "tau=5")
    mean = sum(five["bleu"][0].values()) / 6
    assert f"model_2 (tau=5) Bi-PMD 0: {mean:.2f}, 0.4: {mean + 1:.2f}, 0.8: {mean - 2:.2f}" in alt_text(fig)


# ---------------------------------------------------------------- figures


def test_figures_draw_what_they_are_given() -> None:
    assert learners([[0.4, 0, 0.1, 0], [0, 0.4, 0.1, 0]]) == ["1", "2", "both", "none"]
    fig = directions(["a", "b"], [[1, 2], [2, 1]], {"uni": [[0, 0.4], [0.4, 0]], "bi": [[0.4] * 2] * 2}, alt="v")
    assert [len(ax.texts) for ax in fig.axes] == [2, 4], "an arrow for every weight above 0"
    with pytest.raises(UserError, match="two students"):
        directions(["a"], [[1, 2], [2, 1]], {"uni": [[0, 0.4], [0.4, 0]]}, alt="v")
    assert len(leads([1, 2], {"a": [0.1, -0.1], "b": [0, 0]}, 0.05, alt="v").axes[0].lines) == 2
    fig = who_learns([10, 20], {"paper": {"a": ["1", "2"]}, "released": {"a": ["both", "none"]}}, alt="v")
    assert [len(ax.patches) for ax in fig.axes] == [2, 2]
    with pytest.raises(UserError, match="at every one"):
        who_learns([10, 20], {"paper": {"a": ["1"]}}, alt="v")
    tops = [
        bar.get_y() + bar.get_height() for bar in error_shares(["a"], {"x": [0.7], "y": [0.3]}, alt="v").axes[0].patches
    ]
    assert tops == pytest.approx([0.7, 1.0])
    fig = change_grid([0.2, 0.4], ["a"], {"t": [[1.0, -3.0]]}, 2.0, alt="v")
    assert [text.get_text() for text in fig.axes[0].texts] == ["+1.0", "-3.0"]
    with pytest.raises(UserError, match="1 pairs and 2 alphas"):
        change_grid([0.2, 0.4], ["a"], {"t": [[1.0]]}, 2.0, alt="v")
    with pytest.raises(UserError, match="one student"):
        effect_of_alpha({}, {}, "y", alt="v")
