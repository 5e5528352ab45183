"""The two factories of lessons 00 and 16: the problem, the training, the sentences, and the stored study."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import factories as study
from lessons.build import load
from lessons.execution import tags
from pmd_kit import factories
from pmd_kit.factories import Outcome, Plan, Sorter, World, area, train
from pmd_kit.l16.conditions import COMPARED, RIVALS, Conditions, mean
from pmd_lite.errors import UserError
from pmd_lite.figures.style import alt_text

SHORT: dict[str, Any] = {"steps": 20, "every": 10}


def test_a_world_is_decided_by_its_seed_and_noise_makes_labels_random() -> None:
    data, again, clean = World().data(3), World().data(3), World(noise=0.0).data(3)
    assert [tuple(x.shape) for x, _ in data["train"]] == [(2000, 12), (40, 12)]
    assert all(x[:, 10:].argmax(1).unique().tolist() == [factory] for factory, (x, _) in enumerate(data["test"]))
    for split in data:
        for (x, kind), (x2, kind2), (_, true) in zip(data[split], again[split], clean[split], strict=True):
            assert torch.equal(x, x2) and torch.equal(kind, kind2)
            if len(kind) > 1000:
                assert float((kind != true).double().mean()) == pytest.approx(0.2 * 4 / 5, abs=0.03)


def test_until_the_start_a_student_is_its_single_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same batches and weights; distillation begins after a fifth of the updates."""
    data, seen = World().data(1), []
    step = Sorter.step

    def watched(me: Sorter, batch: factories.Parts, alpha: float, peer: Sorter, smoothing: float = 0.0) -> None:
        seen.append((me.net[0].weight.detach().clone(), batch[0], alpha))
        step(me, batch, alpha, peer, smoothing)

    monkeypatch.setattr(Sorter, "step", watched)
    train(data, 1, Plan((1, math.inf), alpha=0.5, steps=10, every=100))
    for student, tau in enumerate((1, math.inf)):
        mine = seen[student:20:2]
        del seen[20:]
        train(data, 1, Plan((tau,), steps=10, every=100))
        assert [alpha for *_, alpha in mine] == [0.0] * 2 + [0.5] * 8
        for update, (ours, theirs) in enumerate(zip(mine, seen[20:], strict=True), start=1):
            assert torch.equal(ours[1], theirs[1]) and theirs[2] == 0
            assert torch.equal(ours[0], theirs[0]) is (update <= 3), "the third update is the first that listens"


def _equal(a: Sorter, b: Sorter) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.net.parameters(), b.net.parameters(), strict=True))


def test_a_search_leaves_the_network_as_it_was() -> None:
    data = World().data(1)
    me, peer = (Sorter(seed, 1, (2000, 40)) for seed in (1, 2))
    me.step(me.batch(data, 0), 0.0, peer)
    before, logits = me.copy(), me.logits.clone()
    factories.search(me, peer, data, mu=1.0)
    assert _equal(me, before) and not torch.equal(me.logits, logits)
    for key, value in me.adam.state_dict()["state"][0].items():
        assert torch.equal(value, before.adam.state_dict()["state"][0][key])


def test_one_thread_works_and_the_others_are_back_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def stopped(*args: Any) -> list[Sorter]:
        seen.append(torch.get_num_threads())
        raise KeyboardInterrupt

    monkeypatch.setattr(factories, "train", stopped)
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            factories.compare([1], factories.ALONE)
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)  # as in all tests


def test_the_sentence_counts_worlds() -> None:
    scores = {
        "tau=1": [[60, 40, 1, 1], [60, 40, 1, 1]],
        "tau=inf": [[50, 50, 1, 1], [50, 50, 1, 1]],
        "Auto-PMD model_1": [[61, 45, 1, 1], [59, 41, 1, 1]],
        "Auto-PMD model_2": [[61, 51, 1, 1], [50, 49, 1, 1]],
    }
    found = Outcome(scores)
    assert found.growth(0) == pytest.approx(100 * (41 * 31 / (40 * 20 + 10 * 30) - 1))
    assert "is larger in 1 of 2 worlds" in found.reading() and "outwards in 1 of 2 worlds" in found.reading()
    fig = found.figure()
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["mean of 2 worlds", "world 1", "world 2"]
    assert "world 2: 40, 60; 50, 50 became 41, 59; 49, 50" in alt_text(fig)
    assert "-10.00 (0 of 2)" in found.differences([("tau=inf", "tau=1")]).to_text()


