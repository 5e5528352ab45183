"""The widget of lesson 04: the learning rate for any peak and any warm-up."""

from __future__ import annotations

import ipywidgets as ipw

from pmd_lite.teaching.figures_04 import learning_rates
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn
from pmd_lite.training.learner import learning_rate


def rate_figure(peak: float, warmup: int, updates: int = 2000) -> LessonFigure:
    """The learning rate of a run, beside that of the toy preset."""
    steps = range(1, updates + 1, max(1, updates // 400))
    rates = {f"peak {peak:g}, warm-up {warmup}": [learning_rate(t, peak, warmup) for t in steps]}
    if (peak, warmup) != (0.004, 150):
        rates["preset toy: peak 0.004, warm-up 150"] = [learning_rate(t, 0.004, 150) for t in steps]
    first, last = (learning_rate(t, peak, warmup) for t in (1, updates))
    alt = (f"Learning rate over {updates} updates: {first:.2g} at the first, {peak:.2g} at update {warmup}, "
           f"{last:.2g} at the last")  # fmt: skip
    return learning_rates(steps, rates, alt=alt)


def rate_sliders() -> ipw.VBox:
    """Move the peak and the end of the warm-up."""
    return redrawn(
        rate_figure,
        "Move peak and warm-up (Tab, then arrow keys). With which peak does a warm-up of 1 end where the toy preset "
        "ends?",
        peak=ipw.FloatLogSlider(value=0.004, base=10, min=-3.5, max=-1, step=0.05, description="peak",
                                readout_format=".4f", continuous_update=False),
        warmup=ipw.IntSlider(value=150, min=1, max=1000, description="warm-up", continuous_update=False),
    )  # fmt: skip
