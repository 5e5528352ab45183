"""Real sentences, small models, three seeds: the results that lesson 13 reads.

    python -m pmd_lite data tatoeba6-easy --out data/tatoeba6_easy
    python -m benchmarks.real_text --corpus data/tatoeba6_easy       writes lessons/results/compare_tatoeba.json

Trains the runs that are missing (with pmd_lite.compare; you may interrupt it). Then it stores the summary of the
comparison, with a few translations and the sentence statistics of some systems, so that the lesson can test differences
itself. The sentences are Tatoeba's (CC BY 2.0 FR, tatoeba.org).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pmd_lite as pmd
from pmd_lite.comparing.summary import System, finished_systems
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.disk import write_json
from pmd_lite.evaluation.significance import sentence_stats

METHODS = ["tau=1", "tau=5", "bi-pmd", "auto-pmd", "tau=1 steps=4000"]
SETTINGS: dict[str, Any] = {
    "d_model": 64, "ffn": 256, "vocab_size": 1600, "tokens": 1000, "steps": 1200, "eval_every": 120, "lr": 4e-3,
    "warmup": 200, "start": 0.3, "beam": 4,
}  # fmt: skip
SHOWN = 4


def lines_of(system: System, seed: int, pair: str) -> list[str]:
    """Translations of the test set by one system."""
    return system.runs[seed].translations(pair, system.student)


def statistics(corpus: Corpus, systems: list[System], labels: list[str]) -> dict[str, dict[str, list[str]]]:
    """{label: {pair: the counts of each sentence as text}} of some systems, first seed, largest and smallest pair."""
    return {
        system.label: {
            pair: [
                " ".join(map(str, row))
                for row in sentence_stats(
                    lines_of(system, 0, pair), [trg for _, trg in corpus.test[pair]], split_pair(pair)[1]
                )
            ]
            for pair in (corpus.pairs[0], corpus.pairs[-1])
        }
        for system in systems
        if system.label in labels
    }


def examples(corpus: Corpus, systems: list[System]) -> list[dict[str, Any]]:
    """The first SHOWN test sentences of every pair, with the translations of every system, first seed."""
    return [
        {"pair": pair, "source": source, "reference": reference,
         "translations": {system.label: lines_of(system, 0, pair)[i] for system in systems}}
        for pair in corpus.pairs
        for i, (source, reference) in enumerate(corpus.test[pair][:SHOWN])
    ]  # fmt: skip


def main() -> None:
    """Train, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/real_text"))
    parser.add_argument("--out", type=Path, default=Path("lessons/results/compare_tatoeba.json"))
    parser.add_argument("--workers", type=int, default=2)
    words = parser.parse_args()
    found = pmd.compare(words.corpus, METHODS, seeds=[1, 2, 3], preset_name="small", out=words.runs,
                        workers=words.workers, **SETTINGS)  # fmt: skip
    command = f"python -m benchmarks.real_text --corpus {words.corpus.name}"
    corpus, systems = pmd.load_corpus(words.corpus), finished_systems(words.runs)
    summary = {**found.summary(), "command": command, "examples": examples(corpus, systems),
               "statistics": statistics(corpus, systems, ["tau=1", "tau=5"])}  # fmt: skip
    write_json(words.out, summary)
    print(f"written: {words.out}\n", found.table().to_text(), sep="\n", file=sys.stdout)


if __name__ == "__main__":
    main()
