"""From sentence pairs to a corpus: held-out lines, its own or cut from the text, and nothing of them in training."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from pmd_corpora.cleaning import sentence_key
from pmd_corpora.clusters import Pair, cut_corpus
from pmd_corpora.parallel_files import Rows, check_sides
from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

Splits = dict[str, Rows]  # train, valid, test -> sentence pairs


@dataclass(frozen=True)
class Making:
    """How text becomes a corpus directory: the options that local, hub and mtdata share."""

    valid: int = 500
    """Sentence pairs for validation, cut from text that is not split yet; at most a quarter of a small text."""
    test: int = 500
    """The same for testing."""
    seed: int = 0
    """Decides which lines are held out then."""
    name: str | None = None
    """Name of the corpus; by default that of the directory."""
    licence: str | None = None
    """Licence of the text; the card of a data set or mtdata's references.bib names it."""
    overwrite: bool = False
    """Replace another corpus in the directory."""


Asked = Annotated[Making, arg(name="")]  # as the argument of a command: its fields are options


def assemble(found: Mapping[str, Splits], making: Making) -> tuple[Corpus, list[str]]:
    """A corpus of pairs whose text comes from elsewhere, and notes.

    found: {pair: its splits}. Where a pair has valid and test, training pairs with one of these lines are dropped, in
    all pairs. The train of other pairs is split by cluster. Repeated training pairs are kept once.
    """
    notes = []
    whole = {pair: splits for pair, splits in found.items() if splits.get("valid") and splits.get("test")}
    texts = {pair: list(dict.fromkeys(splits["train"])) for pair, splits in found.items() if pair not in whole}
    for pair, splits in whole.items():
        for split, rows in splits.items():
            notes += check_sides(rows, pair, f"{pair}, {split}")
    if texts:
        notes += [f"{', '.join(texts)}: no valid and test of their own; they are cut from train, by cluster."]
    cut = split_by_cluster(texts, making) if texts else {}
    held = {key for of in (whole, cut) for pair, splits in of.items()
            for split in ("valid", "test") for row in splits[split] for key in _keys(pair, row)}  # fmt: skip
    ready: dict[str, Splits] = {}
    for pair in found:
        splits = {**(whole.get(pair) or cut[pair])}
        rows = list(dict.fromkeys(splits["train"]))
        kept = [row for row in rows if held.isdisjoint(_keys(pair, row))]
        if len(kept) < len(rows):
            notes.append(f"{pair}: {len(rows) - len(kept):,} of {len(rows):,} training pairs dropped: a held-out line.")
        if not kept:
            raise UserError(f"{pair}: no training pair is left beside the held-out lines. Take more text.")
        ready[pair] = {**splits, "train": kept}
    return Corpus.from_texts("corpus", ready), notes


def _keys(pair: str, row: tuple[str, str]) -> set[tuple[str, str]]:
    return {(language, sentence_key(line)) for language, line in zip(pair.split("-"), row, strict=True)}


def split_by_cluster(texts: Mapping[str, Rows], making: Making) -> dict[str, Splits]:
    """Split by cluster. If all pairs share one side, that side decides which lines are the same."""
    if making.valid < 1 or making.test < 1:
        raise UserError(f"valid={making.valid}, test={making.test}: both must be 1 or more sentence pairs.")
    sources, targets = ({pair.split("-")[side] for pair in texts} for side in (0, -1))
    turned = len(sources) == 1 < len(targets)
    pairs = {
        pair: [Pair(trg, src, "") if turned else Pair(src, trg, "") for src, trg in rows]
        for pair, rows in texts.items()
    }
    sizes = {pair: len(rows) for pair, rows in texts.items()}
    cut = cut_corpus(pairs, sizes, making.valid, making.test, making.seed)
    turn = slice(1, None, -1) if turned else slice(0, 2)  # (foreign, english) back to (source, target)
    return {
        pair: {split: [(row[turn][0], row[turn][1]) for row in rows] for split, rows in splits.items()}
        for pair, splits in cut.texts.items()
    }


def finish(corpus: Corpus, out: Path, notes: Sequence[str], source: str | None, making: Making) -> Path:
    """Write the corpus; print notes and counts on stderr; return `out`."""
    written = write_corpus(corpus, out, name=making.name or Path(out).name, licence=making.licence, source=source,
                           overwrite=making.overwrite)  # fmt: skip
    for line in (*notes, *corpus.warnings):
        print(line, file=sys.stderr)
    for pair in corpus.pairs:
        splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
        counts = (f"{len(text[pair]):,} {split}" for split, text in splits.items())
        print(f"{pair}: {', '.join(counts)}", file=sys.stderr)
    return written
