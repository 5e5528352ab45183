"""The Transformer as blocks, with the shape of what flows between them (lesson 03)."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from pmd_lite.figures.style import COLOURS, GRAY, SMALL_TEXT_SIZE, TEXT_SIZE, LessonFigure, new_figure, settled

_ENCODER, _DECODER, _WIDE, _TALL = 0.3, 6.6, 3.0, 0.62  # left edges, width and height of blocks
_ROWS = (0.9, 2.3, 3.4, 4.5, 5.8)  # lower edges, from the input upwards
_COLOUR = {
    "embedding + position": COLOURS[6], "self-attention": COLOURS[0], "cross-attention": COLOURS[1],
    "feed-forward": COLOURS[2],
}  # fmt: skip


def architecture(*, alt: str) -> LessonFigure:
    """Encoder on the left, decoder on the right, read from the bottom to the top.

    B: sentences of a batch; S, T: source and target tokens of its longest sentence; d: d_model; V: vocabulary.
    """
    fig, (ax,) = new_figure(alt, height=5.2)
    ax.set_axis_off()
    ax.set_xlim(-0.2, 10.6)
    ax.set_ylim(-0.1, 7.6)
    _layers(ax, _ENCODER, _ROWS[1] - 0.22, _ROWS[2] + _TALL + 0.22, "encoder layer, repeated")
    _layers(ax, _DECODER, _ROWS[1] - 0.22, _ROWS[3] + _TALL + 0.22, "decoder layer, repeated")
    left = ["embedding + position", "self-attention\n(hides pads)", "feed-forward"]
    right = ["embedding + position", "self-attention\n(hides the future)", "cross-attention", "feed-forward"]
    for x, names in ((_ENCODER, left), (_DECODER, right)):
        for i, name in enumerate(names):
            _block(ax, x, _ROWS[i], name, _COLOUR[name.split("\n")[0]])
            if i:
                _up(ax, x + _WIDE / 2, _ROWS[i - 1] + _TALL, _ROWS[i])
    _block(ax, _DECODER, _ROWS[4], "output: the same table", COLOURS[6])
    _up(ax, _DECODER + _WIDE / 2, _ROWS[3] + _TALL, _ROWS[4])
    for x, text in ((_ENCODER, "source ids [B, S]"), (_DECODER, "target ids so far [B, T]")):
        ax.text(x + _WIDE / 2, 0.2, text, ha="center", va="center", fontsize=TEXT_SIZE)
        _up(ax, x + _WIDE / 2, 0.42, _ROWS[0])
    _up(ax, _DECODER + _WIDE / 2, _ROWS[4] + _TALL, 6.95)
    ax.text(_DECODER + _WIDE / 2, 7.2, "logits [B, T, V]", ha="center", va="center", fontsize=TEXT_SIZE)
    _memory(ax)
    return settled(fig)


def _memory(ax: Axes) -> None:
    """The path from the top of the encoder to every cross-attention of the decoder."""
    top, bend, into = _ROWS[2] + _TALL + 0.06, _ROWS[3] + _TALL / 2, _ROWS[2] + _TALL / 2
    middle = _ENCODER + _WIDE / 2
    ax.plot([middle, middle, 5.0, 5.0], [top, bend, bend, into], color="black", linewidth=1.4)
    ax.annotate("", xy=(_DECODER - 0.1, into), xytext=(5.0, into), arrowprops={"arrowstyle": "-|>", "linewidth": 1.4})
    ax.text(middle + 0.15, bend + 0.22, "memory [B, S, d]", fontsize=TEXT_SIZE, va="bottom")
    ax.text(5.1, into - 0.45, "keys and\nvalues", fontsize=SMALL_TEXT_SIZE, va="center")
    for x in (_ENCODER, _DECODER):
        ax.text(x + _WIDE / 2 + 0.12, _ROWS[0] + _TALL + 0.3, "[B, S, d]" if x == _ENCODER else "[B, T, d]",
                fontsize=SMALL_TEXT_SIZE, va="center")  # fmt: skip


def _block(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    ax.add_patch(FancyBboxPatch((x, y), _WIDE, _TALL, boxstyle="round,pad=0.06", facecolor="white", edgecolor=colour,
                                linewidth=2))  # fmt: skip
    ax.text(x + _WIDE / 2, y + _TALL / 2, text, ha="center", va="center", fontsize=SMALL_TEXT_SIZE)


def _layers(ax: Axes, x: float, low: float, high: float, text: str) -> None:
    """The frame around the blocks of one layer; a second outline behind it says that there are several."""
    for shift, face in ((0.14, "#e4e4e4"), (0.0, "#f4f4f4")):
        place = (x - 0.22 + shift, low + shift)
        style: dict[str, Any] = {"facecolor": face, "edgecolor": GRAY, "linewidth": 1}
        ax.add_patch(FancyBboxPatch(place, _WIDE + 0.44, high - low, boxstyle="round,pad=0.02", zorder=0, **style))
    ax.text(
        x + _WIDE + 0.55, (low + high) / 2, text, fontsize=SMALL_TEXT_SIZE, color="#333333", rotation=270, va="center"
    )


def _up(ax: Axes, x: float, low: float, high: float) -> None:
    ax.annotate("", xy=(x, high), xytext=(x, low), arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.4})
