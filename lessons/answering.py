"""The process in which one answer of a student runs. It knows the inputs and hands back results; it judges nothing.

It reads a task from the folder in which it runs, and writes plain data there (`lessons.grading` starts it). The right
answers of the exercises are taken out of the kit before the student's code runs.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import OPEN, Exercise, Judged
from pmd_kit.values import Complaint, kind

TASK, RESULT = "task.json", "result.pt"
_COMPLAINT = "complaint of the check"


def packed(x: Any) -> Any:
    """A result as tensors, numbers, texts, lists and dictionaries: what can be read without executing anything."""
    if isinstance(x, Complaint):
        return {_COMPLAINT: str(x)}
    if x is None or type(x) in (bool, int, float, str):
        return x
    for exact in (str, int, float):
        if isinstance(x, exact):  # a class of its own, such as numpy.float64
            return exact(x)
    if isinstance(x, Tensor):
        return x.detach().cpu().clone()
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return torch.from_numpy(np.array(x, dtype=bool if x.dtype.kind == "b" else np.float64))
    if isinstance(x, np.ndarray):
        return packed(x.tolist())
    if isinstance(x, np.generic):
        return packed(x.item())
    if isinstance(x, Mapping):
        return {packed(key): packed(value) for key, value in x.items()}
    if isinstance(x, tuple):
        return tuple(packed(part) for part in x)
    if isinstance(x, (list, range, type({}.keys()), type({}.values()))):
        return [packed(part) for part in x]
    with contextlib.suppress(TypeError, ValueError):
        if isinstance(x, Number):
            return float(x)  # type: ignore[arg-type]
    return {_COMPLAINT: f"It returns {kind(x)}, and numbers, texts or lists are asked for"}


def unpacked(x: Any) -> Any:
    """The other direction: complaints are complaints again."""
    if isinstance(x, dict):
        if x.keys() == {_COMPLAINT}:
            return Complaint(x[_COMPLAINT])
        return {key: unpacked(value) for key, value in x.items()}
    return type(x)(unpacked(part) for part in x) if type(x) in (list, tuple) else x


def _hide_answers() -> None:
    """From here on an exercise has no right answer and no mistakes, whoever asks for them."""

    def refuse(_: Any) -> Any:
        raise AttributeError("the grader's process holds no right answers")

    Exercise.right = property(refuse, lambda *_: None)  # type: ignore[assignment,method-assign]
    Exercise.mistakes = property(refuse, lambda *_: None)  # type: ignore[assignment]


def _limit_memory(gigabytes: float) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30), int(gigabytes * 2**30)))


def answered(task: Mapping[str, Any]) -> dict[str, Any]:
    """{"found": one result for each input} or {"says": why there is none}, and the student's name if there is one."""
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(task["code"], "<answer>", "exec"), names)
        student = names.get("student")
        handed: dict[str, Any] = {"student": student if isinstance(student, str) else None}
        answer = eval(task["answer"], names)
        exercise: Exercise = eval(task["exercise"], names)
    except NameError as error:
        return {"says": f"{OPEN} ({error}.)"}
    except BaseException as error:  # SystemExit and KeyboardInterrupt too
        return {"says": f"The cell with the answer raised {type(error).__name__}: {error}"}
    found = exercise.results(answer, exercise.cases(np.random.default_rng(task["seed"])))
    return handed | ({"says": found.message} if isinstance(found, Judged) else {"found": [packed(x) for x in found]})


def main() -> None:
    """Answer the task of this folder."""
    task = json.loads(Path(TASK).read_text(encoding="utf-8"))
    _limit_memory(task["gb"])
    _hide_answers()
    torch.save(answered(task), RESULT)


def serve() -> None:
    """For each line on stdin, {"folder", "seconds"}, answer the task of that folder in a fork; print its exit status.

    The imports are made once. This process runs no student's code, so a fork of it is as clean as a new one. What all
    lessons use is imported here too, because it takes seconds; a lesson's room is not, because it holds right answers.
    """
    importlib.import_module("pmd_kit.widgets")
    if rooms := [name for name in sys.modules if re.match(r"pmd_kit\.l\d\d", name)]:
        raise ImportError(f"the grader's server would hand the answers of {', '.join(rooms)} to every fork")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_an_answer(asked["folder"])
        print(json.dumps(_waited(child, asked["seconds"])), flush=True)


def _become_an_answer(folder: str) -> None:
    """In a fork: cut the ties to the server, answer, end."""
    status = 1
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        sys.stdin = io.StringIO()  # the old one may have read ahead
        os.chdir(folder)
        os.environ["HOME"] = folder
        main()
        status = 0
    finally:
        os._exit(status)


def _waited(child: int, seconds: float) -> int | None:
    """The exit status of a fork, None if it was ended for taking too long. All that it started is ended with it."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found or time.monotonic() > end:
            break
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if not found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # it may not have begun its group yet
        os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
