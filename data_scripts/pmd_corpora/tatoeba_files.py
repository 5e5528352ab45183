"""Sentence pairs from Tatoeba's own exports, or from the files that manythings.org makes of them.

The top of tatoeba6.py describes the formats. Memory holds the text of one language and the English sentences that are
linked to; all else is streamed.
"""

from __future__ import annotations

import bz2
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from pmd_corpora.archives import open_member, text_lines
from pmd_corpora.parallel_files import check_sides
from pmd_lite.errors import UserError

LANGUAGES = {"fr": "fra", "de": "deu", "zh": "cmn", "tr": "tur", "ro": "ron", "et": "est"}

Raw = tuple[str, str, str]  # English, foreign, attribution


class _Export(NamedTuple):
    sentences: Path
    links: Path


class Files:
    """The files for some languages in a folder: the exports if they are there, else the files of manythings.org.

    `astray` counts, for each language that was read, its links to sentences that are absent: files of different weeks
    disagree a little. Raises UserError with the names of the languages without files.
    """

    def __init__(self, folder: Path, langs: Sequence[str]) -> None:
        self.langs = tuple(langs)
        self.astray: Counter[str] = Counter()
        self._english = _first(folder, "eng_sentences.tsv.bz2", "eng_sentences.tsv")
        self._hub: dict[int, str] | None = None
        self._found: dict[str, _Export | Path] = {}
        for lang in langs:
            code = LANGUAGES[lang]
            sentences = _first(folder, f"{code}_sentences.tsv.bz2", f"{code}_sentences.tsv")
            links = _first(folder, f"{code}-eng_links.tsv.bz2", f"{code}-eng_links.tsv")
            if self._english and sentences and links:
                self._found[lang] = _Export(sentences, links)
            elif anki := _first(folder, f"{code}-eng/{code}.txt", f"{code}.txt", f"{code}-eng.zip"):
                self._found[lang] = anki
        if missing := [lang for lang in langs if lang not in self._found]:
            code = LANGUAGES[missing[0]]
            raise UserError(
                f"{folder} holds no text for {', '.join(missing)}: put eng_sentences.tsv.bz2, {code}_sentences.tsv.bz2 "
                f"and {code}-eng_links.tsv.bz2 there, or {code}-eng/{code}.txt. Or leave it out with --languages."
            )

    @property
    def paths(self) -> list[Path]:
        """All files that are read, sorted."""
        exports = [found for found in self._found.values() if isinstance(found, _Export)]
        paths = {path for export in exports for path in export}
        paths |= {found for found in self._found.values() if isinstance(found, Path)}
        return sorted(paths | ({self._english} if exports and self._english else set()))

    def read(self, lang: str) -> Iterator[Raw]:
        """English, foreign and attribution of each pair. Raises UserError with file and line for any fault."""
        found = self._found[lang]
        if isinstance(found, Path):
            yield from _read_anki(found, lang)
            return
        english = self._linked_english()
        foreign = _read_sentences(found.sentences, LANGUAGES[lang])
        for left, right in _rows(found.links, 2):
            if int(left) in foreign and int(right) in english:
                yield english[int(right)], foreign[int(left)], f"tatoeba.org #{right} & #{left}"
            else:
                self.astray[lang] += 1

    def _linked_english(self) -> dict[int, str]:
        """id -> English sentence, for the sentences that any of the languages links to: a fraction of all of them."""
        if self._hub is None:
            exports = [found for found in self._found.values() if isinstance(found, _Export)]
            linked = {int(row[1]) for export in exports for row in _rows(export.links, 2)}
            self._hub = _read_sentences(cast(Path, self._english), "eng", linked)
        return self._hub


def _first(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_sentences(path: Path, code: str, wanted: set[int] | None = None) -> dict[int, str]:
    """id -> text, for the ids that are wanted (None: all)."""
    found = {}
    for number, (key, language, text) in enumerate(_rows(path, 3), 1):
        if language != code:
            raise UserError(f"{path}:{number}: a sentence in {language!r}, not in {code!r}: this is the wrong file.")
        if wanted is None or int(key) in wanted:
            found[int(key)] = text
    return found


def _rows(path: Path, columns: int) -> Iterator[list[str]]:
    """The columns of an export: id, language, text (further tabs are part of it), or two ids."""
    form = "id TAB language TAB text" if columns == 3 else "id TAB id"
    for number, line in enumerate(_lines(path), 1):
        row = line.split("\t", columns - 1)
        ids = row[:1] if columns == 3 else row
        if len(row) != columns or not all(cell.isascii() and cell.isdigit() for cell in ids):
            raise UserError(f"{path}:{number}: no `{form}` but {line[:40]!r}. Fetch the file again.")
        yield row


def _read_anki(path: Path, lang: str) -> list[Raw]:
    """The rows of a file of manythings.org; files older than about 2018 lack the third column, the attribution."""
    pairs = []
    for number, line in enumerate(_lines(path, f"{LANGUAGES[lang]}.txt"), 1):
        row = line.split("\t")
        if len(row) not in (2, 3):
            raise UserError(f"{path}:{number}: {len(row)} columns, not `English TAB foreign TAB attribution`.")
        pairs.append((row[0], row[1], row[2] if len(row) == 3 else "tatoeba.org (no number given)"))
    for note in check_sides([(foreign, english) for english, foreign, _ in pairs], f"{lang}-en", str(path)):
        raise UserError(f"{note} Each line is `English TAB foreign TAB attribution`.")
    return pairs


def _lines(path: Path, member: str = "") -> Iterator[str]:
    """The lines of a plain, .bz2 or .zip file. If it is a web page (a login, an error), the UserError says so."""
    with _open(path, member) as stream:
        if path.suffix == ".zip":
            yield from text_lines(stream, f"{path}:{member}")
            return
        start = stream.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        if start.startswith((b"<!doctype", b"<html")):
            raise UserError(f"{path}:1: this is a web page, not the file. Delete it and fetch it again.")
        stream.seek(0)
        yield from text_lines(cast(BinaryIO, bz2.BZ2File(stream)) if path.suffix == ".bz2" else stream, str(path))


def _open(path: Path, member: str) -> BinaryIO:
    try:
        return open_member(path, member) if path.suffix == ".zip" else path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check its name and permissions.") from error
