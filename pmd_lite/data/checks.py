"""The checks of a corpus before training: of each line, then across splits and pairs.

They run over flat bytes with numpy; Python reads single lines only to find and explain a fault. Of each block of lines
we keep only the faults, so memory does not grow with the text.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pmd_lite.data.reading import SPLITS, Bools, Flat, Ints, ParallelText, checked_pair, forget, spooled
from pmd_lite.data.text import CONTROL, UNSEEN, is_blank, odd
from pmd_lite.disk import read_json
from pmd_lite.errors import UserError

Texts = Mapping[str, ParallelText]  # pair -> text

LONGEST = 10_000  # characters in one sentence; a longer one probably lost its line end

_WORD = re.compile(r"[\u2e80-\u9fff]|[^\W\u2e80-\u9fff]+")  # a run of letters, or one Han or kana character
_EVERY = "".join(map(chr, (*range(0x80, 0xD800), *range(0xE000, 0x1E000), *range(0xE0000, 0xE1000))))
_UNSEEN_STARTS = sorted({int.from_bytes(c.encode()[:2], "big") for c in "".join(UNSEEN.findall(_EVERY))})
_ROWS = 1 << 16  # lines that are checked together
_BUCKET = 1 << 18  # pairs whose hashes are sorted together
_SAMPLE = 2_000  # lines of each pair that show which language is on which side


def check_lines(flats: Sequence[Flat], *, strict: bool) -> tuple[Bools, list[str]]:
    """[line] whether each line is sound, and warnings about those that are not.

    `flats` is one text with two columns, or two plain texts with one column each and equal line counts. With `strict`
    the first unsound line raises UserError (file:line); without it, only bytes that are not UTF-8 do.
    """
    columns = 3 - len(flats)
    sound = np.ones(len(flats[0].stops), dtype=np.bool_)
    warnings: list[str] = []
    for flat in flats:
        faults = list(_faults(flat, columns, warnings))
        if strict and faults:
            lines, message = min(faults, key=lambda fault: int(fault[0][0]))
            more = len(np.unique(np.concatenate([lines for lines, _ in faults]))) - 1
            also = f" {more:,} more unsound line(s) in this file." if more else ""
            place = f"{flat.name}:{lines[0] + 1}"
            raise UserError(f"{place}: {message} Or leave such lines out with strict=False (--no-strict).{also}")
        for lines, message in faults:
            sound[lines] = False
            warnings.append(f"{flat.name}:{lines[0] + 1}: {message} ({len(lines):,} such lines left out.)")
    if not sound.any():
        raise UserError(f"{flats[0].name}: no sound line is left. Write `source TAB target` on each line, in UTF-8.")
    return sound, warnings


def _faults(flat: Flat, columns: int, warnings: list[str]) -> Iterator[tuple[Ints, str]]:
    """For each kind of fault: its lines (from 0, ascending) and a message about the first; `warnings`: what is odd."""
    found: dict[str, tuple[list[Ints], str]] = {}
    if len(control := _decode_all(flat, warnings)):
        yield control, _say_control(flat, int(control[0]))
    for at in range(0, len(flat.stops), _ROWS):
        for kind, lines, message in _faults_among(flat, columns, slice(at, at + _ROWS)):
            found.setdefault(kind, ([], message))[0].append(lines)
        flat.forget()
    for kind in sorted(found):
        yield np.concatenate(found[kind][0]), found[kind][1]


def _faults_among(flat: Flat, columns: int, rows: slice) -> Iterator[tuple[str, Ints, str]]:
    """The same for some of the lines, without control characters. The kinds sort in the order to report."""
    starts, stops = flat.starts[rows], flat.stops[rows]
    from_tab, to_tab = np.searchsorted(flat.tabs, [starts[0], stops[-1]])
    tabs_here = flat.tabs[from_tab:to_tab]
    first = np.searchsorted(tabs_here, starts)
    tabs = np.diff(np.append(first, len(tabs_here)))
    if (wrong := np.flatnonzero(tabs != columns - 1)).size:
        yield "1 columns", wrong + rows.start, _say_columns(int(tabs[wrong[0]]) + 1, columns)
    right = np.flatnonzero(tabs == columns - 1)
    starts, stops = starts[right], stops[right]
    sides = [("the line", starts, stops)]
    if columns == 2:
        middle = tabs_here[first[right]] + 1
        sides = [("the source side", starts, middle), ("the target side", middle, stops)]
    for number, (which, begins, ends) in enumerate(sides, 2):  # [begin, end) includes the closing TAB or LF
        if (blank := right[_blank(flat, begins, ends)]).size:
            what = f"{which} is blank. Remove the pair (if there are two files, from both)."
            yield f"{number} blank", blank + rows.start, what
        if (long := right[_long(flat, begins, ends)]).size:
            what = f"{which} has over {LONGEST:,} characters; a line end is probably lost. Split or remove the line."
            yield f"{number} long", long + rows.start, what


def _decode_all(flat: Flat, warnings: list[str]) -> Ints:
    """The lines with a control character; `warnings` gets what is odd. Raises UserError for what is not UTF-8."""
    with_control, oddities = [np.zeros(0, dtype=np.int64)], dict[str, tuple[int, int]]()
    for first, block in flat.blocks():
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError as error:
            before = block[: error.start]
            line, column = first + before.count(b"\n") + 1, error.start - before.rfind(b"\n")
            packed = first == 0 and block[:2] == b"\x1f\x8b"
            cure = "It is gzip data: add .gz to its name" if packed else "Save the file as UTF-8 (it may be Latin-1)"
            what = f"byte {column} of the line, 0x{block[error.start]:02x}, is not UTF-8"
            raise UserError(f"{flat.name}:{line}: {what}. {cure}.") from error
        if CONTROL.search(text):
            lines = (first + n for n, line in enumerate(text.split("\n")) if CONTROL.search(line))
            with_control.append(np.fromiter(lines, dtype=np.int64))
        for what, rows in odd(text).items():
            count, line = oddities.setdefault(what, (0, first + rows[0]))
            oddities[what] = count + len(rows), line
    warnings += [f"{flat.name}:{line + 1}: {count:,} lines {what}." for what, (count, line) in oddities.items()]
    return np.concatenate(with_control)


def _text(flat: Flat, start: int, stop: int) -> str:
    return flat.buffer[start:stop].decode("utf-8")


def _say_control(flat: Flat, line: int) -> str:
    character = CONTROL.findall(_text(flat, int(flat.starts[line]), int(flat.stops[line])))[0]
    if character == "\r":
        return "a carriage return in a file whose lines do not all end in CRLF. Save the file with LF line ends only."
    if character in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
        return f"the line separator U+{ord(character):04X}, at which many tools cut the line. Replace it by a space."
    return f"the control character U+{ord(character):04X}. Remove it."


def _say_columns(found: int, columns: int) -> str:
    if columns == 1:
        return f"{found - 1} tab(s) in a plain text file. Replace them by spaces: in .tsv files a tab ends the source."
    if found == 1:
        return "only one column: no tab, or an empty line. Write source, one tab, target on each line, or remove it."
    return f"{found} columns instead of two. Keep one tab, between source and target; replace the others by spaces."


def _blank(flat: Flat, starts: Ints, ends: Ints) -> Ints:
    first, second = flat.array[starts].astype(np.int64), flat.array[np.minimum(starts + 1, len(flat.array) - 1)]
    maybe = np.flatnonzero((first <= 32) | np.isin(first << 8 | second, _UNSEEN_STARTS))  # <= 32: also TAB and LF
    return np.array([i for i in maybe.tolist() if is_blank(_text(flat, int(starts[i]), int(ends[i])))], dtype=np.int64)


def _long(flat: Flat, starts: Ints, ends: Ints) -> Ints:
    maybe = np.flatnonzero(ends - starts - 1 > LONGEST)  # bytes, so at least as many as characters
    long = (i for i in maybe.tolist() if len(_text(flat, int(starts[i]), int(ends[i]) - 1)) > LONGEST)
    return np.fromiter(long, dtype=np.int64)


def check_corpus(train: Texts, valid: Texts, test: Texts, *, allow_leakage: bool) -> list[str]:
    """Warnings about duplicates, leaks from held-out text into training text, copied or exchanged sides.

    Raises UserError if a whole test pair is in the training text of the same pair, unless `allow_leakage`. Sentences
    are compared by 64-bit hashes, of one training text at a time; many hashes are kept on disk.
    """
    held_valid = {pair: text.side_hashes() for pair, text in valid.items()}
    held_test = {pair: text.side_hashes() for pair, text in test.items()}
    warnings: list[str] = []
    for pair, text in train.items():
        in_valid, in_test = _mix(*held_valid[pair]), _mix(*held_test[pair])
        if len(both := np.flatnonzero(np.isin(in_valid, in_test))):
            where = valid[pair].where(int(both[0]))
            warnings.append(f"{where}: {len(both):,} pairs are in {test[pair].name} too. Remove them from one of both.")
        sources = [held_valid[pair][0], held_test[pair][0]]
        targets = [held_test[other][1] for other in test if other.split("-")[1] == pair.split("-")[1]]
        hits = [_Hits() for _ in range(5)]
        both = np.frombuffer(spooled(_hashes(text, [[in_test], [in_valid], sources, targets], hits)), np.int64)
        warnings += _duplicates(text, both)
        leaked, *others, same = hits
        if leaked.count:
            first = test[pair].where(int(np.flatnonzero(in_test == both[leaked.lines[0]])[0]))
            message = f"{leaked.examples(text)}: {leaked.count:,} training pairs are test pairs too (first: {first})."
            if not allow_leakage:
                raise UserError(f"{message} Remove them from train, or accept them with allow_leakage=True.")
            warnings.append(f"{message} Scores on this test set are too high.")
        reports = (f"pairs are in {valid[pair].name} too", "sources are in its valid or test too",
                   "targets are in the test set of some pair too")  # fmt: skip
        for hit, what in zip(others, reports, strict=True):
            if hit.count:
                found = f"{hit.examples(text)}: {hit.count:,} training {what}"
                warnings.append(f"{found}. Remove them from train to be safe.")
        if same.count > len(text) / 2:
            what = f"{same.count:,} of {len(text):,} pairs have two equal sides"
            warnings.append(f"{text.name}: {what}. Check that the text is translated.")
    return warnings + _turned_round(train)


class _Hits:
    """How many lines were found, and which are the first three."""

    def __init__(self) -> None:
        self.count, self.lines = 0, np.zeros(0, np.int64)

    def add(self, lines: Ints) -> None:
        self.count += len(lines)
        self.lines = np.sort(np.concatenate([self.lines, lines]))[:3]

    def examples(self, text: ParallelText) -> str:
        first, *rest = (text.where(line) for line in self.lines.tolist())
        return ", :".join([first, *(where.rpartition(":")[2] for where in rest)])


def _hashes(text: ParallelText, pools: Sequence[Sequence[Ints]], hits: Sequence[_Hits]) -> Iterator[bytes]:
    """The hash of every pair; `hits` gets lines found in the pools (pairs twice, sources, targets) and equal sides."""
    joined, at = [np.concatenate(pool) for pool in pools], 0
    for src, trg in text.hash_blocks():
        both = _mix(src, trg)
        for values, pool, hit in zip((both, both, src, trg), joined, hits[:4], strict=True):
            hit.add(np.flatnonzero(np.isin(values, pool)) + at)
        hits[4].add(np.flatnonzero(src == trg) + at)
        at += len(both)
        yield both.tobytes()


def _mix(src: Ints, trg: Ints) -> Ints:
    """One hash for each pair from the hashes of its sides; not symmetric. The product overflows on purpose."""
    return src * np.int64(0x5851F42D4C957F2D) + trg


def _duplicates(text: ParallelText, both: Ints) -> list[str]:
    again, buckets = _Hits(), np.uint64(len(both) // _BUCKET + 1)
    for bucket in range(int(buckets)):  # equal hashes are in one bucket, and no bucket is large
        parts = []
        for at in range(0, len(both), _ROWS):
            here = np.flatnonzero(both[at : at + _ROWS].view(np.uint64) % buckets == bucket) + at
            parts.append((here, both[here]))
            forget(both)
        lines, hashes = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(hashes, kind="stable")  # stable: of equal pairs the first occurrence stays first
        again.add(lines[order[1:][hashes[order[1:]] == hashes[order[:-1]]]])
    if not again.count:
        return []
    what = f"{again.count:,} of {len(text):,} training pairs repeat an earlier one"
    return [f"{again.examples(text)}: {what}. Remove them, unless you want the repetition."]


def _turned_round(train: Texts) -> list[str]:
    """Warnings about pairs whose source looks like the target that the other pairs share, or vice versa."""
    warnings: list[str] = []
    for shared in (1, 0):
        if len(train) < 2 or len({pair.split("-")[shared] for pair in train}) > 1:
            continue
        words = {pair: _words(text) for pair, text in train.items()}
        for pair, sides in words.items():
            common = set().union(*(other[shared] for name, other in words.items() if name != pair))
            right, wrong = (len(side & common) / max(1, len(side)) for side in (sides[shared], sides[1 - shared]))
            if wrong > 0.3 and wrong > 5 * right:
                language, column = pair.split("-")[shared], ("second", "first")[shared]
                what = f"its {column} column shares words with the {language} of the other pairs"
                warnings.append(f"{train[pair].name}: sides exchanged? Here {what}. Check which column is {language}.")
    return warnings


def _words(text: ParallelText) -> tuple[set[str], set[str]]:
    """The words on the source side and on the target side of the first lines."""
    src, trg = (set(_WORD.findall(" ".join(column).lower())) for column in zip(*islice(text, _SAMPLE), strict=True))
    return src, trg


class Manifest(NamedTuple):
    """What corpus.json says. `files`: train.fr-en.tsv (in whatever form it is stored) -> lines and sha256."""

    path: Path
    name: str = ""
    licence: str = "unknown"
    source: str = "unknown"
    pairs: tuple[str, ...] = ()
    files: Mapping[str, tuple[int, str]] = {}

    def check_pairs(self, found: Iterable[str]) -> None:
        """Raise UserError if a pair with files is not listed, or a listed file does not belong to a pair."""
        if extra := sorted(set(found) - set(self.pairs)) if self.pairs else []:
            raise UserError(f'{self.path}: "pairs" lacks {extra[0]}, which has files. Add it, or remove them.')
        known = {f"{split}.{pair}.tsv" for split in SPLITS for pair in found}
        if extra := sorted(set(self.files) - known):
            raise UserError(f'{self.path}: "files" names {extra[0]}, not a file of a pair. Correct or remove it.')

    def check_text(self, name: str, flat: Flat) -> None:
        """Raise UserError if the text is not the one that corpus.json describes."""
        if name not in self.files:
            return
        lines, sha256 = self.files[name]
        cure = f"Restore the file, or if the change is wanted, remove its entry from {self.path.name}."
        if lines != len(flat.stops):
            raise UserError(f"{flat.name} has {len(flat.stops):,} lines; {self.path} says {lines:,}. {cure}")
        if sha256 != flat.sha256:
            raise UserError(f"{flat.name} does not have the sha256 in {self.path}: the text was changed. {cure}")


def read_manifest(path: Path) -> Manifest:
    """Read corpus.json; if it is absent, return an empty Manifest. Raises UserError for invalid content."""
    cure = "Correct it, write the corpus again, or delete the file: it is optional."
    shape = {"name": str, "licence": str, "source": str, "pairs": [str], "files": {"*": {"lines": int, "sha256": str}}}
    data = read_json(path, shape, cure) if os.path.lexists(path) else {}
    pairs, files = data.get("pairs", []), data.get("files", {})
    if len(set(pairs)) < len(pairs):
        raise UserError(f'{path}: "pairs" names one twice. {cure}')
    for pair in pairs:
        checked_pair(pair, str(path))
    texts = {key: data[key] for key in ("name", "licence", "source") if data.get(key)}
    return Manifest(path, **texts, pairs=tuple(pairs), files={n: (e["lines"], e["sha256"]) for n, e in files.items()})
