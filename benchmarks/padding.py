"""How much of a batch is padding, and how many different shapes batches have, for several ways of ordering sentences.

    python -m benchmarks.padding --corpus longtail [--vocab 8000] [--tokens 2000 8192]

Waste: share of positions that are padding, both sides together. Extra work: how many more multiplications a 3+3 layer
model of width 256 needs for padded sentences than for the same sentences alone. Lengths: distinct (source length,
target length) of batches; shapes: distinct (sentences, source length, target length). Everything is counted, not timed:
one pass over every pair. `training` is the order of PairStream; the others are for comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pmd_lite as pmd
from pmd_lite.config import TokenizerConfig
from pmd_lite.data.batching import cut_batches, cut_split
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedSplit, Ints, encode_corpus
from pmd_lite.evaluation.tables import Table

Cut = Callable[[EncodedSplit, int], list[Ints]]


@dataclass(frozen=True)
class Padding:
    """The batches of one pass over some sentences, counted."""

    real: int
    """Tokens of both sides."""
    padded: int
    """Positions of both sides, padding included."""
    extra_work: float
    """Multiplications with padding / without, minus 1."""
    lengths: set[tuple[int, int]]
    """(source length, target length) of the batches."""
    shapes: set[tuple[int, int, int]]
    """(sentences, source length, target length)."""
    batches: int

    @property
    def waste(self) -> float:
        """Share of positions that are padding."""
        return 1 - self.real / self.padded


def work(src: Ints, trg: Ints, d: int = 256, ffn: int = 1024, layers: int = 3, vocab: int = 8000) -> float:
    """Multiplications of a forward pass over sentences of these lengths, with the output layer at each position."""
    encoder = src * (4 * d * d + 2 * d * ffn) + 2 * src * src * d
    decoder = trg * (6 * d * d + 2 * d * ffn) + 2 * src * d * d + 2 * trg * trg * d + 2 * src * trg * d
    return float((layers * (encoder + decoder) + trg * d * vocab).sum())


def count(split: EncodedSplit, batches: list[Ints]) -> Padding:
    """Count the batches of one pair. The loss skips padding: the output layer has the same work with and without it."""
    src, trg = split.src.lengths, split.trg.lengths
    real = int(sum(src[rows].sum() + trg[rows].sum() for rows in batches))
    shapes = [(len(rows), int(src[rows].max()), int(trg[rows].max())) for rows in batches]
    padded = sum(n * (s + t) for n, s, t in shapes)
    own = sum(work(src[rows], trg[rows], vocab=0) for rows in batches)
    paid = sum(n * work(np.array([s]), np.array([t]), vocab=0) for n, s, t in shapes)
    output = 256 * 8000 * int(sum(trg[rows].sum() for rows in batches))
    extra = (paid + output) / (own + output) - 1
    return Padding(real, padded, extra, {(s, t) for _, s, t in shapes}, set(shapes), len(batches))


def total(parts: list[Padding]) -> Padding:
    """All pairs together."""
    real, padded = sum(p.real for p in parts), sum(p.padded for p in parts)
    extra = sum(p.extra_work * p.real for p in parts) / real
    return Padding(real, padded, extra, set().union(*(p.lengths for p in parts)),
                   set().union(*(p.shapes for p in parts)), sum(p.batches for p in parts))  # fmt: skip


def shuffled(split: EncodedSplit, budget: int) -> list[Ints]:
    """Sentences in the order of the corpus."""
    longer = np.maximum(split.src.lengths, split.trg.lengths)
    batches, rows = [], list[int]()
    for row in np.random.default_rng(0).permutation(len(split)).tolist():
        if rows and max(longer[row], longer[rows].max()) * (len(rows) + 1) > budget:
            batches.append(np.array(rows))
            rows = []
        rows.append(row)
    return [*batches, np.array(rows)]


def longer_side(split: EncodedSplit, budget: int) -> list[Ints]:
    """Sentences sorted by the longer side only."""
    order = np.random.default_rng(0).permutation(len(split))
    return cut_batches(np.maximum(split.src.lengths, split.trg.lengths), order, budget)


def without_blur(split: EncodedSplit, budget: int) -> list[Ints]:
    """As training does, but with the same sentences in a batch in every pass."""
    return cut_split(split, np.random.default_rng(0).permutation(len(split)), budget)


def training(split: EncodedSplit, budget: int) -> list[Ints]:
    """What training does."""
    rng = np.random.default_rng(0)
    return cut_split(split, rng.permutation(len(split)), budget, rng)


ORDERS: dict[str, Cut] = {
    "training": training, "without its blur": without_blur, "longer side alone": longer_side, "shuffled": shuffled,
}  # fmt: skip


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="longtail")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2000, 8192])
    words = parser.parse_args()
    corpus = pmd.load_corpus(words.corpus)
    tokenizer = train_tokenizer(corpus, TokenizerConfig(vocab_size=words.vocab, byte_fallback=words.vocab >= 2000))
    encoded = encode_corpus(corpus, tokenizer, 256)
    columns = ["tokens", "order", "waste", "extra work", "batches", "lengths", "shapes"]
    rows: list[list[str | float]] = []
    for budget in words.tokens:
        for name, cut in ORDERS.items():
            parts = [count(split, cut(split, budget)) for split in encoded.train]
            p = total(parts)
            rows.append([f"{budget:,}", name, f"{p.waste:.1%}", f"{p.extra_work:.1%}", f"{p.batches:,}",
                         f"{len(p.lengths)}", f"{len(p.shapes)}"])  # fmt: skip
            if name == "training":
                each = "; ".join(f"{pair} {p.waste:.1%}" for pair, p in zip(encoded.pairs, parts, strict=True))
                print(f"{budget:,} tokens, training, waste by pair: {each}")
    print(Table(columns, rows).to_text())


if __name__ == "__main__":
    main()
