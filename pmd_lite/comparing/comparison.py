"""What a comparison found, read from its directory: tables, significance, costs, figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from pmd_lite.api import load_corpus
from pmd_lite.comparing.entries import Entry, parse_entry
from pmd_lite.config import Tokenize
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.disk import read_json, write_atomic, write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import mean_by_group
from pmd_lite.evaluation.scoring import METRICS, one_line, said_beside, tokenizers_used
from pmd_lite.evaluation.significance import Difference, SentenceStats, paired_bootstrap, sentence_stats
from pmd_lite.evaluation.tables import Best, Cell, Table, mean_spread
from pmd_lite.evaluation.tokenizers import missing_scorers
from pmd_lite.run import Run
from pmd_lite.training.cost import COUNTED, PURPOSES
from pmd_lite.training.rundir import FORMAT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINE = "tau=1"


@dataclass(frozen=True)
class System:
    """One student of one entry, over all seeds."""

    label: str
    entry: Entry
    student: int
    runs: tuple[Run, ...]


class Comparison:
    """The finished runs of `pmd_lite.compare` in one directory."""

    def __init__(self, path: str | Path, folder: str = "runs"):
        """folder: "runs" (equal tokens) or "equal-compute". Raises UserError when there is no such comparison."""
        self.path = Path(path)
        about: dict[str, Any] = read_json(self.path / f"{folder}.json")
        self.about, self.folder = about, folder
        self.entries: list[Entry] = [parse_entry(text) for text in about["methods"]]
        self.seeds: list[int] = about["seeds"]
        self.failed: dict[str, str] = about["failed"]

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def run(self, entry: Entry, seed: int) -> Run | None:
        """The finished and scored run, or None."""
        path = entry.path(self.path / self.folder, seed)
        return Run(path) if (path / "scores.json").exists() else None

    @cached_property
    def systems(self) -> list[System]:
        """Every student that all seeds have, in the order of the methods."""
        found = []
        for entry in self.entries:
            runs = [run for run in (self.run(entry, seed) for seed in self.seeds) if run is not None]
            if len(runs) == len(self.seeds):
                for student, label in enumerate(runs[0].labels):
                    plain = len(runs[0].labels) == 1 or (not entry.overrides and entry.samplers is None)
                    name = label if plain and len(runs[0].labels) > 1 else entry.text
                    if not plain:
                        name = f"{entry.text}: {label.split(' ', 1)[1]}"
                    found.append(System(name, entry, student, tuple(runs)))
        if not found:
            raise UserError(f"{self.path}: no method has finished with all seeds; failed: {self.failed or 'none'}")
        self._check_tokenizers(found)
        return found

    def _check_tokenizers(self, systems: Sequence[System]) -> None:
        """Raises UserError when somebody has scored some of the runs with another tokenizer."""
        seen: dict[str, dict[str, Path]] = {}
        for run in (run for system in systems for run in system.runs):
            for pair, name in tokenizers_used(run.scores).items():
                seen.setdefault(pair, {})[name] = run.path
        for pair, names in seen.items():
            if len(names) > 1:
                where = ", ".join(f"{name} in {path}" for name, path in names.items())
                raise UserError(f"BLEU of {pair} was counted with {where}: such scores cannot be compared. Score all "
                                "runs alike: python -m pmd_lite evaluate RUN --tokenize NAME")  # fmt: skip

    @cached_property
    def _lost(self) -> dict[str, str]:
        """{pair: reason} of pairs whose BLEU some run lacks."""
        runs = [run for system in self.systems for run in system.runs]
        return {pair: reason for run in runs for pair, reason in run.without_bleu.items()}

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus of all runs."""
        return load_corpus(self.about["corpus"], **self.about["corpus_options"])

    # ---- tables

    def table(self) -> Table:
        """Mean test BLEU with its spread over seeds, what differs from tau=1 by more than chance, dev loss, compute."""
        rows: list[list[Cell]] = []
        totals = {text: sum(by_purpose.values()) for text, by_purpose in self.costs().items()}
        for system in self.systems:
            differences = self.differences(system)
            cells: list[Cell] = [system.label]
            for name in ("mean", "HRL", "LRL"):
                cells.append(_spread([self._bleu(run, system.student)[name] for run in system.runs]))
                difference = differences.get(name)
                mark = difference.mark if difference and len(self.seeds) > 1 else ""
                cells.append(f"{difference.delta:+.1f} {mark}".strip() if difference else "")
            cells.append(_spread([fmean(run.measured("chrf", system.student).values()) for run in system.runs]))
            losses = [self._dev_loss(run, system.student) for run in system.runs]
            cells += [mean_spread([loss[name] for loss in losses]) for name in ("HRL", "LRL")]
            cells.append(f"{totals[system.entry.text]:.2f}" if system.entry.text in totals else "-")
            rows.append(cells)
        columns = ["system", "BLEU", "diff", "HRL", "diff ", "LRL", "diff  ", "chrF", "HRL loss", "LRL loss",
                   "compute"]  # fmt: skip
        best: dict[str, Best] = {"BLEU": "max", "HRL": "max", "LRL": "max", "chrF": "max", "HRL loss": "min",
                                 "LRL loss": "min"}  # fmt: skip
        return Table(columns, rows, best=best, digits=2, caption=self._caption())

    def _caption(self) -> str:
        equal = "compute" if self.folder == "equal-compute" else "updates of each student"
        base = self.baseline.label if self.baseline else "none"
        marks = "▲ ▼ where p < .05 (paired bootstrap over seeds and sentences; of twenty such marks one is chance)"
        if len(self.seeds) == 1:
            marks = "one seed: no difference between methods can be told from one between seeds"
        if self._lost:
            marks += f". -: no BLEU for {', '.join(self._lost)}, whose tokenizer was missing"
        if self._stats_lost:
            marks += f". No diff with {', '.join(self._stats_lost)}, whose tokenizer is not on this machine"
        return (
            f"Corpus {self.corpus.name}, equal {equal}, seeds {', '.join(map(str, self.seeds))}: test BLEU, mean ± "
            f"standard deviation; chrF likewise. diff: from {base}; {marks}. Losses: dev, nats per token. compute: of "
            f"all students and auxiliary runs, {self._unit()} = 1"
        )

    @property
    def baseline(self) -> System | None:
        """The tau=1 model, if it was compared."""
        return next((system for system in self.systems if system.entry.text == BASELINE), None)

    def differences(self, system: System) -> dict[str, Difference]:
        """BLEU differences from the baseline: mean over all pairs, over high- and low-resource ones.

        A mean over a pair whose BLEU is missing, or cannot be counted on this machine, is left out.
        """
        base = self.baseline
        if base is None or system is base:
            return {}
        high, low = system.runs[0].groups
        found = {}
        for name, group in (("mean", self.corpus.pairs), ("HRL", high), ("LRL", low)):
            pairs = [pair for pair in self.corpus.pairs if pair in group]  # in the order in which chance is drawn
            if not any(pair in self._lost or pair in self._stats_lost for pair in pairs):
                theirs, ours = ([[of[pair] for pair in pairs] for of in self._stats(one)] for one in (base, system))
                found[name] = paired_bootstrap(theirs, ours)
        return found

    @cached_property
    def _tokenizers(self) -> dict[str, Tokenize]:
        """The tokenizer behind each pair's BLEU, the same in all runs."""
        used = {pair: name for system in self.systems for run in system.runs
                for pair, name in tokenizers_used(run.scores).items()}  # fmt: skip
        return {pair: cast(Tokenize, used.get(pair, "auto")) for pair in self.corpus.pairs}

    @cached_property
    def _stats_lost(self) -> list[str]:
        """Pairs with a BLEU that was counted on another machine, by a tokenizer that this one lacks."""
        return [pair for pair, name in self._tokenizers.items()
                if pair not in self._lost and missing_scorers([pair], name)]  # fmt: skip

    def _stats(self, system: System) -> list[dict[str, SentenceStats]]:
        """For each seed: {pair: statistics}, without the pairs that cannot be counted."""
        cache: dict[str, list[dict[str, SentenceStats]]] = self.__dict__.setdefault("_stats_cache", {})
        if system.label not in cache:
            cache[system.label] = [
                {
                    pair: sentence_stats(
                        run.translations(pair, system.student),
                        [one_line(trg) for _, trg in self.corpus.test[pair]],
                        split_pair(pair)[1],
                        name,
                    )
                    for pair, name in self._tokenizers.items()
                    if pair not in self._lost and pair not in self._stats_lost
                }
                for run in system.runs
            ]
        return cache[system.label]

    def _bleu(self, run: Run, student: int) -> dict[str, float]:
        bleu = run.bleu(student)
        high, low = mean_by_group(bleu, run.groups)
        return {"mean": fmean(bleu.values()), "HRL": high, "LRL": low}

    def _dev_loss(self, run: Run, student: int) -> dict[str, float]:
        high, low = mean_by_group(run.best_dev_loss(student), run.groups)
        return {"HRL": high, "LRL": low}

    # ---- cost

    def costs(self) -> dict[str, dict[str, float]]:
        """For every method: compute by purpose, and that of its auxiliary runs, as multiples of the first method's.

        Methods whose runs an older version counted in another unit are left out.
        """
        firsts = {system.entry.text: system.runs[0] for system in self.systems}
        known = {text: run for text, run in firsts.items() if all(one.counted for one in (run, *run.auxiliary))}
        unit = next((run.compute_with_auxiliary for run in known.values()), 1)
        return {
            text: {
                **{purpose: n / unit for purpose, n in run.cost.items()},
                "auxiliary": (run.compute_with_auxiliary - run.compute) / unit,
            }
            for text, run in known.items()
        }

    def _unit(self) -> str:
        """The method whose compute is 1."""
        return next(iter(self.costs()), "nothing")

    def cost_table(self) -> Table:
        """Compute by purpose, updates and minutes of each method."""
        rows: list[list[Cell]] = []
        costs, purposes = self.costs(), [*PURPOSES, "auxiliary"]
        for text, runs in {system.entry.text: system.runs for system in self.systems}.items():
            minutes = mean_spread([run.finished["seconds"] / 60 for run in runs])
            by_purpose = costs.get(text)
            spent: list[Cell] = ["-"] * (len(purposes) + 1)
            if by_purpose is not None:
                spent = [*(by_purpose[purpose] for purpose in purposes), sum(by_purpose.values())]
            rows.append([text, *spent, int(runs[0].finished["step"]), minutes])
        caption = (
            f"Compute in units of {self._unit()}, seed {self.seeds[0]}. Counted: {COUNTED}. Minutes: its own run, one "
            "core, others beside it"
        )
        if len(costs) < len(rows):
            caption += ". -: counted in another unit by an older version; train anew"
        return Table(["method", *purposes, "total", "updates", "minutes"], rows, best=None, digits=2, caption=caption)

    # ---- figures and files

    def summary(self) -> dict[str, Any]:
        """All that tables and figures show, as plain JSON: small enough to keep and to redraw without the runs."""
        high, low = self.systems[0].runs[0].groups
        systems = []
        for system in self.systems:
            steps, p = system.runs[0].curve("p", system.student)
            differences = {name: [round(d.delta, 2), d.mark if len(self.seeds) > 1 else ""]
                           for name, d in self.differences(system).items()}  # fmt: skip
            systems.append({
                "label": system.label, "method": system.entry.text,
                "bleu": [_rounded(run.bleu(system.student)) for run in system.runs],
                "chrf": [_rounded(run.measured("chrf", system.student)) for run in system.runs],
                "dev_loss": [_rounded(run.best_dev_loss(system.student)) for run in system.runs],
                "differences": differences, "steps": steps,
                "p": {pair: [round(x, 4) for x in values] for pair, values in p.items()},
            })  # fmt: skip
        costs = {text: _rounded(by_purpose) for text, by_purpose in self.costs().items()}
        return {"corpus": self.corpus.name, "sizes": dict(zip(self.corpus.pairs, self.corpus.sizes, strict=True)),
                "seeds": self.seeds, "equal": self.folder, "overrides": self.about["overrides"],
                "preset": self.about["preset"], "groups": [list(high), list(low)], "systems": systems,
                "format": FORMAT, "costs": costs, "counted": COUNTED, "notes": self.said_beside()}  # fmt: skip

    def said_beside(self) -> list[str]:
        """Every signature behind the table once, and why a BLEU is missing: lines to print below it."""
        return said_beside((run.scores for system in self.systems for run in system.runs), list(METRICS))

    def plot_frontier(self) -> Figure | None:
        """Every system on the plane of low- and high-resource BLEU; None when some pair has no BLEU."""
        from pmd_lite.figures import comparisons

        if self._lost:
            return None
        points = {system.label: [run.point(system.student) for run in system.runs] for system in self.systems}
        means = {label: [sum(axis) / len(axis) for axis in zip(*at, strict=True)] for label, at in points.items()}
        text = "; ".join(f"{label} LRL {x:.1f} HRL {y:.1f}" for label, (x, y) in means.items())
        alt = f"Average test BLEU of low- and high-resource pairs, mean over {len(self.seeds)} seeds. {text}"
        base = self.baseline
        return comparisons.frontier_many(points, alt=alt, baseline=base.label if base else None)

    def plot_probabilities(self) -> Figure | None:
        """Sampling probabilities over training of every sampler that changes them, first seed; None if none does."""
        from pmd_lite.figures import comparisons

        curves = {}
        for system in self.systems:
            steps, p = system.runs[0].curve("p", system.student)
            if any(len(set(values)) > 1 for values in p.values()) or "unimax" in system.label:
                curves[system.label] = (steps, p)
        if not curves:
            return None
        ends = "; ".join(f"{name}: " + ", ".join(f"{pair} {v[-1]:.2f}" for pair, v in p.items())
                         for name, (_, p) in curves.items())  # fmt: skip
        return comparisons.probability_panels(curves, alt=f"Probability of each pair over training. At the end {ends}")

    def plot_costs(self) -> Figure | None:
        """Compute of each method by purpose; None if no run's is known in today's unit."""
        from pmd_lite.figures import comparisons

        costs = self.costs()
        if not costs:
            return None
        text = "; ".join(f"{name} {sum(by.values()):.2f}" for name, by in costs.items())
        return comparisons.cost_bars(costs, alt=f"Compute in units of {next(iter(costs))}: {text}")

    def save(self) -> list[Path]:
        """Write tables (Markdown), figures (PNG and PDF) and summary.json beside the runs; returns the files."""
        from pmd_lite.figures.plots import save_figure

        stem = "" if self.folder == "runs" else f"{self.folder}-"
        write_json(self.path / f"{stem}summary.json", self.summary())
        files = [self.path / f"{stem}summary.json"]
        for name, table in (("table", self.table()), ("costs", self.cost_table())):
            target = self.path / f"{stem}{name}.md"
            text = table.to_markdown() + "\n"
            if name == "table":
                text += "\n" + "".join(f"- {line}\n" for line in self.said_beside())
            write_atomic(target, lambda p, text=text: p.write_text(text, encoding="utf-8"))  # type: ignore[misc]
            files.append(target)
        figures = {"frontier": self.plot_frontier(), "probabilities": self.plot_probabilities(),
                   "costs": self.plot_costs()}  # fmt: skip
        for name, figure in figures.items():
            if figure is not None:
                files += save_figure(figure, self.path / f"{stem}{name}")
        return files


def _rounded(values: Mapping[str, float]) -> dict[str, float | None]:
    """For JSON, which has no nan."""
    return {name: None if math.isnan(value) else round(value, 4) for name, value in values.items()}


def _spread(values: Sequence[float]) -> Cell:
    """Mean and spread over seeds; None ("-") when one of them is missing."""
    return None if any(math.isnan(value) for value in values) else mean_spread(values)
