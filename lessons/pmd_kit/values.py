"""Values that an exercise compares: numbers whatever holds them, texts, and nested lists, tuples and dictionaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, KeysView, ValuesView
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]


class Complaint(str):
    """In place of a result: what is wrong with it, in words, where `Exercise.through` found that out."""


_LISTS = (list, tuple, range, KeysView, ValuesView)


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Equal up to `tolerance`, whatever holds the numbers: tensor, array, list; dictionaries, tuples part by part."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    x, y = array(a), array(b)
    if x is not None and y is not None:
        if x.shape != y.shape:
            return False
        return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True))
    a, b = listed(a), listed(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(i, j, tolerance) for i, j in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):  # numpy has a string of its own
        return str(a) == str(b)
    return bool(type(a) is type(b) and a == b)


def array(x: Any) -> Array | None:
    """Numbers as an array; None for anything else (text, ragged lists, dictionaries)."""
    if isinstance(x, Tensor):
        return x.detach().cpu().double().numpy() if not x.is_complex() else None
    if isinstance(x, _LISTS) and len(x):
        parts = [array(part) for part in x]
        known = [part for part in parts if part is not None]
        alike = len(known) == len(parts) and len({part.shape for part in known}) == 1
        return np.stack(known) if alike else None
    if isinstance(x, (Number, np.ndarray, np.generic)):
        try:
            return np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):  # complex numbers, arrays of text
            return None
    return None


def listed(x: Any) -> Any:
    """A tuple, a range, an array or the keys of a dictionary as a list; anything else as it is."""
    if isinstance(x, _LISTS):
        return list(x)
    return x.tolist() if isinstance(x, (Tensor, np.ndarray)) and x.ndim else x


def plain(x: Any) -> Any:
    """Inputs in the form that `pmd_lite.training.snapshot.differences` compares bit by bit."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    if isinstance(x, (list, tuple)):
        return [plain(i) for i in x]
    return x


def short(x: Any) -> str:
    """A value in a few words."""
    if isinstance(x, (Tensor, np.ndarray)):
        values = array(x)
        if values is not None and values.size <= 8:
            return str(np.array2string(values, precision=4, separator=", ").replace("\n", ""))
        return f"<{type(x).__name__.lower()} of shape {list(x.shape)}>"
    if isinstance(x, float):
        return f"{x:.6g}" if math.isfinite(x) else str(x)
    text = repr(x)
    return text if len(text) <= 80 else f"{text[:77]}..."


def kind(x: Any) -> str:
    """What a value is, for a message: a number, text, a dictionary, ..."""
    if isinstance(x, (bool, np.bool_)):
        return "True or False"
    if isinstance(x, str):
        return "text"
    if isinstance(x, dict):
        return "a dictionary"
    if callable(x):
        return "a function"
    if isinstance(x, Iterator):
        return "a generator"
    if isinstance(x, (set, frozenset)):
        return "a set"
    numbers = array(x)
    if numbers is not None:
        return "a number" if numbers.ndim == 0 else "numbers"
    return "a list" if isinstance(x, _LISTS) else f"an object of type {type(x).__name__}"


def with_type(answer: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    """For `Exercise.through`: a mask with its type, since a mask of numbers means something else."""
    mask = answer(*case)
    return {"mask": mask, "boolean": str(getattr(mask, "dtype", "")).endswith("bool")} if mask is not None else None
