"""The figures of lesson 01: how large the corpora are, and what padding costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import ipywidgets as ipw

from pmd_kit.widgets import chooser, redrawn
from pmd_lite.errors import UserError
from pmd_lite.figures.style import (
    COLOURS,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    settled,
)

Scale = Literal["linear", "log"]
_PALE = "#dddddd"


def corpus_sizes(sizes: Mapping[str, int], *, scale: Scale = "linear", alt: str) -> LessonFigure:
    """Training sentences of each language pair as bars, largest first, with the number written above each.

    sizes: {pair: sentences}. scale: "linear", or "log", where a bar starts at one sentence and a factor of ten is the
    same height everywhere.
    """
    if not sizes or min(sizes.values()) < 1:
        raise UserError("Give {pair: sentences} with at least one pair, and at least one sentence in each.")
    if scale not in ("linear", "log"):
        raise UserError(f"There is no scale {scale!r}; choose linear or log.")
    ordered = dict(sorted(sizes.items(), key=lambda item: -item[1]))
    fig, (ax,) = new_figure(alt)
    ax.bar(range(len(ordered)), list(ordered.values()), 0.62, color=COLOURS[0])
    largest = next(iter(ordered.values()))
    if scale == "log":
        ax.set_yscale("log")
        ax.set_ylim(1, largest * 4)
    else:
        ax.set_ylim(0, largest * 1.1)
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    for x, n in enumerate(ordered.values()):
        ax.annotate(f"{n:,}", (x, n), (0, 3), textcoords="offset points", ha="center", fontsize=SMALL_TEXT_SIZE)
    ax.set_xticks(range(len(ordered)), list(ordered))
    ax.grid(False, axis="x")
    name_axes(ax, "language pair", f"training sentences ({scale} scale)")
    return settled(fig)


def padding(batchings: Mapping[str, Sequence[Sequence[int]]], *, alt: str) -> LessonFigure:
    """Batches as blocks, one panel per way to cut them: a row per sentence, its tokens dark, its padding pale.

    batchings: {title: one list of sentence lengths per batch}. The share of padding is added to each title.
    """
    if not batchings or any(not batches or not all(batches) for batches in batchings.values()):
        raise UserError("Give {title: one list of sentence lengths per batch}, with no batch empty.")
    fig, axes = new_figure(alt, len(batchings), columns=2, height=4.4)
    for ax, (title, batches) in zip(axes, batchings.items(), strict=True):
        row = 0.0
        tokens = positions = 0
        for lengths in batches:
            longest = max(lengths)
            rows = [row + i for i in range(len(lengths))]
            ax.barh(rows, lengths, 0.8, color=COLOURS[0], label="tokens")
            ax.barh(rows, [longest - n for n in lengths], 0.8, left=lengths, color=_PALE, hatch="////",
                    edgecolor="white", linewidth=0, label="padding")  # fmt: skip
            tokens, positions = tokens + sum(lengths), positions + longest * len(lengths)
            row += len(lengths) + 1.5
        ax.invert_yaxis()
        ax.set_yticks([])
        ax.grid(False, axis="y")
        name_axes(ax, title=f"{title}\n{len(batches)} batches, {1 - tokens / positions:.0%} padding")
    fig.supxlabel("position in the sentence", fontsize=TEXT_SIZE)
    fig.supylabel("sentences, batch by batch", fontsize=TEXT_SIZE)
    handles, labels = axes[0].get_legend_handles_labels()
    legend_above(fig, handles[:2], labels[:2])
    return settled(fig)


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
        "Choose a corpus and a scale (Tab; Space or ← →). Which bars can you still see on the linear one?",
        corpus=chooser(options=list(corpora), description="corpus"),
        scale=chooser(options=["linear", "log"], description="scale"),
    )
