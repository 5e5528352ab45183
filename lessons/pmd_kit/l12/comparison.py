"""A comparison read closely: one system beside all others, its differences in words, updates at equal compute."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from statistics import fmean

from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.summary import BASELINE
from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import pareto_front
from pmd_lite.evaluation.significance import LEVEL
from pmd_lite.evaluation.tables import Cell, Table
from pmd_lite.figures.plots import draw_line
from pmd_lite.figures.style import (
    COLOURS,
    GRAY,
    SMALL_TEXT_SIZE,
    LessonFigure,
    legend_above,
    name_axes,
    new_figure,
    settled,
)
from pmd_lite.training.cost import COUNTED


def card(comparison: Comparison, label: str) -> LessonFigure:
    """One system of a comparison: its sampling probabilities (left), its place among all others (right).

    Raises UserError for a system that was not compared.
    """
    steps, p = comparison.curve(label)
    points = {name: comparison.mean_point(name) for name in comparison.systems}
    gains = ", ".join(f"{of} {test[0]:+.1f}{test[1]}" for of in ("LRL", "HRL")
                      if (test := comparison.difference(label, of)))  # fmt: skip
    remark = [f"against {BASELINE} {gains}"] if gains else []
    remark.append(f"compute {comparison.cost(label):.2f}")
    ends = ", ".join(f"{pair} {values[-1]:.2f}" for pair, values in p.items())
    alt = f"{label}: at the end it draws {ends}. BLEU LRL {points[label][0]:.1f}, HRL {points[label][1]:.1f}; "
    fig, (left, right) = new_figure(alt + "; ".join(remark), 2, columns=2, height=3.8)
    for i, (pair, values) in enumerate(p.items()):
        draw_line(left, steps, values, i, pair)
    left.set_ylim(0, max(0.6, 1.05 * max(max(values) for values in p.values())))
    name_axes(left, "training step", "probability of being drawn", title=label)
    for name, (x, y) in points.items():
        if name != label:
            right.plot(x, y, marker="o", markersize=5, color=GRAY, alpha=0.6, linestyle="none", gid=name)
    right.plot(*points[label], marker="*", markersize=17, color=COLOURS[1], markeredgecolor="white", gid=label)
    name_axes(right, "small pairs (mean BLEU)", "large pairs (mean BLEU)")
    right.set_title("\n".join(remark), fontsize=SMALL_TEXT_SIZE, loc="left")
    legend_above(fig, *left.get_legend_handles_labels())
    return settled(fig)


def equal_compute(comparison: Comparison, references: Sequence[str]) -> Table:
    """Updates that each method could make for the compute of each reference method (auxiliary runs count).

    Raises UserError for a reference that was not compared.
    """
    made = int(comparison.overrides["steps"])
    totals = {method: sum(by_purpose.values()) for method, by_purpose in comparison.compute.items()}
    if unknown := [name for name in references if name not in totals]:
        raise UserError(f"No method is called {', '.join(unknown)}. There are {', '.join(totals)}.")
    rows: list[list[Cell]] = [
        [method, f"{total:.2f}", *(max(1, round(made * totals[name] / total)) for name in references)]
        for method, total in totals.items()
    ]
    columns = ["method", "compute", *(f"updates for what {name} costs" for name in references)]
    caption = f"All made {made:,} updates of each student here. Compute: {COUNTED}"
    return Table(columns, rows, caption=caption)


def undominated(comparison: Comparison) -> list[str]:
    """Systems that no other beats for small and large pairs both, by their means over seeds."""
    labels = list(comparison.systems)
    return [labels[i] for i in pareto_front([comparison.mean_point(label) for label in labels])]


def reading(comparison: Comparison) -> str:
    """Which differences from the baseline are marked, how many marks chance would give, who is undominated."""
    lines, tests, marked = [], 0, 0
    for of, pairs in (("mean", "all pairs"), ("HRL", "large pairs"), ("LRL", "small pairs")):
        tested = {label: test for label in comparison.systems if (test := comparison.difference(label, of))}
        lines.append(f"{pairs}, against {BASELINE}:")
        for mark, verdict in (("▲", "better"), ("▼", "worse"), ("", "neither")):
            deltas = {label: delta for label, (delta, its_mark) in tested.items() if its_mark == mark}
            marked += len(deltas) if mark else 0
            listed = ", ".join(f"{label} {deltas[label]:+.1f}" for label in sorted(deltas, key=lambda x: -deltas[x]))
            lines += _wrapped(f"  {verdict} ({len(deltas)}): {listed or 'none'}")
        tests += len(tested)
    chance = f"about {LEVEL * tests:.0f} would be if no method did anything at all."
    lines += _wrapped(f"{marked} of {tests} differences are marked; {chance}")
    front = ", ".join(f"{label} (compute {comparison.cost(label):.2f})" for label in undominated(comparison))
    return "\n".join([*lines, *_wrapped(f"Not dominated by any other mean: {front}.")])


def _wrapped(text: str) -> list[str]:
    """Lines that fit a notebook, those after the first indented."""
    return textwrap.wrap(text, 105, subsequent_indent="      ", break_on_hyphens=False, drop_whitespace=True)


def both_equalities(updates: Comparison, compute: Comparison, labels: Sequence[str]) -> Table:
    """BLEU of large and small pairs at equal updates, with the compute that they took, and at equal compute."""
    rows: list[list[Cell]] = []
    for label in labels:
        low, high = updates.mean_point(label)
        fair: tuple[Cell, Cell] = (None, None)
        if label in compute.systems:
            fair = compute.mean_point(label)[::-1]
        rows.append([label, high, low, f"{updates.cost(label):.2f}", *fair])
    columns = ["system", "HRL, equal updates", "LRL, equal updates", "their compute", "HRL, equal compute",
               "LRL, equal compute"]  # fmt: skip
    caption = (f"Test BLEU. Equal updates: mean of {len(updates.seeds)} seeds. Equal compute: mean of "
               f"{len(compute.seeds)}. -: not trained at equal compute")  # fmt: skip
    return Table(columns, rows, digits=1, caption=caption)


def equal_compute_reading(compute: Comparison) -> str:
    """Each student of a comparison at equal compute beside the single model of its own temperature, seed by seed."""
    lines = []
    for label in compute.systems:
        twin = label.rpartition("(")[2].rstrip(")")
        if twin != label and twin in compute.systems:
            for axis, of in ((1, "large"), (0, "small")):
                pairs = zip(compute.points(label), compute.points(twin), strict=True)
                apart = [student[axis] - single[axis] for student, single in pairs]
                seeds = ", ".join(f"{x:+.1f}" for x in apart)
                lines.append(f"{label} minus {twin}, {of} pairs: {fmean(apart):+.1f} BLEU ({seeds})")
    return "\n".join(lines)
