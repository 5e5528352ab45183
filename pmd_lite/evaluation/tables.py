"""Small result tables as plain text, Markdown, HTML, CSV and data frames from the same rows."""

import csv
import html
import importlib
import io
import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from pmd_lite.errors import UserError

MARKS = ("▲", "▼")
"""The last letter of a difference that a test calls more than chance, better or worse; such cells are bold."""


@dataclass(frozen=True)
class Spread:
    """A mean with its sample standard deviation over n runs (None for a single run: one run has no spread)."""

    mean: float
    spread: float | None
    n: int


Cell = str | float | int | Spread | None


def mean_spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation (divisor n - 1) over seeds: "21.3 ± 0.2". Raises UserError for no values."""
    numbers = [float(v) for v in values]
    if not numbers:
        raise UserError("The mean of no values was asked for; give the scores of at least one run.")
    spread = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Spread(statistics.fmean(numbers), spread, len(numbers))


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under named columns; the last expression of a notebook cell shows it as HTML.

    columns: column names. rows: one sequence of cells per row; a cell is text, a score (float or Spread), a count
    (int, printed with thousands separators) or None for "not measured" (printed "-").
    Only what a test has marked is bold: a text that ends with ▲ or ▼. The highest score of a column may be luck.
    digits: decimals of a score. caption: one line that says what the table shows. Raises UserError when rows and
    columns do not fit.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 2
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise UserError("A table needs at least one column.")
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise UserError(f"Row {number} of the table has {len(row)} cells for {len(self.columns)} columns.")

    def to_text(self) -> str:
        """Aligned plain text, numbers right. Beyond 160 characters, columns follow below, beside the first again."""
        grid = [list(self.columns), *self._texts()]
        widths = [max(_width(row[c]) for row in grid) for c in range(len(self.columns))]
        parts, room = [[0]], 160 - widths[0]
        for c, width in enumerate(widths[1:], start=1):
            if room < 2 + width and len(parts[-1]) > 1:
                parts, room = [*parts, [0]], 160 - widths[0]
            parts[-1].append(c)
            room -= 2 + width
        blocks = []
        for part in parts:
            lines = ["  ".join(self._pad(row[c], widths[c], c) for c in part).rstrip() for row in grid]
            lines.insert(1, "  ".join("-" * widths[c] for c in part))
            blocks.append("\n".join(lines))
        text = "\n\n".join(blocks)
        return f"{self.caption}\n{text}" if self.caption else text

    def to_markdown(self) -> str:
        """GitHub Markdown, marked differences in bold."""
        body = [[f"**{_markdown(x)}**" if x.endswith(MARKS) else _markdown(x) for x in row] for row in self._texts()]
        rule = ["---:" if self._is_numeric(c) else ":---" for c in range(len(self.columns))]
        lines = ["| " + " | ".join(row) + " |" for row in [[_markdown(name) for name in self.columns], rule, *body]]
        return "\n".join([_markdown(self.caption), "", *lines] if self.caption else lines)

    def to_html(self) -> str:
        """An HTML table with header scopes for screen readers, marked differences in bold."""
        align = ["right" if self._is_numeric(c) else "left" for c in range(len(self.columns))]

        def line(texts: Sequence[str], first: str, rest: str) -> str:
            cells = []
            for c, text in enumerate(texts):
                inner = f"<strong>{html.escape(text)}</strong>" if text.endswith(MARKS) else html.escape(text)
                tag = rest if c else first
                cells.append(f'<{tag} style="text-align:{align[c]}">{inner}</{tag[:2]}>')
            return f"<tr>{''.join(cells)}</tr>"

        head = line(self.columns, 'th scope="col"', 'th scope="col"')
        body = "\n".join(line(row, 'th scope="row"', "td") for row in self._texts())
        caption = f"<caption>{html.escape(self.caption)}</caption>\n" if self.caption else ""
        return f"<table>\n{caption}<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def to_csv(self) -> str:
        """Comma-separated values with all digits; without the caption. A Spread is two columns: "BLEU" and "BLEU ±"."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self._values())
        return text.getvalue()

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame. Raises UserError where pandas is not installed."""
        try:
            pandas = importlib.import_module("pandas")  # optional, and without types
        except ImportError:
            raise UserError("to_frame needs pandas: pip install pandas. Or take to_csv()") from None
        columns, *rows = self._values()
        return pandas.DataFrame(rows, columns=columns)

    def _values(self) -> list[list[Any]]:
        """Column names, then the rows, with two columns in place of one that holds a Spread."""
        wide = [any(isinstance(row[c], Spread) for row in self.rows) for c in range(len(self.columns))]
        rows = [[(x.mean, x.spread) if isinstance(x, Spread) else (x, None) for x in row] for row in self.rows]
        both: list[list[tuple[Any, ...]]] = [[(name, f"{name} ±") for name in self.columns], *rows]
        return [[x for cell, two in zip(row, wide, strict=True) for x in cell[: 1 + two]] for row in both]

    _repr_html_ = to_html
    __repr__ = to_text

    def _texts(self) -> list[list[str]]:
        return [[_format(cell, self.digits) for cell in row] for row in self.rows]

    def _is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and not any(isinstance(cell, str) for cell in cells)

    def _pad(self, text: str, width: int, column: int) -> str:
        space = " " * (width - _width(text))
        return space + text if self._is_numeric(column) else text + space


def _format(cell: Cell, digits: int) -> str:
    if isinstance(cell, Spread):
        return _format(cell.mean, digits) + ("" if cell.spread is None else f" ± {cell.spread:.{digits}f}")
    if isinstance(cell, bool) or not isinstance(cell, Real):
        return "-" if cell is None else str(cell)
    return f"{int(cell):,}" if isinstance(cell, Integral) else f"{float(cell):.{digits}f}"


def _markdown(text: str) -> str:
    """Escape what would end a cell (a bar) or start markup (a star, an angle bracket, a line break)."""
    for sign, safe in (("\\", "\\\\"), ("|", "\\|"), ("*", "\\*"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(sign, safe)
    return text


def _width(text: str) -> int:
    """Columns the text takes on a terminal: Han characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(ch) in "WF" for ch in text)
    return len(text) + wide - sum(unicodedata.combining(ch) != 0 for ch in text)
