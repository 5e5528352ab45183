"""The library's own code in a lesson: read from its source when the cell runs, with highlighting, and never copied."""

from __future__ import annotations

import html
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import pmd_lite
from pmd_lite.errors import UserError

ROOT = Path(pmd_lite.__file__).resolve().parents[1]
_FRAME = "border-left:4px solid #0072B2;background:#f8f8f8;color:#222;padding:4px 12px;margin:0 0 8px;overflow-x:auto"
_PRE = "margin:0;background:none;color:inherit;line-height:1.3"


class Listing:
    """Pieces of source text, each under the name of its file; the last value of a cell shows them."""

    def __init__(self, pieces: list[tuple[str, str]]):
        self.pieces = pieces  # [(file, source text)]

    def __repr__(self) -> str:
        return "\n\n".join(f"# {file}\n{text}" for file, text in self.pieces)

    def _repr_html_(self) -> str:
        # Styles stand in the tags: a page without our style sheet, and a notebook that is not trusted, show them too.
        form = HtmlFormatter(noclasses=True, nobackground=True, nowrap=True)
        shown = [
            f'<div style="{_FRAME}"><small><code>{html.escape(file)}</code></small>'
            f'<pre style="{_PRE}">{highlight(text, PythonLexer(), form)}</pre></div>'
            for file, text in self.pieces
        ]
        return "\n".join(shown)


def listing(*things: Callable[..., Any]) -> Listing:
    """The source of functions, methods and classes. Neighbours from one file stand in one frame."""
    pieces: list[tuple[str, str]] = []
    for thing in things:
        file, text = _place(thing), textwrap.dedent(inspect.getsource(thing)).rstrip()
        if pieces and pieces[-1][0] == file:
            pieces[-1] = (file, f"{pieces[-1][1]}\n\n\n{text}")
        else:
            pieces.append((file, text))
    return Listing(pieces)


def excerpt(thing: Callable[..., Any], first: str, last: str) -> Listing:
    """A part of a longer function: from its first line that contains `first` to the next line that contains `last`.

    Raises UserError where the source has no such lines, so that a lesson notices when the library changes.
    """
    lines = inspect.getsource(thing).split("\n")
    begin = next((i for i, line in enumerate(lines) if first in line), None)
    end = next((i for i, line in enumerate(lines) if last in line and begin is not None and i >= begin), None)
    if begin is None or end is None:
        raise UserError(f"{thing.__qualname__} has no lines from {first!r} to {last!r}; change the call of excerpt")
    return Listing(
        [(f"{_place(thing)}, a part of {thing.__qualname__}", textwrap.dedent("\n".join(lines[begin : end + 1])))]
    )


def _place(thing: Callable[..., Any]) -> str:
    """The file of a function or class, as a path from the root of the repository."""
    path = Path(inspect.getsourcefile(thing) or "").resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
