"""Exercises that check themselves: they say what is right, and what a wrong answer most likely mixed up.

A typical mistake is written down as another function. If a learner's answers agree with it on every input, the learner
made that mistake, and the check explains it.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_lite.errors import UserError
from pmd_lite.training.snapshot import differences

Case = tuple[Any, ...]
OPEN = "Not attempted yet: replace the dots, run the cell above, then this one again."


def personal(student: str, exercise: str = "") -> np.random.Generator:
    """Random numbers that belong to one student: the same name always draws the same, neighbours draw others.

    Raises UserError for an empty name.
    """
    if not student.strip():
        raise UserError('student is empty: write your name or number between the quotes, student = "..."')
    digest = hashlib.sha256(f"{student.strip().casefold()}\n{exercise}".encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer as a function, and what to say to a learner who gives it."""

    says: str
    answer: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """One exercise: the right answer, inputs to try it on, typical mistakes.

    name: how messages call it. right: the library's own function. cases: makes the inputs from random numbers, the
    telling ones first. mistakes: the likeliest first. through: how an answer is applied to one input, by default
    `answer(*case)`; an exercise on gradients calls the answer in here and returns the gradients too.
    tolerance: largest difference that counts as equal, absolute and relative. An answer may also be a plain value: then
    `right` and the mistakes are functions without arguments.
    """

    name: str
    right: Callable[..., Any]
    cases: Callable[[np.random.Generator], Sequence[Case]] = lambda rng: [()]
    mistakes: Sequence[Mistake] = ()
    through: Callable[[Callable[..., Any], Case], Any] = lambda answer, case: answer(*case)
    tolerance: float = 1e-5

    def check(self, answer: Any, *, seed: int | None = None) -> None:
        """Say whether `answer` (a function or a value) is right, and what a wrong one most likely mixed up.

        Never raises, so that a notebook runs on. seed: of the random inputs; by default others at every call.
        """
        print(self.verdict(answer, seed=seed)[1])

    def grade(self, answer: Any, *, seed: int) -> None:
        """For the grader: raises AssertionError, with what `check` says, unless the answer is right."""
        solved, message = self.verdict(answer, seed=seed)
        if not solved:
            raise AssertionError(message)

    def verdict(self, answer: Any, *, seed: int | None = None) -> tuple[bool, str]:
        """Whether the answer is right, and what to say about it."""
        if answer is None or answer is Ellipsis:
            return False, OPEN
        function = answer if callable(answer) else lambda *_: answer
        cases = self.cases(np.random.default_rng(seed))
        found = []
        for number, case in enumerate(cases):
            given = copy.deepcopy(case)
            try:
                result = self.through(function, given)
            except NotImplementedError:
                return False, OPEN
            except Exception as error:  # whatever a learner's code raises is a message, never the end of the notebook
                return False, f"{self._call(case)} raised {type(error).__name__}: {error}"
            if number == 0 and (result is None or result is Ellipsis):
                return False, OPEN
            if changed := next(iter(differences(_plain(case), _plain(given), "input")), None):
                return False, (
                    f"{self.name} changes its input ({changed}): an in-place operation (x[...] = , x += , .sort(), "
                    "x.add_()) writes into what the caller still needs. Work on a copy."
                )
            found.append(result)
        expected = [self.through(self.right, copy.deepcopy(case)) for case in cases]
        wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not self._same(a, b)]
        if not wrong:
            return True, f"Right: {self.name} agrees with the library on {len(cases)} input{'s' * (len(cases) > 1)}."
        if likely := self._likely(found, cases):
            return False, f"Not yet. {likely}"
        return False, self._difference(cases[wrong[0]], found[wrong[0]], expected[wrong[0]], len(wrong), len(cases))

    def _likely(self, found: Sequence[Any], cases: Sequence[Case]) -> str | None:
        """What the first mistake says that gives the same results on every input."""
        for mistake in self.mistakes:
            try:
                same = all(
                    self._same(result, self.through(mistake.answer, copy.deepcopy(case)))
                    for result, case in zip(found, cases, strict=True)
                )
            except Exception:  # a mistake need not be defined everywhere
                continue
            if same:
                return mistake.says
        return None

    def _same(self, a: Any, b: Any) -> bool:
        return same(a, b, self.tolerance)

    def _call(self, case: Case) -> str:
        return f"{self.name}({', '.join(_short(x) for x in case)})" if case else self.name

    def _difference(self, case: Case, found: Any, expected: Any, wrong: int, total: int) -> str:
        x, y = _array(found), _array(expected)
        if x is not None and y is not None and x.shape != y.shape:
            what = f"has shape {list(x.shape)}, expected {list(y.shape)}"
        else:
            what = f"gives {_short(found)}, expected {_short(expected)}"
        often = f" ({wrong} of {total} inputs differ)" if total > 1 else ""
        return f"Not yet. {self._call(case)} {what}{often}."


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Equal up to `tolerance`, whatever holds the numbers: tensor, array, list; dictionaries, tuples part by part."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    x, y = _array(a), _array(b)
    if x is not None and y is not None:
        if x.shape != y.shape:
            return False
        return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(i, j, tolerance) for i, j in zip(a, b, strict=True))
    return bool(type(a) is type(b) and a == b)


def _array(x: Any) -> np.ndarray[Any, Any] | None:
    """Numbers as an array; None for anything else (text, ragged lists, dictionaries)."""
    if isinstance(x, Tensor):
        return x.detach().cpu().double().numpy() if not x.is_complex() else None
    if isinstance(x, (list, tuple)) and x:
        parts = [_array(part) for part in x]
        known = [part for part in parts if part is not None]
        alike = len(known) == len(parts) and len({part.shape for part in known}) == 1
        return np.stack(known) if alike else None
    if isinstance(x, (Number, np.ndarray)):
        try:
            return np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):  # complex numbers, arrays of text
            return None
    return None


def _plain(x: Any) -> Any:
    """Inputs in the form that `differences` compares bit by bit."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    if isinstance(x, (list, tuple)):
        return [_plain(i) for i in x]
    return x


def _short(x: Any) -> str:
    """A value in a few words."""
    if isinstance(x, (Tensor, np.ndarray)):
        values = _array(x)
        if values is not None and values.size <= 8:
            return str(np.array2string(values, precision=4, separator=", ").replace("\n", ""))
        return f"<{type(x).__name__.lower()} of shape {list(x.shape)}>"
    if isinstance(x, float):
        return f"{x:.6g}" if math.isfinite(x) else str(x)
    text = repr(x)
    return text if len(text) <= 80 else f"{text[:77]}..."
