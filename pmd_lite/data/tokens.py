"""Token ids of a corpus as flat arrays: no Python object per sentence; a cached array is memory-mapped.

    CACHE/encoded-KEY/{train,valid}.{pair}.{src,trg}.npy            ids, one sentence after another
    CACHE/encoded-KEY/{train,valid}.{pair}.{src,trg}.offsets.npy    where each sentence begins, and the end of the last

Millions of sentences pass through in blocks, so memory does not grow with their number.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from pmd_lite.data.corpus import Corpus
from pmd_lite.data.reading import Bools, ParallelText, forget, spooled
from pmd_lite.data.reading import Ints as Ints
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import check_seal, explained, new_directory, refused, remove, seal
from pmd_lite.errors import UserError, reason, waiting

Ids = npt.NDArray[np.integer[Any]]
Side = Literal["src", "trg"]

_SIDES: tuple[Side, Side] = ("src", "trg")
_BLOCK = 1 << 13  # sentences that are Python objects at the same time
_ROWS = 1 << 16  # rows of an array that are handled together
_HEADER = 128  # bytes before the values of a .npy file with one axis


@dataclass(frozen=True, eq=False)
class TokenArray:
    """Sentence i is `flat[starts[i] : starts[i] + lengths[i]]`. A selection shares `flat` with the whole array."""

    flat: Ids
    """[token] ids of all sentences, one after another: uint16 for a vocabulary of at most 65,536, else int32."""
    starts: Ints
    """[sentence] where each sentence begins."""
    lengths: Ints
    """[sentence] number of tokens of each sentence."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> Ids:
        return self.flat[self.starts[i] : self.starts[i] + self.lengths[i]]

    @classmethod
    def build(cls, sentences: Iterable[list[int]]) -> Self:
        """From lists of ids, one list per sentence."""
        return cls.join((np.array(ids, np.int32), np.array([len(ids)])) for ids in sentences)

    @classmethod
    def join(cls, blocks: Iterable[tuple[Ids, Ints]]) -> Self:
        """From blocks of sentences: the ids of each block, and the number of tokens of each of its sentences."""
        flats, lengths = zip((np.zeros(0, np.uint16), np.zeros(0, np.int64)), *blocks, strict=True)
        return cls.cut(np.concatenate(flats), np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64))

    @classmethod
    def cut(cls, flat: Ids, offsets: Ints) -> Self:
        """The array in which each sentence begins where the previous one ends. offsets: [sentence + 1]."""
        lengths = _by_rows(len(offsets) - 1, lambda rows: np.diff(offsets[rows.start : rows.stop + 1]), offsets)
        return cls(flat, offsets[:-1], lengths)

    def select(self, keep: Bools) -> Self:
        """The sentences where `keep` [sentence] is true; no token is copied."""
        starts = _by_rows(len(self), lambda rows: self.starts[rows][keep[rows]], self.starts)
        lengths = _by_rows(len(self), lambda rows: self.lengths[rows][keep[rows]], self.lengths)
        return replace(self, starts=starts, lengths=lengths)


def _rows(count: int) -> Iterator[slice]:
    return (slice(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS))


