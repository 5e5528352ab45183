"""The widget of lesson 01."""

from __future__ import annotations

from collections.abc import Mapping

import ipywidgets as ipw

from pmd_lite.errors import UserError
from pmd_lite.teaching.figures_01 import Scale, corpus_sizes
from pmd_lite.teaching.style import LessonFigure
from pmd_lite.teaching.widgets import redrawn


def size_scale(corpora: Mapping[str, Mapping[str, int]]) -> ipw.VBox:
    """The sizes of one of several corpora, on a linear or a logarithmic scale. corpora: {name: {pair: sentences}}."""
    if not corpora:
        raise UserError("Give at least one corpus, {name: {pair: sentences}}.")

    def draw(corpus: str, scale: Scale) -> LessonFigure:
        sizes = corpora[corpus]
        listed = ", ".join(f"{pair} {n:,}" for pair, n in sizes.items())
        return corpus_sizes(sizes, scale=scale, alt=f"Training sentences of {corpus}, {scale} scale: {listed}")

    return redrawn(
        draw,
        "Choose a corpus and a scale (Tab moves, arrow keys choose). Which bars can you still see on the linear one?",
        corpus=ipw.Dropdown(options=list(corpora), description="corpus"),
        scale=ipw.RadioButtons(options=["linear", "log"], description="scale"),
    )
