"""Widget of lesson 03: the viewer of attention weights."""

from __future__ import annotations

from collections.abc import Mapping

import ipywidgets as ipw

from pmd_kit.l03 import figures
from pmd_kit.l03.attention import View
from pmd_kit.widgets import chooser, redrawn
from pmd_lite.figures.style import LessonFigure

ALL = "all heads"


def attention_figure(name: str, view: View, head: str = ALL, mask: bool = True) -> LessonFigure:
    """One attention of a model: all heads or "head 2"; with its mask, or as it would be without."""
    weights = view.weights if mask else view.unmasked
    chosen = list(range(len(weights))) if head == ALL else [int(head.split()[-1]) - 1]
    titles = [f"{name}, head {i + 1}{'' if mask else ', no mask'}" for i in chosen]
    strongest = "; ".join(
        f"{query} looks most at {view.keys[int(row.argmax())]}"
        for query, row in zip(view.queries, weights[chosen[0]], strict=True)
    )
    alt = f"Attention weights of {name}, {head}, {'masked' if mask else 'without mask'}. {titles[0]}: {strongest}"
    return figures.attention_heads(
        weights[chosen], view.queries, view.keys, alt=alt, titles=titles, hidden=view.hidden if mask else None
    )


def attention_viewer(views: Mapping[str, View], start: str | None = None) -> ipw.VBox:
    """Choose an attention of the model and a head, and take the mask away. start: the attention shown first."""
    heads = len(next(iter(views.values())).weights)

    def draw(attention: str, head: str, mask: bool) -> LessonFigure:
        return attention_figure(attention, views[attention], head, mask)

    return redrawn(
        draw,
        "Choose who looks (Tab; Space or ← →). Rows add up to 1; × is what the mask hides. Untick the mask (Space): "
        "who looks at the pads, or ahead?",
        attention=chooser(options=list(views), value=start or next(iter(views)), description="attention"),
        head=chooser(options=[ALL, *(f"head {i + 1}" for i in range(heads))], description="head"),
        mask=ipw.Checkbox(value=True, description="mask", indent=False),
    )
