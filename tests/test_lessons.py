"""Every lesson runs from top to bottom as its reader would run it, at the small size PMD_SIZE=ci."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from lessons.execution import CellFailed, figures, lesson_folder, run, stderr_texts

LESSONS = Path(__file__).resolve().parents[1] / "lessons"
NOTEBOOKS = sorted(LESSONS.glob("[0-9][0-9]_*.ipynb"))
SECONDS_PER_CELL = 300


def test_there_are_lessons() -> None:
    assert NOTEBOOKS, "No lessons/NN_*.ipynb found: write lessons/src/NN_name.py and run `make lessons`."


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_lesson_runs(path: Path, tmp_path: Path) -> None:
    folder = lesson_folder(LESSONS, tmp_path / "lessons")
    nb = nbformat.read(path, as_version=4)
    try:
        run(nb, folder, name=path.name, size="ci", timeout=SECONDS_PER_CELL)
    except CellFailed as err:
        pytest.fail(str(err), pytrace=False)  # the cell and its error, without the frames of the machinery
    finally:
        nbformat.write(nb, tmp_path / path.name)  # what ran, for a look after a failure

    broken = [f"cell {number}: {text[-500:]}" for number, text in stderr_texts(nb) if "Traceback" in text]
    assert not broken, f"{path.name} runs, but prints an error in passing: {broken}"
    drawn = figures(nb)
    assert drawn, f"{path.name} shows no figure."
    silent = sorted({figure.cell for figure in drawn if not figure.alt})
    assert not silent, f"{path.name}: the figures of cells {silent} have no text alternative."
