"""The sentences that were written for lesson 13, translated by models of the study of real text.

    python -m benchmarks.study real-text --source data/tatoeba6_easy --seeds 1 --rows "bi-pmd teacher=ensemble"
    python -m benchmarks.own_sentences "=runs/studies/real-text/runs/bi-pmd_teacher=ensemble-seed1" \
        --corpora data/tatoeba6_easy

Each word is LABEL=RUN, where the label may be empty: all students of the run translate, and those of a run of two also
together. A translation that is a sentence of a corpus, as the models of small pairs produce them by heart, may not be
passed on: PARROT stands in its place. Writes lessons/results/own_sentences.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pmd_kit.l13.sentences import PARROT, SOURCES
from pmd_lite.api import load_corpus
from pmd_lite.disk import write_json
from pmd_lite.run import Run

OUT = Path("lessons/results/own_sentences.json")


def plain(text: str) -> str:
    """A sentence without case and punctuation: what counts when two are compared."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def known(folders: Sequence[Path]) -> set[str]:
    """Every sentence of these corpora, in `plain` form."""
    corpora = [load_corpus(folder) for folder in folders]
    return {plain(side) for corpus in corpora for split in (corpus.train, corpus.valid, corpus.test)
            for lines in split.values() for line in lines for side in line}  # fmt: skip


def main() -> None:
    """Translate, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN")
    parser.add_argument("--corpora", nargs="+", type=Path, required=True, help="corpora whose sentences are left out")
    parser.add_argument("--out", type=Path, default=OUT)
    words = parser.parse_args()
    by_heart = known(words.corpora)
    found: dict[str, dict[str, list[str]]] = {}
    about: dict[str, str] = {}
    for word in words.runs:
        label, _, path = word.partition("=")
        run = Run(Path(path))
        step, total = run.clock
        which = run.method.name if run.config.distill.teacher == "peers" else f"{run.method.name} teacher=ensemble"
        where = f"{which}, seed {run.config.train.seed}, best weights after {step:,} of {total:,} updates"
        models = {f"{label} {name}".strip(): run.model(i) for i, name in enumerate(run.labels)}
        if len(run.labels) > 1:
            models[f"{label} both together".strip()] = run.ensemble()
        for name, model in models.items():
            found[name] = {
                pair: [PARROT if plain(text) in by_heart else text for text in run.translate(texts, pair, model=model)]
                for pair, texts in SOURCES.items()
            }
            about[name] = where
    write_json(words.out, {"command": "python -m benchmarks.own_sentences", "about": about, "translations": found})
    print(f"written: {words.out}")


if __name__ == "__main__":
    main()
