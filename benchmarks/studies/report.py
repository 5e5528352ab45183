"""From the store to tables, tests and a figure: nothing here looks at a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.studies import store
from benchmarks.studies.measure import unpacked
from pmd_lite.disk import write_atomic
from pmd_lite.evaluation.pareto import mean_by_group, split_high_low
from pmd_lite.evaluation.significance import Difference, paired_bootstrap
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures.comparisons import frontier_many
from pmd_lite.figures.style import save_figure

MOST_MARKS = 14  # systems on one plane

Value = Callable[[dict[str, Any]], float]
VALUES: dict[str, Value] = {
    "BLEU": lambda pair: pair["beam"]["bleu"],
    "chrF": lambda pair: pair["beam"]["chrf"],
    "TER": lambda pair: pair["beam"]["ter"],
    "length": lambda pair: pair["beam"]["length_ratio"],
    "greedy BLEU": lambda pair: pair["greedy"]["bleu"],
    "dev NLL": lambda pair: pair["dev"]["nll"],
    "at best T": lambda pair: pair["dev"]["nll_at_best_temperature"],
    "accuracy": lambda pair: 100 * pair["dev"]["accuracy"],
    "train NLL": lambda pair: pair["train"]["nll"],
}
"""{column: the number of one pair that it shows}; NLL in nats per token, accuracy of the next token in per cent."""


@dataclass(frozen=True)
class System:
    """One student of one row, over its seeds: {seed: its part of the record}."""

    label: str
    twin: str
    """The row whose single model started as this student did, "" for a single model."""
    seeds: Mapping[int, dict[str, Any]]


def systems(study: str, kept: Path) -> tuple[dict[str, System], dict[str, int]]:
    """({label: system}, {pair: training sentences}) of a study, in the order of its rows."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    twins: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for record in store.records(study, kept):
        sizes = dict(zip(record["corpus"]["pairs"], record["corpus"]["sizes"], strict=True))
        several = len(record["students"]) > 1
        for number, student in enumerate(record["students"], 1):
            label = f"{record['row']}: model_{number}" if several else record["row"]
            found.setdefault(label, {})[record["seed"]] = student
            twins[label] = student["label"].rsplit("(", 1)[-1].rstrip(")") if several else ""
    return {label: System(label, twins[label], seeds) for label, seeds in found.items()}, sizes


def groups_of(system: System, value: Value, sizes: Mapping[str, int]) -> tuple[list[float], list[float]]:
    """(HRL, LRL) of every seed."""
    means = [
        mean_by_group({pair: value(of) for pair, of in student["pairs"].items()}, split_high_low(sizes))
        for student in system.seeds.values()
    ]
    return [m[0] for m in means], [m[1] for m in means]


def group_table(known: Mapping[str, System], sizes: Mapping[str, int], columns: Sequence[str]) -> Table:
    """Means over the large and the small pairs, mean and spread over seeds."""
    rows: list[list[Cell]] = []
    for system in known.values():
        cells: list[Cell] = [system.label, len(system.seeds)]
        for name in columns:
            cells += [mean_spread(values) for values in groups_of(system, VALUES[name], sizes)]
        rows.append(cells)
    names = [f"{name} {group}" for name in columns for group in ("HRL", "LRL")]
    return Table(["system", "seeds", *names], rows, digits=2)


def pair_table(known: Mapping[str, System], sizes: Mapping[str, int], name: str) -> Table:
    """One number, pair by pair, mean and spread over seeds."""
    rows: list[list[Cell]] = [
        [s.label, *(mean_spread([VALUES[name](one["pairs"][pair]) for one in s.seeds.values()]) for pair in sizes)]
        for s in known.values()
    ]
    return Table([name, *sizes], rows, digits=2)


def difference(base: System, other: System, pairs: Sequence[str]) -> Difference:
    """BLEU of `other` minus BLEU of `base` over these pairs and the seeds that both have, with its test."""
    seeds = [seed for seed in base.seeds if seed in other.seeds]
    stats = [
        [[unpacked(s.seeds[seed]["pairs"][pair]["beam"]["sentences"])[0] for pair in pairs] for seed in seeds]
        for s in (base, other)
    ]
    return paired_bootstrap(*stats)


