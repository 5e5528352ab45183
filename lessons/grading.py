"""Grade a submission outside the student's process: nothing that an answer does can change the verdict on it.

Used by a course directory (`lessons.course`), on the instructor's side; no notebook imports it, and it is not installed
with the package. For each check cell with points it takes the student's code for that exercise, runs it in a process of
its own (`lessons.answering`), which hands back plain data, and compares these data here. The process ends after a time
limit. An answer that ends Python, or never ends, costs its own exercise only.

docs/instructor.md says what this cannot prevent.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import numpy as np
import torch
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from lessons.answering import RESULT, TASK, unpacked
from lessons.slicing import Cell, Slice, slice_of, statements
from pmd_kit.exercise import OPEN, Exercise, Judged

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60
MEMORY_GB = 16
# What an answer has no business with, as attributes: parts of an exercise that hold or make the verdict.
_GRADER = {"right", "mistakes", "verdict", "judged", "judge", "grade"}
_KIT = re.compile(r"\bl\d\d\b")


@dataclass(frozen=True)
class Task:
    """What a hidden test asks: `exercise.grade(answer, seed=seed)`, the first two as source text."""

    exercise: str
    answer: str
    seed: int


def task_of(text: str) -> Task | None:
    """The task in the source of a check cell, if it has a hidden test."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "grade":
            seed = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "seed"), 0)
            return Task(ast.unparse(node.func.value), ast.unparse(node.args[0]), int(seed))
    return None


def grade_notebook(nb: NotebookNode, source: NotebookNode, seed: int = 0, seconds: float = SECONDS) -> NotebookNode:
    """Write the verdict into each graded cell, in place, as the output that nbgrader turns into points.

    nb: the submission, its check cells restored. source: the instructor's notebook. seed: chosen by the instructor and
    added to the seed in the notebook, so that no student knows the inputs of grading.
    """
    given = {ast.unparse(statement) for cell in source.cells for statement in statements(_plain(cell))}
    for number, cell in enumerate(nb.cells):
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"):
            judged = _grade_cell(nb, number, given, seed, seconds)
            cell.outputs = [_output(judged)]
    return nb


def _grade_cell(nb: NotebookNode, number: int, given: set[str], seed: int, seconds: float) -> Judged:
    task = task_of(nb.cells[number].source)
    if task is None:
        return Judged("raised", "This cell has no hidden test: make the course again (docs/instructor.md).")
    cells = [Cell(_plain(cell), bool(cell.metadata.get("nbgrader", {}).get("solution"))) for cell in nb.cells[:number]
             if not cell.metadata.get("nbgrader", {}).get("locked")]  # fmt: skip
    needed = {node.id for text in (task.exercise, task.answer) for node in ast.walk(ast.parse(text))
              if isinstance(node, ast.Name)}  # fmt: skip
    try:
        answer = slice_of(cells, needed)
    except SyntaxError as error:
        return Judged("raised", f"Python cannot read the cell with the answer: {error}")
    task = Task(task.exercise, task.answer, task.seed + seed)
    handed = run_answer(task, answer.code, seconds)
    if isinstance(handed, Judged):
        return handed
    return judge(task, answer, given, handed)


def judge(task: Task, answer: Slice, given: set[str], handed: dict[str, Any]) -> Judged:
    """The verdict on what the student's process handed back."""
    exercise = _exercise(task.exercise, str(handed.get("student") or ""))
    if "says" in handed or not isinstance(handed.get("found"), list):
        return Judged("open" if handed.get("says") == OPEN else "raised", str(handed.get("says"))[:2000])
    cases = exercise.cases(np.random.default_rng(task.seed))
    if len(handed["found"]) != len(cases):
        return Judged("raised", "The answer handed back other results than the check asked for.")
    judged = exercise.judge([unpacked(x) for x in handed["found"]], cases)
    own = [statement for statement in answer.statements if ast.unparse(statement) not in given]
    if judged.solved and (borrowed := borrowings(own, exercise.library, given)):
        return Judged("raised", (
            f"No points: the answer uses {', '.join(borrowed)}, which is the library's or the check's own answer. "
            "Write it yourself. If this is an error, show it to your instructor."
        ))  # fmt: skip
    return judged


