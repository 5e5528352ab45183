"""What results say, in words and tables made from the numbers themselves: no sentence here is fixed in advance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmd_kit.l06.checks import finding
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import hypervolume, mean_by_group
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures import plots
from pmd_lite.figures.style import LessonFigure
from pmd_lite.run import Run
from pmd_lite.training.rundir import FORMAT

PLAIN, FLAT = "tau=1", "tau=5"
MODEL_1, MODEL_2 = "auto-pmd model_1 (tau=1)", "auto-pmd model_2 (tau=5)"
TWINS = ((PLAIN, MODEL_1), (FLAT, MODEL_2))


def gains(one: Run, five: Run, auto: Run) -> str:
    """How far each student of a mutual run moved from the single model it began as, and whether the frontier moved."""
    lines = []
    for single, student in ((one, 0), (five, 1)):
        (low, high), (new_low, new_high) = single.point(), auto.point(student)
        before, after = single.best_dev_loss(), auto.best_dev_loss(student)
        lower = [pair for pair in before if after[pair] < before[pair]]
        names = ", ".join(lower) or "none"
        lines.append(
            f"{single.labels[0]} -> {auto.labels[student]}:\n"
            f"    HRL {new_high - high:+.1f}, LRL {new_low - low:+.1f} BLEU; "
            f"dev loss lower on {len(lower)} of {len(before)} pairs ({names})."
        )
    area = hypervolume([one.point(), five.point()], (0, 0))
    new_area = hypervolume([auto.point(0), auto.point(1)], (0, 0))
    change = f" ({100 * (new_area / area - 1):+.1f} %)" if area else ""
    lines.append(f"Area under the frontier: {area:.0f} for the single models, {new_area:.0f} for the students{change}.")
    return "\n".join(lines)


PerSeed = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]


@dataclass(frozen=True)
class Regimes:
    """Scores of several worlds, methods and seeds, as benchmarks/toy_regimes.py stores them.

    bleu, dev_loss: {world: {label: [{pair: value} per seed]}}; groups: {world: (HRL pairs, LRL pairs)}.
    """

    bleu: PerSeed
    dev_loss: PerSeed
    groups: Mapping[str, Sequence[Sequence[str]]]
    command: str

    @classmethod
    def load(cls, path: Path) -> Regimes:
        """Raises UserError when the file is absent or not of this form."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if data.get("format") != FORMAT:
                raise ValueError("another version made it, whose numbers mean something else")
            return cls(data["bleu"], data["dev_loss"], data["groups"], data["command"])
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{path}: no stored results ({error}); make them with python -m benchmarks.toy_regimes"
            ) from None

    def points(self, world: str, label: str, of: str = "bleu") -> list[tuple[float, float]]:
        """(LRL, HRL) of every seed: mean "bleu" or mean "dev_loss"."""
        found = []
        for values in getattr(self, of)[world][label]:
            high, low = mean_by_group(values, self.groups[world])
            found.append((low, high))
        return found

    def table(self) -> Table:
        """Mean and standard deviation over seeds of BLEU and dev loss, over high- and low-resource pairs."""
        rows: list[list[Cell]] = []
        for world, by_label in self.bleu.items():
            for label in by_label:
                bleu, loss = self.points(world, label), self.points(world, label, "dev_loss")
                cells = [mean_spread([p[axis] for p in values]) for values in (bleu, loss) for axis in (1, 0)]
                rows.append([world, label, *cells])
        seeds = ", ".join(f"{world} {len(next(iter(by_label.values())))}" for world, by_label in self.bleu.items())
        columns = ["world", "model", "HRL BLEU", "LRL BLEU", "HRL loss", "LRL loss"]
        caption = f"Test BLEU, dev loss in nats per token; mean and standard deviation over seeds ({seeds})"
        return Table(columns, rows, digits=2, caption=caption)

    def figure(self, world: str = "longtail") -> LessonFigure:
        """The frontier of one world, with a cloud of seeds behind each mean."""
        clouds = {label: self.points(world, label) for label in self.bleu[world]}
        means = {label: _mean(cloud) for label, cloud in clouds.items()}
        text = "; ".join(f"{label} LRL {x:.1f} HRL {y:.1f}" for label, (x, y) in means.items())
        return plots.frontier(
            means, alt=f"World {world}, mean over seeds: {text}", baselines=[PLAIN, FLAT], ours=[MODEL_1, MODEL_2],
            arrows=TWINS, seeds=clouds,
        )  # fmt: skip

    def reading(self) -> str:
        """For every world and student: by how much it differs from its twin, and whether lesson 06 calls it noise."""
        lines = []
        for world in self.bleu:
            for single, student in TWINS:
                for of, unit in (("bleu", "BLEU"), ("dev_loss", "loss")):
                    twins = list(zip(self.points(world, single, of), self.points(world, student, of), strict=True))
                    for name, axis in (("HRL", 1), ("LRL", 0)):
                        before, after = ([p[axis] for p in seeds] for seeds in zip(*twins, strict=True))
                        deltas = [b - a for a, b in zip(before, after, strict=True)]
                        verdict = finding(before, after, smaller_is_better=of == "dev_loss")
                        each = ", ".join(f"{d:+.2f}" for d in deltas)
                        who = f"{world:9s} {student.split(' ')[1]} against {single}"
                        lines.append(f"{who}  {name} {unit:4s} {sum(deltas) / len(deltas):+6.2f}  ({each}; {verdict})")
        return "\n".join(lines)


def _mean(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points)
