"""From files to flat bytes: how to find and read the texts of a corpus, and how to get one sentence.

Five million sentence pairs as Python strings would fill the memory. So a large text is copied to a temporary file, as
one memory-mapped run of bytes; int64 arrays, mapped too, say where each line ends and where its tab is. Code that scans
a text releases the pages that it has read, so memory stays constant. We never map the file itself: if another program
cuts it, the system kills every process that maps it; if another program writes to it, the text changes under us.
"""

import copy
import errno
import gzip
import hashlib
import mmap
import operator
import re
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from pmd_lite.data.text import in_nfc
from pmd_lite.errors import UserError, shown

Buffer = bytes | mmap.mmap
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SPLITS = ("train", "valid", "test")
LAYOUT = "{train,valid,test}.{src}-{trg}.tsv (UTF-8, one `source TAB target` a line), for example train.fr-en.tsv"

_CHUNK = 1 << 23  # bytes that are handled together: enough for numpy to be fast, little for any laptop
_LINES = 1 << 15  # lines that are handled together where Python handles each line
_LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Za-z0-9]+)?")
_OTHER_NAMES = {"dev": "valid", "val": "valid", "validation": "valid", "training": "train", "tst": "test"}


def spooled(pieces: Iterable[bytes]) -> Buffer:
    """The pieces joined; over 8 MB in a temporary file, mapped while in use. UserError if its disk is full."""
    pieces, small = iter(pieces), bytearray()
    for piece in pieces:
        small += piece
        if len(small) > _CHUNK:
            break
    else:
        return bytes(small)
    try:
        with tempfile.TemporaryFile() as file:
            file.writelines(chain([small], pieces))
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(f"{tempfile.gettempdir()} is full. Set TMPDIR to a directory on a larger disk.") from error


def forget(*values: Any) -> None:
    """Remove the pages of mapped buffers and arrays from memory; the system reads them again when needed."""
    for value in values:
        while isinstance(value, np.ndarray | memoryview):
            value = value.base if isinstance(value, np.ndarray) else value.obj
        if isinstance(value, mmap.mmap) and sys.platform != "win32":
            value.madvise(mmap.MADV_DONTNEED)


