"""Build two notebooks from the only source of a lesson, lessons/src/NN_name.py, and execute both.

A learner opens lessons/NN_name.ipynb: it has dots in place of the solutions, and runs from top to bottom unsolved.
lessons/solutions/NN_name.ipynb has the solutions. Both run in one folder, so the second finds the finished training
results of the first.

    python -m lessons.build              every lesson
    python -m lessons.build --only 00    one lesson
    python -m lessons.build --text       execute only lessons whose code has changed; the others get their new text
    python -m lessons.build --check      build nothing; exit 1 and name each notebook that differs from its source

The same source gives the same file: cell ids come from the position, no times and no widget states are kept, and text
on the error stream (progress bars) is left out. A cell with the tag `widget` keeps no output, because a live widget has
no output that lasts: put a static figure before it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from lessons.execution import KERNELSPEC, CellFailed, code_outputs, lesson_folder, run, stderr_texts, tags
from lessons.listings import relist
from lessons.navigation import repository, with_links
from pmd_corpora.terminal import terminal

LESSONS = Path(__file__).resolve().parent
SECONDS_PER_CELL = 1800
_WIDGET = "application/vnd.jupyter.widget-view+json"
_REWRITTEN = re.compile(r"[^\n]*\r(?!\n)")  # a terminal shows only what follows the last carriage return of a line
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"^[ ]*### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
_H1 = re.compile(r"^# \S", re.MULTILINE)
_ANSWER = re.compile(r"<!-- BEGIN ANSWER -->\n(.*?)\n<!-- END ANSWER -->", re.DOTALL)


class LessonError(Exception):
    """A lesson breaks a rule of this file; the message says which rule, and what to do."""


def sources(lessons: Path) -> list[Path]:
    """The sources of all lessons, in reading order."""
    return sorted((lessons / "src").glob("[0-9][0-9]_*.py"))


def load(source: Path) -> NotebookNode:
    """The notebook that `source` describes, without outputs; the same object for the same text."""
    nb = jupytext.read(source, fmt="py:percent")
    nb.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    nb.nbformat, nb.nbformat_minor = 4, 5
    for position, cell in enumerate(nb.cells):
        cell["id"] = f"{source.stem[:2]}-{position:03d}"  # jupytext makes new ids each time it reads the source
        if "hide-input" in tags(cell):  # JupyterLab folds the code; a click opens it
            cell.metadata["jupyter"] = {"source_hidden": True}
    titles = sum(len(_H1.findall(_FENCE.sub("", cell.source))) for cell in nb.cells if cell.cell_type == "markdown")
    if titles != 1:
        raise LessonError(f"{source.name} has {titles} first-level headings; give it exactly one '# Title'.")
    return nb


def versions(source: Path, lessons: Path) -> dict[Path, NotebookNode]:
    """The notebooks of a lesson, not executed: {path: learner's version, path: version with solutions}."""
    learner, solved = load(source), load(source)
    titles = {one.stem: title_of(one) for one in sources(lessons)}
    address = repository(lessons.parent / "pyproject.toml")
    for cell in learner.cells:
        cell.source = without_answers(without_solution(without_hidden_tests(cell.source, source.name), source.name))
    for cell in solved.cells:
        cell.source = _ANSWER.sub(r"\1", with_name(_MARKER.sub("", without_hidden_tests(cell.source, source.name))))
    for nb in (learner, solved):
        with_links(nb, source.stem, titles, nb is solved, address)
    return {lessons / f"{source.stem}.ipynb": learner, lessons / "solutions" / f"{source.stem}.ipynb": solved}


def title_of(source: Path) -> str:
    """The first-level heading of a lesson; its name where there is none."""
    found = re.search(r"^# # (\S.*)", source.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else source.stem


def without_answers(text: str) -> str:
    """A text without the answers to its open questions, which stand between two comments and only in the solutions."""
    return _ANSWER.sub("", text).rstrip()


def with_name(text: str) -> str:
    """A cell as a student fills it in: checks of personal exercises refuse the name that is there to be replaced."""
    return text.replace('student = "your name"', 'student = "Ada"')


def without_solution(text: str, name: str) -> str:
    """A cell with dots in place of every solution, as nbgrader makes it. Raises LessonError for unpaired markers."""
    return _cut(text, "SOLUTION", "# YOUR CODE HERE\n...", name)


def without_hidden_tests(text: str, name: str) -> str:
    """A cell without the tests that only the grader sees. Raises LessonError for unpaired markers."""
    return _cut(text, "HIDDEN TESTS", "", name).rstrip()


def _cut(text: str, what: str, stub: str, name: str) -> str:
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.strip() == f"### BEGIN {what}":
            if inside:
                raise LessonError(f"{name}: ### BEGIN {what} inside another one.")
            inside, indent = True, line[: len(line) - len(line.lstrip())]
            lines += [indent + part for part in stub.splitlines()]
        elif line.strip() == f"### END {what}":
            if not inside:
                raise LessonError(f"{name}: ### END {what} without its beginning.")
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise LessonError(f"{name}: ### BEGIN {what} without its end.")
    return "\n".join(lines)


def build(source: Path, lessons: Path) -> list[Path]:
    """Execute both versions at the reader's size and write them. Raises LessonError or CellFailed."""
    found = versions(source, lessons)
    with tempfile.TemporaryDirectory() as scratch:
        folder = lesson_folder(lessons, Path(scratch) / "lessons")
        for target, nb in found.items():
            run(nb, folder, name=source.stem, size="lesson", timeout=SECONDS_PER_CELL)
            for number, text in stderr_texts(nb):
                print(f"  {source.stem}, cell {number} wrote to the error stream (left out): {text.strip()[-200:]}")
            tidy(nb, source.name)
            _write(nb, target)
    return list(found)


def retell(source: Path, lessons: Path) -> bool:
    """Write the new text of both versions around the stored outputs; False, and nothing written, if code has changed.

    Cells that list source show today's. Outputs from data that have changed need an execution: build the lesson.
    """
    found = versions(source, lessons)
    for target, nb in found.items():
        old = nbformat.read(target, as_version=4) if target.exists() else nbformat.v4.new_notebook()
        pairs = [[cell for cell in cells if cell.cell_type == "code"] for cells in (old.cells, nb.cells)]
        was, now = ([(cell.source, "widget" in tags(cell)) for cell in cells] for cells in pairs)
        if was != now:
            return False
        for stored, cell in zip(*pairs, strict=True):
            cell.outputs, cell.execution_count = stored.outputs, stored.execution_count
        relist(nb)
    for target, nb in found.items():
        _write(nb, target)
    return True


def _write(nb: NotebookNode, target: Path) -> None:
    nbformat.validate(nb)
    target.parent.mkdir(exist_ok=True)
    target.write_text(nbformat.writes(nb) + "\n", encoding="utf-8", newline="\n")


def tidy(nb: NotebookNode, name: str) -> None:
    """Remove from an executed notebook, in place, everything that would differ in the next run of the same code."""
    nb.metadata.pop("widgets", None)
    for cell in nb.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [] if "widget" in tags(cell) else _merged(cell.outputs)
    for number, out in code_outputs(nb):
        if _WIDGET in out.get("data", {}):
            raise LessonError(f'{name}, cell {number} shows a widget: give the cell tags=["widget"].')


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs without the error stream. Neighbouring pieces of text are joined: their cuts depend on timing."""
    kept: list[NotebookNode] = []
    for out in outputs:
        if out.output_type != "stream":
            kept.append(out)
        elif out.name == "stdout" and kept and kept[-1].output_type == "stream":
            kept[-1].text += out.text
        elif out.name == "stdout":
            kept.append(out)
    for out in kept:
        if out.output_type == "stream":
            out.text = _REWRITTEN.sub("", out.text)
        elif out.output_type == "error":  # shown on purpose; its traceback names folders of this machine
            out.traceback = [f"{out.ename}: {out.evalue}"]
    return kept


def check(lessons: Path = LESSONS) -> list[str]:
    """One sentence for each notebook that is missing, stale, unexecuted or without a source; [] when all is well."""
    found = sources(lessons)
    if not found:
        return [f"There is no lesson: {(lessons / 'src').name}/ beside the notebooks has no file NN_name.py."]
    complaints = []
    for source in found:
        try:
            for path, expected in versions(source, lessons).items():
                complaints += _compare(expected, path, path.relative_to(lessons).as_posix(), source.stem)
        except LessonError as err:
            complaints.append(str(err))
    for notebook in sorted([*lessons.glob("*.ipynb"), *lessons.glob("solutions/*.ipynb")]):
        if not (lessons / "src" / f"{notebook.stem}.py").exists():
            complaints.append(f"{notebook.relative_to(lessons).as_posix()} has no source src/{notebook.stem}.py.")
    numbers = [source.stem[:2] for source in found]
    complaints += [f"Two lessons have the number {n}." for n in sorted(set(numbers)) if numbers.count(n) > 1]
    return complaints


def _compare(expected: NotebookNode, path: Path, name: str, source: str) -> list[str]:
    if not path.exists():
        return [f"{name} has not been built: run `make lessons`."]
    found = nbformat.read(path, as_version=4)
    if _parts(found) != _parts(expected):
        return [f"{name} differs from src/{source}.py: edit the source, then run `make lessons`."]
    code = [cell for cell in found.cells if cell.cell_type == "code" and cell.source.strip()]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        return [f"{name} was not executed from top to bottom: run `make lessons`."]
    return []


def _parts(nb: NotebookNode) -> object:
    """The parts of a notebook that the source determines: everything but outputs and execution counts."""
    cells = [(cell.get("id"), cell.cell_type, cell.source, cell.metadata) for cell in nb.cells]
    return nb.metadata, nb.nbformat, nb.nbformat_minor, cells


def main(argv: list[str] | None = None, lessons: Path = LESSONS) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lessons.build", description="Build the lessons from lessons/src.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if a notebook is stale")
    parser.add_argument("--text", action="store_true", help="execute no lesson of which only the text has changed")
    parser.add_argument("--only", metavar="NN", help="build only the lesson with this number")
    args = parser.parse_args(argv)
    if args.check:
        complaints = check(lessons)
        print("\n".join(complaints) or "The notebooks match their sources.")
        return bool(complaints)
    chosen = [source for source in sources(lessons) if args.only in (None, source.stem[:2])]
    if not chosen:
        print(f"There is no lesson {args.only or ''} in {lessons / 'src'}.", file=sys.stderr)
        return 1
    for source in chosen:
        try:
            if args.text and retell(source, lessons):
                print(f"{source.stem}: new text around the stored outputs")
                continue
            print(f"building {source.stem} ...", flush=True)
            build(source, lessons)
        except (LessonError, CellFailed) as err:
            print(err, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    with terminal():
        sys.exit(main())
