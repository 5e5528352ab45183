"""The widget of lesson 15: the weights of any pairs of a run."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as ipw

from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.teaching.figures_15 import weights_of
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn


def pair_picker(run: Run, shown: Sequence[str]) -> ipw.VBox:
    """Choose whose weights are drawn; `shown` are chosen at first."""

    def draw(**chosen: bool) -> LessonFigure:
        pairs = [pair for pair, on in zip(run.pairs, chosen.values(), strict=True) if on]
        if not pairs:
            raise UserError("Tick at least one pair.")
        return weights_of(run, pairs)

    boxes = {f"pair_{i}": ipw.Checkbox(value=pair in shown, description=pair, indent=False)
             for i, pair in enumerate(run.pairs)}  # fmt: skip
    return redrawn(draw, "Tick the pairs (Tab moves, Space ticks). Which student turns up which?", **boxes)
