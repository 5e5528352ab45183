"""Exercises that check themselves: they say what is right, and what a wrong answer most likely mixed up.

A typical mistake is written down as another function. If a learner's answers agree with it on every input, the learner
made that mistake, and the check explains it.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmd_kit.slips import difference, direction, general_slip
from pmd_kit.values import plain, same, short
from pmd_lite.data.text import is_blank
from pmd_lite.errors import UserError
from pmd_lite.training.snapshot import differences

__all__ = ["OPEN", "PLACEHOLDERS", "Case", "Exercise", "Judged", "Mistake", "personal", "same"]

Case = tuple[Any, ...]
OPEN = "Not attempted yet: replace the dots, run the cell above, then this one again."
NO_RETURN = "Not yet. {} returns nothing (None): end it with `return` and the result."
PRINTED = "Not yet. {} prints its result and returns nothing: write `return` where you print."
PLACEHOLDERS = ("your name", "name", "student", "your name or number")
NAMELESS = (
    'Not yet. The name is still "{}", so these are not your numbers: write your name between the quotes '
    "(student = ...), run the cell above again, and answer for the numbers that it then shows."
)
# What often raises these errors, by a part of their text.
_HINTS = (
    ("positional argument", "Keep the line with `def` as it was: the check calls the function with these arguments."),
    ("math domain error", "math.log needs a number above 0, math.sqrt one that is not below 0."),
    ("has no attribute", "Look at the type of the input: a list lacks the methods of a tensor, and vice versa."),
    ("unsupported operand", "Look at the types: lists and tuples are not added, multiplied or compared like tensors."),
    ("list indices must be", "A list takes one whole number as its index, not a mask or several numbers."),
    ("can't multiply sequence", "A list times a number repeats the list. Make a tensor of it, or multiply each entry."),
    ("index out of range", "Off by one, or the wrong axis: the last valid index is the length minus 1."),
    ("out of bounds", "Off by one, or the wrong axis: the last valid index is the length minus 1."),
    ("out of range", "Off by one, or the wrong axis: there are fewer of them than you ask for."),
    ("division by zero", "Which input makes the divisor 0? Look at the arguments in this call."),
    ("must match", "The shapes do not fit: print the shape of both tensors. Often an axis of length 1 is missing."),
    ("cannot be multiplied", "The shapes do not fit: is one of the matrices to be transposed?"),
    ("broadcast", "The shapes do not fit: print the shape of both. Often an axis of length 1 is missing."),
    ("keyerror", "The dictionary lacks this key: for some inputs it is not there. Use `in`, or .get(key)."),
    ("is not defined", "A name is misspelled, or the cell that defines it was not run."),
    ("does not require grad", "The graph is cut: something is detached, a number, or under torch.no_grad()."),
    ("ambiguous", "A comparison of tensors gives many answers: use .all() or .any(), or compare entry by entry."),
    ("recursion", "The function calls itself (or another of its name) without an end."),
    ("expected tensor", "A list is given to a function of torch: torch.tensor(x) makes a tensor of it."),
    ("must be tensor", "A number or a list is given to a function of torch: torch.tensor(x) makes a tensor of it."),
    ("not iterable", "You loop over (or unpack) a single number."),
    ("not subscriptable", "You index something that is a single number or a function."),
)  # fmt: skip


def personal(student: str, exercise: str = "") -> np.random.Generator:
    """Random numbers that belong to one student: the same name always draws the same, neighbours draw others.

    Raises UserError for an empty name.
    """
    if is_blank(student):
        raise UserError('student is empty: write your name or number between the quotes, student = "..."')
    digest = hashlib.sha256(f"{student.strip().casefold()}\n{exercise}".encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer as a function, and what to say to a learner who gives it."""

    says: str
    answer: Callable[..., Any]


@dataclass(frozen=True)
class Judged:
    """A verdict. kind: right, open, nameless, raised, input, mistake, slip (one that any exercise knows) or shown."""

    kind: str
    message: str

    @property
    def solved(self) -> bool:
        """Whether the answer gets its points."""
        return self.kind == "right"


