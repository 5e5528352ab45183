"""What each study trains: a corpus, settings that all its runs share, and rows that differ in one thing each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pmd_corpora.writing import write_corpus
from pmd_lite.api import load_corpus
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

SIZES = {"fr-en": 6000, "de-en": 3000, "zh-en": 1200, "tr-en": 500, "ro-en": 250, "et-en": 120}
MORE_TEST = 600  # training sentences that the cut leaves over and the test set takes
LAST = 5  # evaluations whose weights a row of means averages, as Vaswani et al. (2017) do
MEAN = f"mean of {LAST}: "
Spread = tuple[tuple[str, int], ...]
"""Members of an ensemble: (row, student counted from 0)."""


@dataclass(frozen=True)
class Study:
    """A list of runs that share everything but their row and their seed.

    corpus: makes the corpus in the second directory from what lies in the first. rows: entries as `compare` reads them,
    the most telling first. ensembles: {label: members}, scored from the best weights of finished runs of one seed.
    """

    about: str
    corpus: Callable[[Path | None, Path], Corpus]
    preset: str
    settings: Mapping[str, Any]
    rows: tuple[str, ...]
    ensembles: Mapping[str, Spread] = field(default_factory=dict)


def both(*rows: str) -> dict[str, Spread]:
    """Ensembles of the two students of each of these rows."""
    return {f"{row}: model_1 + model_2": ((row, 0), (row, 1)) for row in rows}


def cut_tatoeba(source: Path | None, out: Path) -> Corpus:
    """Tatoeba's six pairs with 6,000 to 120 training pairs each, and larger test sets from what is left over.

    A left-over pair joins the test set when neither of its sides stands in the training or dev set that is used.
    Raises UserError without a source.
    """
    if (out / "corpus.json").exists():
        return load_corpus(out)
    if source is None:
        raise UserError("this study needs real text: python -m pmd_lite data tatoeba6-easy --out data/tatoeba6_easy, "
                        "then --source data/tatoeba6_easy")  # fmt: skip
    whole, texts = load_corpus(source), {}
    for pair in whole.pairs:
        lines = list(whole.train[pair])
        random.Random(7).shuffle(lines)
        train, rest = lines[: SIZES[pair]], lines[SIZES[pair] :]
        valid, test = list(whole.valid[pair]), list(whole.test[pair])
        seen = [{line[side] for line in train + valid + test} for side in (0, 1)]
        unseen = [line for line in rest if line[0] not in seen[0] and line[1] not in seen[1]]
        texts[pair] = {"train": train, "valid": valid, "test": test + unseen[:MORE_TEST]}
    name = "tatoeba6-cut"
    write_corpus(texts, out, name=name, licence=whole.licence, source=f"{whole.source}; cut by benchmarks.study")
    return load_corpus(out)


STUDIES: dict[str, Study] = {
    "real-text": Study(
        "Six languages of Tatoeba, long enough for the small ones to be learnt by heart",
        cut_tatoeba,
        "small",
        {
            "steps": 3600,
            "tokens": 1000,
            "eval_every": 200,
            "warmup": 300,
            "beam": 4,
            "start": 0.3,
            "device": "cpu",
            "precision": "fp32",
        },
        (
            "tau=1",
            "tau=5",
            "auto-pmd",
            "auto-pmd alpha_clip=0.4",
            "bi-pmd",
            "tau=2",
            # Until dev loss no longer falls; distillation begins after 1,080 updates, as in the shorter run.
            "tau=2 steps=12000 patience=12",
            "bi-pmd start=0.09 steps=12000 patience=12",
            "tau=2 dropout=0.3 steps=12000 patience=12",
            "vanilla-md samplers=tau=2,tau=2 start=0.09 steps=12000 patience=12",
            f"{MEAN}tau=2 steps=12000",  # no stop: what the stop by dev loss costs
            f"{MEAN}bi-pmd start=0.09 steps=12000",
            "auto-pmd alpha_max=0.47",
            "auto-pmd decide_by=accuracy",
            "auto-pmd decide_by=chrf",
            "ensemble-distill",
            "ensemble-distill samplers=tau=2",
            "bi-pmd teacher=ensemble",
            "auto-pmd teacher=ensemble",
            "auto-pmd alpha_max=0.47 decide_by=chrf",
            "vanilla-md-tau",
            "vanilla-md",
            "uni-pmd",
            "tau=5 dropout=0.3",
            "tau=2 dropout=0.3",
            "tau=2 label_smoothing=0.2",
            f"{MEAN}tau=2",
            f"{MEAN}bi-pmd",
            "ensemble-distill samplers=tau=5",
            "ensemble-distill samplers=tau=2 alpha=0.8",
            "unimax",
            "bi-pmd alpha=0.2",
            "bi-pmd alpha=0.6",
            "lssd",
            "auto-pmd fidelity=released start=0.054",
        ),
        {
            "tau=1 + tau=5": (("tau=1", 0), ("tau=5", 0)),
            "tau=2 + tau=5": (("tau=2", 0), ("tau=5", 0)),
            **both(
                "bi-pmd",
                "auto-pmd",
                "auto-pmd alpha_clip=0.4",
                "auto-pmd alpha_max=0.47",
                "auto-pmd decide_by=chrf",
                "bi-pmd teacher=ensemble",
                "auto-pmd teacher=ensemble",
                "uni-pmd",
                "vanilla-md",
                "vanilla-md-tau",
            ),
        },
    ),
}
