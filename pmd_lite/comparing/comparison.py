"""What a comparison measured, in tables and figures: from its runs, or from its summary.json without them."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from pmd_lite.comparing.summary import BASELINE, summarise
from pmd_lite.config import Metric
from pmd_lite.disk import place, read_json, write_bytes, write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import mean_by_group
from pmd_lite.evaluation.scoring import METRICS
from pmd_lite.evaluation.significance import LEVEL
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.training.cost import COUNTED, PURPOSES
from pmd_lite.training.rundir import FORMAT

if TYPE_CHECKING:
    from pmd_lite.figures.style import LessonFigure

_MEASURES = ("bleu", "chrf", "ter", "dev_loss")


class Comparison:
    """The systems of `pmd_lite.compare` side by side. Shows itself as its table.

    systems: {label: plain data of one student}, in the order of the methods: method, bleu, chrf, dev_loss, perhaps ter
    ([seed] {pair: value}), differences ({"mean", "HRL", "LRL": (BLEU minus that of tau=1, mark)}), steps and p ({pair:
    probability at each step}, first seed).
    compute: {method: {purpose: cost}} in multiples of the first method's total (see `training.cost.COUNTED`).
    sizes: {pair: training sentences}. groups: (high-resource, low-resource) pairs. overrides: fields of the
    configuration that all runs share. equal: "runs" (equal updates) or "equal-compute". failed: {run: why it failed}.
    notes: lines to print below the table. command: how to make it again, "" if the file does not say.
    summary: all this as summary.json holds it.
    """

    def __init__(self, path: str | Path, folder: str = "runs", summary: dict[str, Any] | None = None):
        """Read the runs of a comparison in its directory and test the differences, or take what a summary says.

        folder: "runs" (equal updates) or "equal-compute". Raises UserError when there is no such comparison, when no
        method has finished with all seeds, or when BLEU was counted with different tokenizers.
        """
        self.path = place(path)
        self.summary = data = summarise(self.path, folder) if summary is None else summary
        self.corpus: str = data["corpus"]
        self.sizes: dict[str, int] = data["sizes"]
        self.seeds: list[int] = data["seeds"]
        self.equal: str = data["equal"]
        self.groups: list[list[str]] = data["groups"]
        self.overrides: dict[str, Any] = data["overrides"]
        self.systems: dict[str, dict[str, Any]] = {
            system["label"]: {**system, **{of: _numbers(system[of]) for of in _MEASURES if of in system}}
            for system in data["systems"]
        }
        self.compute: dict[str, dict[str, float]] = data["costs"]
        self.command: str = data.get("command", "")
        self.failed: dict[str, str] = data["failed"]
        self.notes: list[str] = data["notes"]

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """Read a stored summary instead of runs. Raises UserError when the file is absent or not of this form."""
        try:
            self = cls(place(file).parent, summary=read_json(place(file)))
            if self.summary["format"] != FORMAT:
                raise UserError("another version made it, whose numbers mean something else")
            self.table(), self.cost_table(), self.moving()
            for label in self.systems:
                steps, p = self.curve(label)
                if any(len(values) != len(steps) or {*map(type, values)} - {int, float} for values in p.values()):
                    raise UserError(f"{label} has not one probability for each step")
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration, UserError) as error:
            raise UserError(f"{file}: no stored comparison ({error}); it is the summary.json that "
                            "python -m pmd_lite compare writes") from None  # fmt: skip
        return self

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()

    # ---- numbers

    def points(self, label: str, of: str = "bleu") -> list[tuple[float, float]]:
        """(LRL, HRL) of every seed: mean "bleu" or mean "dev_loss"; nan where a pair has no BLEU."""
        means = [mean_by_group(values, self.groups) for values in self._system(label)[of]]
        return [(low, high) for high, low in means]

    def mean_point(self, label: str) -> tuple[float, float]:
        """(LRL, HRL) BLEU, mean over seeds."""
        low, high = map(fmean, zip(*self.points(label), strict=True))
        return low, high

    def curve(self, label: str) -> tuple[Sequence[int], Mapping[str, Sequence[float]]]:
        """Steps, and the probability of each pair at each of them (first seed)."""
        system = self._system(label)
        return system["steps"], system["p"]

    def cost(self, label: str) -> float:
        """Compute of the method that this system belongs to, auxiliary runs included; the first method's is 1."""
        return sum(self.compute[self._system(label)["method"]].values())

    def difference(self, label: str, of: str) -> tuple[float, str] | None:
        """BLEU minus the baseline's over "mean" (all pairs), "HRL" or "LRL", and its mark; None if not tested."""
        tested = self._system(label)["differences"].get(of)
        return tested and (float(tested[0]), str(tested[1]))

    def moving(self) -> list[str]:
        """Systems whose sampler is not a fixed temperature."""
        return [label for label, system in self.systems.items()
                if "unimax" in label or any(len(set(values)) > 1 for values in system["p"].values())]  # fmt: skip

    def _system(self, label: str) -> Mapping[str, Any]:
        if label not in self.systems:
            raise UserError(f"No system is called {label!r}. There are {', '.join(self.systems)}.")
        return self.systems[label]

    def _without_bleu(self) -> list[str]:
        """Pairs that some run has no BLEU for."""
        runs = [run for system in self.systems.values() for run in system["bleu"]]
        return [pair for pair in self.sizes if any(math.isnan(run[pair]) for run in runs)]

    # ---- tables

    def table(self, labels: Sequence[str] | None = None) -> Table:
        """Test BLEU with its spread over seeds, what differs from tau=1 beyond chance, chrF, TER, dev loss, compute."""
        rows: list[list[Cell]] = []
        for label in self.systems if labels is None else labels:
            system, points, losses = self._system(label), self.points(label), self.points(label, "dev_loss")
            means = [fmean(values.values()) for values in system["bleu"]]
            row: list[Cell] = [label]
            for of, values in (("mean", means), ("HRL", [p[1] for p in points]), ("LRL", [p[0] for p in points])):
                tested = self.difference(label, of)
                row += [_spread(values), f"{tested[0]:+.1f}\u00a0{tested[1]}".strip() if tested else ""]
            row += [_spread([fmean(values.values()) for values in system[of]]) for of in self._beside]
            row += ["-" if math.isnan(x := fmean(of[axis] for of in losses)) else f"{x:.2f}" for axis in (1, 0)]
            rows.append([*row, f"{self.cost(label):.2f}"])
        columns = ["system", "BLEU", "diff", "HRL", "diff ", "LRL", "diff  ", *(METRICS[of] for of in self._beside),
                   "HRL loss", "LRL loss", "compute"]  # fmt: skip
        return Table(columns, rows, digits=1, caption=self._caption())

    @property
    def _beside(self) -> list[Metric]:
        """What the table has beside BLEU: chrF, and TER if it was asked for."""
        return [of for of in METRICS if of != "bleu" and all(of in system for system in self.systems.values())]

    def _caption(self) -> str:
        equal = "compute" if self.equal == "equal-compute" else "updates of each student"
        marks = f"▲ or ▼ where p < {LEVEL:g} (paired bootstrap over seeds and sentences; chance gives one in twenty)"
        if len(self.seeds) == 1:
            marks = "one seed: no difference between methods can be told from one between seeds"
        parts = [
            f"Corpus {self.corpus}, equal {equal}, seeds {', '.join(map(str, self.seeds))}: test "
            f"{' and '.join(METRICS[of] for of in ('bleu', *self._beside))}, mean ± standard deviation",
            f"diff: from {BASELINE}; {marks}" if BASELINE in self.systems else f"No diff: {BASELINE} was not compared",
            "Losses: dev, nats per token",
            f"compute: of all students and auxiliary runs, {next(iter(self.compute))} = 1",
        ]
        if lost := self._without_bleu():
            parts.append(f"-: no BLEU for {', '.join(lost)}, whose tokenizer was missing")
        if untested := self.summary["untested"]:
            parts.append(f"No diff with {', '.join(untested)}, whose tokenizer is not on this machine")
        return ". ".join(parts)

    def cost_table(self) -> Table:
        """Compute by purpose, updates and minutes of each method."""
        purposes, updates = [*PURPOSES, "auxiliary"], self.summary.get("updates", {})
        rows: list[list[Cell]] = []
        for method, by_purpose in self.compute.items():
            spent = [*(by_purpose.get(purpose, 0.0) for purpose in purposes), sum(by_purpose.values())]
            minutes = self.summary.get("minutes", {}).get(method)
            rows.append([method, *spent, updates.get(method), mean_spread(minutes) if minutes else None])
        caption = (f"Compute in units of {next(iter(self.compute))}, seed {self.seeds[0]}. Counted: {COUNTED}. "
                   f"Minutes: its own run, one core, others beside it")  # fmt: skip
        return Table(["method", *purposes, "total", "updates", "minutes"], rows, digits=2, caption=caption)

    # ---- figures and files

    def plot_frontier(self, highlight: Sequence[str] = ()) -> "LessonFigure | None":
        """Systems by small- and large-pair BLEU, `highlight` filled; None if a BLEU is missing. UserError: one pair."""
        from pmd_lite.figures.comparisons import frontier_many
        from pmd_lite.figures.runs import ONE_PAIR

        if len(self.sizes) < 2:
            raise UserError(ONE_PAIR)
        if self._without_bleu():
            return None
        means = {label: self.mean_point(label) for label in self.systems}
        text = "; ".join(f"{label} LRL {x:.1f} HRL {y:.1f}" for label, (x, y) in means.items())
        alt = f"Test BLEU of small and large pairs, mean over {len(self.seeds)} seeds. {text}"
        return frontier_many({label: self.points(label) for label in self.systems}, alt=alt, highlight=highlight,
                             baseline=BASELINE if BASELINE in self.systems else None)  # fmt: skip

    def plot_probabilities(self) -> "LessonFigure | None":
        """Sampling probabilities of the `moving` systems over training, first seed; None without any."""
        from pmd_lite.figures.plots import pair_panels

        curves = {label: self.curve(label) for label in self.moving()}
        ends = "; ".join(f"{label}: " + ", ".join(f"{pair} {values[-1]:.2f}" for pair, values in p.items())
                         for label, (_, p) in curves.items())  # fmt: skip
        alt = f"Probability of each pair over training. At the end {ends}"
        return pair_panels(curves, "probability of being drawn", (0, None), alt=alt) if curves else None

    def plot_costs(self) -> "LessonFigure":
        """Compute of each method by purpose."""
        from pmd_lite.figures.comparisons import cost_bars

        text = "; ".join(f"{method} {sum(by_purpose.values()):.2f}" for method, by_purpose in self.compute.items())
        return cost_bars(self.compute, alt=f"Compute in units of {next(iter(self.compute))}: {text}")

    def save(self) -> list[Path]:
        """Write tables, figures (PNG, PDF), summary.json; return the files. A figure that fails becomes a note."""
        from pmd_lite.figures.style import save_figure

        figures: dict[str, LessonFigure | None] = {}
        for name, draw in (("frontier", self.plot_frontier), ("probabilities", self.plot_probabilities),
                           ("costs", self.plot_costs)):  # fmt: skip
            try:
                figures[name] = draw()
            except UserError as error:
                self.notes += [f"no figure of {name}: {error}"]
        stem = "" if self.equal == "runs" else f"{self.equal}-"
        files = [self.path / f"{stem}{name}" for name in ("summary.json", "table.md", "costs.md")]
        write_json(files[0], self.summary)
        table = self.table().to_markdown() + "\n\n" + "".join(f"- {line}\n" for line in self.notes)
        write_bytes(files[1], table.encode())
        write_bytes(files[2], f"{self.cost_table().to_markdown()}\n".encode())
        for name, figure in figures.items():
            if figure is not None:
                files += save_figure(figure, self.path / f"{stem}{name}")
        return files


def _numbers(runs: Sequence[Mapping[str, float | None]]) -> list[dict[str, float]]:
    """[seed] {pair: value}, with nan where the file has null."""
    return [{pair: math.nan if value is None else value for pair, value in run.items()} for run in runs]


def _spread(values: Sequence[float]) -> Cell:
    """Mean and spread over seeds; None ("-") when one of them is missing."""
    return None if math.isnan(sum(values)) else mean_spread(values)
