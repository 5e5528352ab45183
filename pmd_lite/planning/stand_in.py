"""A small corpus instead of the real one: enough to measure steps, and the lengths of sentences."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pmd_lite.config import Config, TokenizerConfig
from pmd_lite.data.batching import round_of
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import SPECIALS, Tokenizer, train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit, TokenArray, encode_corpus
from pmd_lite.errors import UserError

SAMPLE = 4000
"""At most this many training sentence pairs of each pair are used."""
TOKENIZER_SAMPLE = 50_000
"""At most this many sentences train a tokenizer here; the run may use more."""
ENOUGH = 50 * SAMPLE
"""At most this many sentences are cut into batches to find out how full a batch is."""
BYTES = 256
"""Pieces for byte_fallback; all languages share them."""
TEXT_BYTES = 4.0
"""Assumed bytes of text per token, if there is no text."""


@dataclass(frozen=True)
class Facts:
    """What counting needs to know about a corpus. Every list has one entry per pair; tokens are target tokens unless
    the field says source tokens."""

    pairs: tuple[str, ...]
    sizes: list[int]
    """Training sentence pairs that fit into max_len."""
    tokens: list[float]
    """Mean tokens of a training sentence."""
    per_batch: list[float]
    """Mean sentences in a micro-batch (see `data.batching.Round`)."""
    dev: list[float]
    """Tokens of the whole dev set."""
    src_per_trg: list[float]
    """Source tokens per target token of the training data."""
    dev_src: list[float]
    """Source tokens of the whole dev set."""
    dev_sentences: list[int]
    test_sentences: list[int]
    text_bytes: float
    """Bytes of a translated sentence, mean over pairs."""
    vocabulary: int
    """Ids of the tokenizer."""

    @property
    def train_tokens(self) -> float:
        """Tokens of all training data."""
        return sum(n * tokens for n, tokens in zip(self.sizes, self.tokens, strict=True))

    @property
    def batches_per_pass(self) -> float:
        """Micro-batches in one pass over the training data."""
        return sum(n / one for n, one in zip(self.sizes, self.per_batch, strict=True))

    @property
    def batch(self) -> list[float]:
        """Mean tokens of a micro-batch."""
        return [sentences * tokens for sentences, tokens in zip(self.per_batch, self.tokens, strict=True)]


@dataclass(frozen=True)
class StandIn:
    """A few sentences of every pair as ids, facts about the whole corpus, and which of the facts are guesses."""

    encoded: EncodedCorpus
    facts: Facts
    guesses: tuple[str, ...]


class WideTokenizer(Tokenizer):
    """A tokenizer with as many ids as the run's tokenizer will have; the ids that `of` lacks decode to ""."""

    def __init__(self, of: Tokenizer, size: int):
        super().__init__(of.config, of.pairs, of.models, of.origin, of.joined)
        self.known = self.vocab_size
        self.vocab_size = max(self.vocab_size, size)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the known pieces."""
        return super().decode(i for i in ids if i < self.known)


def full_vocabulary(config: TokenizerConfig, languages: int) -> int:
    """Ids of a tokenizer that fills its vocabulary: pieces and tags.

    With a model per language this is an upper limit: of the pieces that languages share, only the bytes are known.
    """
    if config.kind == "joint":
        return config.vocab_size + languages
    shared = SPECIALS + BYTES * config.byte_fallback
    return shared + languages * (config.vocab_size - shared) + languages


def sampled(corpus: Corpus, config: Config, tokenizer: Tokenizer | None = None) -> StandIn:
    """The stand-in of an existing corpus: up to 4,000 evenly spaced training sentence pairs of every pair.

    tokenizer: the run's; None trains one on at most 50,000 sentences.
    """
    guesses, speaks = [], tokenizer
    if speaks is None:
        fewer = min(config.tokenizer.max_sentences, TOKENIZER_SAMPLE)
        speaks = train_tokenizer(corpus, dataclasses.replace(config.tokenizer, max_sentences=fewer))
        if fewer < min(config.tokenizer.max_sentences, 2 * sum(corpus.sizes)):
            speaks = WideTokenizer(speaks, full_vocabulary(config.tokenizer, len(corpus.languages)))
            guesses.append(f"tokens per sentence: from a tokenizer of {fewer:,} sentences (the run's own makes fewer)")
    texts: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for pair, train in corpus.train.items():
        rows = np.linspace(0, len(train) - 1, min(len(train), SAMPLE)).round().astype(int).tolist()
        spaced = [train[i] for i in rows]
        texts[pair] = {"train": spaced, "valid": list(corpus.valid[pair]), "test": list(corpus.test[pair])}
    small = Corpus.from_texts(corpus.name, texts, strict=False, allow_leakage=True).only(corpus.pairs)
    encoded = encode_corpus(small, speaks, config.model.max_len)
    sizes = []
    for pair, n, split in zip(corpus.pairs, corpus.sizes, encoded.train, strict=True):
        fit = 1 - encoded.dropped.get(f"train.{pair}", 0) / len(texts[pair]["train"])
        sizes.append(max(len(split), round(n * fit)))
    tested = [texts[pair]["test"] for pair in corpus.pairs]
    text_bytes = sum(len(trg.encode()) for pair in tested for _, trg in pair) / sum(map(len, tested))
    facts = _facts(encoded, config, sizes, list(map(len, tested)), text_bytes)
    if max(corpus.sizes) > SAMPLE:
        guesses.append(f"lengths of sentences: from {SAMPLE:,} of each pair")
    return StandIn(encoded, facts, tuple(guesses))


def described(
    sizes: Mapping[str, int], mean_tokens: float, held_out: int, config: Config, sample: int = SAMPLE
) -> StandIn:
    """The stand-in of a corpus that is not here: sentences of random lengths with random ids.

    Args:
        sizes: training sentence pairs of each pair, such as {"fr-en": 3_000_000}.
        mean_tokens: tokens of a sentence, source or target, sentence end and tags included.
        held_out: sentence pairs of every dev set and of every test set.
        sample: at most this many training sentence pairs of each pair are made.
    Raises: UserError for impossible sizes, lengths or names.
    """
    if not sizes or any(type(n) is not int or n < 1 for n in sizes.values()) or held_out < 1:
        raise UserError("sizes and held_out: give whole numbers above 0, such as sizes={'fr-en': 3_000_000}")
    if not 3 <= mean_tokens <= config.model.max_len:  # a tag, a piece and the sentence end
        raise UserError(f"mean_tokens={mean_tokens}: must be between 3 and max_len={config.model.max_len}")
    if wrong := [pair for pair in sizes if len(pair.split("-")) != 2 or not all(pair.split("-"))]:
        raise UserError(f"{wrong[0]!r} is not a pair of languages: write it as fr-en")
    languages = {language for pair in sizes for language in pair.split("-")}
    plain = Tokenizer(config.tokenizer, list(sizes), {}, {"name": "described", "sha256": ""})
    tokenizer = WideTokenizer(plain, full_vocabulary(config.tokenizer, len(languages)))
    rng = np.random.default_rng(0)

    def split(count: int) -> EncodedSplit:
        # Lengths of real sentences are skewed to the right. A standard deviation of half the mean fits news and talks.
        longer = rng.gamma(4.0, mean_tokens / 4, count)
        sides = [longer * rng.uniform(0.8, 1.2, count) for _ in range(2)]
        whole = [np.clip(np.rint(x), 2, config.model.max_len).astype(np.int64) for x in sides]
        ids = [rng.integers(SPECIALS, tokenizer.vocab_size, int(x.sum())).astype(np.int32) for x in whole]
        return EncodedSplit(*(TokenArray.join([side]) for side in zip(ids, whole, strict=True)))

    train = tuple(split(min(n, sample)) for n in sizes.values())
    valid = tuple(split(held_out) for _ in sizes)
    encoded = EncodedCorpus(tokenizer, tuple(sizes), train, valid, {})
    facts = _facts(encoded, config, list(sizes.values()), [held_out] * len(sizes), TEXT_BYTES * mean_tokens)
    guess = f"sentences: random ids, {mean_tokens:g} tokens on average, because the corpus is not here"
    return StandIn(encoded, facts, (guess,))


def _facts(encoded: EncodedCorpus, config: Config, sizes: list[int], tested: list[int], text_bytes: float) -> Facts:
    train, dev = encoded.train, encoded.valid
    return Facts(
        encoded.pairs, sizes, [split.trg_tokens / len(split) for split in train],
        [mean_per_batch(split, size, config.train.tokens) for split, size in zip(train, sizes, strict=True)],
        [split.trg_tokens for split in dev], [split.src_tokens / split.trg_tokens for split in train],
        [split.src_tokens for split in dev], list(map(len, dev)), tested, text_bytes, encoded.tokenizer.vocab_size,
    )  # fmt: skip


def mean_per_batch(split: EncodedSplit, size: int, budget: int) -> float:
    """Mean sentences in a micro-batch if `size` sentences have the lengths of those in `split`."""
    rows = np.resize(np.arange(len(split)), min(size, ENOUGH))  # more sentences make fuller batches
    sides = (TokenArray(side.flat, side.starts[rows], side.lengths[rows]) for side in (split.src, split.trg))
    return round_of(EncodedSplit(*sides), budget).per_batch