class Flat:
    """The bytes of one text, in which every line ends with LF, and the positions of line ends and tabs.

    `stops` [line] is the position after each LF, `tabs` [tab] the position of every tab, both ascending. Messages call
    the text by its `name`.
    """

    def __init__(self, name: str, buffer: Buffer) -> None:
        self.name, self.buffer = name, buffer
        self.array = np.frombuffer(buffer, dtype=np.uint8)
        edges: Ints = np.frombuffer(spooled(chain([bytes(8)], self._positions(10, 1))), dtype=np.int64)
        self.starts, self.stops = edges[:-1], edges[1:]
        self.tabs: Ints = np.frombuffer(spooled(self._positions(9, 0)), dtype=np.int64)

    def _positions(self, byte: int, shift: int) -> Iterator[bytes]:
        for at in range(0, self.array.size, _CHUNK):
            yield (np.flatnonzero(self.array[at : at + _CHUNK] == byte).astype(np.int64) + (at + shift)).tobytes()
            forget(self.buffer)

    @property
    def sha256(self) -> str:
        """sha256 of all bytes, in hex."""
        return _sha256(block for _, block in self.blocks())

    def forget(self) -> None:
        """See `forget`."""
        forget(self.buffer, self.stops, self.tabs)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Runs of whole lines of about 8 MB: the number of the first line (from 0) and the bytes."""
        first = 0
        while first < len(self.stops):
            last = max(first + 1, int(np.searchsorted(self.stops, self.starts[first] + _CHUNK, side="right")))
            yield first, bytes(self.buffer[self.starts[first] : self.stops[last - 1]])
            first = last
            self.forget()

    def keep(self, lines: Bools) -> tuple["Flat", Ints]:
        """The text of only the lines marked true, and the numbers of these lines here, from 1."""
        parts = [slice(at, at + _LINES) for at in range(0, len(lines), _LINES)]

        def runs() -> Iterator[bytes]:
            for part in parts:
                edges = np.flatnonzero(np.diff(lines[part].astype(np.int8), prepend=0, append=0)) + part.start
                for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                    yield self.buffer[self.starts[a] : self.stops[b - 1]]
                self.forget()

        numbers = spooled((np.flatnonzero(lines[p]).astype(np.int64) + p.start + 1).tobytes() for p in parts)
        return Flat(self.name, spooled(runs())), np.frombuffer(numbers, dtype=np.int64)


class ParallelText(Sequence[tuple[str, str]]):
    """One split of one pair: strings (src, trg), made on access; slices are views. `flat`: one tab a line."""

    def __init__(self, flat: Flat, numbers: Ints | None = None) -> None:
        self.name, self.forget = flat.name, flat.forget
        self._view = memoryview(flat.buffer)
        self._starts, self._tabs, self._stops = flat.starts, flat.tabs, flat.stops
        self._numbers: range | Ints = range(1, len(flat.stops) + 1) if numbers is None else numbers
        self._swapped = False

    def __len__(self) -> int:
        return len(self._stops)

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> tuple[str, str] | Self:
        if isinstance(index, slice):
            part = self._copy()
            part._starts, part._tabs, part._stops = self._starts[index], self._tabs[index], self._stops[index]
            part._numbers = self._numbers[index]
            return part
        at = operator.index(index)
        return self._decode(int(self._starts[at]), int(self._tabs[at]), int(self._stops[at]))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for at in range(0, len(self), _LINES):  # Python's ints are faster than numpy's, and only a few exist at a time
            part = slice(at, at + _LINES)
            for span in zip(*(a[part].tolist() for a in (self._starts, self._tabs, self._stops)), strict=True):
                yield self._decode(*span)
            self.forget()

    def __repr__(self) -> str:
        return f"ParallelText({self.name!r}, {len(self):,} pairs{', swapped' if self._swapped else ''})"

    def swap(self) -> Self:
        """The same text with sides swapped: (trg, src) instead of (src, trg), without a copy."""
        other = self._copy()
        other._swapped = not self._swapped
        return other

    def where(self, index: int) -> str:
        """`file:line` of one pair; lines are counted from 1, as in an editor."""
        return f"{self.name}:{self._numbers[index]}"

    def side_hashes(self) -> tuple[Ints, Ints]:
        """64-bit hashes of sources and of targets, [line] each, equal for equal texts within one process.

        Spaces around a text and its form (NFC, NFD) do not count. The hash is Python's keyed one of bytes: among ten
        million different sentences, two collide with probability 3e-6.
        """
        src, trg = zip(*self.hash_blocks(), strict=True)
        return np.concatenate(src), np.concatenate(trg)

    def hash_blocks(self) -> Iterator[tuple[Ints, Ints]]:
        """`side_hashes` in blocks of some ten thousand lines."""
        for piece in map(in_nfc, self.raw()):
            sides = piece.replace(b"\n", b"\t").split(b"\t")  # src, trg, src, trg, ..., and nothing after the last LF
            both = np.fromiter(map(hash, map(bytes.strip, sides)), dtype=np.int64, count=len(sides) - 1).reshape(-1, 2)
            yield both[:, 0], both[:, 1]

    def raw(self) -> Iterator[bytes]:
        """The bytes of a .tsv file with this text, `src TAB trg LF` on each line, in pieces of whole lines."""
        for at in range(0, len(self), _LINES):
            part = self[at : at + _LINES]
            if not self._swapped and np.array_equal(part._starts[1:], part._stops[:-1]):  # no gaps
                yield bytes(self._view[part._starts[0] : part._stops[-1]])
            else:
                yield "".join(f"{src}\t{trg}\n" for src, trg in part).encode()
            self.forget()

    @cached_property
    def sha256(self) -> str:
        """sha256 of the bytes of `raw`, in hex: equal for .tsv, .tsv.gz and two plain files with the same text."""
        return _sha256(self.raw())

    def _copy(self) -> Self:
        other = copy.copy(self)
        other.__dict__.pop("sha256", None)
        return other

    def _decode(self, start: int, tab: int, stop: int) -> tuple[str, str]:
        left, right = str(self._view[start:tab], "utf-8"), str(self._view[tab + 1 : stop - 1], "utf-8")
        return (right, left) if self._swapped else (left, right)


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def checked_pair(pair: str, where: str) -> tuple[str, str]:
    """ "fr-en" -> ("fr", "en"). Raises UserError for anything that is not two different language codes."""
    src, dash, trg = pair.partition("-")
    for code in (src, trg):
        if not dash or not _LANGUAGE.fullmatch(code):
            raise UserError(f"{where}: unknown language {shown(code)} in the pair {shown(pair)}. Use codes of two or "
                            "three small letters, source first, such as fr-en or zh_CN-en.")  # fmt: skip
    if src == trg:
        raise UserError(f"{where}: the pair {shown(pair)} has the same language twice. Rename it, source first: fr-en.")
    return src, trg


def find_files(directory: Path, listed: Sequence[str] = ()) -> dict[str, dict[str, tuple[Path, ...]]]:
    """pair -> split -> its .tsv file or its two plain files (source, target); `listed`: the pairs of corpus.json."""
    try:
        present = sorted(p for p in directory.iterdir() if not p.name.startswith("."))
        names = [p.name for p in present if p.is_file()]
        odd = [p for p in present if p.name not in names and (not p.is_dir() or ".tsv" in p.name)]
    except OSError as error:
        raise UserError(f"{directory} cannot be read ({error.strerror}). Check its permissions.") from error
    if odd := [p for p in odd if p.name.startswith(tuple(f"{split}." for split in SPLITS))]:
        raise UserError(f"{odd[0]} is a directory, a pipe, a device or a broken link. Put the file itself there.")
    in_names = {_pair_of(directory, name) for name in names if re.search(r"\.tsv(\.gz)?$", name)}
    for name in names:
        plain = re.fullmatch(rf"({'|'.join(SPLITS)})\.([^.-]+-[^.-]+)\.([^.]+)(\.gz)?", name)
        if plain and plain[3] in plain[2].split("-") and plain[2] != f"{plain[3]}-{plain[3]}":
            checked_pair(plain[2], str(directory / name))
            in_names.add(plain[2])
    pairs = sorted(in_names | set(listed)) if in_names else _short_pairs(directory, names, listed)
    if not pairs:
        similar = ", ".join(names[:5]) or "it is empty"
        raise UserError(f"{directory} has no corpus file ({similar}). Add files with the names {LAYOUT}.")
    return {pair: {split: _locate(directory, names, split, pair, bool(in_names)) for split in SPLITS} for pair in pairs}


def _pair_of(directory: Path, name: str) -> str:
    """The pair in the name of a .tsv file."""
    split, _, rest = name.partition(".")
    pair = rest.partition(".tsv")[0]
    if split not in SPLITS:
        better = _OTHER_NAMES.get(split.lower(), split.lower() if split.lower() in SPLITS else "")
        advice = f"Rename it to {better}.{rest}." if better else f"Rename it or move it away; expected names: {LAYOUT}."
        raise UserError(f"{directory / name}: {split!r} is not the name of a split (train, valid, test). {advice}")
    checked_pair(pair, str(directory / name))
    return pair


def _short_pairs(directory: Path, names: Collection[str], listed: Sequence[str]) -> list[str]:
    """The pairs if files are called train.fr, train.en: those of corpus.json, else every language into English."""
    matches = (re.fullmatch(rf"({'|'.join(SPLITS)})\.({_LANGUAGE.pattern})(\.gz)?", name) for name in names)
    languages = sorted({match[2] for match in matches if match})
    if listed or len(languages) < 2:
        return list(listed)
    if "en" not in languages:
        example = f"train.{languages[0]}-{languages[1]}.{languages[0]}"
        raise UserError(f"{directory}: the plain files ({', '.join(languages)}) do not say which language is the "
                        f"source. Rename them after the pair, source first: {example} and so on.")  # fmt: skip
    return [f"{language}-en" for language in languages if language != "en"]


def _locate(directory: Path, names: Collection[str], split: str, pair: str, only_long: bool) -> tuple[Path, ...]:
    src, trg = pair.split("-")
    stem = f"{split}.{pair}"
    forms = [(f"{stem}.tsv",), (f"{stem}.{src}", f"{stem}.{trg}"), (f"{split}.{src}", f"{split}.{trg}")]
    whole: list[str] = []
    for form in forms:
        hits = [name for plain in form for name in (plain, f"{plain}.gz") if name in names]
        lacks = [plain for plain in form if not {plain, f"{plain}.gz"} & {*hits}]
        if hits and lacks and not (form is forms[2] and only_long):
            raise UserError(f"{directory / lacks[0]} is missing, but its other side exists. Add it (or {lacks[0]}.gz).")
        whole += [] if lacks else hits
        if len(whole) > len(form):
            both = " and ".join(whole)
            raise UserError(f"{directory}: {both} hold the same split of {pair} twice. Remove all but one form.")
    if not whole:
        alias = next((name for name in names if _OTHER_NAMES.get(name.partition(".")[0]) == split), None)
        advice = f"Rename {alias}." if alias else "Add it (or .tsv.gz, or two plain files): a corpus needs all splits."
        raise UserError(f"{directory / forms[0][0]} is missing: there is no {split} split for {pair}. {advice}")
    return tuple(directory / name for name in whole)


def read_flat(path: Path) -> tuple[Flat, list[str]]:
    """The text of one file, with .gz unpacked and CRLF replaced by LF, and warnings about it.

    A byte-order mark is an error; we do not remove it, because other tools would read it as the first character.
    """
    data, warnings = _bytes(path), []
    if not len(data):
        raise UserError(f"{path} is empty. Restore it from its source: an interrupted copy looks like this.")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{path}:1: this is UTF-16. Save it as UTF-8 without a byte-order mark.")
    if data[:3] == b"\xef\xbb\xbf":
        raise UserError(f"{path}:1: the file begins with a byte-order mark (BOM). Save it as UTF-8 without BOM.")
    missing = data[-1:] != b"\n"
    if missing:
        data = spooled(chain((data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)), [b"\n"]))
    flat = Flat(str(path), data)
    if any(b"\r\n" in block for _, block in flat.blocks()):
        counts = np.array([[block.count(end) for end in (b"\r\n", b"\r", b"\n")] for _, block in flat.blocks()])
        if len(set((counts.sum(axis=0) - [0, 0, missing]).tolist())) == 1:  # counted before a line end was added
            flat = Flat(str(path), spooled(block.replace(b"\r\n", b"\n") for _, block in flat.blocks()))
            warnings.append(f"{path.name}: CRLF line ends, replaced. Save the file with LF line ends to avoid this.")
    if missing:
        warnings.append(f"{path.name}: no line end after the last line. Check that the file is complete.")
    return flat, warnings


def _bytes(path: Path) -> Buffer:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return spooled(iter(lambda: file.read(_CHUNK), b""))
    except EOFError as error:
        raise UserError(f"{path} ends too early: the .gz file is cut off. Fetch or pack it again.") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not valid gzip ({error}). Pack it again, or remove .gz from its name.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Check the file and its permissions.") from error