def chrf_difference(base: System, other: System, pairs: Sequence[str]) -> Difference:
    """The same for the mean chrF of sentences: sentences and seeds are drawn as in `paired_bootstrap`."""
    seeds = [seed for seed in base.seeds if seed in other.seeds]
    draws, rng = 1000, np.random.default_rng(12345)
    weights = rng.multinomial(max(1, len(seeds) - 1), np.full(len(seeds), 1 / len(seeds)), size=draws)
    weights = weights / weights.sum(axis=1, keepdims=True)
    observed, drawn = 0.0, np.zeros((draws, len(seeds)))
    for pair in pairs:
        values = np.stack([
            unpacked(other.seeds[seed]["pairs"][pair]["beam"]["sentences"])[1]
            - unpacked(base.seeds[seed]["pairs"][pair]["beam"]["sentences"])[1]
            for seed in seeds
        ])  # [seed, sentence]  # fmt: skip
        counts = rng.multinomial(values.shape[1], np.full(values.shape[1], 1 / values.shape[1]), size=draws)
        observed += float(values.mean()) / len(pairs)
        drawn += counts @ values.T / values.shape[1] / len(pairs)
    deltas = (weights * drawn).sum(axis=1)
    low, high = np.quantile(deltas, [0.025, 0.975])
    tail = min(int((deltas <= 0).sum()), int((deltas >= 0).sum()))
    return Difference(observed, float(low), float(high), min(1.0, 2 * (tail + 1) / (draws + 1)))


def difference_table(known: Mapping[str, System], sizes: Mapping[str, int], base: str = "") -> Table:
    """Every system against its twin, or against one system, in BLEU and in chrF of sentences; ▲ ▼: p < .05."""
    rows: list[list[Cell]] = []
    high, low = split_high_low(sizes)
    for system in known.values():
        name = base or system.twin
        if name in known and name != system.label and set(known[name].seeds) & set(system.seeds):
            cells: list[Cell] = [system.label, name]
            for test in (difference, chrf_difference):
                for pairs in (high, low):
                    found = test(known[name], system, pairs)
                    cells.append(f"{found.delta:+.2f} [{found.low:+.2f}, {found.high:+.2f}] {found.mark}".rstrip())
            rows.append(cells)
    columns = ["system", "against", "BLEU HRL", "BLEU LRL", "chrF HRL", "chrF LRL"]
    return Table(columns, rows, caption="Differences with 95 % intervals; ▲ or ▼ where p < 0.05")


def write_report(study: str, kept: Path, out: Path) -> list[Path]:
    """Tables as Markdown and the frontier as a picture; returns the files."""
    known, sizes = systems(study, kept)
    parts = [
        f"# {study}\n",
        group_table(known, sizes, ["BLEU", "chrF", "dev NLL", "accuracy"]).to_markdown(),
        group_table(known, sizes, ["greedy BLEU", "TER", "length", "at best T", "train NLL"]).to_markdown(),
        difference_table(known, sizes).to_markdown(),
        difference_table(known, sizes, "ensemble tau=1 + tau=5").to_markdown(),
        *(pair_table(known, sizes, name).to_markdown() for name in ("BLEU", "chrF", "dev NLL")),
    ]
    text = "\n\n".join(parts) + "\n"
    write_atomic(out / f"{study}.md", lambda path: path.write_text(text, encoding="utf-8"))
    files = [out / f"{study}.md"]
    for name in ("BLEU", "chrF"):
        points = {}
        for label in list(known)[:MOST_MARKS]:
            high, low = groups_of(known[label], VALUES[name], sizes)
            points[label] = list(zip(low, high, strict=True))
        ends = "; ".join(
            f"{n} LRL {fmean(x for x, _ in p):.1f} HRL {fmean(y for _, y in p):.1f}" for n, p in points.items()
        )
        figure = frontier_many(points, alt=f"Test {name} of small and large pairs. {ends}",
                               baseline="tau=1" if "tau=1" in points else None, metric=name)  # fmt: skip
        files += save_figure(figure, out / f"{study}-{name}")
    return files
