"""One function per figure: plain numbers in, a matplotlib figure out.

Nothing here trains or reads files, so a figure can be redrawn from a stored run, inside a widget, or from numbers typed
by hand. Every function requires `alt`, the alternative text, and raises UserError for missing or uneven data.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import pareto_front
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    MARKERS,
    SMALL_TEXT_SIZE,
    TEXT_SIZE,
    XY,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    place_labels,
    series_style,
    settled,
)

Numbers = Sequence[float] | NDArray[Any]

TITLE_LETTERS = 26  # fit above a panel, three panels to a row


def dev_loss(steps: Numbers, losses: Mapping[str, Mapping[str, Numbers]], *, alt: str) -> LessonFigure:
    """Dev loss (nats per token) over training steps: one panel per pair, one line per model.

    losses: {model: {pair: loss at each step}}. A star marks the lowest point of each line; a line that rises after its
    star is overfitting. The first fifth of the run may leave the panel at the top: drawn in full, the fall from an
    untrained model would flatten the part that matters.
    """
    pairs = list(dict.fromkeys(pair for by_pair in losses.values() for pair in by_pair))
    if not pairs:
        raise UserError("There is no dev loss to draw: give {model: {pair: losses}} with at least one line.")
    fig, axes = new_figure(alt, len(pairs), columns=3 if len(pairs) > 4 else 2, height=2.3 if len(pairs) > 2 else 3.2)
    handles = {}
    for i, (model, by_pair) in enumerate(losses.items()):
        check_series(steps, by_pair, "step")
        for pair, values in by_pair.items():
            ax = axes[pairs.index(pair)]
            handles[model] = draw_line(ax, steps, values, i, model)
            y = np.asarray(values, dtype=float)
            if np.isfinite(y).any():
                lowest = int(np.nanargmin(y))
                ax.plot(np.asarray(steps)[lowest], y[lowest], linestyle="none", **_star(COLOURS[i % len(COLOURS)]))
    for pair, ax in zip(pairs, axes, strict=True):
        name_axes(ax, title=pair)
        _zoom_after_start(ax, [by_pair[pair] for by_pair in losses.values() if pair in by_pair])
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    fig.supylabel("dev loss (nats per token)", fontsize=TEXT_SIZE)
    lowest_mark = Line2D([], [], linestyle="none", **_star(GRAY))
    legend_above(fig, [*handles.values(), lowest_mark], [*handles, "lowest dev loss"])
    return settled(fig)


def pair_panels(
    curves: Mapping[str, tuple[Numbers, Mapping[str, Numbers]]], y_name: str, limits: tuple[float, float | None], *,
    alt: str,
) -> LessonFigure:  # fmt: skip
    """One panel per system, one line per pair, over training steps; all panels have the same y axis.

    curves: {system: (steps, {pair: value at each step})}; a pair looks the same in every panel. y_name: name of the y
    axis. limits: its ends; None lets the data decide.
    """
    pairs = list(dict.fromkeys(pair for _, by_pair in curves.values() for pair in by_pair))
    if not pairs:
        raise UserError("There are no curves to draw: give {system: (steps, {pair: values})} with at least one line.")
    columns = 3 if len(curves) == 3 or len(curves) > 4 else 2
    titles = [textwrap.fill(system, TITLE_LETTERS, break_on_hyphens=False) for system in curves]
    rows = -(-len(curves) // columns)
    height = (3.4 if rows == 1 else 2.2 if columns == 2 else 1.75) + 0.17 * max(title.count("\n") for title in titles)
    fig, axes = new_figure(alt, len(curves), columns=columns, height=height, share_y=True)
    handles = {}
    for i, (ax, (system, (steps, by_pair))) in enumerate(zip(axes, curves.items(), strict=True)):
        try:
            check_series(steps, by_pair, "step")
        except UserError as error:
            raise UserError(f"{system}: {error}") from error
        for pair, values in by_pair.items():
            handles[pair] = draw_line(ax, steps, values, pairs.index(pair), pair)
            handles[pair].set(markersize=4, linewidth=1.2)
        ax.set_title(titles[i], fontsize=SMALL_TEXT_SIZE, loc="left", fontweight="bold")
        ax.tick_params(labelleft=i % columns == 0)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k: large steps are too wide for a panel
    axes[0].set_ylim(*limits)
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    fig.supylabel(y_name, fontsize=TEXT_SIZE)
    legend_above(fig, [handles[pair] for pair in pairs], pairs)
    return settled(fig)


def alpha_over_time(steps: Numbers, alphas: Mapping[str, Mapping[str, Numbers]], *, alt: str) -> LessonFigure:
    """Distillation weights over training steps (the paper's figure on the evolution of the weights).

    alphas: {student: {pair: alpha at each step}}; one panel per student, one line per pair, axis from 0 to 1.
    """
    curves = {student: (steps, by_pair) for student, by_pair in alphas.items()}
    return pair_panels(curves, r"distillation weight $\alpha$", (-0.03, 1.03), alt=alt)


def frontier(
    points: Mapping[str, XY], *, alt: str, baselines: Sequence[str] = (), ours: Sequence[str] = (),
    arrows: Sequence[tuple[str, str]] = (), seeds: Mapping[str, Sequence[XY]] | None = None,
) -> LessonFigure:  # fmt: skip
    """Models on the plane (LRL BLEU, HRL BLEU), as in Figure 1 of the paper: up and to the right is better.

    points: {name: (LRL, HRL)}. baselines, ours: names; gray dotted and blue dashed steps enclose what they dominate.
    arrows: (from, to) names, such as ("A", "A'"). seeds: {name: one (LRL, HRL) per seed}, drawn as a pale cloud with
    bars of one sample standard deviation.
    """
    seeds = seeds or {}
    check_names(points, [*baselines, *ours, *seeds, *(name for arrow in arrows for name in arrow)])
    fig, (ax,) = new_figure(alt, height=4.6)
    for i, (name, (x, y)) in enumerate(points.items()):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        if len(seeds.get(name, ())) > 0:
            draw_cloud(ax, (x, y), seeds[name], style)
        ax.plot(x, y, linestyle="none", markersize=8, zorder=3, gid=name, **style)
    for start, end in arrows:
        ax.annotate("", xy=points[end], xytext=points[start], gid=f"{start}->{end}", arrowprops=_ARROW)
    fix_limits(ax, 0.2, 0.14)  # room for names beside the outermost points
    draw_front(ax, [points[name] for name in baselines], GRAY, "frontier of baselines")
    draw_front(ax, [points[name] for name in ours], COLOURS[0], "frontier of Pareto-MD", "--")
    name_axes(ax, "low-resource languages (mean BLEU)", "high-resource languages (mean BLEU)")
    if ax.get_legend_handles_labels()[0]:
        legend_above(fig, *ax.get_legend_handles_labels())
    place_labels(ax, list(points), list(points.values()))
    return fig


_ARROW = {"arrowstyle": "-|>", "color": "#333333", "linewidth": 1.4, "shrinkA": 6, "shrinkB": 6, "mutation_scale": 13}


def _star(colour: str) -> dict[str, Any]:
    return {"marker": "*", "markersize": 13, "markerfacecolor": colour, "markeredgecolor": "white", "zorder": 4}


def draw_line(ax: Axes, x: Numbers, y: Numbers, index: int, label: str) -> Line2D:
    """One curve, with the colour, dash and marker of its number."""
    (line,) = ax.plot(np.asarray(x), np.asarray(y, dtype=float), label=label, **series_style(index, len(x)))
    return line


def _zoom_after_start(ax: Axes, lines: Sequence[Numbers]) -> None:
    """Let the panel end at the highest value after the first fifth of the run, unless the run is too short."""
    y = np.stack([np.asarray(values, dtype=float) for values in lines])  # [line, step]
    settled = y[:, y.shape[1] // 5 :]
    if y.shape[1] >= 10 and np.isfinite(settled).any():
        low, high = float(np.nanmin(y)), float(np.nanmax(settled))
        room = 0.08 * (high - low) or 0.1
        ax.set_ylim(low - room, high + room)


def fix_limits(ax: Axes, x: float, y: float) -> None:
    """Fix the limits of the axes where they are now, with margins x and y (shares of the range of the data)."""
    ax.margins(x=x, y=y)
    ax.autoscale_view()
    ax.set_xlim(ax.get_xlim())
    ax.set_ylim(ax.get_ylim())


def draw_front(ax: Axes, points: Sequence[XY], colour: str, label: str, linestyle: str = ":") -> None:
    """The border of what the points dominate, as steps to the fixed limits of the axes.

    A line straight from point to point would promise models that nobody has trained.
    """
    if not points:
        return
    front = sorted(points[i] for i in pareto_front(points))
    front = [(ax.get_xlim()[0], front[0][1]), *front, (front[-1][0], ax.get_ylim()[0])]
    # steps-pre: to the left of a point, the step is as high as the point
    ax.plot(*zip(*front, strict=True), drawstyle="steps-pre", color=colour, linestyle=linestyle, linewidth=2,
            label=label, zorder=1)  # fmt: skip


def draw_spread(ax: Axes, centre: XY, runs: NDArray[np.float64], **style: Any) -> None:
    """Bars of one sample standard deviation around a mean. runs: [seed, 2], at least two seeds."""
    (x, y), (dx, dy) = centre, runs.std(axis=0, ddof=1)
    ax.errorbar(x, y, xerr=dx, yerr=dy, zorder=2, **style)


def draw_cloud(ax: Axes, centre: XY, cloud: Sequence[XY], style: Mapping[str, Any]) -> None:
    """The runs behind a mean: pale dots, and bars of one standard deviation if there are several runs."""
    values = np.asarray(cloud, dtype=float)  # [seed, 2]
    ax.plot(values[:, 0], values[:, 1], linestyle="none", markersize=4, alpha=0.4, zorder=2, **style)
    if len(values) > 1:
        draw_spread(ax, centre, values, color=style["color"], capsize=2.5, linewidth=1)


def check_series(x: Numbers, series: Mapping[str, Numbers], what: str) -> None:
    """Raises UserError when there is nothing to draw, or a curve is not as long as x; `what` names a point of x."""
    if len(x) == 0 or not series:
        raise UserError(f"There is nothing to draw: {len(x)} {what}s and {len(series)} lines were given.")
    for name, values in series.items():
        if len(values) != len(x):
            raise UserError(f'"{name}" has {len(values)} values for {len(x)} {what}s. Give one value per {what}.')


def check_names(points: Mapping[str, object], names: Sequence[str]) -> None:
    """Raises UserError when there is no point, or no point has one of the `names`."""
    if not points:
        raise UserError("There is no model to draw: give {name: (LRL BLEU, HRL BLEU)} with at least one entry.")
    if unknown := sorted({name for name in names if name not in points}):
        raise UserError(f"No point is named {', '.join(unknown)}. The points are {', '.join(points)}.")
