"""The stored study of the two factories: under which conditions two students beat two single networks.

`python -m benchmarks.factories` writes it. Points are (% right in the small factory, % right in the large one).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmd_kit.factories import area
from pmd_lite.disk import read_json
from pmd_lite.evaluation.tables import Cell, Table
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    MARKERS,
    SMALL_TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    settled,
)

STORED = Path("lessons/results/studies/factories/cases.json")
RIVALS: dict[str, tuple[Sequence[float], Mapping[str, float]]] = {
    "two single": ((1, math.inf), {}),
    "two smoothed": ((1, math.inf), {"smoothing": 0.2}),
    "dropout": ((math.inf,), {"dropout": 0.3}),
    "tau=2": ((2,), {}),
}
"""Single networks to compare with: {name: (their samplers, what else differs from the students)}."""
COMPARED = (  # rival, which weights, heading
    ("two single", "kept", "two single"),
    ("two single", "last", "the same, last update"),
    ("ensemble", "kept", "their ensemble"),
    ("two smoothed", "kept", "two smoothed"),
    ("dropout", "kept", "one, dropout"),
    ("tau=2", "kept", "one, tau=2"),
)

Record = Mapping[str, Any]  # of one world, as the command stores it


@dataclass(frozen=True)
class Conditions:
    """cases: {question: {case: {seed: what was found in that world}}}."""

    cases: Mapping[str, Mapping[str, Mapping[str, Record]]]
    command: str

    @classmethod
    def load(cls, path: Path) -> Conditions:
        """Raises UserError when the file is absent or damaged."""
        stored = read_json(path, cure="make it with python -m benchmarks.factories")
        return cls(stored["cases"], stored["command"])

    def rows(self) -> Iterator[tuple[str, str]]:
        """(question, case) in the order of the study."""
        for question, cases in self.cases.items():
            for case in cases:
                yield question, case

    def systems(self, question: str, case: str, system: str, net: str = "kept") -> list[list[list[float]]]:
        """[world][network] [% right large, small; loss large, small].

        A case that shares worlds and single networks with the base case takes them from there. net: "kept" or "last".
        """
        base = next(iter(self.cases["base"].values()))
        found = []
        for seed, record in self.cases[question][case].items():
            found.append((record if system in record else base[seed])[system][net])
        return found

    def gains(self, question: str, case: str, rival: str, net: str = "kept") -> list[float]:
        """By how many % the area under the students' frontier is larger than the rival's, world by world."""
        pairs = zip(
            self.systems(question, case, "students", net), self.systems(question, case, rival, net), strict=True
        )
        return [100 * (_area(ours) / _area(theirs) - 1) for ours, theirs in pairs]

    def wins(self, question: str, case: str, rival: str, net: str = "kept") -> int:
        """In how many worlds the students' area is the larger one."""
        return sum(gain > 0 for gain in self.gains(question, case, rival, net))

    def table(self) -> Table:
        """The area under the students' frontier against each rival's."""
        rows: list[list[Cell]] = []
        for question, case in self.rows():
            gains = [self.gains(question, case, rival, net) for rival, net, _ in COMPARED]
            rows.append([question, case, *(counted(g) for g in gains)])
        caption = "Worlds in which the area under the students' frontier is larger than the rival's (mean change in %)"
        return Table(["what changes", "to", *(name for *_, name in COMPARED)], rows, caption=caption)

    def reasons(self) -> Table:
        """Where the gain over the two single networks lies, and what may cause it."""
        rows: list[list[Cell]] = []
        for question, case in self.rows():
            ours, alone = (self.systems(question, case, name) for name in ("students", "two single"))
            best = [
                counted(
                    [
                        max(n[factory] for n in us) - max(n[factory] for n in them)
                        for us, them in zip(ours, alone, strict=True)
                    ]
                )
                for factory in (0, 1)
            ]
            even = [us[1][0] - them[1][0] for us, them in zip(ours, alone, strict=True)]
            records, base = self.cases[question][case], next(iter(self.cases["base"].values()))
            apart = [(r if "two single" in r else base[s])["apart"]["two single"] for s, r in records.items()]
            heart = [(r if "heart" in r else base[s])["heart"]["last"] for s, r in records.items()]
            rows.append([question, case, *best, counted(even), mean(heart), mean(apart)])
        columns = ["best, large", "best, small", "model_2, large", "by heart", "apart"]
        caption = (
            "Students against the two single networks, in points: the best of the two in each factory, and model_2 in "
            "the large one. By heart: % right of the single tau=inf on its own small training set at the end. Apart: % "
            "of test parts on which the two single networks differ."
        )
        return Table(["what changes", "to", *columns], rows, digits=1, caption=caption)

    def reading(self) -> str:
        """The conditions in words, made from the counts."""
        lines = []
        for rival, net, name in (
            ("two single", "kept", "two single networks"),
            ("two single", "last", "two single networks, all with the weights of the last update"),
            ("two smoothed", "kept", "two single networks with smoothed labels"),
        ):
            by_count: dict[int, list[str]] = {}
            for question, case in self.rows():
                by_count.setdefault(self.wins(question, case, rival, net), []).append(_named(question, case))
            most = max(len(worlds) for cases in self.cases.values() for worlds in cases.values())
            lines.append(f"Two students have the larger area than {name}")
            lines += [f"  in {n} of {most} worlds: {'; '.join(by_count[n])}" for n in sorted(by_count, reverse=True)]
        return "\n".join(lines)

    def figure(self) -> LessonFigure:
        """A line for each case: the gain over the two single networks, plain and smoothed, with every world."""
        cases, drawn = list(self.rows()), (
            ("two single", "kept", "over two single networks"), ("two single", "last", "the same, last update"),
            ("two smoothed", "kept", "over two smoothed ones"),
        )  # fmt: skip
        text = "; ".join(f"{_named(q, c)} {mean(self.gains(q, c, 'two single')):+.0f} %" for q, c in cases)
        fig, (ax,) = new_figure(f"Mean gain in area over two single networks: {text}", height=1.4 + 0.33 * len(cases))
        ax.axvline(0, color=GRAY, linewidth=1)
        for i, (rival, net, name) in enumerate(drawn):
            style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "linestyle": "none"}
            for row, (question, case) in enumerate(cases):
                gains, y = self.gains(question, case, rival, net), row + 0.25 * (i - 1)
                ax.plot(gains, [y] * len(gains), alpha=0.35, markersize=3.5, **style)
                ax.plot([mean(gains)], [y], markersize=7, label=name if row == 0 else None, **style)
        ax.set_yticks(range(len(cases)), [_named(*case) for case in cases], fontsize=SMALL_TEXT_SIZE)
        ax.set_ylim(len(cases) - 0.5, -0.5)
        name_axes(ax, "larger area, in % (large marks: means of the worlds)")
        legend_above(fig, *ax.get_legend_handles_labels())
        return settled(fig)


def _named(question: str, case: str) -> str:
    return "the base case" if question == "base" else f"{question}: {case}"


def _area(networks: Sequence[Sequence[float]]) -> float:
    points: list[XY] = [(small, large) for large, small, *_ in networks]
    return area(points)


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


def counted(differences: Sequence[float]) -> str:
    """How many differences are above 0, and their mean."""
    return f"{sum(d > 0 for d in differences)} of {len(differences)} ({mean(differences):+.1f})"
