"""A comparison read back from its summary: what `compare` found, in tables, figures and words, without the runs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import mean_by_group, pareto_front
from pmd_lite.evaluation.tables import Best, Cell, Table, mean_spread
from pmd_lite.figures.comparisons import cost_bars, curve_and_point, frontier_many, probability_panels
from pmd_lite.figures.style import XY, LessonFigure
from pmd_lite.training.rundir import caution

BASELINE = "tau=1"
CHANCE = 0.05
"""How often a mark appears where there is nothing to mark (`evaluation.significance`)."""
FORMERLY = (
    "as older versions did, target tokens (once for a forward pass, three times with the backward pass) times all "
    "parameters; without second projections, top-k caches and the length of greedy translations"
)
"""What stored compute counts where the file does not say."""
_OF = {"mean": "all pairs", "HRL": "large pairs", "LRL": "small pairs"}


@dataclass(frozen=True)
class StoredComparison:
    """What `Comparison.summary()` wrote, and every figure that can be drawn from it.

    systems: {label: its part of the summary}, in the order of the comparison. compute: {method: {purpose: cost}} in
    multiples of the first method's total; counted: what of. command: how to make it again, "" if the file does not say.
    """

    corpus: str
    sizes: Mapping[str, int]
    seeds: Sequence[int]
    equal: str
    groups: Sequence[Sequence[str]]
    overrides: Mapping[str, Any]
    systems: Mapping[str, Mapping[str, Any]]
    compute: Mapping[str, Mapping[str, float]]
    command: str
    counted: str
    caution: str = ""
    """What captions add when an older version made the runs."""

    @classmethod
    def load(cls, path: Path) -> StoredComparison:
        """Raises UserError when the file is absent or not of this form."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            systems = {system["label"]: system for system in data["systems"]}
            stored = cls(data["corpus"], data["sizes"], data["seeds"], data["equal"], data["groups"],
                         data["overrides"], systems, data["costs"], data.get("command", ""),
                         data.get("counted", FORMERLY), caution(data))  # fmt: skip
            lost = {pair for of in systems.values() for run in of["bleu"] for pair, bleu in run.items() if bleu is None}
            if lost:
                raise UserError(f"no BLEU for {', '.join(sorted(lost))}, whose tokenizer was missing")
            for label in systems:
                stored.points(label), stored.cost(label), stored.curve(label), stored.difference(label, "mean")
        except (OSError, ValueError, KeyError, TypeError, UserError) as error:
            raise UserError(
                f"{path}: no stored comparison ({error}); it is the summary.json that python -m pmd_lite compare writes"
            ) from None
        return stored

    # ---- numbers

    def points(self, label: str, of: str = "bleu") -> list[XY]:
        """(LRL, HRL) of every seed: mean "bleu" or mean "dev_loss"."""
        pairs = [mean_by_group(values, self.groups) for values in self._system(label)[of]]
        return [(low, high) for high, low in pairs]

    def mean_point(self, label: str) -> XY:
        """(LRL, HRL) BLEU, mean over seeds."""
        points = self.points(label)
        return sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points)

    def curve(self, label: str) -> tuple[Sequence[int], Mapping[str, Sequence[float]]]:
        """Steps, and the probability of each pair at each of them (first seed)."""
        system = self._system(label)
        return system["steps"], system["p"]

    def cost(self, label: str) -> float:
        """Compute of the method that this system belongs to, auxiliary runs included; the first method's is 1."""
        return sum(self.compute[self._system(label)["method"]].values())

    def difference(self, label: str, of: str) -> tuple[float, str]:
        """BLEU minus the baseline's over "mean" (all pairs), "HRL" or "LRL", and its mark; (0, "") for the baseline."""
        delta, mark = self._system(label)["differences"].get(of, (0.0, ""))
        return float(delta), str(mark)

    def undominated(self) -> list[str]:
        """Systems that no other beats for small and large pairs both, by their means over seeds."""
        labels = list(self.systems)
        return [labels[i] for i in pareto_front([self.mean_point(label) for label in labels])]

    def moving(self) -> list[str]:
        """Systems whose sampler is something other than a fixed temperature."""
        return [label for label, system in self.systems.items()
                if "unimax" in label or any(len(set(values)) > 1 for values in system["p"].values())]  # fmt: skip

    def _system(self, label: str) -> Mapping[str, Any]:
        if label not in self.systems:
            raise UserError(f"No system is called {label!r}. There are {', '.join(self.systems)}.")
        return self.systems[label]

    # ---- tables and words

    def table(self, labels: Sequence[str] | None = None) -> Table:
        """BLEU with its spread over seeds, what differs from the baseline beyond chance, dev loss, compute."""
        rows: list[list[Cell]] = []
        for label in self.systems if labels is None else labels:
            points, losses = self.points(label), self.points(label, "dev_loss")
            means = [sum(values.values()) / len(values) for values in self._system(label)["bleu"]]
            cells: list[Cell] = [label]
            for of, values in (("mean", means), ("HRL", [p[1] for p in points]), ("LRL", [p[0] for p in points])):
                delta, mark = self.difference(label, of)
                cells += [mean_spread(values), "" if label == BASELINE else f"{delta:+.1f}\u00a0{mark}".strip()]
            cells += [f"{sum(loss[axis] for loss in losses) / len(losses):.2f}" for axis in (1, 0)]
            rows.append([*cells, f"{self.cost(label):.2f}"])
        columns = ["system", "BLEU", "diff", "HRL", "diff ", "LRL", "diff  ", "HRL loss", "LRL loss", "compute"]
        best: dict[str, Best] = {"BLEU": "max", "HRL": "max", "LRL": "max"}
        caption = (
            f"{self.corpus}, seeds {', '.join(map(str, self.seeds))}: test BLEU, mean ± standard deviation. diff: from "
            f"{BASELINE}, with ▲ or ▼ where p < {CHANCE:g}. Losses: dev, nats per token. compute: in multiples of the "
            f"first method's; counted: {self.counted}{self.caution}"
        )
        return Table(columns, rows, best=best, digits=1, caption=caption)

    def reading(self) -> str:
        """Which differences from the baseline are marked, how many marks chance would give, who is undominated."""
        others = [label for label in self.systems if label != BASELINE]
        lines, found = [], 0
        for of, words in _OF.items():
            lines.append(f"{words}, against {BASELINE}:")
            for mark, verdict in (("▲", "better"), ("▼", "worse"), ("", "neither")):
                names = [(label, d) for label in others for d, m in [self.difference(label, of)] if m == mark]
                found += len(names) if mark else 0
                listed = ", ".join(f"{label} {d:+.1f}" for label, d in sorted(names, key=lambda pair: -pair[1]))
                lines += _wrapped(f"  {verdict} ({len(names)}): {listed or 'none'}")
        tests = len(others) * len(_OF)
        lines += _wrapped(f"{found} of {tests} differences are marked; about {CHANCE * tests:.0f} would be if no "
                          "method did anything at all.")  # fmt: skip
        front = ", ".join(f"{label} (compute {self.cost(label):.2f})" for label in self.undominated())
        return "\n".join([*lines, *_wrapped(f"Not dominated by any other mean: {front}.")])

    def equal_compute(self, references: Sequence[str]) -> Table:
        """Updates that each method could make for the compute of each reference method (auxiliary runs count)."""
        made = int(self.overrides["steps"])
        totals = {method: sum(by.values()) for method, by in self.compute.items()}
        if unknown := [name for name in references if name not in totals]:
            raise UserError(f"No method is called {', '.join(unknown)}. There are {', '.join(totals)}.")
        rows: list[list[Cell]] = [
            [method, f"{total:.2f}", *(max(1, round(made * totals[name] / total)) for name in references)]
            for method, total in totals.items()
        ]
        columns = ["method", "compute", *(f"updates for what {name} costs" for name in references)]
        caption = f"All made {made:,} updates of each student here. Compute: {self.counted}{self.caution}"
        return Table(columns, rows, best=None, caption=caption)

    # ---- figures

    def frontier(self, highlight: Sequence[str] = (), labels: Sequence[str] | None = None) -> LessonFigure:
        """Every system, or those named, on the plane of small- and large-pair BLEU; `highlight`: filled marks."""
        chosen = list(self.systems if labels is None else labels)
        text = "; ".join(f"{n} LRL {x:.1f} HRL {y:.1f}" for n in chosen for x, y in [self.mean_point(n)])
        alt = f"Test BLEU of small and large pairs, mean over {len(self.seeds)} seeds. {text}"
        baseline = BASELINE if BASELINE in chosen else None
        return frontier_many({n: self.points(n) for n in chosen}, alt=alt, baseline=baseline, highlight=highlight)

    def probabilities(self, labels: Sequence[str] | None = None) -> LessonFigure:
        """Sampling probabilities over training, first seed; by default of all samplers but fixed temperatures."""
        curves = {label: self.curve(label) for label in (self.moving() if labels is None else labels)}
        ends = "; ".join(f"{name}: " + ", ".join(f"{pair} {v[-1]:.2f}" for pair, v in p.items())
                         for name, (_, p) in curves.items())  # fmt: skip
        return probability_panels(curves, alt=f"Probability of each pair over training. At the end {ends}")

    def costs(self, methods: Sequence[str] | None = None) -> LessonFigure:
        """Compute of each method by purpose."""
        chosen = {method: self.compute[method] for method in (methods or self.compute)}
        text = "; ".join(f"{method} {sum(by.values()):.2f}" for method, by in chosen.items())
        return cost_bars(chosen, alt=f"Compute in units of {next(iter(chosen))}: {text}")

    def card(self, label: str) -> LessonFigure:
        """One system: its probabilities over training, and where it stands among all others."""
        steps, p = self.curve(label)
        x, y = self.mean_point(label)
        ends = ", ".join(f"{pair} {values[-1]:.2f}" for pair, values in p.items())
        (dx, mark_x), (dy, mark_y) = self.difference(label, "LRL"), self.difference(label, "HRL")
        gains = f"against {BASELINE} LRL {dx:+.1f}{mark_x}, HRL {dy:+.1f}{mark_y}; compute {self.cost(label):.2f}"
        alt = f"{label}: at the end it draws {ends}. BLEU LRL {x:.1f}, HRL {y:.1f}; {gains}"
        points = {name: self.mean_point(name) for name in self.systems}
        return curve_and_point(steps, p, points, label, gains, alt=alt)


def _wrapped(text: str) -> list[str]:
    """Lines that fit a notebook, those after the first indented."""
    return textwrap.wrap(text, 105, subsequent_indent="      ", break_on_hyphens=False, drop_whitespace=True)
