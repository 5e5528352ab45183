"""A class in small: release, three submissions, grading, feedback and the list of grades, through nbgrader itself."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

from lessons.build import LESSONS, LessonError, load, sources, versions
from lessons.course import graded, make_course, total_points
from lessons.execution import tags

LESSON = "02_temperature_sampling"
SOURCE = LESSONS / "src" / f"{LESSON}.py"


# ---------------------------------------------------------------- the directory, without nbgrader


def test_every_check_with_points_follows_an_exercise_and_is_locked() -> None:
    nb = graded(load(SOURCE))
    marks = [(cell.metadata["nbgrader"], cell) for cell in nb.cells if "nbgrader" in cell.metadata]
    assert total_points(nb) == 5
    kinds = [(mark["solution"], mark["grade"], mark["locked"]) for mark, _ in marks]
    assert kinds == [(True, False, False), (False, True, True)] * 3
    assert len({mark["grade_id"] for mark, _ in marks}) == len(marks)
    assert all("BEGIN HIDDEN TESTS" in cell.source for mark, cell in marks if mark["grade"])


def test_the_course_holds_the_lessons_with_points(tmp_path: Path) -> None:
    made = make_course(tmp_path, ["02"])
    assert [path.relative_to(tmp_path).as_posix() for path in made] == [f"source/{LESSON}/{LESSON}.ipynb"]
    assert "course_id" in (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8")
    config = tmp_path / "nbgrader_config.py"
    seed = re.search(r"^SEED = (\d+)", config.read_text(encoding="utf-8"), re.MULTILINE)
    make_course(tmp_path, ["02"])
    assert seed and f"SEED = {seed[1]} " in config.read_text(encoding="utf-8"), "a course keeps its seed"
    make_course(tmp_path, ["02"], seed=5)
    assert "SEED = 5 " in config.read_text(encoding="utf-8")
    with pytest.raises(LessonError, match="no lesson 99"):
        make_course(tmp_path, ["99"])
    with pytest.raises(LessonError, match="no exercise in it is graded"):
        make_course(tmp_path, ["00"])


@pytest.mark.slow
def test_the_instructor_page_has_every_lesson_with_its_exercises_and_points() -> None:
    page = (LESSONS.parent / "docs" / "instructor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d) [^|]+\|[^|]+\| (\d+)[^|]*\| (\d+) \|", page, re.MULTILINE)
    counted = []
    for source in sources(LESSONS):
        nb = graded(load(source))
        exercises = sum("exercise" in tags(cell) for cell in nb.cells)
        counted.append((source.stem[:2], str(exercises), str(total_points(nb))))
    assert rows == counted


# ---------------------------------------------------------------- with nbgrader


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with one assignment, graded for a perfect, a half-right, an empty and a dishonest submission."""
    pytest.importorskip("nbgrader", reason="classroom tools are not installed: pip install -r requirements-dev.txt")
    folder = tmp_path_factory.mktemp("course")
    make_course(folder, ["02"])
    nbgrader(folder, "generate_assignment", LESSON)
    release = folder / "release" / LESSON / f"{LESSON}.ipynb"
    for student in ("ada", "bob", "eve", "mallory"):
        shutil.copytree(release.parent, folder / "submitted" / student / LESSON)
    solve(folder / "submitted" / "ada" / LESSON / f"{LESSON}.ipynb", {"P", "ratio", "visits"})
    solve(folder / "submitted" / "bob" / LESSON / f"{LESSON}.ipynb", {"P"}, wrong={"ratio"})
    solve(folder / "submitted" / "mallory" / LESSON / f"{LESSON}.ipynb", set(), wrong={"ratio"}, attack=ATTACK)
    for step in ("autograde", "generate_feedback"):
        nbgrader(folder, step, LESSON)
    nbgrader(folder, "export")
    return folder


def nbgrader(folder: Path, *words: str) -> None:
    """One step of the command line, in this process, which has imported what each would import for seconds."""
    from nbgrader.apps.nbgraderapp import NbGraderApp
    from traitlets.config import Application

    scripts = str(Path(sys.executable).parent)  # nbgrader starts alembic by name, active environment or not
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("PATH", scripts + os.pathsep + os.environ.get("PATH", ""))
        patched.setattr(sys, "path", [*sys.path])
        try:
            NbGraderApp.launch_instance([*words])  # it raises SystemExit where a step fails
        finally:
            Application.instance().clear_instance()


ATTACK = """from pmd_kit.exercise import Exercise
Exercise.grade = Exercise.check = lambda *_, **__: None
P = l02.checks.PROBABILITIES.right
import os, atexit
atexit.register(os._exit, 0)"""


def solve(path: Path, names: set[str], wrong: set[str] = frozenset(), attack: str = "") -> None:  # type: ignore[assignment]
    """Write our own solutions of these exercises, or a wrong one, into a submission."""
    answers = {cell.source.split("(")[0].removeprefix("def "): cell.source
               for cell in versions(SOURCE, LESSONS)[LESSONS / "solutions" / f"{LESSON}.ipynb"].cells
               if "exercise" in cell.metadata.get("tags", [])}  # fmt: skip
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        name = cell.source.split("(")[0].removeprefix("def ")
        if "YOUR CODE HERE" in cell.source and name in names:
            cell.source = answers[name]
        elif "YOUR CODE HERE" in cell.source and name in wrong:
            cell.source = f"def {name}(sizes, tau):\n    return 1.0"
        elif "YOUR CODE HERE" in cell.source and attack:
            cell.source = attack
    nbformat.write(nb, path)


@pytest.mark.slow
def test_the_release_is_the_learners_notebook(course: Path) -> None:
    release = nbformat.read(course / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    learner = versions(SOURCE, LESSONS)[LESSONS / f"{LESSON}.ipynb"]
    texts = [[cell.source.rstrip() for cell in nb.cells] for nb in (release, learner)]
    assert texts[0][1:-1] == texts[1][1:-1]
    for released, own in zip((texts[0][0], texts[0][-1]), (texts[1][0], texts[1][-1]), strict=True):
        assert "[Contents](" in own and "](" not in released  # links would lead out of the folder that is handed out


@pytest.mark.slow
def test_each_gets_the_points_of_what_is_solved(course: Path) -> None:
    with open(course / "grades.csv", encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: (float(row["raw_score"]), float(row["max_score"])) for row in csv.DictReader(file)}
    assert rows == {"ada": (5, 5), "bob": (2, 5), "eve": (0, 5), "mallory": (0, 5)}


@pytest.mark.slow
def test_hidden_tests_are_in_no_release_and_feedback_says_what_is_wrong(course: Path) -> None:
    released = (course / "release" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
    assert "HIDDEN" not in released and ".grade(" not in released and "SOLUTION" not in released
    pages = {student: (course / "feedback" / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
             for student in ("ada", "bob", "eve")}  # fmt: skip
    assert "Score: 5.0 / 5.0" in pages["ada"]
    assert "Not attempted yet" in pages["eve"]
    assert "expected" in pages["bob"]