def _exercise(text: str, student: str) -> Exercise:
    """The exercise that an expression of the instructor's notebook names, from our own modules."""
    names: dict[str, Any] = {"student": student}
    for room in set(_KIT.findall(text)):
        names[room] = importlib.import_module(f"pmd_kit.{room}")
        importlib.import_module(f"pmd_kit.{room}.checks")
    exercise = eval(text, names)  # our own text, out of the hidden test
    assert isinstance(exercise, Exercise)
    return exercise


def borrowings(own: Sequence[ast.stmt], library: Sequence[str], given: set[str]) -> list[str]:
    """What a student's own statements take from the check or from the library although it is the answer."""
    known = " ".join(given)
    found: dict[str, None] = {}
    for node in (node for statement in own for node in ast.walk(statement)):
        if isinstance(node, ast.Attribute):
            of_checks = isinstance(node.value, ast.Attribute) and node.value.attr == "checks"
            if node.attr in _GRADER | set(library) or (of_checks and f"checks.{node.attr}" not in known):
                found[ast.unparse(node)] = None
        elif isinstance(node, ast.Name) and node.id in library and isinstance(node.ctx, ast.Load):
            found[node.id] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            if "pmd_kit" in f"{module} {' '.join(names)}" or set(names) & set(library):
                found[ast.unparse(node)] = None
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "pmd_kit" in node.value:
            found[repr(node.value)] = None
    return list(found)


def run_answer(task: Task, code: str, seconds: float = SECONDS) -> dict[str, Any] | Judged:
    """Run an answer on the inputs of an exercise in a process of its own; what it hands back, or why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"code": code, "exercise": task.exercise, "answer": task.answer, "seed": task.seed, "gb": MEMORY_GB}
        Path(folder, TASK).write_text(json.dumps(asked), encoding="utf-8", newline="\n")
        status = (_in_fork if hasattr(os, "fork") else _in_new_process)(folder, seconds)
        if status is None:
            return Judged("raised", f"The answer did not end within {seconds:g} seconds: is there an endless loop?")
        result = Path(folder, RESULT)
        if status != 0 or not result.is_file():
            return Judged("raised", f"The answer ended Python before it gave a result (exit status {status}).")
        try:
            handed = torch.load(result, weights_only=True)  # plain data: nothing in the file is executed
        except Exception as error:
            return Judged("raised", f"What the answer handed back cannot be read: {type(error).__name__}.")
    return handed if isinstance(handed, dict) else Judged("raised", "The answer handed back no results.")


def _environment() -> dict[str, str]:
    """What an answer's process knows of ours: no more than it needs to start."""
    kept = ("PATH", "SYSTEMROOT", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR")
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "lessons", "data_scripts"))
    ours = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PMD_SIZE": "ci", "MPLBACKEND": "Agg",
            "MPLCONFIGDIR": matplotlib.get_configdir()}  # fmt: skip
    return {name: os.environ[name] for name in kept if name in os.environ} | ours


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process whose forks run the answers; it ends with us, when its input ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "lessons.answering", "--serve"], env=_environment(), start_new_session=True, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _in_fork(folder: str, seconds: float) -> int | None:
    """Exit status of an answer in a fork of the server, None if it took too long."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    try:
        server.stdin.write(json.dumps({"folder": folder, "seconds": seconds}) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
    except BrokenPipeError:
        line = ""
    if line:
        status = json.loads(line)
        return None if status is None else int(status)
    _server.cache_clear()  # the answer has ended the server too; the next one gets another
    server.kill()
    return -1


def _in_new_process(folder: str, seconds: float) -> int | None:
    """The same where the system cannot fork: slower by the imports."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lessons.answering"], cwd=folder, env=_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()


def _output(judged: Judged) -> NotebookNode:
    if judged.solved:
        return nbformat.v4.new_output("stream", name="stdout", text=judged.message)
    return nbformat.v4.new_output("error", ename="AssertionError", evalue=judged.message, traceback=[judged.message])


def _plain(cell: NotebookNode) -> str:
    """The source of a code cell as plain Python, magic commands turned into calls; "" for any other cell."""
    return str(TransformerManager().transform_cell(cell.source)) if cell.cell_type == "code" else ""


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.parse("")
