"""Token ids of a corpus as flat arrays: no Python object per sentence, memory-mapped when cached."""

from __future__ import annotations

import os
import shutil
import uuid
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from pmd_lite.data.corpus import Corpus, ParallelText
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.errors import UserError

Ints = npt.NDArray[np.int64]

_BLOCK = 4096  # sentences that are Python objects at one time


@dataclass(frozen=True, eq=False)
class TokenArray:
    """Sentence i is `flat[starts[i] : starts[i] + lengths[i]]`; a selection shares `flat` with the whole."""

    flat: npt.NDArray[np.int32]
    """[token] ids of all sentences, one after another."""
    starts: Ints
    """[sentence] where each begins."""
    lengths: Ints
    """[sentence] tokens of each."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, i: int) -> npt.NDArray[np.int32]:
        return self.flat[self.starts[i] : self.starts[i] + self.lengths[i]]

    @classmethod
    def build(cls, sentences: Iterable[list[int]]) -> TokenArray:
        """From lists of ids, one sentence at a time."""
        flat, offsets = array("i"), array("q", [0])
        for sentence in sentences:
            flat.extend(sentence)
            offsets.append(len(flat))
        return cls.cut(np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32), np.array(offsets, np.int64))

    @classmethod
    def cut(cls, flat: npt.NDArray[np.int32], offsets: Ints) -> TokenArray:
        """The array in which each sentence begins where the one before ends; offsets: [sentence + 1]."""
        return cls(flat, offsets[:-1], np.diff(offsets))

    def select(self, keep: npt.NDArray[np.bool_]) -> TokenArray:
        """The sentences where `keep` [sentence] is true; no token is copied."""
        return TokenArray(self.flat, self.starts[keep], self.lengths[keep])


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
    def trg_tokens(self) -> int:
        """Target tokens of all training data."""
        return sum(split.trg_tokens for split in self.train)


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, max_len: int, cache: Path | None = None) -> EncodedCorpus:
    """Encode train and valid, without the sentence pairs that have a side longer than `max_len` tokens.

    Args:
        cache: a directory that gets one subdirectory per corpus and tokenizer, written whole or not at all, and
            memory-mapped from then on. One that is there already may be read-only. None keeps the ids in memory.
    Raises:
        UserError: a pair has no sentence that fits, the cache cannot be written, or it is damaged.
    """
    if cache is not None:
        cache = cache / f"encoded-{_key(corpus, tokenizer)}"
        if not cache.exists():
            _write(corpus, tokenizer, cache)
    dropped: dict[str, int] = {}

    def split_of(name: str, pair: str) -> EncodedSplit:
        text: ParallelText = getattr(corpus, name)[pair]
        whole = _encode(text, tokenizer, pair) if cache is None else _read(cache, name, pair, len(text))
        keep = np.maximum(whole.src.lengths, whole.trg.lengths) <= max_len
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
    threads = min(16, os.cpu_count() or 1)

    def side(name: Literal["src", "trg"], column: int) -> Iterator[list[int]]:
        for at in range(0, len(text), _BLOCK):
            yield from tokenizer.encode([line[column] for line in text[at : at + _BLOCK]], pair, name, threads)

    return EncodedSplit(TokenArray.build(side("src", 0)), TokenArray.build(side("trg", 1)))


def _key(corpus: Corpus, tokenizer: Tokenizer) -> str:
    """Names what decides the arrays: the text and whatever decides its ids."""
    return sha256(f"{corpus.fingerprint} {corpus.pairs} {tokenizer.fingerprint}".encode()).hexdigest()[:16]


def _write(corpus: Corpus, tokenizer: Tokenizer, cache: Path) -> None:
    """Build the directory under another name, then rename it: of several processes at work the first wins."""
    building = cache.with_name(f"{cache.name}.{uuid.uuid4().hex}.tmp")
    try:
        building.mkdir(parents=True)
        for name in ("train", "valid"):
            for pair in corpus.pairs:
                split = _encode(getattr(corpus, name)[pair], tokenizer, pair)
                for side, tokens in (("src", split.src), ("trg", split.trg)):
                    _save(building / f"{name}.{pair}.{side}.npy", tokens.flat)
                    offsets = np.append(tokens.starts, len(tokens.flat))
                    _save(building / f"{name}.{pair}.{side}.offsets.npy", offsets)
        building.rename(cache)
    except OSError as error:
        if not cache.exists():
            what = f"The cache {cache.parent} cannot be written ({error.strerror or error})"
            raise UserError(f"{what}. Choose another directory, or none to keep the ids in memory.") from None
    finally:  # left by this process, by one that was killed, or by one that came second and now reads ours
        for leftover in cache.parent.glob(f"{cache.name}.*.tmp") if cache.exists() else [building]:
            shutil.rmtree(leftover, ignore_errors=True)


def _save(path: Path, values: npt.NDArray[np.int32] | Ints) -> None:
    with path.open("wb") as file:
        np.save(file, values)
        file.flush()
        os.fsync(file.fileno())  # the rename must never become durable before the ids


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
