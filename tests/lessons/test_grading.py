"""Grading outside the student's process: attacks get no points, honest answers all, accidents cost one exercise."""

from __future__ import annotations

import copy
import functools
import os
from pathlib import Path

import pytest
import torch
from nbformat import NotebookNode

from lessons.answering import packed, unpacked
from lessons.build import LESSONS, load, sources, versions, with_name
from lessons.course import graded
from lessons.grading import borrowings, grade_notebook, task_of
from lessons.slicing import Cell, slice_of, statements
from pmd_kit.exercise import OPEN
from pmd_kit.values import Complaint

SOURCES = {path.stem[:2]: path for path in sources(LESSONS)}
P = "def P(sizes, tau):\n    w = torch.tensor([float(n) ** (1 / tau) for n in sizes])\n    return w / w.sum()"
RATIO = "def ratio(sizes, tau):\n    return (max(sizes) / min(sizes)) ** (1 / tau)"
VISITS = """def visits(sizes, tau, draws):
    return [draws * float(p) / n for p, n in zip(P(sizes, tau), sizes)]"""


@functools.cache
def lesson(number: str) -> NotebookNode:
    """The instructor's notebook, read once: reading takes longer than grading."""
    return graded(load(SOURCES[number]))


def submission(number: str, answers: dict[str, str] | None = None) -> tuple[NotebookNode, NotebookNode]:
    """(A submission of a lesson, the instructor's notebook). answers: what stands in place of a solution, by its name.

    Without answers the solutions of the source stay, under a student's name.
    """
    nb = copy.deepcopy(lesson(number))
    for cell in nb.cells:
        cell.source = with_name(cell.source)
        name = cell.source.split("(")[0].removeprefix("def ")
        if answers is not None and "exercise" in cell.metadata.get("tags", []):
            cell.source = answers.get(name, f"def {name}(*_):\n    ...")
    return nb, lesson(number)


def points(nb: NotebookNode, source: NotebookNode, seconds: float = 60) -> list[tuple[int, str]]:
    """(points, message) of each check cell, counted as nbgrader counts: none where there is an error."""
    found = []
    for cell in grade_notebook(nb, source, seed=7, seconds=seconds).cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("grade"):
            (out,) = cell.outputs
            error = out.output_type == "error"
            found.append((0 if error else marks["points"], out.evalue if error else out.text))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number in SOURCES if number != "00"])
def test_our_own_solutions_get_all_points(number: str) -> None:
    """Each in a fresh process with what it needs and no more: no training, no table."""
    nb, source = submission(number)
    result = points(nb, source)
    assert [message for score, message in result if not score] == []


@pytest.mark.slow
def test_an_honest_submission_and_attacks_on_the_grader() -> None:
    attack = "\nfrom pmd_kit.exercise import Exercise\nExercise.grade = lambda *a, **k: None"
    verdict = "\nimport pmd_kit.exercise\npmd_kit.exercise.Exercise.verdict = lambda *a, **k: (True, 'Right')"
    wrong = "def ratio(sizes, tau):\n    return 1.0"
    cases = {
        "honest": ({"P": P, "ratio": RATIO, "visits": VISITS}, [2, 1, 2]),
        "the kit's answer": ({"P": "P = l02.checks.PROBABILITIES.right", "ratio": RATIO, "visits": VISITS}, [0, 1, 0]),
        "behind a name": (
            {"P": "P = getattr(l02.checks.PROBABILITIES, 'ri' + 'ght')", "ratio": RATIO, "visits": VISITS}, [0, 1, 0]
        ),
        "the library's answer": (
            {"P": "def P(sizes, tau):\n    return temperature_probabilities(sizes, tau)", "ratio": RATIO}, [0, 1, 0]
        ),
        "a patched grader": ({"P": P, "ratio": wrong + attack, "visits": VISITS}, [2, 0, 2]),
        "a patched verdict": ({"P": P, "ratio": wrong + verdict, "visits": VISITS}, [2, 0, 2]),
    }  # fmt: skip
    for name, (answers, expected) in cases.items():
        assert [score for score, _ in points(*submission("02", answers))] == expected, name


