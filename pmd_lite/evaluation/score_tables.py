"""Tables of test scores: a row for each student of each run."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pmd_lite.config import Metric
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import mean_by_group
from pmd_lite.evaluation.scoring import METRICS, Scores, tokenizers_used
from pmd_lite.evaluation.tables import Cell, Table


class Scored(Protocol):
    """What the tables and figures read of a run (`pmd_lite.run.Run` has all of it)."""

    path: Path
    corpus: dict[str, Any]
    pairs: list[str]
    groups: tuple[tuple[str, ...], tuple[str, ...]]
    labels: list[str]

    @property
    def scores(self) -> Scores:
        """Test scores."""

    @property
    def without_bleu(self) -> Mapping[str, str]:
        """{pair: why it has no test BLEU}."""

    def measured(self, metric: Metric, student: int = 0) -> dict[str, float]:
        """Test scores of one student by one metric, pair by pair; nan for a pair that could not be scored."""


R = TypeVar("R", bound=Scored)


def by_corpus(runs: Sequence[R]) -> list[list[R]]:
    """The runs, grouped by the texts of their corpus: scores of other texts do not belong in one table or figure."""
    groups: dict[str, list[R]] = {}
    for run in runs:
        groups.setdefault(run.corpus["fingerprint"], []).append(run)
    return list(groups.values())


def labelled(runs: Sequence[R]) -> list[tuple[R, int, str]]:
    """(run, student, label), with the directory if labels are equal. UserError for no run, or different corpora."""
    if len(groups := by_corpus(runs)) != 1:
        which = "; ".join(f"{run.path} on {run.corpus['name']}" for run, *_ in groups)
        raise UserError("one table or figure shows runs of one corpus (the same names and texts of all pairs), not "
                        f"{which or 'none'}. Name the runs of one corpus")  # fmt: skip
    students = [(run, i, label) for run in runs for i, label in enumerate(run.labels)]
    labels, names = [label for _, _, label in students], [run.path.name for run in runs]
    folders = {run.path: run.path.name if names.count(run.path.name) == 1 else str(run.path) for run in runs}
    return [(run, i, label if labels.count(label) == 1 else f"{label}, {folders[run.path]}")
            for run, i, label in students]  # fmt: skip


def bleu_table(runs: Sequence[Scored]) -> Table:
    """One row for each student of each run: test BLEU per pair, averages of all, high- and low-resource pairs."""
    return score_table(runs, "bleu")


def score_table(runs: Sequence[Scored], metric: Metric) -> Table:
    """One row for each student of each run: a test score per pair, averages of all, high- and low-resource pairs.

    A pair without a score is "-", and so is every average over it; the caption names these pairs. One pair has no HRL
    and LRL. Raises UserError as `labelled` does.
    """
    rows: list[list[Cell]] = []
    for run, student, label in labelled(runs):
        by_pair, (pairs, groups) = run.measured(metric, student), (runs[0].pairs, runs[0].groups)
        means = mean_by_group(by_pair, [pairs, *groups] if len(pairs) > 1 else [pairs])
        numbers = [*(by_pair[pair] for pair in pairs), *means]
        rows.append([label, *(None if math.isnan(number) else number for number in numbers)])
    columns = ["model", *runs[0].pairs, "mean", *(["HRL", "LRL"] if len(runs[0].pairs) > 1 else [])]
    caption = f"Test {METRICS[metric]} (sacreBLEU)"
    caption += ". HRL, LRL: means of the larger and smaller pairs" if "HRL" in columns else ""
    caption += _notes(runs) if metric == "bleu" else ""
    return Table(columns, rows, digits=1, caption=caption)


def _notes(runs: Sequence[Scored]) -> str:
    """What the caption of a BLEU table must add: missing scores, and tokenizers that differ between runs."""
    lost = dict.fromkeys(pair for run in runs for pair in run.without_bleu)
    used: dict[str, set[str]] = {}
    for pair, name in (item for run in runs for item in tokenizers_used(run.scores).items()):
        used.setdefault(pair, set()).add(name)
    mixed = [f"{pair} ({', '.join(sorted(names))})" for pair, names in used.items() if len(names) > 1]
    note = f". -: no BLEU for {', '.join(lost)}, whose tokenizer was missing" if lost else ""
    return f"{note}. tokenizers differ, scores cannot be compared: {', '.join(mixed)}" if mixed else note
