"""Checks of lesson 14: what is missing in TED's files, memory of a micro-batch, the loss scale of fp16."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmd_corpora.ted8 import collect
from pmd_kit.exercise import Case, Exercise, Mistake, personal

Row = Mapping[str, str]
Pairs = list[tuple[str, str]]
UPDATE = 65_536
SCALE = 65_536.0


# ---- which pairs are there

_ROWS: list[dict[str, str]] = [
    {"en": "good morning .", "fr": "bonjour .", "bs": "dobro jutro ."},
    {"en": "it rains .", "fr": "il pleut .", "bs": "__NULL__"},
    {"en": "__NULL__", "fr": "une ligne seule .", "bs": "red ."},
    {"en": "first . _ _ NULL _ _", "fr": "premier . deuxième .", "bs": "prvi ."},
    {"en": "a NULL hypothesis .", "fr": "une hypothèse NULL .", "bs": "nulta hipoteza ."},
    {"en": "nothing there .", "fr": " ", "bs": "ništa ."},
    {"en": "the sea .", "bs": "more ."},
    {"en": "_ _ NULL _ _", "fr": "qui parle ?", "bs": "tko govori ?"},
    {"en": "the end .", "fr": "la fin .", "bs": "kraj ."},
]


def _row_cases(rng: np.random.Generator) -> Sequence[Case]:
    return [(_ROWS, "fr"), (_ROWS, "bs"), ([_ROWS[i] for i in rng.permutation(len(_ROWS)).tolist()], "fr")]


def _kept(rows: Sequence[Row], code: str, ok: Callable[[str, str], bool], turned: bool = False) -> Pairs:
    there = [(row[code], row["en"]) for row in rows if code in row and "en" in row]
    kept = [pair for pair in there if ok(*pair)]
    return [(en, foreign) for foreign, en in kept] if turned else kept


def _whole(text: str) -> bool:
    return bool(text.strip()) and "__NULL__" not in text and "_ _ NULL _ _" not in text


def _everywhere(rows: Sequence[Row], code: str) -> Pairs:
    whole = [row for row in rows if all(_whole(row.get(c, "")) for c in ("en", "fr", "bs"))]
    return [(row[code], row["en"]) for row in whole]


def _plain_marks(foreign: str, english: str) -> bool:
    return "__NULL__" not in (foreign, english) and bool(foreign.strip() and english.strip())


def _whole_cells(foreign: str, english: str) -> bool:
    return all(side.strip() not in ("", "__NULL__", "_ _ NULL _ _") for side in (foreign, english))


def _blanks_stay(foreign: str, english: str) -> bool:
    return all(mark not in side for mark in ("__NULL__", "_ _ NULL _ _") for side in (foreign, english))


def right_pairs(rows: Sequence[Row], code: str) -> Pairs:
    """As data_scripts/pmd_corpora/ted8.py."""
    return collect((dict(row) for row in rows), [code]).pairs[code]


PAIRS = Exercise(
    "pairs", right_pairs, _row_cases,
    [
        Mistake("Only cells that are __NULL__ go. Where a tokenizer changed it, the mark reads _ _ NULL _ _, as a "
                "whole cell or inside a sentence of which a part is missing.",
                lambda rows, code: _kept(rows, code, _plain_marks)),
        Mistake("You compare a cell with the mark __NULL__ and keep blank sides. A mark may also read _ _ NULL _ _, or "
                "stand inside a sentence (use `in`), and a blank side is missing.",
                lambda rows, code: _kept(rows, code, lambda a, b: "__NULL__" not in (a, b))),
        Mistake("You compare whole cells with both marks. One may stand inside a sentence: use `in`, not ==. And a "
                "blank side is missing.", lambda rows, code: _kept(
                    rows, code, lambda a, b: not {a.strip(), b.strip()} & {"__NULL__", "_ _ NULL _ _"})),
        Mistake("You look for _ _ NULL _ _ alone. Where no tokenizer was at work it reads __NULL__.",
                lambda rows, code: _kept(
                    rows, code, lambda a, b: "_ _ NULL _ _" not in a + b and bool(a.strip() and b.strip()))),
        Mistake("You miss a mark inside a sentence: that sentence is translated in part only. Use `in`, not ==.",
                lambda rows, code: _kept(rows, code, _whole_cells)),
        Mistake("You look at the foreign side alone. English may be missing as well.",
                lambda rows, code: _kept(rows, code, lambda a, b: _whole(a))),
        Mistake("You look at the English side alone. The foreign one may be missing as well.",
                lambda rows, code: _kept(rows, code, lambda a, b: _whole(b))),
        Mistake("You throw out every line with NULL in it. That loses sentences about null hypotheses.",
                lambda rows, code: _kept(rows, code, lambda a, b: _whole(a) and _whole(b) and "NULL" not in a + b)),
        Mistake("A blank side is missing, too: it has nothing to translate. Strip before you decide.",
                lambda rows, code: _kept(rows, code, _blanks_stay)),
        Mistake("The sides are turned: the pair is xx-en, foreign first.",
                lambda rows, code: _kept(rows, code, lambda a, b: _whole(a) and _whole(b), turned=True)),
        Mistake("You keep only lines that every language has. Each pair needs English and its own language, no more.",
                _everywhere),
        Mistake("All lines are kept. Leave out those where a side is missing.",
                lambda rows, code: [(row.get(code, ""), row["en"]) for row in rows]),
        Mistake("These are the English sides alone. A pair has two sides, foreign first.",
                lambda rows, code: [row["en"] for row in rows]),
    ],
    library=("collect",),
)  # fmt: skip


# ---- what fits into memory


def right_fit(memory: float, fixed: float, per_token: float, update: int = UPDATE) -> tuple[int, int]:
    """The fewest equal micro-batches, a power of two, that fit."""
    accumulate = 1
    while fixed + per_token / 1000 * (update // accumulate) > memory:
        accumulate *= 2
    return update // accumulate, accumulate


def _fit(memory: float, fixed: float, per_token: float) -> tuple[int, int]:
    return right_fit(memory, fixed, per_token)


def _memory_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases: list[Case] = [(16.0, 3.2, 0.9), (80.0, 6.0, 0.9), (24.0, 9.0, 1.0), (80.0, 7.0, 0.5)]
    return [*cases, (float(rng.choice([12, 16, 24, 40])), 4.0, float(rng.uniform(0.4, 2.0)))]


FIT = Exercise(
    "fit", _fit, _memory_cases,
    [
        Mistake("Parameters, gradients and optimiser take their place first: only memory - fixed is left for tokens.",
                lambda m, f, t: right_fit(m, 0.0, t)),
        Mistake("The micro-batch fits, but the update has shrunk with it. Accumulate as many as make up 65,536 tokens.",
                lambda m, f, t: (right_fit(m, f, t)[0], 1)),
        Mistake("per_token is in MB, memory in GB: 1 GB is 1,000 MB.",
                lambda m, f, t: right_fit(m * 1e3, f * 1e3, t * 1e6)),
        Mistake("That is one step too large: it does not fit. Halve until it does.",
                lambda m, f, t: (2 * right_fit(m, f, t)[0], max(1, right_fit(m, f, t)[1] // 2))),
        Mistake("It fits, but a micro-batch twice as large would as well, and larger ones are faster.",
                lambda m, f, t: (right_fit(m, f, t)[0] // 2, right_fit(m, f, t)[1] * 2)),
        Mistake("The other way round: tokens first, then accumulate.", lambda m, f, t: right_fit(m, f, t)[::-1]),
        Mistake("The largest number of tokens that fits is not a power of two: micro-batches would be unequal, or the "
                "update no longer "
                "65,536. Halve 65,536 until it fits.",
                lambda m, f, t: (int((m - f) * 1000 / t), -(-UPDATE // int((m - f) * 1000 / t)))),
    ],
)  # fmt: skip


# ---- the loss scale


def right_scales(finite: Sequence[bool], interval: int) -> list[float]:
    """The scale each update is computed with, as torch's GradScaler moves it."""
    scale, good, used = SCALE, 0, []
    for ok in finite:
        used.append(scale)
        good = good + 1 if ok else 0
        if not ok:
            scale /= 2
        elif good == interval:
            scale, good = 2 * scale, 0
    return used


