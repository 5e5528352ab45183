"""The methods of a comparison as users write them: "auto-pmd samplers=tau=1,chi-ibr steps=3000"."""

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmd_lite.errors import UserError
from pmd_lite.methods import Method, get_method


@dataclass(frozen=True)
class Entry:
    """A method with its samplers and its own settings."""

    text: str
    method: str
    samplers: tuple[str, ...] | None
    overrides: Mapping[str, Any]

    @property
    def row(self) -> Method:
        """The row of the method table. Raises UserError for an unknown method or sampler."""
        return get_method(self.method, self.samplers)

    def path(self, folder: Path, seed: int) -> Path:
        """The directory of its run with this seed."""
        return folder / f"{re.sub(r'[^A-Za-z0-9=.,_-]+', '_', self.text)}-seed{seed}"


def parse_entry(text: str) -> Entry:
    """ "auto-pmd samplers=tau=1,chi-ibr steps=3000": method, samplers, fields. UserError for another form."""
    method, *words = text.split() or [""]
    values = parse_settings(words)
    samplers = values.pop("samplers", None)
    return Entry(text, method, tuple(str(samplers).split(",")) if samplers is not None else None, values)


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """["steps=1000", "dropout=0.2"] -> {"steps": 1000, "dropout": 0.2}. Raises UserError for other words."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"{word!r}: write name=value, such as steps=1000")
        values[name] = value
        if not re.search(r"[(\[{]", value):
            with suppress(ValueError, SyntaxError):  # neither a number nor True, False or None: a word
                values[name] = ast.literal_eval(value)
    return values
