"""Token ids of a corpus as flat arrays: no Python object per sentence, memory-mapped when cached.

    CACHE/encoded-KEY/{train,valid}.{pair}.{src,trg}.npy            ids, one sentence after another
    CACHE/encoded-KEY/{train,valid}.{pair}.{src,trg}.offsets.npy    where each begins, and the end of the last
    CACHE/encoded-KEY.part/     the same while it grows, with progress.json; after a kill the next writer goes on there

Millions of sentences pass through in blocks, and nothing that is kept in memory grows with their number.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from pmd_lite.data.corpus import Corpus, ParallelText
from pmd_lite.data.reading import forget, spooled
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import remove, write_json
from pmd_lite.errors import UserError

Ids = npt.NDArray[np.integer[Any]]
Ints = npt.NDArray[np.int64]
Side = Literal["src", "trg"]
Progress = dict[str, tuple[int, int]]  # "train.fr-en.src" -> sentences and tokens that are on disk for certain

_SIDES: tuple[Side, Side] = ("src", "trg")
_BLOCK = 1 << 13  # sentences that are Python objects at one time
_COMMIT = 8  # blocks from one flush to disk to the next: what a kill costs at most
_ROWS = 1 << 16  # rows of the arrays looked at together
_HEADER = 128  # bytes before the values of a .npy file with one axis
_PROGRESS = "progress.json"


@dataclass(frozen=True, eq=False)
class TokenArray:
    """Sentence i is `flat[starts[i] : starts[i] + lengths[i]]`; a selection shares `flat` with the whole."""

    flat: Ids
    """[token] ids of all sentences, one after another: uint16 for a vocabulary of at most 65,536, else int32."""
    starts: Ints
    """[sentence] where each begins."""
    lengths: Ints
    """[sentence] tokens of each."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> Ids:
        return self.flat[self.starts[i] : self.starts[i] + self.lengths[i]]

    @classmethod
    def build(cls, sentences: Iterable[list[int]]) -> TokenArray:
        """From lists of ids, one sentence at a time."""
        return cls.join((np.array(ids, np.int32), np.array([len(ids)])) for ids in sentences)

    @classmethod
    def join(cls, blocks: Iterable[tuple[Ids, Ints]]) -> TokenArray:
        """From blocks of sentences: the ids of each block, and the tokens of each of its sentences."""
        flats, lengths = zip((np.zeros(0, np.uint16), np.zeros(0, np.int64)), *blocks, strict=True)
        return cls.cut(np.concatenate(flats), np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64))

    @classmethod
    def cut(cls, flat: Ids, offsets: Ints) -> TokenArray:
        """The array in which each sentence begins where the one before ends; offsets: [sentence + 1]."""
        lengths = _by_rows(len(offsets) - 1, lambda rows: np.diff(offsets[rows.start : rows.stop + 1]), offsets)
        return cls(flat, offsets[:-1], lengths)

    def select(self, keep: npt.NDArray[np.bool_]) -> TokenArray:
        """The sentences where `keep` [sentence] is true; no token is copied."""
        starts = _by_rows(len(self), lambda rows: self.starts[rows][keep[rows]], self.starts)
        lengths = _by_rows(len(self), lambda rows: self.lengths[rows][keep[rows]], self.lengths)
        return TokenArray(self.flat, starts, lengths)


def _rows(count: int) -> Iterator[slice]:
    return (slice(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS))


def _by_rows(count: int, values: Callable[[slice], Ints], source: Ints) -> Ints:
    """`values` of one run of rows after another; a long array is mapped from a temporary file."""

    def pieces() -> Iterator[bytes]:
        for rows in _rows(count):
            yield values(rows).astype(np.int64).tobytes()
            forget(source)

    return np.frombuffer(spooled(pieces()), np.int64)