def test_a_frontier_is_drawn_as_steps_that_enclose_what_it_beats() -> None:
    fig = factories.pictures.frontiers(
        {"a": ([(1.0, 3.0), (2.0, 1.0)], [(2.0, 4.0), (3.0, 2.0)])}, "x", "y", ("b", "c"), alt="z"
    )
    lines = [line for line in fig.axes[0].lines if line.get_drawstyle() == "steps-pre"]
    assert [(list(line.get_xdata())[1:3], list(line.get_ydata())[:3]) for line in lines] == [
        ([1.0, 2.0], [3.0, 3.0, 1.0]), ([2.0, 3.0], [4.0, 4.0, 2.0]),
    ]  # fmt: skip
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study in small: two cases, two worlds, twenty updates."""
    folder = tmp_path_factory.mktemp("study")
    cases = {"base": {"base": study.Case()}, "weight": {"high": study._with(alpha=0.8)}}
    found: dict[str, Any] = {}
    for question, named in cases.items():
        for name, case in named.items():
            short = replace(case, plan=replace(case.plan, **SHORT))
            found[question] = {name: {str(seed): study.one_world(short, seed) for seed in (1, 2)}}
    file = folder / "cases.json"
    file.write_text(json.dumps({"command": "x", "cases": found}), encoding="utf-8")
    return file


@pytest.mark.slow
def test_the_stored_study_compares_with_every_rival(stored: Path) -> None:
    conditions = Conditions.load(stored)
    table = conditions.table()
    assert [row[:2] for row in table.rows] == [["base", "base"], ["weight", "high"]]
    assert len(table.columns) == 2 + len(COMPARED) and set(RIVALS) | {"ensemble"} == {rival for rival, *_ in COMPARED}
    record = json.loads(stored.read_text())["cases"]["base"]["base"]["2"]
    ours, theirs = ([(n[1], n[0]) for n in record[name]["kept"]] for name in ("students", "ensemble"))
    assert conditions.gains("base", "base", "ensemble")[1] == pytest.approx(100 * (area(ours) / area(theirs) - 1))
    assert conditions.gains("weight", "high", "tau=2") != conditions.gains("base", "base", "tau=2")
    assert len(conditions.reasons().rows) == 2
    assert "Two students have the larger area than two single networks" in conditions.reading()
    assert alt_text(conditions.figure()).startswith("Mean gain in area")
    with pytest.raises(UserError, match=r"make it with python -m benchmarks\.factories"):
        Conditions.load(stored.parent / "none.json")


@pytest.mark.slow
def test_a_finished_study_trains_nothing(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(study, "CASES", {"base": {"base": study.Case()}})
    monkeypatch.setattr(study, "WORLDS", (1, 2))
    monkeypatch.setattr(study, "one_world", None)
    before = stored.read_bytes()
    monkeypatch.setattr("sys.argv", ["factories", "--store", str(stored), "--report", str(tmp_path)])
    study.main()
    assert "nothing to do" in capsys.readouterr().out and stored.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"table.md", "figure.png", "figure.pdf"}


def test_the_course_and_the_demo_open_with_the_factories() -> None:
    """`make demo` prints the cells tagged result-table in their order."""
    nb = load(Path(__file__).resolve().parents[2] / "lessons" / "src" / "00_the_whole_story.py")
    first, *others = [cell.source for cell in nb.cells if "result-table" in tags(cell)]
    assert first == "print(sorted_parts.reading())" and len(others) == 1 and "bleu_table" in others[0]
    code = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    assert not any("train_side_by_side" in source for source in code[: code.index(first)])


def test_the_lessons_say_of_the_stored_study_what_it_holds() -> None:
    """Lessons 00 and 16 state counts and means of `lessons/results/studies/factories` in prose."""
    found = Conditions.load(Path(__file__).resolve().parents[2] / study.STORED)
    labels, base = "random labels", ("base", "tau=1 and tau=inf, searched")
    assert set(found.rows()) == {(question, case) for question, cases in study.CASES.items() for case in cases}
    assert found.wins(labels, "none", "two smoothed") == 0 and found.wins(labels, "none", "two single", "last") == 1
    assert found.wins(*base, "two smoothed") == 3 and found.wins(labels, "40 %", "two smoothed") == 5
    assert found.wins("sensors in common", "none", "two single", "last") == 1
    assert found.wins("samplers of the two", "tau=inf twice", "two single") == 0
    assert found.wins("updates", "300", "two single") == 2
    assert found.wins(*base, "two single", "last") == 5
    assert {record["heart"]["last"] for record in found.cases["base"][base[1]].values()} == {100.0}
    opening = [found.systems(labels, "40 %", name) for name in ("two single", "students")]
    for alone, together in zip(*opening, strict=True):  # the whole frontier moved in every world
        assert all(any(x > a and y > b for x, y, *_ in together) for a, b, *_ in alone)
    means = [
        round(mean(found.gains(*case, "two single", net)))
        for case in (base, ("samplers of the two", "tau=1 twice"), ("weight alpha", "fixed, 0.5"))
        for net in ("kept", "last")
    ]
    assert means == [5, 9, 4, 6, 4, 6]
