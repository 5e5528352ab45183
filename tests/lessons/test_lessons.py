"""Every lesson runs from top to bottom, unsolved and solved, at the small size PMD_SIZE=ci, hidden tests included."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from lessons.build import load, with_name, without_solution
from lessons.execution import (
    CellFailed,
    code_outputs,
    figures,
    indented,
    lesson_folder,
    run,
    stderr_texts,
)
from tests.lessons.slices import second_run

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
    """The opposite of a hidden test: the cell fails if the test passes."""
    return NO_POINTS.format(indented(found[1]))


def notebook(path: Path, solved: bool) -> NotebookNode:
    """The lesson with the hidden tests that grading puts back: solved, all must pass; unsolved, each must fail."""
    nb = load(LESSONS / "src" / f"{path.stem}.py")
    for cell in nb.cells:
        if solved:
            cell.source = with_name(cell.source)
        else:
            cell.source = HIDDEN.sub(without_points, without_solution(cell.source, path.name))
    return nb


def in_one_kernel(path: Path) -> tuple[NotebookNode, dict[bool, NotebookNode]]:
    """The lesson unsolved, then, solved, its cells that can now do something else: one notebook, and its two parts.

    A second kernel would only import everything again, and most cells would only repeat themselves. `lessons.build`
    executes both notebooks whole, each in its own kernel. The parts share their cells with the whole, outputs included.
    """
    parts = {solved: notebook(path, solved) for solved in (False, True)}
    for nb in parts.values():
        nb.cells = [cell for cell in nb.cells if cell.cell_type == "code"]
    before, after = ([cell.source for cell in nb.cells] for nb in parts.values())
    parts[True].cells = [parts[True].cells[i] for i in second_run(before, after)]
    assert parts[True].cells, f"{path.name} has no exercise"
    whole = nbformat.v4.new_notebook(metadata=parts[False].metadata)
    whole.cells = [*parts[False].cells, *parts[True].cells]
    for number, cell in enumerate(whole.cells):
        cell["id"] = f"cell-{number}"  # twice the same would be no notebook
    return whole, parts


@pytest.fixture
def kernels(warm: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter starts its kernels warm, and so do they their processes, where a process may fork."""
    if warm:
        spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
        spec.parent.mkdir(parents=True)
        argv = [str(warm), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3 (ipykernel)", "language": "python"}))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_lesson_runs(path: Path, tmp_path: Path, kernels: None) -> None:
    """Its outputs are those that a reader sees: the hidden tests print nothing."""
    whole, parts = in_one_kernel(path)
    try:
        run(whole, lesson_folder(LESSONS, tmp_path / "lessons"), name=path.name, size="ci", timeout=SECONDS_PER_CELL)
    except CellFailed as err:
        solved = err.number > len(parts[False].cells)
        pytest.fail(f"solved is {solved}: {err}", pytrace=False)  # without the frames of the machinery
    finally:
        nbformat.write(whole, tmp_path / f"{path.stem}.ipynb")  # what ran, for a look after a failure
    for solved, nb in parts.items():
        check_what_it_shows(nb, path.name, solved)


def check_what_it_shows(nb: NotebookNode, name: str, solved: bool) -> None:
    """No printed error, every figure with its text, and unsolved exercises if and only if the notebook is unsolved."""
    broken = [f"cell {number}: {text[-500:]}" for number, text in stderr_texts(nb) if "Traceback" in text]
    assert not broken, f"{name} runs, but prints an error in passing: {broken}"
    drawn = figures(nb)
    assert drawn or solved, f"{name} shows no figure."
    silent = sorted({figure.cell for figure in drawn if not figure.alt})
    assert not silent, f"{name}: the figures of cells {silent} have no text alternative."
    dots = [number for number, out in code_outputs(nb) if out.get("data", {}).get("text/plain") == "Ellipsis"]
    assert not dots, f"{name}: cells {dots} show the dots of an exercise: end them with another line."
    open_ones = [number for number, out in code_outputs(nb) if "Not attempted" in out.get("text", "")]
    assert bool(open_ones) != solved, f"{name}, solved is {solved}, not attempted in cells {open_ones}"