def _by_rows(count: int, values: Callable[[slice], Ints], source: Ints) -> Ints:
    """The `values` of all rows, computed part by part; a long array is mapped from a temporary file."""

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
    """{"split.pair": sentence pairs left out because a side is longer than max_len tokens}; no entry means none."""

    @property
    def sizes(self) -> list[int]:
        """N_l: training sentence pairs of each pair."""
        return [len(split) for split in self.train]

    @property
    def left_out(self) -> list[str]:
        """What was dropped, in words: at most one line for the training data and one for the dev sets."""
        lines = []
        for name, splits, what in (("train", self.train, "not trained on"), ("valid", self.valid, "in no dev loss")):
            counts = [f"{pair} {lost:,} of {lost + len(of):,}" for pair, of in zip(self.pairs, splits, strict=True)
                      if (lost := self.dropped.get(f"{name}.{pair}", 0))]  # fmt: skip
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
        cache: a directory that gets one subdirectory per corpus and tokenizer. A subdirectory appears whole or not at
            all; from then on it is memory-mapped, and may be read-only. A second writer waits for the first. None keeps
            the ids in memory.
    Raises: UserError when no sentence of a pair fits, or the cache cannot be written or is damaged.
    """
    if cache is not None:
        what = f"{corpus.fingerprint} {corpus.pairs} {tokenizer.fingerprint}"  # all that decides the arrays
        cache = cache / f"encoded-{sha256(what.encode()).hexdigest()[:16]}"
        if not cache.exists():
            _write(corpus, tokenizer, cache)
        check_seal(cache)
    dropped: dict[str, int] = {}

    def split_of(name: str, pair: str) -> EncodedSplit:
        text: ParallelText = getattr(corpus, name)[pair]
        sides = (TokenArray.join(_blocks(text, tokenizer, pair, side)) for side in _SIDES)
        whole = EncodedSplit(*sides) if cache is None else _read(cache, name, pair, len(text))
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

    train, valid = (tuple(split_of(name, pair) for pair in corpus.pairs) for name in ("train", "valid"))
    return EncodedCorpus(tokenizer, corpus.pairs, train, valid, dropped)


def _blocks(text: ParallelText, tokenizer: Tokenizer, pair: str, side: Side) -> Iterator[tuple[Ids, Ints]]:
    """Block by block: the ids of all its sentences, and the number of tokens of each sentence."""
    threads, column = min(16, os.cpu_count() or 1), 0 if side == "src" else 1
    for at in range(0, len(text), _BLOCK):
        lines = [line[column] for line in text[at : at + _BLOCK]]
        ids, lengths = tokenizer.encode_flat(lines, pair, side, threads)
        yield ids.astype(_kind(tokenizer)), lengths


def _kind(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4")


def _write(corpus: Corpus, tokenizer: Tokenizer, cache: Path) -> None:
    """Make the cache, or wait for the process that makes it. The lock of a killed process is free again."""
    with explained(cache, "give the same command again: nothing was left behind"):
        cache.parent.mkdir(parents=True, exist_ok=True)
        with waiting(f"the process that writes {cache}"):
            lock = FileLock(cache.with_name(f".{cache.name}.lock")).acquire()
        with lock:
            if cache.exists():
                return
            for left_over in cache.parent.glob(f"{cache.name}.*.part"):  # by a process that was killed
                remove(left_over)
            with new_directory(cache) as part:
                for name, texts in (("train", corpus.train), ("valid", corpus.valid)):
                    for pair, side in itertools.product(corpus.pairs, _SIDES):
                        _write_side(part / f"{name}.{pair}.{side}", texts[pair], tokenizer, pair, side)
                seal(part)


def _write_side(stem: Path, text: ParallelText, tokenizer: Tokenizer, pair: str, side: Side) -> None:
    """Write the two files of one side of one text. Their headers come last: only then the number of ids is known."""
    kind, tokens = _kind(tokenizer), 0
    with open(f"{stem}.npy", "wb") as flat, open(f"{stem}.offsets.npy", "wb") as offsets:
        flat.write(bytes(_HEADER))
        offsets.write(bytes(_HEADER + 8))  # the first sentence begins at 0
        for ids, lengths in _blocks(text, tokenizer, pair, side):
            flat.write(ids.tobytes())
            offsets.write((tokens + np.cumsum(lengths)).astype("<i8").tobytes())
            tokens += len(ids)
        _write_header(flat, kind, tokens)
        _write_header(offsets, np.dtype("<i8"), len(text) + 1)


def _write_header(file: BinaryIO, kind: np.dtype[Any], count: int) -> None:
    """Say at the beginning of a .npy file that `count` values of this kind follow."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": kind.str, "fortran_order": False, "shape": (count,)})
    assert file.tell() == _HEADER


def _read(cache: Path, name: str, pair: str, sentences: int) -> EncodedSplit:
    def side(which: str) -> TokenArray:
        stem = cache / f"{name}.{pair}.{which}"
        try:
            # Slices of a plain view of the map are several times faster than slices of a numpy.memmap.
            flat, offsets = (np.asarray(np.load(f"{stem}{end}", mmap_mode="r")) for end in (".npy", ".offsets.npy"))
            if len(offsets) != sentences + 1 or offsets[-1] != len(flat):
                raise ValueError(f"{len(offsets) - 1} sentences instead of {sentences}, {len(flat)} tokens")
        except (OSError, ValueError, EOFError) as error:
            what = f"{stem}: this cache is damaged ({reason(error)}). Delete {cache}; the next run makes it again."
            raise UserError(refused(stem, error) or what) from None
        return TokenArray.cut(flat, offsets)

    return EncodedSplit(side("src"), side("trg"))
