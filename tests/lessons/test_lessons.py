"""Every lesson runs from top to bottom, unsolved and solved, at the small size PMD_SIZE=ci, hidden tests included."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from lessons.build import load, without_solution
from lessons.execution import CellFailed, code_outputs, figures, indented, lesson_folder, run, stderr_texts

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
NOTEBOOKS = sorted(LESSONS.glob("[0-9][0-9]_*.ipynb"))
SECONDS_PER_CELL = 300


def test_there_are_lessons() -> None:
    assert NOTEBOOKS, "No lessons/NN_*.ipynb found: write lessons/src/NN_name.py and run `make lessons`."


HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)\n### END HIDDEN TESTS", re.DOTALL)
NO_POINTS = """try:
{}
except AssertionError:
    pass
else:
    raise RuntimeError("full points without an answer")"""


def without_points(found: re.Match[str]) -> str:
    """A hidden test turned round: the cell fails if the test passes."""
    return NO_POINTS.format(indented(found[1]))


def notebook(path: Path, solved: bool) -> NotebookNode:
    """The lesson with the hidden tests that grading puts back: solved they must pass, unsolved each must refuse."""
    nb = load(LESSONS / "src" / f"{path.stem}.py")
    for cell in nb.cells:
        if not solved:
            cell.source = HIDDEN.sub(without_points, without_solution(cell.source, path.name))
    return nb


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_lesson_runs(path: Path, tmp_path: Path) -> None:
    """What it shows is what a reader sees: the hidden tests print nothing. The solved one finds the runs trained."""
    folder = lesson_folder(LESSONS, tmp_path / "lessons")
    for solved in (False, True):
        nb = notebook(path, solved)
        try:
            run(nb, folder, name=path.name, size="ci", timeout=SECONDS_PER_CELL)
        except CellFailed as err:
            pytest.fail(f"solved is {solved}: {err}", pytrace=False)  # without the frames of the machinery
        finally:
            nbformat.write(nb, tmp_path / f"{path.stem}_{solved}.ipynb")  # what ran, for a look after a failure

        broken = [f"cell {number}: {text[-500:]}" for number, text in stderr_texts(nb) if "Traceback" in text]
        assert not broken, f"{path.name} runs, but prints an error in passing: {broken}"
        drawn = figures(nb)
        assert drawn, f"{path.name} shows no figure."
        silent = sorted({figure.cell for figure in drawn if not figure.alt})
        assert not silent, f"{path.name}: the figures of cells {silent} have no text alternative."
        dots = [number for number, out in code_outputs(nb) if out.get("data", {}).get("text/plain") == "Ellipsis"]
        assert not dots, f"{path.name}: cells {dots} show the dots of an exercise: end them with another line."
        open_ones = [number for number, out in code_outputs(nb) if "Not attempted" in out.get("text", "")]
        assert bool(open_ones) != solved, f"{path.name}, solved is {solved}, not attempted in cells {open_ones}"
