"""Widgets of the lessons. Each redraws a figure of `plots` or `figures`; the lesson shows the same figure first.

A redraw builds a new Figure and puts it as an HTML image with alternative text into one widget: no pyplot, no Output
widget, so a front end that sends messages from another thread cannot tear it. All controls are ordinary ipywidgets,
reached with Tab and moved with the keyboard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as ipw

from pmd_kit import pictures
from pmd_lite.errors import UserError
from pmd_lite.figures.runs import frontier_of
from pmd_lite.figures.style import LessonFigure, figure_html
from pmd_lite.run import Run


def redrawn(draw: Callable[..., LessonFigure], caption: str, **controls: Any) -> ipw.VBox:
    """Controls above a figure that is `draw(**values of the controls)`, drawn again whenever one of them moves.

    Args:
        draw: returns a figure with alternative text; a UserError it raises is shown in its place.
        caption: one sentence that says what to do and what to look for.
        controls: ipywidgets with a `value`, one per argument of `draw`.
    """
    picture = ipw.HTML()

    def redraw(_: object = None) -> None:
        try:
            picture.value = figure_html(draw(**{name: control.value for name, control in controls.items()}))
        except UserError as error:
            picture.value = f"<p>{error}</p>"

    for control in controls.values():
        control.observe(redraw, names="value")
    redraw()
    return ipw.VBox([ipw.HTML(f"<p>{caption}</p>"), *controls.values(), picture])


MOST_BUTTONS = 9


def chooser(
    options: Sequence[Any], value: Any = None, description: str = ""
) -> ipw.ToggleButtons | ipw.SelectionSlider:
    """One of several: buttons (Tab, then Space), or a slider (Tab, then arrow keys left and right) for many options.

    JupyterLab takes the up and down keys for itself and moves to another cell, so that a list cannot be used by
    keyboard. options: texts or (text, value); value: the one to begin with, else the first.
    """
    start = {} if value is None else {"value": value}
    if len(options) > MOST_BUTTONS:
        layout = ipw.Layout(width="34em")
        return ipw.SelectionSlider(
            options=options, description=description, layout=layout, continuous_update=False, **start
        )
    return ipw.ToggleButtons(options=options, description=description, style={"button_width": "auto"}, **start)


def frontier_picker(runs: Sequence[Run]) -> ipw.VBox:
    """Choose whose students stand on the plane of low- and high-resource BLEU."""
    names = [run.method.name for run in runs]

    def draw(**shown: bool) -> LessonFigure:
        chosen = [run for run, on in zip(runs, shown.values(), strict=True) if on]
        if not chosen:
            raise UserError("Tick at least one method.")
        return frontier_of(chosen)

    boxes = {f"run_{i}": ipw.Checkbox(value=True, description=name, indent=False) for i, name in enumerate(names)}
    return redrawn(
        draw, "Tick the methods to compare (Tab moves, Space ticks). Up and to the right is better.", **boxes
    )


def tau_slider(pairs: Sequence[str], sizes: Sequence[int]) -> ipw.VBox:
    """Eq. 2 for one temperature from 1 to 100, on a logarithmic slider, beside tau = 1."""

    def draw(tau: float) -> LessonFigure:
        return pictures.sampling_distribution(
            pairs, sizes, [1, round(tau, 1)], alt=f"Probability of each pair at tau=1 and at tau={tau:.1f}"
        )

    slider = ipw.FloatLogSlider(value=5, base=10, min=0, max=2, step=0.05, description="tau", continuous_update=False)
    return redrawn(draw, "Move tau (Tab, then arrow keys): who gains, who loses?", tau=slider)