@dataclass(frozen=True, eq=False)
class EncodedSplit:
    """Both sides of one split of one pair, sentence by sentence."""

    src: TokenArray
    trg: TokenArray

    def __len__(self) -> int:
        return len(self.src)

    @property
    def trg_tokens(self) -> int:
        """Target tokens, EOS (and decoder tag) included."""
        return int(self.trg.lengths.sum())

    @property
    def src_tokens(self) -> int:
        """Source tokens, EOS (and encoder tag) included."""
        return int(self.src.lengths.sum())


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """What training reads: encoded train and valid splits in the order of `corpus.pairs`."""

    tokenizer: Tokenizer
    pairs: tuple[str, ...]
    train: tuple[EncodedSplit, ...]
    valid: tuple[EncodedSplit, ...]
    dropped: dict[str, int]
    """Sentence pairs left out because a side is longer than max_len tokens, by "split.pair"; no entry, none dropped."""

    @property
    def sizes(self) -> list[int]:
        """N_l: training sentence pairs of each pair."""
        return [len(split) for split in self.train]

    @property
    def left_out(self) -> list[str]:
        """In words, what was dropped: one line for the training data, one for the dev sets, none where nothing was."""
        lines = []
        for name, splits, what in (("train", self.train, "not trained on"), ("valid", self.valid, "in no dev loss")):
            lost = {pair: self.dropped.get(f"{name}.{pair}", 0) for pair in self.pairs}
            counts = [f"{pair} {lost[pair]:,} of {lost[pair] + len(split):,}"
                      for pair, split in zip(self.pairs, splits, strict=True) if lost[pair]]  # fmt: skip
            if counts:
                lines.append(f"{name}: sentence pairs longer than max_len tokens are {what}: {', '.join(counts)}")
        return lines

    @property
    def trg_tokens(self) -> int:
        """Target tokens of all training data."""
        return sum(split.trg_tokens for split in self.train)


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, max_len: int, cache: Path | None = None) -> EncodedCorpus:
    """Encode train and valid, without the sentence pairs that have a side longer than `max_len` tokens.

    Args:
        cache: a directory that gets one subdirectory per corpus and tokenizer, written block by block, there whole or
            not at all, and memory-mapped from then on. A killed writer's work is continued; a second writer waits for
            the first. One that is there already may be read-only. None keeps the ids in memory.
    Raises: UserError when a pair has no sentence that fits, or the cache cannot be written or is damaged.
    """
    if cache is not None:
        cache = cache / f"encoded-{_key(corpus, tokenizer)}"
        if not cache.exists():
            _write(corpus, tokenizer, cache)
    dropped: dict[str, int] = {}

    def split_of(name: str, pair: str) -> EncodedSplit:
        text: ParallelText = getattr(corpus, name)[pair]
        whole = _encode(text, tokenizer, pair) if cache is None else _read(cache, name, pair, len(text))
        keep = np.empty(len(whole), np.bool_)
        for rows in _rows(len(whole)):
            keep[rows] = np.maximum(whole.src.lengths[rows], whole.trg.lengths[rows]) <= max_len
            forget(whole.src.lengths, whole.trg.lengths)
        if not keep.any():
            raise UserError(f"{name}.{pair}: no sentence pair fits into max_len={max_len} tokens. Raise max_len.")
        if keep.all():
            return whole
        dropped[f"{name}.{pair}"] = int((~keep).sum())
        return EncodedSplit(whole.src.select(keep), whole.trg.select(keep))

    train = tuple(split_of("train", pair) for pair in corpus.pairs)
    valid = tuple(split_of("valid", pair) for pair in corpus.pairs)
    return EncodedCorpus(tokenizer, corpus.pairs, train, valid, dropped)


def _encode(text: ParallelText, tokenizer: Tokenizer, pair: str) -> EncodedSplit:
    src, trg = (TokenArray.join(_blocks(text, tokenizer, pair, side)) for side in _SIDES)
    return EncodedSplit(src, trg)


def _blocks(
    text: ParallelText, tokenizer: Tokenizer, pair: str, side: Side, first: int = 0
) -> Iterator[tuple[Ids, Ints]]:
    """From sentence `first` on, block by block: the ids of all its sentences, and the tokens of each."""
    threads, column = min(16, os.cpu_count() or 1), 0 if side == "src" else 1
    for at in range(first, len(text), _BLOCK):
        lines = [line[column] for line in text[at : at + _BLOCK]]
        ids, lengths = tokenizer.encode_flat(lines, pair, side, threads)
        yield ids.astype(_kind(tokenizer)), lengths