@pytest.mark.slow
def test_accidents_cost_their_own_exercise() -> None:
    endless = (
        "def ratio(*_):\n    while True:\n        try:\n            ...\n        except BaseException:\n            ..."
    )
    cases = {
        "import os\n\ndef ratio(sizes, tau):\n    os._exit(0)": "ended Python before",
        "import os\nos._exit(1)": "ended Python before",
        "import os\nos.kill(os.getppid(), 9)\nos._exit(0)": "ended Python before",
        endless: "did not end within",
        "def ratio(sizes, tau):\n    return input()": "raised EOFError",
        "import sys\nsys.exit()": "raised SystemExit",
        "def ratio(sizes, tau:": "Python cannot read",
        "def ratio(sizes, tau):\n    ...": OPEN,
        "# deleted": "is not defined",
    }
    for ratio, says in cases.items():
        nb, source = submission("02", {"ratio": ratio})
        seconds = 5 if ratio is endless else 60
        (first, _), (second, message), (third, _) = points(nb, source, seconds)
        assert (first, second, third) == (0, 0, 0) and says in message, (ratio, message)


def test_no_solution_of_ours_borrows_the_answer() -> None:
    for number, path in SOURCES.items():
        for cell in load(path).cells:
            if task := task_of(cell.source):
                assert task.seed == int(number) or task.seed > 0
    own = statements("from pmd_lite.sampling import temperature_probabilities as t\nx = l01.checks.pack\ny = z.right")
    found = borrowings(own, ["temperature_probabilities"], {"l01.checks.my_lengths(student)"})
    assert len(found) == 3
    assert (
        borrowings(statements("right = 3\ncheck = l01.checks.my_lengths(s)"), [], {"l01.checks.my_lengths(student)"})
        == []
    )


def test_a_slice_holds_what_an_answer_needs_and_no_training() -> None:
    cells = [
        Cell("import math\nimport torch"), Cell("run = train()\nsizes = [1, 2]"),
        Cell("def helper(x):\n    return later(x)"), Cell("def later(x):\n    run = x\n    return math.exp(run)"),
        Cell("def f(x):\n    return helper(x)", solution=True),
        Cell("table = {}\ntable['a'] = 1"), Cell("%%broken ("),
    ]  # fmt: skip
    found = slice_of(cells[:6], {"f"}).code
    assert "train" not in found and "torch" not in found and "sizes" not in found
    assert found.index("import math") < found.index("def helper") < found.index("def f")
    assert "table['a'] = 1" in found, "what a student put behind the answer belongs to it"
    with pytest.raises(SyntaxError):
        slice_of(cells, {"f"})


def test_results_travel_as_plain_data(tmp_path: Path) -> None:
    class Strange:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("false",)

    result = [torch.ones(2).requires_grad_(), (1, 2.5, "a", None, True), {"k": [torch.tensor(1) > 0]}, Strange(), {1}]
    torch.save([packed(x) for x in result], tmp_path / "r.pt")
    back = [unpacked(x) for x in torch.load(tmp_path / "r.pt", weights_only=True)]
    assert torch.equal(back[0], torch.ones(2)) and back[1] == result[1] and bool(back[2]["k"][0])
    assert isinstance(back[3], Complaint) and "an object of type Strange" in back[3] and "a set" in back[4]


@pytest.mark.slow
def test_the_solved_notebooks_have_a_name() -> None:
    for path in SOURCES.values():
        learner, solved = versions(path, LESSONS).values()
        assert all('student = "your name"' not in cell.source for cell in solved.cells)
        assert sum('student = "' in cell.source for cell in learner.cells) == sum(
            'student = "Ada"' in cell.source for cell in solved.cells
        )
