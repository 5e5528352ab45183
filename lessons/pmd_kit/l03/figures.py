"""Figures of lesson 03: attention weights head by head, and what sinusoidal positions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from pmd_lite.errors import UserError
from pmd_lite.figures.style import (
    GRAY,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)

CELL, LABELS = 0.27, 1.2  # inches: height of a row of cells; what title and key labels take
_WORTH_A_NUMBER = 0.3


def attention_heads(
    weights: ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    alt: str,
    titles: Sequence[str] = (),
    hidden: ArrayLike | None = None,
) -> LessonFigure:
    """Attention weights [heads, queries, keys], a panel per head: one row per query, the darker the more weight.

    Weights of 0.3 and more are written into their cells. hidden [queries, keys]: True where a mask forbids to look;
    such cells get a cross. titles: of the panels, by default "head 1", "head 2", ...
    """
    values = np.asarray(weights, dtype=float)
    if values.ndim != 3 or values.shape[1:] != (len(queries), len(keys)):
        raise UserError(
            f"Attention weights of shape {list(values.shape)} do not fit {len(queries)} queries and {len(keys)} keys: "
            "give [heads, queries, keys]."
        )
    crossed = None if hidden is None else np.asarray(hidden, dtype=bool)
    heads = len(values)
    fig, axes = new_figure(alt, heads, columns=2, height=CELL * len(queries) + LABELS, share_y=heads > 1)
    for i, ax in enumerate(axes):
        _draw_head(ax, values[i], crossed)
        name_axes(ax, title=titles[i] if titles else f"head {i + 1}")
        ax.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(queries)), queries)
        ax.tick_params(labelsize=SMALL_TEXT_SIZE, length=0, labelleft=i % 2 == 0)
    fig.supxlabel("looks at", fontsize=TEXT_SIZE)
    fig.supylabel("who looks", fontsize=TEXT_SIZE)
    return settled(fig)


def _draw_head(ax: Axes, values: NDArray[Any], crossed: NDArray[Any] | None) -> None:
    ax.grid(False)
    ax.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for q, k in np.argwhere(values >= _WORTH_A_NUMBER):
        colour = "white" if values[q, k] > 0.55 else "black"
        ax.text(k, q, f"{values[q, k]:.1f}".lstrip("0"), ha="center", va="center", color=colour, fontsize=7.5)
    for q, k in [] if crossed is None else np.argwhere(crossed):
        ax.text(k, q, "×", ha="center", va="center", color=GRAY, fontsize=SMALL_TEXT_SIZE)


def position_similarity(table: ArrayLike, places: Sequence[int], *, alt: str) -> LessonFigure:
    """Dot product of some rows of a table of positions [length, d_model] with all its rows, a line for each place."""
    rows = np.asarray(table, dtype=float)
    outside = [place for place in places if not 0 <= place < len(rows)]
    if outside or not places:
        raise UserError(f"places must lie between 0 and {len(rows) - 1}, one at least; {list(places)} given.")
    fig, (ax,) = new_figure(alt, height=3.0)
    for i, place in enumerate(places):
        ax.plot(range(len(rows)), rows @ rows[place], label=f"position {place}", **series_style(i, len(rows)))
    name_axes(ax, "with position", "dot product")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)
