"""Token ids of a corpus as flat arrays with offsets: no Python object per sentence, memory-mapped when cached."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.errors import UserError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TokenArray:
    """Sentence i is `flat[offsets[i] : offsets[i + 1]]`."""

    flat: npt.NDArray[np.int32]
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> npt.NDArray[np.int32]:
        return self.flat[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> Ints:
        """[sentence], tokens of each."""
        return np.diff(self.offsets)

    @classmethod
    def build(cls, sentences: Iterable[list[int]]) -> TokenArray:
        """From lists of ids, one sentence at a time."""
        flat, offsets = array("i"), array("q", [0])
        for sentence in sentences:
            flat.extend(sentence)
            offsets.append(len(flat))
        return cls(np.array(flat, dtype=np.int32), np.array(offsets, dtype=np.int64))

    def select(self, keep: npt.NDArray[np.bool_]) -> TokenArray:
        """The sentences where `keep` [sentence] is true."""
        lengths = self.lengths
        return TokenArray(self.flat[np.repeat(keep, lengths)], np.concatenate([[0], np.cumsum(lengths[keep])]))


@dataclass(frozen=True)
class EncodedSplit:
    """Both sides of one split of one pair, sentence by sentence."""

    src: TokenArray
    trg: TokenArray

    def __len__(self) -> int:
        return len(self.src)

    @property
    def trg_tokens(self) -> int:
        """Target tokens, EOS (and decoder tag) included."""
        return len(self.trg.flat)


@dataclass(frozen=True)
class EncodedCorpus:
    """What training reads: encoded train and valid splits in the order of `corpus.pairs`."""

    tokenizer: Tokenizer
    pairs: tuple[str, ...]
    train: tuple[EncodedSplit, ...]
    valid: tuple[EncodedSplit, ...]
    dropped: dict[str, int]
    """Sentence pairs left out because a side is longer than max_len tokens, by "split.pair"."""

    @property
    def sizes(self) -> list[int]:
        """N_l: training sentence pairs of each pair."""
        return [len(split) for split in self.train]

    @property
    def trg_tokens(self) -> int:
        """Target tokens of all training data."""
        return sum(split.trg_tokens for split in self.train)


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, max_len: int, cache: Path | None = None) -> EncodedCorpus:
    """Encode train and valid; with `cache`, arrays are written there once and memory-mapped from then on.

    Raises UserError when a pair has no sentence that fits into `max_len` tokens.
    """
    if cache is not None:
        models = b"".join(tokenizer.models[key] for key in sorted(tokenizer.models))
        key = sha256(f"{corpus.fingerprint} {tokenizer.config} {corpus.pairs}".encode() + models).hexdigest()[:16]
        cache = cache / f"encoded-{key}"
        if not cache.exists():
            _write(corpus, tokenizer, cache)
    dropped: dict[str, int] = {}

    def split_of(name: str, pair: str) -> EncodedSplit:
        whole = _read(cache, name, pair) if cache else _encode(corpus, tokenizer, name, pair)
        keep = np.maximum(whole.src.lengths, whole.trg.lengths) <= max_len
        if not keep.any():
            raise UserError(f"{name}.{pair}: no sentence fits into max_len={max_len} tokens; raise max_len or vocab_size")
        if keep.all():
            return whole
        dropped[f"{name}.{pair}"] = int((~keep).sum())
        return EncodedSplit(whole.src.select(keep), whole.trg.select(keep))

    train = tuple(split_of("train", pair) for pair in corpus.pairs)
    valid = tuple(split_of("valid", pair) for pair in corpus.pairs)
    return EncodedCorpus(tokenizer, corpus.pairs, train, valid, dropped)


def _encode(corpus: Corpus, tokenizer: Tokenizer, name: str, pair: str) -> EncodedSplit:
    text = getattr(corpus, name)[pair]

    def side(encode: Callable[[str, str], list[int]], column: int) -> TokenArray:
        return TokenArray.build(encode(line[column], pair) for line in text)

    return EncodedSplit(side(tokenizer.encode_src, 0), side(tokenizer.encode_trg, 1))


def _write(corpus: Corpus, tokenizer: Tokenizer, cache: Path) -> None:
    building = cache.with_name(f"{cache.name}.{os.getpid()}.tmp")
    building.mkdir(parents=True, exist_ok=True)
    try:
        for name in ("train", "valid"):
            for pair in corpus.pairs:
                split = _encode(corpus, tokenizer, name, pair)
                for side, tokens in (("src", split.src), ("trg", split.trg)):
                    np.save(building / f"{name}.{pair}.{side}.npy", tokens.flat)
                    np.save(building / f"{name}.{pair}.{side}.offsets.npy", tokens.offsets)
        building.rename(cache)
    except OSError:
        if not cache.exists():  # another process may have been first, which is as good
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _read(cache: Path, name: str, pair: str) -> EncodedSplit:
    def side(which: str) -> TokenArray:
        stem = f"{name}.{pair}.{which}"
        return TokenArray(np.load(cache / f"{stem}.npy", mmap_mode="r"), np.load(cache / f"{stem}.offsets.npy"))

    return EncodedSplit(side("src"), side("trg"))
