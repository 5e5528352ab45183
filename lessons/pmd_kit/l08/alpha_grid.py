"""A stored measurement: Uni-PMD and Bi-PMD with several values of alpha, pair by pair, beside their twins."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pmd_kit.l08.figures import change_grid, effect_of_alpha
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.config import DistillConfig
from pmd_lite.errors import UserError
from pmd_lite.figures.style import LessonFigure

Measure = Literal["bleu", "dev_loss"]
STRATEGIES = {"uni-pmd": "Uni-PMD", "bi-pmd": "Bi-PMD"}
STUDENTS = {"model_1": "tau=1", "model_2": "tau=5"}
"""The single model that each student begins as: its twin, which is alpha = 0."""


@dataclass(frozen=True)
class AlphaGrid:
    """Scores of the first seed over alpha, and what other seeds say of chance.

    scores: {measure: {(strategy, student): {alpha: {pair: value}}}}, alpha 0 being the twin. spread: {measure:
    {(strategy, student): {alpha: standard deviation over seeds of the mean over pairs}}}, where seeds are several.
    """

    pairs: Sequence[str]
    seeds: Sequence[int]
    commands: Sequence[str]
    scores: Mapping[Measure, Mapping[tuple[str, str], Mapping[float, Mapping[str, float]]]]
    spread: Mapping[Measure, Mapping[tuple[str, str], Mapping[float, float]]]

    @classmethod
    def load(cls, grid: Path, comparison: Path) -> AlphaGrid:
        """grid: a comparison with rows tau=1, tau=5, "bi-pmd alpha=0.2", "uni-pmd alpha=0.2"; its first seed counts.
        comparison: the twins and the default alpha over several seeds, for the spread.

        Raises UserError if a file is absent, is not a summary or lacks the rows, or if the two do not belong together.
        """
        few, many = Comparison.load(grid), Comparison.load(comparison)
        if few.sizes != many.sizes or few.overrides != many.overrides:
            raise UserError(f"{grid} and {comparison} were measured on different data or with different settings.")
        measures: tuple[Measure, ...] = ("bleu", "dev_loss")
        scores: dict[Measure, dict[tuple[str, str], dict[float, Mapping[str, float]]]] = {m: {} for m in measures}
        spread: dict[Measure, dict[tuple[str, str], dict[float, float]]] = {m: {} for m in measures}
        for strategy, (student, twin) in itertools.product(STRATEGIES, STUDENTS.items()):
            rows = {alpha: label for label in few.systems if (alpha := _alpha_of(label, strategy, student)) is not None}
            if twin not in few.systems or not rows:
                raise UserError(f"{grid} has no {twin}, or no row of {strategy} with an alpha of its own.")
            default = f"{strategy} {student} ({twin})"
            for of in measures:
                found = {0.0: twin, **dict(sorted(rows.items()))}
                scores[of][strategy, student] = {alpha: few.systems[label][of][0] for alpha, label in found.items()}
                several = {0.0: many.systems[twin][of], DistillConfig().alpha: many.systems[default][of]}
                spread[of][strategy, student] = {
                    alpha: statistics.stdev(_mean(values) for values in seeds) for alpha, seeds in several.items()
                }
        return cls(list(few.sizes), many.seeds, (few.command, many.command), scores, spread)

    def alphas(self, strategy: str) -> list[float]:
        """Every alpha that was trained, 0 (the twin) left out."""
        return [alpha for alpha in self.scores["bleu"][strategy, "model_1"] if alpha > 0]

    def better(self, strategy: str, student: str, of: Measure) -> list[list[float]]:
        """[pair, alpha]: by how much a student beats its twin: more BLEU, or less dev loss (nats per token)."""
        found, sign = self.scores[of][strategy, student], 1 if of == "bleu" else -1
        return [[sign * (found[alpha][pair] - found[0.0][pair]) for alpha in self.alphas(strategy)]
                for pair in self.pairs]  # fmt: skip

    def grid(self, strategy: str = "bi-pmd", of: Measure = "dev_loss") -> LessonFigure:
        """Every pair's change over alpha for both students of one strategy."""
        what, most = ("BLEU gained", 8.0) if of == "bleu" else ("nats of dev loss saved", 0.3)
        panels = {f"{STRATEGIES[strategy]} {s}: {what}": self.better(strategy, s, of) for s in STUDENTS}
        alphas = self.alphas(strategy)
        cells = "; ".join(
            f"{title}: " + ", ".join(f"{pair} {' '.join(f'{x:+.2f}' for x in row)}"
                                     for pair, row in zip(self.pairs, table, strict=True))
            for title, table in panels.items()
        )  # fmt: skip
        columns = ", ".join(f"{alpha:g}" for alpha in alphas)
        return change_grid(alphas, self.pairs, panels, most, alt=f"Against the twin, at alpha {columns}. {cells}")

    def effect(self, of: Measure = "bleu") -> LessonFigure:
        """The mean over pairs as a function of alpha, both strategies, both students; bars are seeds."""
        lines: dict[str, dict[str, dict[float, float]]] = {}
        bars: dict[str, dict[str, Mapping[float, float]]] = {}
        for student, twin in STUDENTS.items():
            title = f"{student} ({twin})"
            lines[title], bars[title] = {}, {}
            for strategy, name in STRATEGIES.items():
                found = self.scores[of][strategy, student]
                lines[title][name] = {alpha: _mean(values) for alpha, values in found.items()}
                bars[title][name] = self.spread[of][strategy, student]
        text = "; ".join(
            f"{student} {name} " + ", ".join(f"{alpha:g}: {score:.2f}" for alpha, score in of_alpha.items())
            for student, by in lines.items() for name, of_alpha in by.items()
        )  # fmt: skip
        y_name = "mean BLEU" if of == "bleu" else "mean dev loss (nats)"
        return effect_of_alpha(lines, bars, y_name, alt=f"{y_name} over alpha. {text}")

    def reading(self) -> str:
        """For every strategy and student: the best alpha above 0 by BLEU and by dev loss, beside alpha 0 and chance."""
        lines = []
        for of, unit, sign in (("bleu", "BLEU", 1), ("dev_loss", "loss", -1)):
            for key, found in self.scores[of].items():  # type: ignore[index]
                means = {alpha: _mean(values) for alpha, values in found.items() if alpha > 0}
                best = max(means, key=lambda alpha, means=means: sign * means[alpha])  # type: ignore[misc]
                chance = max(self.spread[of][key].values(), default=0.0)  # type: ignore[index]
                width = max(means.values()) - min(means.values())
                lines.append(
                    f"{STRATEGIES[key[0]]} {key[1]}  best {unit:4s} at alpha {best:g}: {means[best]:5.2f}, "
                    f"alone {_mean(found[0]):5.2f}; all alphas above 0 lie within {width:5.2f}, "
                    f"seeds spread by {chance:.2f}"
                )
        return "\n".join(lines)


def _alpha_of(label: str, strategy: str, student: str) -> float | None:
    """The alpha of a row such as "bi-pmd alpha=0.2: model_1 (tau=1)"; None if it is of another strategy or student."""
    found = re.fullmatch(rf"{strategy} alpha=([\d.]+): {student} .*", label)
    return float(found[1]) if found else None


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)
