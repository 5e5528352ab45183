"""The figure of lesson 06: one temperature of a sweep, whom it trains and where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ipywidgets as ipw

from pmd_kit.l06.contenders import mean
from pmd_kit.widgets import redrawn
from pmd_lite.errors import UserError
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    SMALL_TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    settled,
)
from pmd_lite.run import Run


def sweep_point(
    pairs: Sequence[str],
    probabilities: Mapping[str, Sequence[float]],
    points: Mapping[str, XY],
    chosen: str,
    *,
    alt: str,
) -> LessonFigure:
    """Left: how often each pair is drawn at the chosen temperature. Right: where the models of the sweep stand.

    probabilities: {temperature: [pair]}, points: {temperature: (LRL BLEU, HRL BLEU)}, both in the order of the sweep;
    a gray line joins the points in that order.
    """
    if chosen not in points or points.keys() != probabilities.keys():
        raise UserError(f"{chosen} is not in the sweep, or it lacks a point: there are {', '.join(points)}.")
    fig, (left, right) = new_figure(alt, 2, columns=2, height=3.8)
    first = next(iter(probabilities))
    left.bar(range(len(pairs)), probabilities[chosen], color=COLOURS[0], label=chosen)
    left.step([i - 0.5 for i in range(len(pairs) + 1)], [*probabilities[first], probabilities[first][-1]],
              where="post", color=GRAY, linestyle="--", label=first)  # fmt: skip
    left.set_xticks(range(len(pairs)), [pair.split("-")[0] for pair in pairs])
    left.set_ylim(0, 1.05 * max(max(p) for p in probabilities.values()))
    left.grid(False, axis="x")
    name_axes(left, "language", "probability of being drawn")
    right.plot(*zip(*points.values(), strict=True), color=GRAY, marker="o", markersize=5, linewidth=1)
    for name, (x, y) in points.items():
        right.annotate(name, (x, y), (5, 4), textcoords="offset points", fontsize=SMALL_TEXT_SIZE, color=GRAY)
    right.plot(*points[chosen], marker="*", markersize=17, color=COLOURS[1], markeredgecolor="white", gid=chosen)
    right.margins(0.18)
    name_axes(right, "small pairs (mean BLEU)", "large pairs (mean BLEU)")
    legend_above(fig, *left.get_legend_handles_labels())
    return settled(fig)


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
        "Walk along the temperatures (Tab, then arrow keys). Where does a step cost most, and where does it gain most?",
        chosen=ipw.SelectionSlider(options=names, value=names[0], description="tau", continuous_update=False),
    )
