"""Pareto dominance, the frontier and its hypervolume. Every coordinate is a score: more is better.

A point is one model; its coordinates are, say, (LRL BLEU, HRL BLEU) as in Figure 1 of the paper, or one score per pair.
"""

import math
from collections.abc import Mapping, Sequence

from pmd_lite.errors import UserError

Point = Sequence[float]


def dominates(a: Point, b: Point) -> bool:
    """True if a is nowhere worse and somewhere better. UserError for no coordinates, other dimensions or nan."""
    _check_points([a, b])
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def pareto_front(points: Sequence[Point]) -> list[int]:
    """Indices, in order, of the points that no other dominates; equal points all stay. UserError as `dominates`."""
    _check_points(points)
    return [i for i, p in enumerate(points) if not any(dominates(q, p) for q in points)]


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Volume of the region that the points dominate above the reference, exact in any dimension.

    The space is cut into slices along the last axis. Within a slice, the points that reach it dominate a region of one
    dimension less. Points that are not above the reference in every coordinate add nothing. Meant for tens of points:
    the work grows with (number of points) ** (dimension - 1).
    """
    _check_points([*points, reference])
    inside = [tuple(p) for p in points if all(x > r for x, r in zip(p, reference, strict=True))]
    return _volume([inside[i] for i in pareto_front(inside)], tuple(reference))


def _volume(points: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    """Hypervolume of points that are all above the reference."""
    if len(reference) == 1:
        return max((p[0] for p in points), default=reference[0]) - reference[0]
    total, floor = 0.0, reference[-1]
    for height in sorted({p[-1] for p in points}):
        reaching = {p[:-1] for p in points if p[-1] >= height}
        total += (height - floor) * _volume(sorted(reaching), reference[:-1])
        floor = height
    return total


def larger_half(sizes: Sequence[int]) -> list[int]:
    """Indices of the larger half of [pair] training sizes, largest first, with the middle one; ties: earlier first."""
    return sorted(range(len(sizes)), key=lambda pair: -sizes[pair])[: math.ceil(len(sizes) / 2)]


def split_high_low(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(high-, low-resource) pairs by training size, from large to small: see `larger_half`. UserError for no pairs."""
    if not sizes:
        raise UserError("There are no language pairs to split into high- and low-resource ones.")
    ordered, high = sorted(sizes, key=lambda pair: -sizes[pair]), len(larger_half([*sizes.values()]))
    return tuple(ordered[:high]), tuple(ordered[high:])


def mean_by_group(scores: Mapping[str, float], groups: Sequence[Sequence[str]]) -> tuple[float, ...]:
    """Average score of each group: (HRL, LRL); nan for an empty group. UserError for a pair without a score."""
    if missing := [pair for group in groups for pair in group if pair not in scores]:
        given = ", ".join(scores) or "nothing"
        raise UserError(f"No score for {', '.join(missing)}. Scores were given for {given}.")
    return tuple(math.fsum(scores[pair] for pair in group) / len(group) if group else math.nan for group in groups)


def _check_points(points: Sequence[Point]) -> None:
    """Refuse nan above all: it compares false with everything, so a failed run would look undominated."""
    if len(dimensions := {len(p) for p in points}) > 1 or 0 in dimensions:
        raise UserError(f"Points of different dimensions, or of none ({sorted(dimensions)}), cannot be compared.")
    if any(math.isnan(x) for p in points for x in p):
        raise UserError("A point has a score that is not a number (nan). Leave that model out of the comparison.")