def _walk(
    finite: Sequence[bool], interval: int, *, reset: bool = True, again: bool = False, grow: bool = True,
    down: float = 0.5, after: bool = False,
) -> list[float]:  # fmt: skip
    """The scales with one rule broken: what an overflow does to the count, what growth does, and so on."""
    scale, good, used = SCALE, 0, []
    for ok in finite:
        before = scale
        good = good + 1 if ok else (0 if reset else good)
        if not ok:
            scale *= down
        elif good >= interval and grow:
            scale, good = 2 * scale, good if again else 0
        used.append(scale if after else before)
    return used


def _by_clock(finite: Sequence[bool], interval: int) -> list[float]:
    """Grows whenever the number of the update is a multiple of the interval."""
    scale, used = SCALE, []
    for number, ok in enumerate(finite, 1):
        used.append(scale)
        scale = scale / 2 if not ok else 2 * scale if number % interval == 0 else scale
    return used


def _flags(rng: np.random.Generator) -> Sequence[Case]:
    told = [False, False, True, True, True, False, True, True, True, True, True, True, True, True, False, True]
    return [(told, 3), (told, 4), ((rng.random(14) < 0.75).tolist(), 3)]


SCALES = Exercise(
    "scales", right_scales, _flags,
    [
        Mistake("These are the scales after each update. Return the scale that it is computed with: append, then "
                "change.",
                lambda x, k: _walk(x, k, after=True)),
        Mistake("The scale never grows again. After `interval` good updates in a row it is doubled.",
                lambda x, k: _walk(x, k, grow=False)),
        Mistake("An overflow must set the count of good updates back to 0: they count in a row.",
                lambda x, k: _walk(x, k, reset=False)),
        Mistake("After doubling, the count begins at 0 again; yours continues, and the scale doubles at every update.",
                lambda x, k: _walk(x, k, again=True)),
        Mistake("An overflow means that the scale is too large: halve it, do not double it.",
                lambda x, k: _walk(x, k, down=2.0)),
        Mistake("An overflow changes nothing here. The scale is halved.", lambda x, k: _walk(x, k, down=1.0)),
        Mistake("You grow at every multiple of the interval, good updates in a row or not.", _by_clock),
        Mistake("The scale never changes. It is halved after an overflow and doubled after good updates.",
                lambda x, k: [SCALE] * len(x)),
        Mistake("True is a good update here, False an overflow: you read them the other way round.",
                lambda x, k: right_scales([not ok for ok in x], k)),
    ],
)  # fmt: skip


