"""Make a course directory for nbgrader from the lessons: what an instructor releases, collects and grades.

    python -m lessons.course --out course              every lesson that has exercises
    python -m lessons.course --out course --only 02 07

nbgrader itself is needed only to use the result (classroom/requirements.txt); docs/instructor.md says how.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lessons.build import LESSONS, LessonError, load, sources, without_answers
from lessons.execution import lesson_folder, tags
from pmd_corpora.terminal import terminal

_POINTS = re.compile(r"points:(\d+)")
# The stub is the one that lessons.build writes, so a released notebook is the learner's notebook, graded cells apart.
CONFIG = '''# Settings of nbgrader for this course; see docs/instructor.md.
import sys

sys.path[:0] = {paths!r}  # where the lessons are: an answer is judged by lessons/grading.py
import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor
from nbgrader import preprocessors as nbgrader_steps

from lessons.grading import grade_notebook

COURSE = {course!r}
SEED = {seed}  # of the inputs on which answers are tried; keep it to yourself, and another course has another
SECONDS = 60  # an answer may take: after that its process is ended, and its exercise gets no points


class Grade(nbgrader_steps.NbGraderPreprocessor):
    """In place of Execute: every answer runs in a process of its own and is judged outside it."""

    def preprocess(self, nb, resources):
        name = resources["nbgrader"]["assignment"]
        source = nbformat.read(f"{{COURSE}}/source/{{name}}/{{resources['nbgrader']['notebook']}}.ipynb", 4)
        return grade_notebook(nb, source, seed=SEED, seconds=SECONDS), resources


c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "pmd_lite"
c.ClearSolutions.code_stub = {{"python": "# YOUR CODE HERE\\n..."}}
c.ClearHiddenTests.begin_test_delimeter = "BEGIN HIDDEN TESTS"
c.ClearHiddenTests.end_test_delimeter = "END HIDDEN TESTS"
c.Autograde.autograde_preprocessors = [
    Grade, nbgrader_steps.IgnorePattern, ClearMetadataPreprocessor, nbgrader_steps.LimitOutput,
    nbgrader_steps.SaveAutoGrades, nbgrader_steps.AssignLatePenalties, nbgrader_steps.CheckCellMetadata,
]
'''


def make_course(out: Path, only: Sequence[str] = (), lessons: Path = LESSONS, seed: int | None = None) -> list[Path]:
    """Write nbgrader_config.py and source/NN_name/NN_name.ipynb for every lesson with points; returns the notebooks.

    seed: of the inputs of grading. None: the one of the course that is there already, or else one by chance.
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
    config = out / "nbgrader_config.py"
    if seed is None:
        known = (
            re.search(r"^SEED = (\d+)", config.read_text(encoding="utf-8"), re.MULTILINE) if config.exists() else None
        )
        seed = int(known[1]) if known else secrets.randbelow(10**9)
    paths = [str(LESSONS.parent / part) for part in ("", "lessons", "data_scripts")]
    text = CONFIG.format(paths=paths, course=str(out.resolve()), seed=seed)
    config.write_text(text, encoding="utf-8", newline="\n")
    return written


def graded(nb: NotebookNode) -> NotebookNode:
    """Add nbgrader's marks to the notebook, in place: learners solve exercise cells, and check cells are graded."""
    for cell in nb.cells:
        cell.source = without_answers(cell.source)
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
    parser.add_argument("--seed", type=int, help="of the inputs of grading; by default chance, once for a course")
    words = parser.parse_args(argv)
    try:
        for path in make_course(words.out, words.only, seed=words.seed):
            print(f"{path}: {total_points(nbformat.read(path, as_version=4))} points")
    except LessonError as error:
        print(f"course: {error}", file=sys.stderr)
        return 2
    print(f"Next: cd {words.out}, nbgrader generate_assignment NN_name (docs/instructor.md)")
    return 0


if __name__ == "__main__":
    with terminal():
        sys.exit(main())
