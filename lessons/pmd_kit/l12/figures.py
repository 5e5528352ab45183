"""The figures of lesson 12: how the rivals decide whose turn it is, and one of them beside all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.lines import Line2D

from pmd_lite.errors import UserError
from pmd_lite.figures.plots import Numbers, check_series, draw_line
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    HATCHES,
    SMALL_TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)


def water_level(pairs: Sequence[str], amounts: Numbers, caps: Numbers, *, alt: str) -> LessonFigure:
    """UniMax: the sentences that each pair gets of the budget (bars) below the most it may get (black lines).

    amounts, caps: [pair]. The dashed line is the common level, the largest amount.
    """
    check_series(range(len(pairs)), {"amounts": amounts, "caps": caps}, "pair")
    fig, (ax,) = new_figure(alt)
    level = max(amounts)
    full = [amount >= cap * (1 - 1e-9) for amount, cap in zip(amounts, caps, strict=True)]
    for i, (amount, cap) in enumerate(zip(amounts, caps, strict=True)):
        ax.bar(i, amount, 0.6, color=COLOURS[full[i]], hatch=HATCHES[full[i]], edgecolor="white",
               label="at its cap" if full[i] else "at the common level")  # fmt: skip
        ax.plot([i - 0.38, i + 0.38], [cap, cap], color="black", linewidth=2, label="most it may get")
    ax.axhline(level, color=GRAY, linestyle="--", linewidth=1)
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_ylim(0, 2.3 * level)
    for i, cap in enumerate(caps):
        if cap > 2.3 * level:
            ax.annotate(f"{cap:,.0f}", (i, 2.25 * level), ha="center", va="top", fontsize=SMALL_TEXT_SIZE)
    ax.grid(False, axis="x")
    name_axes(ax, "language pair", "sentences of the budget")
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))  # one handle per label
    legend_above(fig, list(handles.values()), list(handles))
    return settled(fig)


def shares_over(x: Numbers, shares: Mapping[str, Numbers], x_name: str, *, alt: str) -> LessonFigure:
    """The share of each pair over anything: a radius, the steps of a scorer. shares: {pair: one value per x}."""
    check_series(x, shares, "point")
    fig, (ax,) = new_figure(alt, height=3.2)
    for i, (pair, values) in enumerate(shares.items()):
        draw_line(ax, x, values, i, pair)
    ax.set_ylim(-0.02, 1.02)
    name_axes(ax, x_name, "probability of being drawn")
    legend_above(fig, *ax.get_legend_handles_labels())
    return settled(fig)


def teachers(losses: Mapping[str, Numbers], distilled: Mapping[str, Sequence[bool]], *, alt: str) -> LessonFigure:
    """LSSD: dev loss after each epoch, a star on the epoch that teaches in the end, and when each pair was distilled.

    losses: {pair: loss at the end of epoch 1, 2, ...}; distilled: {pair: whether it was during each of these epochs},
    drawn as a shade behind the curve.
    """
    if not losses or set(losses) != set(distilled):
        raise UserError("Give the losses and the distilled epochs of the same pairs, at least one.")
    epochs = range(1, 1 + len(next(iter(losses.values()))))
    check_series(epochs, {**losses, **{f"{pair}, distilled": of for pair, of in distilled.items()}}, "epoch")
    fig, axes = new_figure(alt, len(losses), columns=len(losses), height=2.9, share_y=True)
    for i, (ax, (pair, values)) in enumerate(zip(axes, losses.items(), strict=True)):
        ax.plot(epochs, values, **series_style(i))
        best = min(range(len(values)), key=lambda epoch, values=values: values[epoch])  # type: ignore[misc]
        ax.plot(best + 1, values[best], marker="*", markersize=14, color=COLOURS[i], markeredgecolor="white", zorder=4)
        for epoch, on in zip(epochs, distilled[pair], strict=True):
            if on:
                ax.axvspan(epoch - 0.5, epoch + 0.5, color=GRAY, alpha=0.22, linewidth=0)
        ax.set_xticks(list(epochs))
        name_axes(ax, "epoch", "dev loss (nats per token)" if i == 0 else "", title=pair)
    star = Line2D([], [], linestyle="none", marker="*", markersize=12, color=GRAY)
    bar = Line2D([], [], linewidth=9, color=GRAY, alpha=0.3)
    legend_above(fig, [star, bar], ["lowest dev loss: the teacher", "epoch with distillation"])
    return settled(fig)