def _kind(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4")


def _key(corpus: Corpus, tokenizer: Tokenizer) -> str:
    """Names what decides the arrays: the text and whatever decides its ids."""
    return sha256(f"{corpus.fingerprint} {corpus.pairs} {tokenizer.fingerprint}".encode()).hexdigest()[:16]


def _write(corpus: Corpus, tokenizer: Tokenizer, cache: Path) -> None:
    """Build the directory under another name, or go on where a killed process stopped, then rename it."""
    try:
        with _alone(cache) as building:
            if building is None:
                return
            done = _progress(building)
            for name, texts in (("train", corpus.train), ("valid", corpus.valid)):
                for pair, side in itertools.product(corpus.pairs, _SIDES):
                    _write_side(building / f"{name}.{pair}.{side}", texts[pair], tokenizer, pair, side, done)
            building.rename(cache)
            (cache / _PROGRESS).unlink()
    except OSError as error:
        if not cache.exists():
            what = f"The cache {cache.parent} cannot be written ({error.strerror or error})"
            raise UserError(f"{what}. Choose another directory, or none to keep the ids in memory.") from None


@contextmanager
def _alone(cache: Path) -> Iterator[Path | None]:
    """The directory to build in, locked; waits while another process builds, and is None if that one has finished.

    The lock goes with its process, so a killed one blocks nobody. Windows cannot lock a directory: there each process
    builds in one of its own, and a killed one's work is lost.
    """
    if sys.platform == "win32":
        building = cache.with_name(f"{cache.name}.{os.getpid()}.part")
        building.mkdir(parents=True, exist_ok=True)
        try:
            yield building
        finally:
            remove(building)
        return
    import fcntl

    building = cache.with_name(f"{cache.name}.part")
    while not cache.exists():
        building.mkdir(parents=True, exist_ok=True)
        handle = os.open(building, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still(building, handle):
                if not cache.exists():
                    yield building
                    return
                building.rmdir()  # made a moment after another process had renamed its own
        finally:
            os.close(handle)
    yield None


def _is_still(path: Path, handle: int) -> bool:
    """Whether the open directory bears that name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _progress(building: Path) -> Progress:
    try:
        return dict(json.loads((building / _PROGRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _write_side(stem: Path, text: ParallelText, tokenizer: Tokenizer, pair: str, side: Side, done: Progress) -> None:
    """Append to the two files of one side of one text, from the sentence on that `done` names."""
    sentences, tokens = done.get(stem.name, (0, 0))
    kind = _kind(tokenizer)
    with (
        _continued(stem.with_name(stem.name + ".npy"), tokens * kind.itemsize) as flat,
        _continued(stem.with_name(stem.name + ".offsets.npy"), 8 * (sentences + 1) if sentences else 0) as offsets,
    ):
        if not sentences:
            offsets.write(bytes(8))
        for number, (ids, lengths) in enumerate(_blocks(text, tokenizer, pair, side, sentences), 1):
            flat.write(ids.tobytes())
            offsets.write((tokens + np.cumsum(lengths)).astype("<i8").tobytes())
            sentences, tokens = sentences + len(lengths), tokens + len(ids)
            if number % _COMMIT == 0 or sentences == len(text):
                _begin(flat, kind, tokens)
                _begin(offsets, np.dtype("<i8"), sentences + 1)
                done[stem.name] = (sentences, tokens)
                write_json(stem.with_name(_PROGRESS), done)


@contextmanager
def _continued(path: Path, size: int) -> Iterator[BinaryIO]:
    """The file at its end, cut off behind `size` bytes of values: what follows was not flushed when the writer died."""
    if size and (not path.exists() or path.stat().st_size < _HEADER + size):
        raise UserError(f"{path}: this unfinished cache is damaged. Delete {path.parent}; it is begun anew.")
    with path.open("r+b" if size else "wb") as file:
        file.truncate(_HEADER + size)
        file.seek(_HEADER + size)
        yield file


def _begin(file: BinaryIO, kind: np.dtype[Any], count: int) -> None:
    """Put the header for `count` values in front of them and flush all to disk."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind.str, "fortran_order": False, "shape": (count,)})
    assert len(header.getvalue()) == _HEADER
    file.seek(0)
    file.write(header.getvalue())
    file.seek(0, os.SEEK_END)
    file.flush()
    os.fsync(file.fileno())


def _read(cache: Path, name: str, pair: str, sentences: int) -> EncodedSplit:
    def side(which: str) -> TokenArray:
        stem = cache / f"{name}.{pair}.{which}"
        try:
            # Slices of a plain view of the map are several times faster than slices of a numpy.memmap.
            flat, offsets = (np.asarray(np.load(f"{stem}{end}", mmap_mode="r")) for end in (".npy", ".offsets.npy"))
            if len(offsets) != sentences + 1 or offsets[-1] != len(flat):
                raise ValueError(f"{len(offsets) - 1} sentences instead of {sentences}, {len(flat)} tokens")
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{stem}: this cache is damaged ({error}). Delete {cache}; it is made again.") from None
        return TokenArray.cut(flat, offsets)

    return EncodedSplit(side("src"), side("trg"))
