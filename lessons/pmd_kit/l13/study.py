"""The stored study of real text: scores of every model and seed, sentence statistics, tests, and what follows in words.

`python -m benchmarks.study real-text` writes the records. They hold numbers only, no sentence of the corpus.
"""

from __future__ import annotations

import base64
import functools
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmd_lite.disk import read_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import mean_by_group, split_high_low
from pmd_lite.evaluation.significance import LEVEL, Difference, SentenceStats, draw_sentences, paired_bootstrap
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures.comparisons import frontier_many
from pmd_lite.figures.style import LessonFigure
from pmd_lite.training.rundir import FORMAT

Value = Callable[[dict[str, Any]], float]
KEY_WIDTH = 52  # letters in a line of a picture's key
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


AGREEING = ("chrF", "greedy BLEU", "accuracy", "dev NLL", "at best T", "train NLL")


def _broken(label: str) -> str:
    """A label in lines that leave the plane its room."""
    return textwrap.fill(label, KEY_WIDTH, break_on_hyphens=False)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation of two lists without ties, from -1 to 1."""
    one, two = (np.argsort(np.argsort(values)) for values in (a, b))
    return float(np.corrcoef(one, two)[0, 1])


@functools.cache
def unpacked(text: str) -> tuple[SentenceStats, NDArray[np.float64]]:
    """([sentence, 10] as `sentence_stats` returns them, [sentence] chrF of 0 to 100) of packed sentence statistics."""
    shape, _, body = text.partition(":")
    rows, columns = map(int, shape.split("x"))
    flat = np.frombuffer(zlib.decompress(base64.b85decode(body)), dtype="<u2")
    table = flat.reshape(columns, rows).T.astype(np.int64)
    matches, (hyp, ref), chrf = table[:, :4], table[:, 4:6].T, table[:, 6] / 10
    totals = np.maximum(hyp[:, None] - np.arange(4), 0)  # a sentence of n tokens has n - 3 of four
    stats = np.concatenate([matches, totals, hyp[:, None], ref[:, None]], axis=1)
    stats.flags.writeable = chrf.flags.writeable = False  # who asks again gets the same
    return stats, chrf


@dataclass(frozen=True)
class System:
    """One student of one row, over its seeds: {seed: its part of the record}."""

    label: str
    twin: str
    """The row whose single model started as this student did, "" for a single model."""
    seeds: Mapping[int, dict[str, Any]]
    cost: float
    """Multiply-adds of the whole run that made it, mean over seeds: of all students, and of runs it learnt from."""

    def counts(self, pair: str, seed: int | None = None) -> SentenceStats:
        """[sentence, 10] of the test set of one pair, of the first seed or of another."""
        student = self.seeds[min(self.seeds) if seed is None else seed]
        return unpacked(student["pairs"][pair]["beam"]["sentences"])[0]


@dataclass(frozen=True)
class Study:
    """systems: {label: system} in the order of their files; sizes: {pair: training sentences}."""

    systems: Mapping[str, System]
    sizes: Mapping[str, int]

    @classmethod
    def load(cls, folder: Path) -> Study:
        """Raises UserError when the folder holds no records, or other files."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        twins: dict[str, str] = {}
        costs: dict[str, list[float]] = {}
        sizes: dict[str, int] = {}
        for file in sorted(folder.glob("*.json")):
            record = read_json(file)
            if record["format"] != FORMAT:
                raise UserError(f"{file}: another version made it, whose numbers mean something else. Make it anew")
            sizes = dict(zip(record["corpus"]["pairs"], record["corpus"]["sizes"], strict=True))
            several = len(record["students"]) > 1
            for number, student in enumerate(record["students"], 1):
                label = f"{record['row']}: model_{number}" if several else record["row"]
                found.setdefault(label, {})[record["seed"]] = student
                twins[label] = student["label"].rsplit("(", 1)[-1].rstrip(")") if several else ""
                costs.setdefault(label, []).append(record["multiply_adds"])
        if not found:
            raise UserError(f"{folder} holds no records; make them with python -m benchmarks.study real-text")
        systems = {label: System(label, twins[label], by, fmean(costs[label])) for label, by in found.items()}
        return cls(systems, sizes)

    @property
    def groups(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(high-resource, low-resource) pairs."""
        return split_high_low(self.sizes)

    def means(self, label: str, column: str, seeds: Sequence[int] = ()) -> tuple[list[float], list[float]]:
        """(HRL, LRL) of every seed, or of these: means of one of VALUES over the pairs."""
        means = [
            mean_by_group({pair: VALUES[column](of) for pair, of in student["pairs"].items()}, self.groups)
            for seed, student in self.systems[label].seeds.items() if not seeds or seed in seeds
        ]  # fmt: skip
        return [m[0] for m in means], [m[1] for m in means]

    def table(self, columns: Sequence[str] = ("BLEU", "chrF"), labels: Sequence[str] | None = None) -> Table:
        """Means over the large and the small pairs, mean and spread over seeds."""
        rows: list[list[Cell]] = [
            [label, len(self.systems[label].seeds),
             *(mean_spread(values) for name in columns for values in self.means(label, name))]
            for label in labels or self.systems
        ]  # fmt: skip
        names = [f"{name} {group}" for name in columns for group in ("HRL", "LRL")]
        return Table(["system", "seeds", *names], rows, caption="Mean ± standard deviation over seeds")

    def pair_table(self, column: str, labels: Sequence[str] | None = None) -> Table:
        """One number, pair by pair, mean and spread over seeds."""
        rows: list[list[Cell]] = [
            [label, *(mean_spread([VALUES[column](one["pairs"][pair]) for one in self.systems[label].seeds.values()])
                      for pair in self.sizes)]
            for label in labels or self.systems
        ]  # fmt: skip
        return Table([column, *self.sizes], rows)

    def difference(self, base: str, other: str, pairs: Sequence[str]) -> Difference:
        """BLEU of `other` minus that of `base` over these pairs and the seeds that both have, with its test."""
        seeds = self.common_seeds((base, other))
        one, two = (
            [[self.systems[name].counts(pair, seed) for pair in pairs] for seed in seeds] for name in (base, other)
        )
        return paired_bootstrap(one, two)

    def chrf_difference(self, base: str, other: str, pairs: Sequence[str]) -> Difference:
        """The same for the mean chrF of sentences: sentences and seeds are drawn as in `paired_bootstrap`."""
        seeds = self.common_seeds((base, other))
        draws, rng = 1000, np.random.default_rng(12345)
        weights = rng.multinomial(max(1, len(seeds) - 1), np.full(len(seeds), 1 / len(seeds)), size=draws)
        weights = weights / weights.sum(axis=1, keepdims=True)
        observed, drawn = 0.0, np.zeros((draws, len(seeds)))
        for pair in pairs:
            values = np.stack([
                unpacked(self.systems[other].seeds[seed]["pairs"][pair]["beam"]["sentences"])[1]
                - unpacked(self.systems[base].seeds[seed]["pairs"][pair]["beam"]["sentences"])[1]
                for seed in seeds
            ])  # [seed, sentence]  # fmt: skip
            counts = draw_sentences(rng, draws, values.shape[1])
            observed += float(values.mean()) / len(pairs)
            drawn += counts @ values.T / values.shape[1] / len(pairs)
        deltas = (weights * drawn).sum(axis=1)
        low, high = np.quantile(deltas, [0.025, 0.975])
        tail = min(int((deltas <= 0).sum()), int((deltas >= 0).sum()))
        return Difference(observed, float(low), float(high), min(1.0, 2 * (tail + 1) / (draws + 1)))

    def common_seeds(self, labels: Sequence[str]) -> list[int]:
        """The seeds that all these systems were trained with."""
        return [seed for seed in self.systems[labels[0]].seeds if all(seed in self.systems[x].seeds for x in labels)]

    def compared(self, base: str = "") -> list[tuple[str, str]]:
        """(system, the one it is compared with): its twin, or `base`, wherever both have a seed in common."""
        names = [(label, base or system.twin) for label, system in self.systems.items()]
        return [(a, b) for a, b in names if b in self.systems and a != b and self.common_seeds((b, a))]

    def difference_table(self, base: str = "") -> Table:
        """Every system against its twin, or against one system, in BLEU and in chrF of sentences."""
        rows: list[list[Cell]] = []
        for label, other in self.compared(base):
            cells: list[Cell] = [label, other, len(self.common_seeds((other, label)))]
            for test in (self.difference, self.chrf_difference):
                found = [test(other, label, pairs) for pairs in self.groups]
                cells += [f"{d.delta:+.2f} ({d.low:+.2f} to {d.high:+.2f}) {d.mark}".rstrip() for d in found]
            rows.append(cells)
        columns = ["system", "against", "seeds", "BLEU HRL", "BLEU LRL", "chrF HRL", "chrF LRL"]
        caption = f"Differences with 95 % intervals; ▲ or ▼ where p < {LEVEL:g}. With one seed only sentences are drawn"
        return Table(columns, rows, caption=caption)

    def figure(self, labels: Sequence[str], column: str = "BLEU") -> LessonFigure:
        """The chosen systems on the plane of small and large pairs, each as the mean over the seeds that all have.

        Marks are hollow where two models translate together. Raises UserError when they have no seed in common.
        """
        if not (seeds := self.common_seeds(labels)):
            raise UserError(f"No seed is common to {', '.join(labels)}. Choose fewer systems.")
        points = {}
        for label in labels:
            high, low = self.means(label, column, seeds)
            points[label] = list(zip(low, high, strict=True))
        ends = "; ".join(f"{name} LRL {fmean(x for x, _ in p):.1f} HRL {fmean(y for _, y in p):.1f}"
                         for name, p in points.items())  # fmt: skip
        mean = f"{column}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        one = [_broken(label) for label in labels if not label.startswith("ensemble ")]
        return frontier_many({_broken(name): p for name, p in points.items()},
                             alt=f"Test {mean}, of small and large pairs. {ends}", metric=mean,
                             baseline="tau=1" if "tau=1" in points else None, highlight=one)  # fmt: skip

    def bill(self, unit: str = "tau=1") -> Table:
        """What the run behind each system has computed, in multiples of a single model's, and its best BLEU."""
        rows: list[list[Cell]] = [
            [
                label,
                len(system.seeds),
                system.cost / self.systems[unit].cost,
                *(fmean(values) for values in self.means(label, "BLEU")),
            ]
            for label, system in sorted(self.systems.items(), key=lambda item: item[1].cost)
        ]
        caption = f"Multiply-adds of the whole run, all its students and the runs it learnt from; {unit} = 1"
        return Table(["system", "seeds", "compute", "BLEU HRL", "BLEU LRL"], rows, caption=caption)

    def convergence(self) -> Table:
        """The update at which the mean dev loss of each group was lowest, and how far it has risen since."""
        rows: list[list[Cell]] = []
        for label, system in self.systems.items():
            curves = [one for one in system.seeds.values() if "dev_loss" in one]  # an ensemble has none
            cells: list[Cell] = []
            for group in self.groups if curves else ():
                inside = [i for i, pair in enumerate(self.sizes) if pair in group]
                means = [[fmean(losses[i] for i in inside) for losses in one["dev_loss"]] for one in curves]
                lowest = [one["steps"][line.index(min(line))] for one, line in zip(curves, means, strict=True)]
                cells += [f"{min(lowest):,} to {max(lowest):,}" if len({*lowest}) > 1 else f"{lowest[0]:,}",
                          mean_spread([line[-1] - min(line) for line in means])]  # fmt: skip
            if cells:
                rows.append([label, *cells])
        columns = [
            "system",
            *(c for name in ("large", "small") for c in (f"{name}: lowest at update", f"rise after, {name}")),
        ]
        return Table(columns, rows, caption="Mean dev loss in nats per token of the large and of the small pairs")

    def agreement(self, columns: Sequence[str] = AGREEING) -> Table:
        """Whether other numbers put the students in the order of their test BLEU: Spearman's correlation of ranks.

        Over all seeds; ensembles are left out. Students of one run or seed are not independent, so there is no test.
        """
        students = [label for label in self.systems if not label.startswith("ensemble ")]
        numbers = {
            name: [[x for label in students for x in self.means(label, name)[side]] for side in (0, 1)]
            for name in ("BLEU", *columns)
        }
        rows: list[list[Cell]] = [[name, *map(rank_correlation, numbers["BLEU"], numbers[name])] for name in columns]
        caption = (f"Correlation of ranks with test BLEU over {len(numbers['BLEU'][0])} students: 1 the same order, "
                   "-1 the reverse (a good loss), 0 nothing in common. NLL and accuracy: dev set")  # fmt: skip
        return Table(["", "large pairs", "small pairs"], rows, caption=caption)

    def reading(self, base: str = "") -> str:
        """For each system and group of pairs: better or worse than its twin (or `base`) by the test, or neither."""
        words = {"▲": "better", "▼": "worse", "": "neither"}
        lines, marked = [f"against {base}:"] if base else [], 0
        for label, other in self.compared(base):
            said = []
            for name, pairs in zip(("large", "small"), self.groups, strict=True):
                found = self.difference(other, label, pairs)
                marked += bool(found.mark)
                said.append(f"{name} pairs {words[found.mark]} ({round(found.delta, 1) + 0.0:+.1f})")
            n = len(self.common_seeds((other, label)))
            twin = "" if base else f" against {other}"
            lines.append(f"{label}{twin}, {n} {'seed' if n == 1 else 'seeds'}: {', '.join(said)}")
        tests = 2 * len(self.compared(base))
        chance = f"{marked} of {tests} differences in BLEU are marked; about {LEVEL * tests:.1f} would be by chance."
        return "\n".join([*lines, chance])
