"""Checks of the values of fields, which every section of the configuration uses."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, Literal

from pmd_lite.errors import UserError


def check(ok: bool, what: str, remedy: str) -> None:
    """Raise UserError with the text `what: remedy` unless ok."""
    if not ok:
        raise UserError(f"{what}: {remedy}")


def check_kinds(config: Any, *, at_least: Mapping[str, float] | None = None) -> None:
    """Raise UserError unless every field has a value of its type: a word of a Literal, an int, a float or a bool.

    at_least: {field: its smallest allowed value}.
    """
    for name, hint in typing.get_type_hints(type(config)).items():
        value, parts = getattr(config, name), typing.get_args(hint)
        if type(None) in parts:
            if value is None:
                continue
            hint = next(part for part in parts if part is not type(None))
        if typing.get_origin(hint) is Literal:
            words = typing.get_args(hint)
            check(value in words, f"{name}={value!r}", f"choose {' or '.join(map(repr, words))}")
        elif hint is bool:
            check(isinstance(value, bool), f"{name}={value!r}", "write True or False")
        elif hint is int:
            check(type(value) is int, f"{name}={value!r}", "must be a whole number")
        elif hint is float:
            check(type(value) in (int, float), f"{name}={value!r}", "must be a number")
    for name, least in (at_least or {}).items():
        value = getattr(config, name)
        check(value is None or value >= least, f"{name}={value}", f"must be at least {least:g}")
