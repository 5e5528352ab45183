"""Make a course directory for nbgrader from the lessons: what an instructor releases, collects and grades.

    python -m lessons.course --out course              every lesson that has exercises
    python -m lessons.course --out course --only 02 07

nbgrader itself is needed only to use the result (classroom/requirements.txt); docs/instructor.md says how.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lessons.build import LESSONS, LessonError, load, sources
from lessons.execution import lesson_folder, tags

_POINTS = re.compile(r"points:(\d+)")
# lessons.build writes the same stub, so a released notebook is the learner's notebook, except for its graded cells.
CONFIG = """# Settings of nbgrader for this course; see docs/instructor.md.
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "pmd_lite"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\\n..."}
c.ExecutePreprocessor.timeout = 600  # seconds a cell may take; an endless loop is stopped, and its cell gets no points
c.ClearHiddenTests.begin_test_delimeter = "BEGIN HIDDEN TESTS"
c.ClearHiddenTests.end_test_delimeter = "END HIDDEN TESTS"
os.environ["PMD_SIZE"] = "ci"  # training cells of a submission run at their smallest size
"""


def make_course(out: Path, only: Sequence[str] = (), lessons: Path = LESSONS) -> list[Path]:
    """Write nbgrader_config.py and source/NN_name/NN_name.ipynb for every lesson with points; returns the notebooks.

    Raises LessonError if `only` names an unknown lesson, or a lesson without points.
    """
    chosen = [source for source in sources(lessons) if not only or source.stem[:2] in only]
    notebooks = {source: graded(load(source)) for source in chosen}
    unknown = set(only) - {source.stem[:2] for source in chosen}
    if unknown:
        raise LessonError(f"there is no lesson {', '.join(sorted(unknown))}")
    with_points = {source: nb for source, nb in notebooks.items() if total_points(nb)}
    if without := [source.stem for source in chosen if only and source not in with_points]:
        raise LessonError(f"{', '.join(without)}: no exercise in it is graded")
    written = []
    for source, nb in with_points.items():
        folder = lesson_folder(lessons, out / "source" / source.stem)
        nbformat.validate(nb)
        target = folder / f"{source.stem}.ipynb"
        target.write_text(nbformat.writes(nb) + "\n", encoding="utf-8", newline="\n")
        written.append(target)
    (out / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8", newline="\n")
    return written


def graded(nb: NotebookNode) -> NotebookNode:
    """Add nbgrader's marks to the notebook, in place: learners solve exercise cells, and check cells are graded."""
    for cell in nb.cells:
        cell_tags = tags(cell)
        points = [int(found[1]) for tag in cell_tags if (found := _POINTS.fullmatch(tag))]
        if "exercise" in cell_tags:
            cell.metadata["nbgrader"] = _marks(cell, grade=False, solution=True)
        elif points:
            cell.metadata["nbgrader"] = {**_marks(cell, grade=True, solution=False), "points": points[0]}
    return nb


def total_points(nb: NotebookNode) -> int:
    """Points of all graded cells."""
    return sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in nb.cells)


def _marks(cell: NotebookNode, *, grade: bool, solution: bool) -> dict[str, object]:
    return {"grade": grade, "grade_id": f"cell-{cell.id}", "locked": grade, "schema_version": 3, "solution": solution,
            "task": False}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lessons.course", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("course"), help="directory of the course")
    parser.add_argument("--only", nargs="+", default=[], metavar="NN", help="only these lessons")
    words = parser.parse_args(argv)
    try:
        for path in make_course(words.out, words.only):
            print(f"{path}: {total_points(nbformat.read(path, as_version=4))} points")
    except LessonError as error:
        print(f"course: {error}", file=sys.stderr)
        return 2
    print(f"Next: cd {words.out}, nbgrader generate_assignment NN_name (docs/instructor.md)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
