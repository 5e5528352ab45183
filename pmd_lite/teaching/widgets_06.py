"""The slider of lesson 06: one temperature after the other. (The frontier explorer is in `explorer`.)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ipywidgets as ipw

from pmd_lite.run import Run
from pmd_lite.teaching.contenders import mean
from pmd_lite.teaching.figures_06 import sweep_point
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn


def sweep_figure(sweep: Mapping[str, Sequence[Run]], chosen: str) -> LessonFigure:
    """One temperature of a sweep. sweep: {temperature: its runs, one per seed}, in the order of the temperatures."""
    points = {name: mean([run.point() for run in runs]) for name, runs in sweep.items()}
    p = {name: [curve[-1] for curve in runs[0].curve("p")[1].values()] for name, runs in sweep.items()}
    pairs, (x, y) = sweep[chosen][0].pairs, points[chosen]
    drawn = ", ".join(f"{pair} {share:.2f}" for pair, share in zip(pairs, p[chosen], strict=True))
    alt = f"{chosen} draws {drawn}. Mean BLEU of small pairs {x:.1f}, of large pairs {y:.1f}"
    return sweep_point(pairs, p, points, chosen, alt=alt)


def tau_points(sweep: Mapping[str, Sequence[Run]]) -> ipw.VBox:
    """Walk along a sweep of temperatures."""
    names = list(sweep)
    return redrawn(
        lambda chosen: sweep_figure(sweep, chosen),
        "Walk along the temperatures (Tab, then arrow keys). Where does a step cost most, and where does it buy most?",
        chosen=ipw.SelectionSlider(options=names, value=names[0], description="tau", continuous_update=False),
    )
