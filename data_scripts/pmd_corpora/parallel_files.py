"""Parallel text from the usual formats: .tsv, two plain files, TMX, Moses zip; and whether its sides are swapped.

.tsv and plain files are your own text, and every line must be sound. TMX (the exchange format of translation memories)
and Moses zips (as OPUS has them) are made by machines. There, a unit without text on one side is skipped and counted,
inline codes are dropped, and every run of white space becomes a single space.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast
from xml.parsers import expat

from pmd_corpora.archives import members, open_member, text_lines
from pmd_lite.data.checks import LONGEST
from pmd_lite.data.text import is_blank
from pmd_lite.errors import UserError

Rows = list[tuple[str, str]]
Found = tuple[dict[str, Rows], list[str]]  # pair -> sentence pairs, and notes about what was skipped

_CODE = r"[a-z]{2,3}(?:_[A-Za-z0-9]+)?"
_NAMED = re.compile(rf"(?:.*\.)?({_CODE}-{_CODE})(?:\.txt)?\.(?:tmx|tmx\.gz|zip)")
_MEMBER = re.compile(rf"(?:.*\.)?(({_CODE})-({_CODE}))\.(?:\2|\3)")
_CONTROL = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), " ")
_CODES = ("bpt", "ept", "ph", "it", "ut")  # TMX elements that hold the codes of a format, not text; `hi` holds text
_CHUNK = 1 << 16

_SAMPLE = 2_000  # lines that are read to tell the languages apart
_FEW, _MANY = 20, 200  # fewer lines than 20 say nothing about a language; 200 without these words are not English:
_ENGLISH = re.compile(r"\b(?:the|you|and|that|this|with|what|they|from|would|she|his|your)\b", re.IGNORECASE)
_SCRIPTS = {
    code: re.compile(f"[{letters}]")
    for codes, letters in (
        ("zh zho cmn", "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"),
        ("ja jpn", "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"),
        ("ko kor", "\u1100-\u11ff\uac00-\ud7af"),
        ("ru rus uk ukr be bel bg bul mk mkd", "\u0400-\u04ff"),
        ("el ell", "\u0370-\u03ff"),
        ("ar ara fa fas ur urd", "\u0600-\u06ff"),
        ("he heb", "\u0590-\u05ff"),
        ("hi hin mr mar ne nep", "\u0900-\u097f"),
        ("th tha", "\u0e00-\u0e7f"),
    )
    for code in codes.split()
}


def one_line(text: str) -> str:
    """The text with every run of white space, line separators and control characters made one space."""
    return " ".join(text.translate(_CONTROL).split())


def read_text(*files: Path) -> Rows:
    """The sentence pairs of one .tsv file, or of two plain files (source, target); any of them may be a .gz.

    Raises UserError with file and line: unequal line counts, a blank or missing side, bytes that are not UTF-8.
    """
    if len(files) == 1:
        rows = [line.split("\t") for line in _lines(files[0])]
    else:
        src, trg = (_lines(file) for file in files)
        _same_length([str(file) for file in files], src, trg)
        rows = [list(sides) for sides in zip(src, trg, strict=True)]
    for number, row in enumerate(rows, 1):
        if len(row) != 2 or any(map(is_blank, row)):
            file = files[0] if len(files) == 1 or is_blank(row[0]) else files[1]
            what = "no `source TAB target` with text on both sides" if len(files) == 1 else "a blank line"
            raise UserError(f"{file}:{number}: {what}. Repair the line, or remove it (on both sides).")
    return [(row[0].strip(), row[1].strip()) for row in rows]


def read_tmx(path: Path, pairs: Sequence[str] = ()) -> Found:
    """The translation units of a .tmx or .tmx.gz file for each of `pairs` that it holds.

    If it holds none of `pairs`, the pair in the name of the file counts (NAME.fr-en.tmx), else the two languages of the
    file, if there are only two; the `srclang` of its header is the source if it is one of them. Regions are dropped:
    en-US is en. Of several variants in one language the first counts. Raises UserError with file:line for text that is
    not TMX, for entity declarations (an attacker can fill the memory with them), and if the pair is unknown.
    """
    reader = _Tmx(path)
    units = list(reader.units())
    langs = list(dict.fromkeys(lang for unit in units for lang in unit))
    if reader.srclang in langs:
        langs.sort(key=lambda lang: lang != reader.srclang)
    texts, notes = {}, []
    for pair in _choose(path, langs, pairs, "-".join(langs) if len(langs) == 2 else None):
        src, trg = pair.split("-")
        texts[pair], said = usable(str(path), ((unit.get(src, ""), unit.get(trg, "")) for unit in units))
        notes += said
    return texts, notes


def read_moses(path: Path, pairs: Sequence[str] = ()) -> Found:
    """The text of a Moses zip: for fr-en the members that end in .fr and .en, of which there must be one each.

    All other members (LICENSE, README, .xml, .ids, .scores) are ignored. The pairs are found as in `read_tmx`, and last
    in the names of the members (NAME.en-fr.fr). OPUS orders the two languages alphabetically. So for fr into English,
    name the file fr-en.txt.zip, or give the pair. Raises UserError with zip and member.
    """
    names = members(path)
    endings = {name: PurePosixPath(name).suffix[1:] for name in names}
    inside = {match[1] for name in names if (match := _MEMBER.fullmatch(PurePosixPath(name).name))}
    default = min(inside) if len({frozenset(pair.split("-")) for pair in inside}) == 1 else None
    langs = sorted({lang for pair in inside for lang in pair.split("-")} or {end for end in endings.values() if end})
    texts, notes = {}, []
    for pair in _choose(path, langs, pairs, default):
        places, sides = [], []
        for lang in pair.split("-"):
            found = [name for name in names if endings[name] == lang]
            if len(found) != 1:
                listed = ", ".join(found) or "none"
                raise UserError(f"{path}: {pair} needs one member ending in .{lang}, but: {listed}. Unpack it by hand.")
            places.append(f"{path}:{found[0]}")
            with open_member(path, found[0]) as stream:
                sides.append(list(text_lines(stream, places[-1])))
        _same_length(places, *sides)
        texts[pair], said = usable(str(path), zip(map(one_line, sides[0]), map(one_line, sides[1]), strict=True))
        notes += said
    return texts, notes


def check_sides(rows: Sequence[tuple[str, str]], pair: str, where: str) -> list[str]:
    """Notes about a side that does not look like its language, by script (zh, ru, ...) and common words (en).

    Raises UserError if each side looks like the language of the other. This is a guess from a sample. Text of fewer
    than 20 lines gives neither notes nor an error.
    """
    if len(rows) < _FEW:
        return []
    sample = list(rows[:: max(1, len(rows) // _SAMPLE)])
    codes = [code.partition("_")[0] for code in pair.split("-")]
    notes = []
    for side, code in enumerate(codes):
        english = code in ("en", "eng")
        pattern = _ENGLISH if english else _SCRIPTS.get(code)
        if pattern is None or pattern is _SCRIPTS.get(codes[1 - side]):
            continue
        own, other = (sum(bool(pattern.search(row[at])) for row in sample) / len(sample) for at in (side, 1 - side))
        sign = "a common English word" if english else f"a letter of {code}"
        seen = f"{own:.0%} of the lines of {code} hold {sign}, {other:.0%} of those of {codes[1 - side]}"
        if (other >= 0.2 and other > 4 * own) if english else (own < 0.5 <= other):
            cure = "Exchange the two sides, or correct the order of the languages in the names."
            raise UserError(f"{where}: the sides of {pair} look swapped: {seen}. {cure}")
        if english and (other >= 0.2 and other > own / 2):
            notes.append(f"{where}: is the {codes[1 - side]} side of {pair} in English? {seen}.")
        elif own < (0.02 if english and len(sample) >= _MANY else 0.0 if english else 0.5):
            notes.append(f"{where}: is the {code} side of {pair} in another language? {seen}.")
    return notes


class _Tmx:
    """A TMX file read piece by piece with expat, which names the line of every fault."""

    def __init__(self, path: Path) -> None:
        self.path, self.srclang = path, ""
        self._root = self._lang = ""
        self._unit: dict[str, str] = {}
        self._done: list[dict[str, str]] = []
        self._text: list[str] | None = None  # of the open <seg>
        self._inside_codes = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._unknown_entity

    def units(self) -> Iterator[dict[str, str]]:
        """language -> text of each translation unit."""
        try:
            with self.path.open("rb") as file:
                packed = self.path.suffix.lower() == ".gz"
                stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
                while chunk := stream.read(_CHUNK):
                    self._parser.Parse(chunk, False)
                    yield from self._taken()
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            cut = error.code in (expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
                                 expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN])  # fmt: skip
            cure = "The file is cut short." if cut else "Save it again as TMX, in the encoding its first line names."
            raise UserError(f"{self.path}:{error.lineno}: {expat.ErrorString(error.code)}. {cure}") from None
        except LookupError as error:
            raise UserError(f"{self.path}:1: {error}. Save the file as UTF-8.") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path}: not a sound gzip file ({error}). Fetch or pack it again.") from None
        except OSError as error:
            raise UserError(f"{self.path} cannot be read ({error.strerror}). Check its name.") from None
        yield from self._taken()

    def _taken(self) -> list[dict[str, str]]:
        done, self._done = self._done, []
        return done

    def _fail(self, what: str) -> UserError:
        return UserError(f"{self.path}:{self._parser.CurrentLineNumber}: {what}")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._root:
            self._root = name
            if name != "tmx":
                raise self._fail(f"the file begins with <{name}>, not <tmx>: it is not a TMX file. Fetch it again.")
        if self._text is not None:
            self._inside_codes += bool(self._inside_codes or name in _CODES)
        elif name == "header":
            self.srclang = _primary(attributes.get("srclang", ""))
        elif name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._lang = _primary(attributes.get("xml:lang") or attributes.get("lang", ""))
            if not self._lang:
                raise self._fail("<tuv> without xml:lang: its language is unknown. Add the attribute.")
        elif name == "seg":
            self._text = []

    def _end(self, name: str) -> None:
        if self._text is None:
            if name == "tu":
                self._done.append(self._unit)
        elif self._inside_codes:
            self._inside_codes -= 1
        elif name == "seg":
            self._unit[self._lang] = self._unit.get(self._lang) or one_line("".join(self._text))
            self._text = None

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._inside_codes:
            self._text.append(text)

    def _entity(self, name: str, *rest: object) -> None:
        raise self._fail(f"declares the entity {name!r}: such files are refused. Write its text where it is used.")

    def _unknown_entity(self, name: str, *rest: object) -> None:
        raise self._fail(f"the entity &{name}; is not defined in XML. Write the character itself.")


def _primary(tag: str) -> str:
    return re.split("[-_]", tag.strip().lower())[0]


def _choose(path: Path, langs: Sequence[str], pairs: Sequence[str], default: str | None) -> list[str]:
    """Which pairs to read from a file that holds `langs`."""
    if chosen := [pair for pair in pairs if set(pair.split("-")) <= set(langs)]:
        return chosen
    if (named := _NAMED.fullmatch(path.name)) and set(named[1].split("-")) <= set(langs):
        return [named[1]]
    if default:
        return [default]
    cure = "Say which to read, source first: --pairs fr-en. Or name the file for it, like NAME.fr-en" + path.suffix
    raise UserError(f"{path}: it holds {', '.join(langs) or 'no language'}, so its pair is unknown. {cure}.")


def usable(where: str, rows: Iterable[tuple[str, str]]) -> tuple[Rows, list[str]]:
    """The pairs with text on both sides, neither of them too long, and notes with how many were left out."""
    kept: Rows = []
    skipped: Counter[str] = Counter()
    for row in rows:
        if any(map(is_blank, row)):
            skipped["without text on one side"] += 1
        elif max(map(len, row)) > LONGEST:
            skipped[f"over {LONGEST:,} characters long"] += 1
        else:
            kept.append(row)
    if not kept:
        raise UserError(f"{where}: no unit with text on both sides. Is it the right file?")
    return kept, [f"{where}: {count:,} units skipped, {what}." for what, count in skipped.items()]


def _same_length(names: Sequence[str], src: Sequence[str], trg: Sequence[str]) -> None:
    if len(src) != len(trg):
        raise UserError(f"{names[0]} has {len(src):,} lines and {names[1]} has {len(trg):,}: line n of one must "
                        "translate line n of the other. Restore both from their source.")  # fmt: skip


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            return list(text_lines(stream, str(path)))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check its name.") from None
