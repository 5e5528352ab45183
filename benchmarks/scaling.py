"""The cost of Auto-PMD's joint update and search, as languages, vocabulary, sentence length or batch grow.

    python -m benchmarks.scaling [--languages 6 24 100] [--vocab 2500 10000 40000] [--length 10 40 160] [--updates 4]

Random sentences, a small model (preset small: width 128, 2+2 layers), 2,000 tokens a batch. One of the four varies; the
others stay at 6 pairs, 2,500 pieces and 10 tokens a sentence. Clock: process CPU seconds at one thread. All settings of
a group are kept in memory and take turns; the smallest time over the rounds counts. The search is counted, not timed:
its multiply-adds beside those of one epoch of training and teaching.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence

import torch

import pmd_lite as pmd
from benchmarks.overheads import advance, make_trainer, search_share
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.stand_in import described
from pmd_lite.training.trainer import Trainer

USUAL = {"languages": 6, "vocab": 2500, "length": 10}
BIGGEST = 4000


def sizes(languages: int) -> dict[str, int]:
    """Sentence pairs of each language pair: half as many as the pair two places before it, at least 200."""
    return {f"x{i}-en": max(200, round(BIGGEST * 2 ** (-i / 2))) for i in range(languages)}


def prepare(folder: str, tokens: int, languages: int, vocab: int, length: int) -> tuple[Trainer, float]:
    """(an Auto-PMD trainer over random sentences, the share of its multiply-adds that searches take)."""
    config = pmd.preset("small", vocab_size=vocab, tokens=tokens, start=0.0, alpha0=0.4, device="cpu")
    found = described(sizes(languages), mean_tokens=length, held_out=20, config=config)
    return make_trainer("auto-pmd", found.encoded, config, folder), search_share(found.facts, config)


def race(trainers: Sequence[Trainer], updates: int, rounds: int) -> list[float]:
    """CPU seconds per joint update and thousand target tokens of each setting: the smallest of some rounds."""
    best = [float("inf")] * len(trainers)
    for trained in trainers:
        advance(trained, 1)
    for _ in range(rounds):
        for i, trained in enumerate(trainers):
            before = sum(float(student.tokens.sum()) for student in trained.students)
            seconds = advance(trained, updates)
            done = sum(float(student.tokens.sum()) for student in trained.students) - before
            best[i] = min(best[i], 1000 * seconds / done)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", type=int, nargs="+", default=[6, 24, 100])
    parser.add_argument("--vocab", type=int, nargs="+", default=[2500, 10_000, 40_000])
    parser.add_argument("--length", type=int, nargs="+", default=[10, 40, 160])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    words = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[list[str | float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for what in USUAL:
            values = getattr(words, what)
            made = [prepare(folder, words.tokens, **{**USUAL, what: value}) for value in values]
            seconds = race([trainer for trainer, _ in made], words.updates, words.rounds)
            for value, took, (trainer, searching) in zip(values, seconds, made, strict=True):
                size = trainer.students[0].learner.model.parameter_count() / 1e6
                rows.append([what, f"{value:,}", took, took / seconds[0], size, f"{searching:.0%}"])
    columns = ["what grows", "to", "CPU s / 1,000 tokens", "ratio", "million parameters",
               "search / epoch, multiply-adds"]  # fmt: skip
    print(Table(columns, rows, digits=2).to_text())


if __name__ == "__main__":
    main()
