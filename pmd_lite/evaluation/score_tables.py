"""Tables of test scores: a row for each student of each run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from pmd_lite.evaluation.pareto import mean_by_group
from pmd_lite.evaluation.scoring import METRICS, Metric, Scores, tokenizers_used
from pmd_lite.evaluation.tables import Cell, Table


class Scored(Protocol):
    """What the tables and figures read of a run (`pmd_lite.run.Run` has all of it)."""

    pairs: list[str]
    labels: list[str]

    @property
    def groups(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(high-resource, low-resource) pairs."""

    @property
    def scores(self) -> Scores:
        """Test scores."""

    @property
    def without_bleu(self) -> Mapping[str, str]:
        """{pair: why it has no test BLEU}."""

    def measured(self, metric: Metric, student: int = 0) -> dict[str, float]:
        """Test scores of one student by one metric, pair by pair; nan for a pair that could not be scored."""


def bleu_table(runs: Sequence[Scored]) -> Table:
    """One row for each student of each run: test BLEU per pair, averages of all, high- and low-resource pairs."""
    return score_table(runs, "bleu")


def score_table(runs: Sequence[Scored], metric: Metric) -> Table:
    """One row for each student of each run: a test score per pair, averages of all, high- and low-resource pairs.

    A pair without a score is "-", and so is every average over it; the caption names these pairs.
    """
    rows: list[list[Cell]] = []
    for run in runs:
        for student, label in enumerate(run.labels):
            by_pair = run.measured(metric, student)
            high, low = mean_by_group(by_pair, run.groups)
            numbers = [*by_pair.values(), sum(by_pair.values()) / len(by_pair), high, low]
            rows.append([label, *(None if math.isnan(number) else number for number in numbers)])
    columns = ["model", *runs[0].pairs, "mean", "HRL", "LRL"]
    caption = f"Test {METRICS[metric]} (sacreBLEU). HRL, LRL: means of the larger and smaller pairs"
    notes = _notes(runs) if metric == "bleu" else ""
    return Table(columns, rows, "min" if metric == "ter" else "max", digits=1, caption=caption + notes)


def _notes(runs: Sequence[Scored]) -> str:
    """What the caption of a BLEU table must add: missing scores, and tokenizers that differ between runs."""
    lost = list(dict.fromkeys(pair for run in runs for pair in run.without_bleu))
    used: dict[str, set[str]] = {}
    for run in runs:
        for pair, name in tokenizers_used(run.scores).items():
            used.setdefault(pair, set()).add(name)
    mixed = [f"{pair} ({', '.join(sorted(names))})" for pair, names in used.items() if len(names) > 1]
    notes = [f"-: no BLEU for {', '.join(lost)}, whose tokenizer was missing"] if lost else []
    notes += [f"tokenizers differ, scores cannot be compared: {', '.join(mixed)}"] if mixed else []
    return "".join(f". {note}" for note in notes)
