"""Figures of lesson 05: the hypotheses of a beam as a tree, and what BLEU finds in one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import font_manager
from matplotlib.axes import Axes

from pmd_lite.errors import UserError
from pmd_lite.figures.style import COLOURS, GRAY, SMALL_TEXT_SIZE, TEXT_SIZE, WIDTH, LessonFigure, new_figure, settled

ROW, MARGIN = 0.46, 0.75  # inches
ORDERS = 4


@dataclass(frozen=True)
class Branch:
    """A hypothesis to draw: its words (the last one ends it), the log-probability of each, and its score."""

    tokens: Sequence[str]
    logps: Sequence[float]
    score: float


def beam_tree(branches: Sequence[Branch], *, alt: str) -> LessonFigure:
    """Hypotheses, best first, as a tree: what two have in common at the beginning is drawn once.

    Under each word stands its probability, at the end of a row log p and the score; the best row is bold.
    """
    if not branches or any(len(b.tokens) != len(b.logps) or not b.tokens for b in branches):
        raise UserError("A beam is drawn from one hypothesis at least, each with as many log-probabilities as tokens.")
    fig, (ax,) = new_figure(alt, height=ROW * len(branches) + MARGIN)
    rows = _neighbours(branches)
    longest = max(len(b.tokens) for b in branches)
    best = max(range(len(rows)), key=lambda i: rows[i].score)
    side = 0.3 + 0.1 * longest  # width of a column of numbers on the right, in tokens
    size = _fitting([token for b in rows for token in b.tokens], longest + 2.2 * side)
    for y, branch in enumerate(rows):
        start, above = _splits_off(rows, y)
        if start:
            ax.plot([start - 0.5, start - 0.5, start - 0.4], [above + 0.25, y, y], color=GRAY, linewidth=0.8)
        weight = "bold" if y == best else "normal"
        for x in range(start, len(branch.tokens)):
            word, probability = drawable(branch.tokens[x]), f"{math.exp(branch.logps[x]):.2f}".lstrip("0")
            ax.text(x, y - 0.06, word, ha="center", va="bottom", fontsize=size, fontweight=weight)
            ax.text(x, y + 0.06, probability, ha="center", va="top", fontsize=7.5, color=GRAY)
        for column, value in enumerate((f"{math.fsum(branch.logps):.2f}", f"{branch.score:.3f}")):
            right = longest + (0.4 + column) * side
            ax.text(right, y, value, ha="center", va="center", fontsize=SMALL_TEXT_SIZE, fontweight=weight)
    for column, name in enumerate(("log p", "score")):
        ax.text(
            longest + (0.4 + column) * side, -0.85, name, ha="center", va="center", fontsize=TEXT_SIZE, color=COLOURS[0]
        )
    ax.set_xlim(-0.6, longest + 2 * side)
    ax.set_ylim(len(rows) - 0.4, -1.2)
    ax.set_axis_off()
    return settled(fig)


def _neighbours(branches: Sequence[Branch]) -> list[Branch]:
    """The same branches in an order that keeps common beginnings together, and the better of two kin first."""
    rank: dict[tuple[str, ...], int] = {}
    for place, branch in enumerate(branches):
        for n in range(1, len(branch.tokens) + 1):
            rank.setdefault(tuple(branch.tokens[:n]), place)
    return sorted(branches, key=lambda b: [rank[tuple(b.tokens[:n])] for n in range(1, len(b.tokens) + 1)])


def _splits_off(rows: Sequence[Branch], y: int) -> tuple[int, int]:
    """(first token that row y does not share with the row it splits off from, that row); (0, 0) for a new root."""
    start, above = 0, 0
    for i in range(y):
        common = 0
        for a, b in zip(rows[i].tokens, rows[y].tokens, strict=False):
            if a != b:
                break
            common += 1
        if common > start:  # the first such row: there these tokens are written
            start, above = common, i
    return start, above


def bleu_inspector(hyp: Sequence[str], ref: Sequence[str], *, alt: str = "") -> LessonFigure:
    """What BLEU finds in one sentence: for n = 1 to 4, which n-grams of the hypothesis count, and the precision.

    Bars over the tokens of the hypothesis are the n-grams that match; one that the reference has less often is counted
    so often only. Alternative text is made from the counts unless given.
    """
    if not hyp or not ref:
        raise UserError("Write at least one word: the hypothesis and the reference must not be empty.")
    found = [matches(hyp, ref, n) for n in range(1, ORDERS + 1)]
    totals = [max(0, len(hyp) - n + 1) for n in range(1, ORDERS + 1)]
    counted = ", ".join(f"{len(f)}/{t} {n}-grams" for n, (f, t) in enumerate(zip(found, totals, strict=True), start=1))
    brevity = min(1.0, math.exp(1 - len(ref) / len(hyp)))
    words = f"Hypothesis: {' '.join(hyp)}. Reference: {' '.join(ref)}. Matching: {counted}. Brevity {brevity:.2f}."
    fig, (ax,) = new_figure(alt or words, height=2.6)
    width = max(len(hyp), len(ref))
    size = _fitting([*hyp, *ref], width + 2.9)
    _row(ax, -0.1, ref, "reference", size, "normal")
    _row(ax, 0.9, hyp, "hypothesis", size, "bold")
    for n, (starts, total) in enumerate(zip(found, totals, strict=True), start=1):
        level = 1.4 + 0.62 * n
        for i, start in enumerate(starts):
            y = level + (0.13 * (i % n) if n > 1 else 0)  # n-grams that overlap lie on different levels
            ends = [start - 0.38, start + n - 1 + 0.38]
            ax.plot(ends, [y, y], color=COLOURS[n - 1], linewidth=3, solid_capstyle="butt")
        ax.text(-0.7, level, f"{n}-grams", ha="right", va="center", fontsize=SMALL_TEXT_SIZE)
        share = f"{len(starts)} / {total}" if total else "none"
        ax.text(width - 0.3, level, share, ha="left", va="center", fontsize=SMALL_TEXT_SIZE)
    ax.text(width - 0.3, 0.9, f"brevity {brevity:.2f}", ha="left", va="center", fontsize=SMALL_TEXT_SIZE)
    ax.set_xlim(-2.0, width + 0.9)
    ax.set_ylim(4.6, -0.6)
    ax.set_axis_off()
    return settled(fig)


def matches(hyp: Sequence[str], ref: Sequence[str], n: int) -> list[int]:
    """Where in the hypothesis the n-grams begin that count: of equal ones the first, as often as the reference has."""
    left = Counter(tuple(ref[i : i + n]) for i in range(len(ref) - n + 1))
    starts = []
    for i in range(len(hyp) - n + 1):
        gram = tuple(hyp[i : i + n])
        if left[gram] > 0:
            left[gram] -= 1
            starts.append(i)
    return starts


def _row(ax: Axes, y: float, tokens: Sequence[str], name: str, size: float, weight: str) -> None:
    ax.text(-0.7, y, name, ha="right", va="center", fontsize=SMALL_TEXT_SIZE)
    for x, token in enumerate(tokens):
        ax.text(x, y, drawable(token), ha="center", va="center", fontsize=size, fontweight=weight)


def _fitting(tokens: Sequence[str], places: float) -> float:
    """The text size at which the longest token fits into one of so many places side by side."""
    inches = WIDTH / places
    return min(SMALL_TEXT_SIZE, max(5.5, 72 * inches / (0.68 * max(len(token) for token in tokens))))


def drawable(text: str) -> str:
    """Text with a box in place of each character that the font of the figures lacks (Chinese, for instance)."""
    known = font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap()
    return "".join(c if ord(c) in known else "\u25a1" for c in text).replace("$", r"\$")
