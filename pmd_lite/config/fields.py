"""Checks of the values of fields, which every section of the configuration uses."""

import functools
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pmd_lite.errors import UserError, nearest, shown

MOST = 1e9
"""The largest value of a setting that has no limit of its own."""
TEMPERATURE = (0.001, math.inf)
"""Limits of a temperature; inf is uniform."""


@functools.cache
def hints_of(section: Any) -> dict[str, Any]:
    """{field: type}, looked up once: this is as slow as all other checks together."""
    return typing.get_type_hints(section)


def check(ok: bool, what: str, remedy: str) -> None:
    """Raise UserError with the text `what: remedy` unless ok."""
    if not ok:
        raise UserError(f"{what}: {remedy}")


def check_kinds(config: Any, *, limits: Mapping[str, tuple[float, float]] | None = None) -> None:
    """UserError unless every field has a value of its type. limits: {field: (least, most)}; else 0 to `MOST`."""
    section: Any = type(config)
    for name, hint in hints_of(section).items():
        value, parts = getattr(config, name), typing.get_args(hint)
        if type(None) in parts:
            if value is None:
                continue
            hint = next(part for part in parts if part is not type(None))
        if typing.get_origin(hint) is Literal:
            words = typing.get_args(hint)
            if value not in words:
                raise UserError(f"{name}={shown(value)}: {nearest(value, words)}choose {' or '.join(map(repr, words))}")
        elif hint is bool:
            check(isinstance(value, bool), f"{name}={shown(value)}", "write True or False")
        elif hint in (int, float):
            check_number(name, value, hint, *(limits or {}).get(name, (0, MOST)))


def check_number(name: str, value: Any, kind: type, least: float = 0, most: float = MOST) -> None:
    """Raise UserError unless `value` is a number of this kind (int or float) from `least` to `most`; nan is not."""
    number = (type(value) is int and abs(value) < 2**63) or (kind is type(value) is float and value == value)
    check(number, f"{name}={shown(value)}", "must be a whole number" if kind is int else "must be a number")
    check(value >= least, f"{name}={shown(value)}", f"must be at least {least:g}")
    check(value <= most, f"{name}={shown(value)}", f"must be at most {most:g}")
