"""The figures of lesson 15: who computes which part of an update, and two weights over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets as ipw
from matplotlib.patches import Patch, Rectangle

from pmd_kit.widgets import redrawn
from pmd_lite.disk import read_json
from pmd_lite.errors import UserError
from pmd_lite.figures import plots
from pmd_lite.figures.style import (
    COLOURS,
    HATCHES,
    SMALL_TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    settled,
)
from pmd_lite.run import Run


def shared_update(draws: Sequence[str], ranks: Sequence[int], *, alt: str) -> LessonFigure:
    """The micro-batches of one update, each of one pair, on one GPU after another: a panel per number of GPUs.

    draws: the pair of each micro-batch. ranks: numbers of GPUs; micro-batch m goes to GPU m modulo their number.
    """
    if not draws or not ranks or min(ranks) < 1:
        raise UserError("Give the pairs of the micro-batches, and numbers of GPUs of at least 1.")
    pairs = list(dict.fromkeys(draws))
    fig, axes = new_figure(alt, len(ranks), columns=len(ranks), height=2.9)
    for ax, count in zip(axes, ranks, strict=True):
        for micro, pair in enumerate(draws):
            corner = (micro // count + 0.06, micro % count + 0.06)
            ax.add_patch(Rectangle(corner, 0.88, 0.88, **_look(pairs.index(pair))))
        length = -(-len(draws) // count)
        ax.set_xlim(0, max(-(-len(draws) // n) for n in ranks))
        ax.set_ylim(max(ranks), 0)
        ax.set_yticks([i + 0.5 for i in range(count)], [f"GPU {i}" for i in range(count)], fontsize=SMALL_TEXT_SIZE)
        ax.set_xticks([length])
        ax.grid(False)
        name_axes(ax, "time, in micro-batches", title=f"{count} GPU{'s' * (count > 1)}")
    legend_above(fig, [Patch(**_look(i)) for i in range(len(pairs))], pairs)
    return settled(fig)


def _look(i: int) -> dict[str, Any]:
    return {"facecolor": COLOURS[i % len(COLOURS)], "hatch": HATCHES[i % len(HATCHES)], "edgecolor": "white"}


@dataclass(frozen=True)
class StoredWeights:
    """steps; curves: {student: {pair: weight at each step}}, as the record of a study holds them."""

    steps: Sequence[int]
    curves: Mapping[str, Mapping[str, Sequence[float]]]

    def figure(self, pairs: Sequence[str]) -> LessonFigure:
        """The weights of some pairs, a panel per student."""
        return _weights(self.steps, {label: {pair: of[pair] for pair in pairs} for label, of in self.curves.items()})

    def reading(self, small: str, large: str) -> str:
        """Where both weights end, and which is higher, student by student."""
        ends = {label: (of[small][-1], of[large][-1]) for label, of in self.curves.items()}
        return "\n".join(
            f"{label} ends with {small} {a:.2f}, {large} {b:.2f}: the small pair is {'' if a > b else 'not '}higher"
            for label, (a, b) in ends.items()
        )


def stored_weights(file: Path) -> StoredWeights:
    """The weights in a record of `benchmarks.study`. Raises UserError when the file is absent or no such record."""
    record = read_json(file, {"corpus": {"pairs": [str]}, "students": list})
    pairs, students = record["corpus"]["pairs"], record["students"]
    curves = {one["label"]: {pair: [alpha[i] for alpha in one["alpha"]] for i, pair in enumerate(pairs)}
              for one in students}  # fmt: skip
    return StoredWeights(students[0]["steps"], curves)


def weights_of(run: Run, pairs: Sequence[str]) -> LessonFigure:
    """Distillation weights of some pairs over time, a panel per student. Raises UserError for an unknown pair."""
    unknown = [pair for pair in pairs if pair not in run.pairs]
    if unknown or not pairs:
        raise UserError(f"Choose among {', '.join(run.pairs)}; {', '.join(unknown) or 'nothing'} was chosen.")
    steps, _ = run.curve("alpha")
    curves = {}
    for student, label in enumerate(run.labels):
        found = run.curve("alpha", student)[1]
        curves[label] = {pair: found[pair] for pair in pairs}
    return _weights(steps, curves)


def _weights(steps: Sequence[int], curves: Mapping[str, Mapping[str, Sequence[float]]]) -> LessonFigure:
    last = [f"{label} " + ", ".join(f"{p} {a[-1]:.2f}" for p, a in of.items()) for label, of in curves.items()]
    alt = f"Distillation weights over {steps[-1]} updates. At the end: {'; '.join(last)}"
    return plots.alpha_over_time(steps, curves, alt=alt)


def pair_picker(run: Run, shown: Sequence[str]) -> ipw.VBox:
    """Choose whose weights are drawn; `shown` are chosen at first."""

    def draw(**chosen: bool) -> LessonFigure:
        pairs = [pair for pair, on in zip(run.pairs, chosen.values(), strict=True) if on]
        if not pairs:
            raise UserError("Tick at least one pair.")
        return weights_of(run, pairs)

    boxes = {f"pair_{i}": ipw.Checkbox(value=pair in shown, description=pair, indent=False)
             for i, pair in enumerate(run.pairs)}  # fmt: skip
    return redrawn(draw, "Tick the pairs (Tab moves, Space ticks). Which student raises which weight?", **boxes)