# ---- an overflow log

Log = list[tuple[int, float]]
_LENGTH = 14


def my_log(student: str) -> Log:
    """(update, loss scale of the update), a line for each update of this student's own log. Raises UserError without a
    name."""
    rng = personal(student, "overflow")
    first = int(rng.integers(200, 900))
    while True:
        flags = (rng.random(_LENGTH) < 0.72).tolist()
        # The last line is not an overflow, which the log could not show. The scale grows at least once; there are two
        # to four overflows, none of them first.
        scales = right_scales(flags, 3)
        skipped = [i for i, ok in enumerate(flags) if not ok]
        grown = [i for i in range(1, _LENGTH) if scales[i] > scales[i - 1]]
        if flags[-1] and 2 <= len(skipped) <= 4 and grown and skipped[0] > 0:
            return [(first + i, scale) for i, scale in enumerate(scales)]


def read_log(log: Log) -> tuple[list[int], float, int]:
    """(updates that were skipped, scale after the last line's, updates that Adam made)."""
    skipped = [step for (step, scale), (_, then) in itertools.pairwise(log) if then < scale]
    return skipped, log[-1][1], len(log) - len(skipped)


def my_reading(student: str) -> Exercise:
    """Exercise 4, on this student's own log."""
    log = my_log(student)
    skipped, scale, made = read_log(log)
    changed = [step for (step, a), (_, b) in itertools.pairwise(log) if a != b]
    lower = [step + 1 for step in skipped]
    return Exercise("answer", lambda: read_log(log), mistakes=[
        Mistake("You name the updates with the new, smaller scale. Skipped was the one before: it overflowed, and then "
                "the scale was halved.", lambda: (lower, scale, made)),
        Mistake("A doubled scale is not an overflow: it follows enough good updates in a row.",
                lambda: (changed, scale, len(log) - len(changed))),
        Mistake("Adam makes no step at a skipped update: it does not count.", lambda: (skipped, scale, len(log))),
        Mistake("The skipped updates are right. The last answer is how many updates were made, not how many were "
                "skipped.",
                lambda: (skipped, scale, len(skipped))),
        Mistake("The scale at the end is the last line's, not the one it began with.",
                lambda: (skipped, log[0][1], made)),
        Mistake("Give the numbers of the updates as they stand in the log, not their place in it.",
                lambda: ([step - log[0][0] for step in skipped], scale, made)),
        Mistake("Nothing was skipped? Look where the scale falls from one line to the next.",
                lambda: ([], scale, len(log))),
    ], student=student)  # fmt: skip
