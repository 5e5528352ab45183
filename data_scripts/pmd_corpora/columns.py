"""Parallel text in columns: TSV with scores, CSV with a header, JSON Lines; what LASER, OpusFilter and data sets give.

Columns of a .tsv are numbers from 1; those of a .csv are names in its first line; those of .jsonl are the keys of each
object, or of its "translation" (`{"translation": {"fr": ..., "en": ...}}`, the form of the Hugging Face Hub).
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmd_corpora.archives import text_lines
from pmd_corpora.parallel_files import Rows, one_line, usable
from pmd_lite.errors import UserError, nearest, shown

TABLE = re.compile(r"(?:(?:.*\.)?([A-Za-z0-9_]+-[A-Za-z0-9_]+)|.*?)\.(tsv|csv|jsonl)(?:\.gz)?", re.IGNORECASE)
"""The name of a file with columns; group 1 is its pair, if the name says it (all.fr-en.tsv), group 2 the kind."""
_SIDES = (("source", "target"), ("src", "trg"), ("src", "tgt"))


@dataclass(frozen=True)
class Columns:
    """Which columns hold the two sides and a score. Without names they are found: see `read_columns`."""

    text: tuple[str, ...] = ()
    score: str | None = None
    least: float = -math.inf

    def __post_init__(self) -> None:
        if len(self.text) not in (0, 2):
            raise UserError(f"--columns {' '.join(self.text)}: name two, source first.")
        if (self.score is None) != (self.least == -math.inf):
            raise UserError("Give both --score-column and --min-score, or neither.")

    @property
    def named(self) -> bool:
        """Whether anything is asked for that only a file with columns has."""
        return bool(self.text) or self.score is not None


def read_columns(path: Path, pair: str, asked: Columns) -> tuple[Rows, list[str]]:
    """The sentence pairs of one .tsv, .csv or .jsonl file (or .gz of it), and notes about what was left out.

    Without `asked.text` the sides are: in a .tsv the two columns beside the score; elsewhere the languages of the pair,
    or source and target, src and trg (tgt). Lines with a score below `asked.least` are left out. Every run of white
    space becomes a space. Raises UserError with file:line for a missing column, a score that is not a number, bad JSON.
    """
    kind = _kind(path)
    below = 0

    def kept() -> Iterator[tuple[str, str]]:
        nonlocal below
        for number, row in _rows(path, kind):
            columns = asked.text or _sides(path, number, row, pair, asked.score)
            src, trg = (_cell(path, number, row, column) for column in columns)
            if asked.score is not None and _score(path, number, row, asked.score) < asked.least:
                below += 1
            else:
                yield one_line(src), one_line(trg)

    rows, notes = usable(str(path), kept())
    return rows, [*notes, f"{path}: {below:,} lines left out, score below {asked.least:g}."] if below else notes


def _kind(path: Path) -> str:
    match = TABLE.fullmatch(path.name)
    return match[2].lower() if match else ""


def _rows(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, {column: value}) of each line that holds data."""
    try:
        with path.open("rb") as stream:
            lines = text_lines(stream, str(path))
            if kind == "csv":
                yield from _csv(path, lines)
            for number, line in enumerate(lines, 1):
                if kind == "tsv":
                    yield number, {str(at): value for at, value in enumerate(line.split("\t"), 1)}
                elif line.strip():
                    yield number, _object(path, number, line)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check its name.") from None


def _csv(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    first = next(lines, "")
    delimiter = ";" if ";" in first and "," not in first else ","
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        for row in filter(None, reader):
            yield reader.line_num + 1, dict(zip(header, row, strict=False))
    except csv.Error as error:
        cure = "Repair the quotes of this line, or save the file as .tsv."
        raise UserError(f"{path}:{reader.line_num + 1}: {error}. {cure}") from None


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}:{number}: not JSON ({error}). Write one object on each line.") from None
    inner = found.get("translation") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(inner, dict | None):
        raise UserError(f'{path}:{number}: not an object like {{"fr": "...", "en": "..."}}. Write one on each line.')
    return {**found, **(inner or {})}


def _sides(path: Path, number: int, row: dict[str, Any], pair: str, score: str | None) -> Sequence[str]:
    if _kind(path) == "tsv":
        if len(others := [column for column in row if column != score]) == 2:
            return others
        raise UserError(f"{path}:{number}: {len(row)} columns. Say by number which hold the sides, source first, and "
                        "which a score: --columns 2 3 --score-column 1 --min-score 1.05.")  # fmt: skip
    for columns in (tuple(pair.split("-")), *_SIDES):
        if row.keys() >= {*columns}:
            return columns
    raise UserError(f"{path}:{number}: the columns are {', '.join(map(shown, row)) or 'none'}. Say which hold "
                    f"the sides of {pair}, source first: --columns NAME NAME.")  # fmt: skip


def _cell(path: Path, number: int, row: dict[str, Any], column: str) -> str:
    if column not in row:
        near = nearest(column, row)
        raise UserError(f"{path}:{number}: no column {column!r}. {near}It has {', '.join(map(shown, row)) or 'none'}.")
    if not isinstance(row[column], str):
        raise UserError(f"{path}:{number}: {column} is {shown(row[column])}, not a text. Repair or remove the line.")
    return str(row[column])


def _score(path: Path, number: int, row: dict[str, Any], column: str) -> float:
    value = row[column] if isinstance(row.get(column), float | int) else _cell(path, number, row, column)
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise UserError(f"{path}:{number}: the score in column {column} is {shown(value)}, not a number.")
    return score
