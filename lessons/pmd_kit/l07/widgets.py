"""The widget of lesson 07: what a student is asked for when a reference and a teacher are mixed."""

from __future__ import annotations

import ipywidgets as ipw
import torch

from pmd_kit.l07.checks import mixed_target
from pmd_kit.l07.figures import target_bars
from pmd_kit.widgets import chooser, redrawn
from pmd_lite.figures.style import LessonFigure

WORDS = ("rug", "mat", "sofa", "floor", "moon", "of")
"""What may follow "the cat sleeps on the"; the reference says rug."""
TEACHERS = {
    "knows the scene": (0.30, 0.35, 0.18, 0.15, 0.01, 0.01),
    "has learnt it by heart": (0.97, 0.01, 0.005, 0.005, 0.005, 0.005),
    "knows nothing yet": (1 / 6,) * 6,
    "is mistaken": (0.04, 0.05, 0.05, 0.05, 0.80, 0.01),
}


def targets(teacher: str, alpha: float, eps: float) -> dict[str, list[float]]:
    """The smoothed reference, the teacher's opinion, and their mixture (Eq. 4), over WORDS."""
    gold, p = torch.tensor([0]), torch.tensor([TEACHERS[teacher]], dtype=torch.float64)
    return {
        "smoothed reference": mixed_target(gold, p, 0.0, eps)[0].tolist(),
        f"teacher ({teacher})": list(TEACHERS[teacher]),
        f"target at alpha={alpha:.2f}": mixed_target(gold, p, alpha, eps)[0].tolist(),
    }


def mixture(teacher: str = "knows the scene", alpha: float = 0.4, eps: float = 0.1) -> LessonFigure:
    """The three distributions of `targets` as bars."""
    found = targets(teacher, alpha, eps)
    mixed = list(found.values())[-1]
    text = ", ".join(f"{word} {p:.2f}" for word, p in zip(WORDS, mixed, strict=True))
    return target_bars(WORDS, found, alt=f"Teacher {teacher}, alpha {alpha:.2f}, smoothing {eps:.2f}; target: {text}")


def target_slider() -> ipw.VBox:
    """Move alpha and the smoothing, choose a teacher, and watch the target."""
    return redrawn(
        mixture,
        "Move alpha and eps (Tab; Space or ← →), choose a teacher. From which alpha on does the target prefer "
        "another word than the reference? With which teachers never?",
        teacher=chooser(options=list(TEACHERS), description="teacher"),
        alpha=ipw.FloatSlider(value=0.4, min=0, max=1, step=0.05, description="alpha", continuous_update=False),
        eps=ipw.FloatSlider(value=0.1, min=0, max=0.5, step=0.05, description="eps", continuous_update=False),
    )