@dataclass(frozen=True)
class Exercise:
    """One exercise: the right answer, inputs to try it on, typical mistakes.

    name: how messages call it. right: the library's own function. cases: makes the inputs from random numbers, the
    telling ones first. mistakes: the likeliest first. through: how an answer is applied to one input, by default
    `answer(*case)`; an exercise on gradients calls the answer in here and returns the gradients too.
    tolerance: largest difference that counts as equal, absolute and relative. An answer may also be a plain value: then
    `right` and the mistakes are functions without arguments. student: whose own numbers these are; then no message
    holds the right result, and a name that was not filled in is refused. library: functions of the library that are
    the answer; an answer that calls one gets no points (`lessons.grading`).
    """

    name: str
    right: Callable[..., Any]
    cases: Callable[[np.random.Generator], Sequence[Case]] = lambda rng: [()]
    mistakes: Sequence[Mistake] = ()
    through: Callable[[Callable[..., Any], Case], Any] = lambda answer, case: answer(*case)
    tolerance: float = 1e-5
    student: str | None = None
    library: Sequence[str] = ()

    def check(self, answer: Any, *, seed: int | None = None) -> None:
        """Say whether `answer` (a function or a value) is right, and what a wrong one most likely mixed up.

        Never raises, so that a notebook runs on. seed: of the random inputs; by default others at every call.
        """
        print(self.verdict(answer, seed=seed)[1])

    def grade(self, answer: Any, *, seed: int) -> None:
        """For a hidden test: raises AssertionError, with what `check` says, unless the answer is right."""
        solved, message = self.verdict(answer, seed=seed)
        if not solved:
            raise AssertionError(message)

    def verdict(self, answer: Any, *, seed: int | None = None) -> tuple[bool, str]:
        """Whether the answer is right, and what to say about it."""
        judged = self.judged(answer, seed=seed)
        return judged.solved, judged.message

    def judged(self, answer: Any, *, seed: int | None = None) -> Judged:
        """The verdict on an answer, with its kind."""
        cases = self.cases(np.random.default_rng(seed))
        found = self.results(answer, cases)
        return found if isinstance(found, Judged) else self.judge(found, cases)

    def results(self, answer: Any, cases: Sequence[Case]) -> list[Any] | Judged:
        """What the answer gives on each input; a verdict where it raises, changes its input or is not there.

        Nothing in here needs the right answer.
        """
        if answer is None or answer is Ellipsis:
            return Judged("open", OPEN)
        function = answer if callable(answer) else lambda *_: answer
        found = []
        for number, case in enumerate(cases):
            given, printed = copy.deepcopy(case), io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    result = self.through(function, given)
            except NotImplementedError:
                return Judged("open", OPEN)
            except (Exception, SystemExit) as error:  # what a learner's code raises never ends the notebook
                return Judged("raised", self._raised(case, error))
            if number == 0 and result is Ellipsis:
                return Judged("open", OPEN)
            if number == 0 and result is None:
                return self._nothing(answer, printed.getvalue())
            if changed := next(iter(differences(plain(case), plain(given), "input")), None):
                return Judged("input", (
                    f"{self.name} changes its input ({changed}): an in-place operation (x[...] = , x += , .sort(), "
                    "x.add_()) writes into what the caller still needs. Work on a copy."
                ))  # fmt: skip
            found.append(result)
        return found

    def judge(self, found: Sequence[Any], cases: Sequence[Case]) -> Judged:
        """The verdict on what an answer gave on these inputs."""
        if self.student is not None and self.student.strip().casefold() in PLACEHOLDERS:
            return Judged("nameless", NAMELESS.format(self.student.strip()))
        expected = [self.through(self.right, copy.deepcopy(case)) for case in cases]
        wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not same(a, b, self.tolerance)]
        if not wrong:
            inputs = f"{len(cases)} input{'s' * (len(cases) > 1)}"
            return Judged("right", f"Right: {self.name} agrees with the library on {inputs}.")
        if likely := self._likely(found, cases):
            return Judged("mistake", f"Not yet. {likely}")
        if slip := general_slip(found, expected, cases, self.tolerance, self.student is None):
            return Judged("slip", f"Not yet. {self.name}: {slip}")
        first = wrong[0]
        if self.student is not None:
            return Judged("shown", f"Not yet. {self.name} {direction(found[first], expected[first], self.tolerance)}.")
        often = f" ({len(wrong)} of {len(cases)} inputs differ)" if len(cases) > 1 else ""
        told = difference(found[first], expected[first], self.tolerance)
        return Judged("shown", f"Not yet. {self._call(cases[first])} {told}{often}.")

    def _likely(self, found: Sequence[Any], cases: Sequence[Case]) -> str | None:
        """What the first mistake says that gives the same results on every input."""
        for mistake in self.mistakes:
            try:
                alike = all(
                    same(result, self.through(mistake.answer, copy.deepcopy(case)), self.tolerance)
                    for result, case in zip(found, cases, strict=True)
                )
            except Exception:  # a mistake need not be defined everywhere
                continue
            if alike:
                return mistake.says
        return None

    def _nothing(self, answer: Any, printed: str) -> Judged:
        """The first result is None: dots that were not replaced, or a `return` that was forgotten."""
        if printed.strip():
            return Judged("slip", PRINTED.format(self.name))
        return Judged("open", OPEN) if _is_stub(answer) else Judged("slip", NO_RETURN.format(self.name))

    def _raised(self, case: Case, error: BaseException) -> str:
        text = f"{self._call(case)} raised {type(error).__name__}: {error}"
        words = f"{type(error).__name__}: {error}".lower()
        hint = next((says for part, says in _HINTS if part in words), None)
        return f"{text.rstrip('.')}. {hint}" if hint else text

    def _call(self, case: Case) -> str:
        return f"{self.name}({', '.join(short(x) for x in case)})" if case else self.name


def _is_stub(answer: Any) -> bool:
    """Whether a function does nothing: dots, `pass` or a docstring. True also for what is not a plain function."""
    code = getattr(answer, "__code__", None)
    if code is None:
        return True
    constants = [x for x in code.co_consts if x is not None and x is not Ellipsis and x != answer.__doc__]
    return (
        not constants
        and not code.co_names
        and code.co_nlocals
        == code.co_argcount + code.co_kwonlyargcount + (bool(code.co_flags & 4) + bool(code.co_flags & 8))
    )
