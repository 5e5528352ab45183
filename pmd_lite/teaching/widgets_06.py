"""The slider of lesson 06: one temperature after the other. (The frontier explorer is in `explorer`.)"""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as ipw

from pmd_lite.run import Run
from pmd_lite.teaching.contenders import mean
from pmd_lite.teaching.figures_06 import sweep_point
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn


def sweep_figure(sweep: Sequence[Sequence[Run]], chosen: str) -> LessonFigure:
    """One temperature of a sweep. sweep: the runs of one temperature after the other, all seeds of each."""
    points = {runs[0].labels[0]: mean([run.point() for run in runs]) for runs in sweep}
    p = {runs[0].labels[0]: [curve[-1] for curve in runs[0].curve("p")[1].values()] for runs in sweep}
    x, y = points[chosen]
    drawn = ", ".join(f"{pair} {share:.2f}" for pair, share in zip(sweep[0][0].pairs, p[chosen], strict=True))
    alt = f"{chosen} draws {drawn}. Mean BLEU of small pairs {x:.1f}, of large pairs {y:.1f}"
    return sweep_point(sweep[0][0].pairs, p, points, chosen, alt=alt)


def tau_points(sweep: Sequence[Sequence[Run]]) -> ipw.VBox:
    """Walk along a sweep of temperatures."""
    names = [runs[0].labels[0] for runs in sweep]
    return redrawn(
        lambda chosen: sweep_figure(sweep, chosen),
        "Walk from tau=1 to tau=inf (Tab, then arrow keys). Where does a step cost most, and where does it buy most?",
        chosen=ipw.SelectionSlider(options=names, value=names[0], description="tau", continuous_update=False),
    )
