"""What every lesson has: hints, a quiz whose options are explained, links to files, answers in its solved copy."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from lessons.build import LESSONS, load, sources, versions, without_answers
from lessons.course import graded
from lessons.execution import tags
from lessons.navigation import PLACES, badges, links, repository, with_links

SOURCES = sources(LESSONS)
EXERCISE = re.compile(r"^### Exercise \d+: .*difficulty (\d)\)", re.MULTILINE)
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
ANSWER = re.compile(r"<!-- BEGIN ANSWER -->.*?<!-- END ANSWER -->", re.DOTALL)
QUESTION = re.compile(r"\*\*Question \d\.\*\*")
OPTION = re.compile(r"<details><summary>([A-D])\. .+?</summary>\n\n(.+?)\n\n</details>", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")

each = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem[:2])


def texts(nb: NotebookNode) -> list[str]:
    """The texts of the markdown cells."""
    return [cell.source for cell in nb.cells if cell.cell_type == "markdown"]


@each
def test_a_harder_exercise_has_a_hint(source: Path) -> None:
    for text in texts(load(source)):
        found = EXERCISE.search(text)
        if found and int(found[1]) >= 2:
            assert "<summary>Hint</summary>" in text, found[0]


@each
def test_the_quiz_has_few_questions_and_explains_every_option(source: Path) -> None:
    (quiz,) = [text for text in texts(load(source)) if text.startswith("## Quiz")]
    questions = QUESTION.split(quiz)[1:]
    assert 1 <= len(questions) <= 4
    for question in questions:
        options = OPTION.findall(question)
        assert [letter for letter, _ in options] == list("ABCD")[: len(options)] and len(options) >= 2
        assert question.count("<details>") == len(options), "an option without an explanation"
        right = [text for _, text in options if text.startswith("Right. ")]
        assert len(right) == 1, question
        assert all(len(text.split()) >= 7 for _, text in options), question


@each
def test_an_open_question_is_answered_in_the_solutions(source: Path) -> None:
    """A cell that asks what there is to notice has an answer: folded for all, or in the solved copy alone."""
    for text in texts(load(source)):
        said = FOLDED.sub("", ANSWER.sub("", text))
        if re.search(r"\*\*(What to notice|Predict)", said) and "?" in EXERCISE.split(said)[0]:
            assert "BEGIN ANSWER" in text or re.search(r"<summary>(Our answer|How to answer)", text), text[:200]


@each
def test_a_lesson_begins_with_few_imports(source: Path) -> None:
    """At most eight lines, blank ones included: what only one cell needs, this cell imports."""
    first = next(cell.source for cell in load(source).cells if cell.cell_type == "code")
    assert "import " in first and len(first.strip().splitlines()) <= 8


@pytest.mark.slow
@each
def test_answers_are_in_the_solved_copy_only(source: Path) -> None:
    learner, solved = ("\n".join(texts(nb)) for nb in versions(source, LESSONS).values())
    given = "\n".join(texts(load(source)))
    assert given.count("<!-- BEGIN ANSWER -->") == given.count("<!-- END ANSWER -->") == len(ANSWER.findall(given))
    assert "ANSWER -->" not in learner + solved + "\n".join(texts(graded(load(source))))
    for answer in ANSWER.findall(given):
        text = answer.removeprefix("<!-- BEGIN ANSWER -->\n").removesuffix("\n<!-- END ANSWER -->")
        assert text in solved and text not in learner


@pytest.mark.slow
@each
def test_every_link_of_a_lesson_leads_to_a_file(source: Path) -> None:
    for path, nb in versions(source, LESSONS).items():
        found = [target for text in texts(nb) for target in LINK.findall(text)]
        assert len(found) >= 2, "a lesson has links at its top and at its bottom"
        names = {one.stem for one in SOURCES}
        for target in found:
            there = (path.parent / target).resolve()
            assert there.exists() or (there.suffix == ".ipynb" and there.stem in names), f"{path.name}: {target}"


@pytest.mark.slow
@each
def test_the_links_stand_at_the_top_and_at_the_bottom(source: Path) -> None:
    learner = texts(next(iter(versions(source, LESSONS).values())))
    for text in (learner[0], learner[-1]):
        assert text.count("[Contents](") == 1
        assert ("→](" in text) == (source != SOURCES[-1]) and ("[← " in text) == (source != SOURCES[0])


def test_each_lesson_has_its_place_in_the_paper_and_in_the_code() -> None:
    assert {source.stem[:2] for source in SOURCES} <= PLACES.keys()
    assert all((LESSONS.parent / file).exists() for place in PLACES.values() for file in place.files)


def test_an_address_makes_badges_and_no_address_makes_none(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    assert repository(project) == "" and badges("02_x", "") == ""
    project.write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert repository(project) == ""
    project.write_text('[project.urls]\nRepository = "https://github.com/some-one/course.git"\n', encoding="utf-8")
    assert repository(project) == "some-one/course"
    shown = badges("02_x", "some-one/course")
    assert "/github/some-one/course/blob/main/lessons/02_x.ipynb" in shown
    assert "/gh/some-one/course/main?labpath=lessons/02_x.ipynb" in shown
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 02 X\n\ntext")])
    with_links(nb, "02_x", {"02_x": "02 X"}, False, "some-one/course")
    assert shown in nb.cells[0].source and nb.cells[0].source.startswith("# 02 X\n\n[Contents]")


def test_neighbours_are_named_and_the_ends_have_one() -> None:
    titles = {"a": "A", "b": "B", "c": "C"}
    assert "[← A](a.ipynb)" in links("b", titles, False, False) and "[C →](c.ipynb)" in links("b", titles, False, False)
    assert "←" not in links("a", titles, False, False) and "→" not in links("c", titles, False, False)
    assert "(solutions/b.ipynb)" in links("b", titles, False, True) and "(../b.ipynb)" in links("b", titles, True, True)


def test_an_answer_is_cut_with_its_marks() -> None:
    text = "before\n\n<!-- BEGIN ANSWER -->\n**Our answer.** 42\n<!-- END ANSWER -->"
    assert without_answers(text) == "before"


def test_a_folded_cell_is_folded_in_jupyterlab() -> None:
    folded = [cell for source in SOURCES for cell in load(source).cells if "hide-input" in tags(cell)]
    assert folded and all(cell.metadata["jupyter"] == {"source_hidden": True} for cell in folded)


def test_lesson_10_can_be_read_in_one_sitting() -> None:
    (source,) = [one for one in SOURCES if one.stem.startswith("10")]
    words = sum(len(FOLDED.sub("", ANSWER.sub("", text)).split()) for text in texts(load(source)))
    assert words <= 2200, f"lesson 10 has {words} words outside folded texts; shorten it"
