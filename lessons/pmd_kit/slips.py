"""Slips of any exercise: a sign, a per cent, a logarithm, an order, a type; and where two values differ.

An exercise knows its own typical mistakes. What is here needs only the results and the right ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pmd_kit.values import Array, Complaint, array, kind, listed, same, short

Results = Sequence[Any]
"""One result for each input of an exercise."""
_PLACES = ("first", "second", "third", "fourth", "fifth")


def _softmax(y: Array) -> Array:
    weights = np.exp(y - y.max())
    return np.asarray(weights / weights.sum())


# What a slip makes of the right answer. These may be named to a learner with personal numbers: they say what went
# wrong, and a number is not among the words.
_TELLING: list[tuple[str, Callable[[Array], Any]]] = [
    ("The sign is turned: the result is minus the right one.", lambda y: -y),
    ("That is in per cent. Give the share, a number between 0 and 1.", lambda y: 100 * y),
    ("Upside down: that is 1 divided by the right result.", lambda y: 1 / y),
    ("That is 1 minus the right result, the other part of the whole.", lambda y: 1 - y),
    ("The numbers are right, the order is turned round.", lambda y: y[::-1]),
    ("That is the logarithm of the right result.", np.log),
    ("That is e to the power of the right result: take the logarithm.", np.exp),
    ("That is a logarithm to base 2. Use the natural one, math.log(x) or torch.log.", lambda y: y / math.log(2)),
    ("That is a logarithm to base 10. Use the natural one, math.log(x) or torch.log.", lambda y: y / math.log(10)),
    ("Only the first of the numbers is there.", lambda y: y[0]),
    ("The sign of some numbers is lost: you take the absolute value.", np.abs),
]
_OPEN: list[tuple[str, Callable[[Array], Any]]] = [
    ("That is a share where the whole is asked for: it is the right result divided by 100.", lambda y: y / 100),
    ("Every number is twice the right one.", lambda y: 2 * y),
    ("Every number is half of the right one.", lambda y: y / 2),
    ("That is the square: take the root.", lambda y: y**2),
    ("That is the root of the right result: leave the root out, or square.", np.sqrt),
    ("Off by one: every number is 1 too large.", lambda y: y + 1),
    ("Off by one: every number is 1 too small.", lambda y: y - 1),
    ("You cut off the fraction (int(), // or floor).", np.floor),
    ("You round up to whole numbers.", np.ceil),
    *[("You round the result. Return all digits: what is computed from it later needs them.",
       lambda y, digits=digits: np.round(y, digits)) for digits in range(5)],
    ("That is the largest of the numbers alone.", np.max),
    ("That is the smallest of the numbers alone.", np.min),
    ("That is the sum of all numbers. Return each of them.", np.sum),
    ("That is the mean of all numbers. Return each of them.", np.mean),
    ("That is the position of the largest number, not the number.", np.argmax),
    ("That is the position of the smallest number, not the number.", np.argmin),
    ("You divide by the sum, so that the numbers sum to 1; they should not.", lambda y: y / y.sum()),
    ("You take a softmax of the right result: it is already what is asked for.", _softmax),
    ("Off by one: the first one is missing.", lambda y: y[1:]),
    ("Off by one: the last one is missing.", lambda y: y[:-1]),
    ("Off by one: the numbers are right, but each is one place too far.", lambda y: np.roll(y, 1, axis=0)),
    ("Off by one: the numbers are right, but each is one place too early.", lambda y: np.roll(y, -1, axis=0)),
    ("The numbers are right, but you sort them. Keep the order of the input.", np.sort),
    ("Rows and columns are exchanged: the result is transposed.", lambda y: y.swapaxes(-1, -2)),
    ("The rows are in reverse order along the last axis.", lambda y: y[..., ::-1]),
    ("You add the numbers up one after the other (cumsum); each should stand for itself.", np.cumsum),
    ("Everything is 0: check what is masked, multiplied or subtracted away.", np.zeros_like),
]  # fmt: skip
# The other direction: what would make the right answer of the result.
_UNFINISHED: list[tuple[str, Callable[[Array], Any]]] = [
    ("These are weights, not shares: divide by their sum.", lambda x: x / x.sum()),
    ("Off by one: there is one too many at the end.", lambda x: x[:-1]),
    ("Off by one: there is one too many at the beginning.", lambda x: x[1:]),
    ("These are the terms. Add them up.", np.sum),
    ("These are the terms. Take their mean.", np.mean),
    ("The result has an axis of length 1 too many: squeeze it away.", np.squeeze),
    ("These are probabilities or counts for each; return the position of the largest.", np.argmax),
]


def general_slip(found: Results, expected: Results, cases: Sequence[Any], tolerance: float, open_: bool) -> str | None:
    """What a slip that can happen anywhere made of the answer, in words, or None.

    open_: whether the message may say how the result and the right one are related in numbers.
    """
    slip = _of_type(found, expected) or _of_independence(found, expected, cases, tolerance)
    if slip:
        return slip
    return _of_numbers(found, expected, cases, tolerance, open_) or _of_parts(found, expected, tolerance, open_)


def _of_type(found: Results, expected: Results) -> str | None:
    """A result of another kind than the right one."""
    for x, y in zip(found, expected, strict=True):
        if isinstance(x, Complaint):
            return f"{x}."
        if x is None:
            return "For some inputs it returns None: one way through the function ends without `return`."
        got, asked = kind(x), kind(y)
        if got == "a generator":
            return "It returns a generator, which holds nothing yet: make a list of it, list(...)."
        if got == "a function" and asked != "a function":
            return "It returns a function. Call it, with brackets, and return what it gives."
        if got == "a set":
            return "It returns a set, which has no order and drops what is equal. Return a list."
        numbers = ("a number", "numbers", "True or False")
        if (asked in numbers) != (got in numbers) and {got, asked} & {"text", "a dictionary", "a number"}:
            return f"It returns {got}, and {asked} {'are' if asked == 'numbers' else 'is'} asked for."
        if isinstance(x, dict) and isinstance(y, dict) and x.keys() != y.keys():
            return f"Its dictionary has the keys {short(list(x))}, expected {short(list(y))}."
    return None


def _of_independence(found: Results, expected: Results, cases: Sequence[Any], tolerance: float) -> str | None:
    """A result that does not depend on the input, or is the input."""
    if len(found) < 2:
        return None
    if all(kind(y) == "True or False" and same(x, not y, tolerance) for x, y in zip(found, expected, strict=True)):
        return "It is the other way round: True and False are exchanged."
    first, right = array(found[0]), array(expected[0])
    alike = first is None or right is None or first.shape == right.shape
    if (
        alike
        and all(same(found[0], x, tolerance) for x in found)
        and not all(same(expected[0], y, tolerance) for y in expected)
    ):
        return "It gives the same result for every input: use the arguments, not a number or a variable from outside."
    for place in range(min(len(case) for case in cases)):
        if all(same(x, case[place], tolerance) for x, case in zip(found, cases, strict=True)):
            which = _PLACES[place] if place < len(_PLACES) else f"{place + 1}th"
            return f"It returns its {which} argument unchanged."
    return None


def _of_numbers(found: Results, expected: Results, cases: Any, tolerance: float, open_: bool) -> str | None:
    xs, ys = [array(x) for x in found], [array(y) for y in expected]
    if any(x is None for x in (*xs, *ys)):
        return None
    pairs: list[tuple[Array, Array]] = list(zip(xs, ys, strict=True))  # type: ignore[arg-type]
    if any(np.isnan(x).any() and not np.isnan(y).any() for x, y in pairs):
        return "There is nan among the numbers: 0 / 0, inf - inf, or the root or log of a negative number."
    if open_ and any(np.isinf(x).any() and not np.isinf(y).any() for x, y in pairs):
        return "There is inf among the numbers: a division by 0, or the log of 0."
    for says, of_right in [*_TELLING, *(_OPEN if open_ else [])]:
        if all(_agree(x, y, of_right, tolerance) for x, y in pairs):
            return says
    for says, of_found in _UNFINISHED if open_ else []:
        if all(_agree(y, x, of_found, tolerance) for x, y in pairs):
            return says
    slip = _of_order(pairs, tolerance) or (_of_length(pairs, cases, tolerance) if open_ else None)
    return slip or _of_axes(pairs)


def _agree(x: Array, y: Array, change: Callable[[Array], Any], tolerance: float) -> bool:
    """Whether x is what `change` makes of y."""
    try:
        with np.errstate(all="ignore"):
            changed = np.asarray(change(y))
        return bool(np.isfinite(changed).all()) and same(x, changed, tolerance)
    except (IndexError, ValueError):  # a number has no order, an empty list no largest
        return False


def _of_axes(pairs: Sequence[tuple[Array, Array]]) -> str | None:
    """One number in place of several, or an axis too many or too few, on every input."""
    x, y = pairs[0]
    shapes = f"the result has shape {list(x.shape)}, expected {list(y.shape)}"
    if all(x.ndim < y.ndim for x, y in pairs):
        one = "It is one number, and several are asked for" if x.ndim == 0 else "An axis is missing"
        return f"{one}: is there a sum, a maximum or an index too many? ({shapes})"
    if all(x.ndim > y.ndim for x, y in pairs):
        return f"There is an axis too many: a sum, a mean or an index is missing ({shapes})."
    return None


def _of_order(pairs: Sequence[tuple[Array, Array]], tolerance: float) -> str | None:
    if any(x.size != y.size or x.size < 2 for x, y in pairs):
        return None
    if all(same(x.ravel(), y.ravel(), tolerance) for x, y in pairs):
        x, y = pairs[0]
        return f"The numbers are right, but the result has shape {list(x.shape)}, expected {list(y.shape)}."
    if all(same(np.sort(x.ravel()), np.sort(y.ravel()), tolerance) for x, y in pairs):
        return "The numbers are right, but in another order."
    return None


def _of_length(pairs: Sequence[tuple[Array, Array]], cases: Sequence[Any], tolerance: float) -> str | None:
    """A sum in place of a mean, or the other way round: a factor that is a length or a number of the input."""
    sizes = [_sizes(case) for case in cases]
    for key in set.intersection(*(set(x) for x in sizes)) if sizes else ():
        counts = [x[key] for x in sizes]
        if max(counts) > 1 and all(n > 0 for n in counts):
            if all(same(x * n, y, tolerance) for (x, y), n in zip(pairs, counts, strict=True)):
                return f"It is too small by a factor that is the number of {key}: you divide by it, or take a mean."
            if all(same(x / n, y, tolerance) for (x, y), n in zip(pairs, counts, strict=True)):
                return f"It is too large by a factor that is the number of {key}: divide by it, or take a mean."
    return None


def _sizes(case: Sequence[Any]) -> dict[str, float]:
    """Lengths and whole numbers in an input, each under its name."""
    found: dict[str, float] = {}
    for place, x in enumerate(case):
        name = f"the {_PLACES[place]} argument" if place < len(_PLACES) else f"argument {place + 1}"
        numbers = array(x)
        if isinstance(x, int) and not isinstance(x, bool):
            found[f"{name}, itself"] = x
        elif numbers is not None and numbers.ndim:
            found |= {f"entries of {name} along axis {axis}": n for axis, n in enumerate(numbers.shape)}
            found[f"all entries of {name}"] = numbers.size
        elif isinstance(x, (list, tuple)):
            found[f"entries of {name}"] = len(x)
    return found


def _of_parts(found: Results, expected: Results, tolerance: float, open_: bool) -> str | None:
    """A tuple, a list of texts or a dictionary of which a single part is wrong, or an order is."""
    if all(isinstance(y, dict) for y in expected) and all(isinstance(x, dict) for x in found):
        names = list(expected[0])
        split = [([x[n] for n in names], [y[n] for n in names]) if x.keys() == y.keys() == set(names) else ([], [0])
                 for x, y in zip(found, expected, strict=True)]  # fmt: skip
        labels = [f'"{name}"' for name in names]
    else:
        split = [(listed(x), listed(y)) for x, y in zip(found, expected, strict=True)]
        if not all(isinstance(x, list) and isinstance(y, list) for x, y in split):
            if all(_spelled_alike(x, y) for x, y in zip(found, expected, strict=True)):
                return "Right but for capital letters or spaces around a word."
            return None
        labels = [f"the {place} part" for place in _PLACES]
    if any(len(x) != len(y) for x, y in split):
        return _of_lengths(split, tolerance)
    if not open_ and all(same(x[::-1], y, tolerance) for x, y in split):
        return "The parts are right, their order is turned round."
    if all(len(y) == len(split[0][1]) for _, y in split) and 1 < len(split[0][1]) <= len(labels):
        return _one_part(split, labels, tolerance, open_)
    if open_ and all(sorted(map(repr, x)) == sorted(map(repr, y)) for x, y in split):
        return "The entries are right, but in another order."
    return None


def _spelled_alike(x: Any, y: Any) -> bool:
    return isinstance(x, str) and isinstance(y, str) and x.strip().casefold() == y.strip().casefold()


def _of_lengths(split: Sequence[tuple[list[Any], list[Any]]], tolerance: float) -> str | None:
    for says, cut_x, cut_y in (
        ("Off by one: the last one is missing.", slice(None), slice(-1)),
        ("Off by one: the first one is missing.", slice(None), slice(1, None)),
        ("Off by one: there is one too many at the end.", slice(-1), slice(None)),
        ("Off by one: there is one too many at the beginning.", slice(1, None), slice(None)),
    ):
        if all(same(x[cut_x], y[cut_y] if cut_y != slice(-1) else y[:-1], tolerance) for x, y in split):
            return says
    return None


def _one_part(split: Any, labels: Sequence[str], tolerance: float, open_: bool) -> str | None:
    wrong = [i for i in range(len(split[0][1])) if not all(same(x[i], y[i], tolerance) for x, y in split)]
    if len(wrong) != 1:
        return None
    one, label = wrong[0], labels[wrong[0]]
    inside = general_slip([x[one] for x, _ in split], [y[one] for _, y in split], [()] * len(split), tolerance, open_)
    return f"Only {label} is wrong. {inside}" if inside else None


# ---------------------------------------------------------------- when no slip explains it: where the values differ


def difference(found: Any, expected: Any, tolerance: float) -> str:
    """Where and by how much two values differ: shape, first place, both numbers, a constant ratio or difference."""
    x, y = array(found), array(expected)
    if x is not None and y is not None and x.shape != y.shape:
        return f"has shape {list(x.shape)}, expected {list(y.shape)}"
    if x is None and y is None:
        return _first_part(found, expected, tolerance)
    if x is None or y is None or x.size <= 8:
        return f"gives {short(found)}, expected {short(expected)}{_relation(x, y)}"
    wrong = np.argwhere(~np.isclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))
    place = tuple(int(i) for i in wrong[0])
    return (
        f"gives {x[place]:.6g} at [{', '.join(map(str, place))}], expected {y[place]:.6g} there "
        f"({len(wrong)} of {x.size} numbers differ{_relation(x, y)})"
    )


def _relation(x: Array | None, y: Array | None) -> str:
    """A constant ratio or difference, if there is one, as the end of a sentence."""
    if x is None or y is None or x.size < 2:
        return ""
    told = y != 0
    if told.any() and np.isfinite(x).all() and np.isfinite(y).all():
        ratios = x[told] / y[told]
        if np.allclose(ratios, ratios[0], rtol=1e-4) and not x[~told].any():
            return f"; every number is {ratios[0]:.6g} times the expected one"
        steps = x - y
        if np.allclose(steps, steps.flat[0], rtol=1e-4):
            return f"; every number differs by {steps.flat[0]:.6g}"
    return ""


def _first_part(found: Any, expected: Any, tolerance: float) -> str:
    a, b = listed(found), listed(expected)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        place = next(key for key in b if not same(a[key], b[key], tolerance))
        return f"at {place!r} {difference(a[place], b[place], tolerance)}"
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        first = next(i for i in range(len(b)) if not same(a[i], b[i], tolerance))
        whole = f" (all of it: {short(found)})" if len(repr(found)) <= 80 else ""
        return f"at [{first}] {difference(a[first], b[first], tolerance)}{whole}"
    return f"gives {short(found)}, expected {short(expected)}"


def direction(found: Any, expected: Any, tolerance: float) -> str:
    """How an answer by hand is wrong, without the right one: too large, too small, how many parts are right."""
    x, y = array(found), array(expected)
    if x is not None and y is not None and x.shape == y.shape == ():
        return f"is too {'large' if x > y else 'small'}" if not np.isnan(x) else "is nan"
    a, b = listed(found), listed(expected)
    if not isinstance(b, list):
        return f"is {kind(found)}, and {kind(expected)} is asked for"
    if not isinstance(a, list) or len(a) != len(b):
        return f"should have {len(b)} parts"
    parts = []
    for i, (p, q) in enumerate(zip(a, b, strict=True)):
        if not same(p, q, tolerance):
            numbers = array(p) is not None and array(q) is not None and array(p).ndim == array(q).ndim == 0  # type: ignore[union-attr]
            parts.append(f"the {_PLACES[i]} part " + (direction(p, q, tolerance) if numbers else "is not right"))
    if all(isinstance(q, str) for q in b):
        return f"has {len(b) - len(parts)} of {len(b)} parts right"
    return "is not right: " + ", ".join(parts)
