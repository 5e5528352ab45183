"""Checks of lesson 06: dominance, the frontier of a set of points, its area, and what two seeds can say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_lite.evaluation.pareto import dominates, hypervolume, pareto_front

Point = tuple[float, ...]


def _far(a: Point, b: Point) -> bool:
    """Better everywhere."""
    return all(x > y for x, y in zip(a, b, strict=True))


_PAIRS: list[Case] = [
    ((12.0, 30.0), (10.0, 28.0)), ((12.0, 30.0), (12.0, 28.0)), ((12.0, 30.0), (12.0, 30.0)),
    ((10.0, 28.0), (12.0, 30.0)), ((9.0, 31.0), (12.0, 30.0)), ((14.0, 20.0), (12.0, 30.0)),
    ((9.0, 60.0), (12.0, 30.0)), ((12.0, 28.0), (12.0, 30.0)), ((5.0, 5.0, 5.0), (5.0, 4.0, 5.0)),
    ((9.0, 9.0, 1.0), (5.0, 5.0, 2.0)),
]  # fmt: skip


def _random_pairs(rng: np.random.Generator) -> Sequence[Case]:
    drawn = rng.integers(0, 4, size=(12, 2, 2)).astype(float).tolist()
    return [*_PAIRS, *((tuple(a), tuple(b)) for a, b in drawn)]


DOMINATES = Exercise(
    "dominates", dominates, _random_pairs,
    [
        Mistake("Equal on one axis is allowed: at least as good everywhere, and better on at least one.", _far),
        Mistake("A point does not dominate its equal: it must be better somewhere.",
                lambda a, b: all(x >= y for x, y in zip(a, b, strict=True))),
        Mistake("Better somewhere is not enough: it must not be worse anywhere.",
                lambda a, b: any(x > y for x, y in zip(a, b, strict=True))),
        Mistake("You compare sums (or means). A gain on one axis may not pay for a loss on another: that is the point.",
                lambda a, b: sum(a) > sum(b)),
        Mistake("The other way round: this says whether b dominates a.", lambda a, b: dominates(b, a)),
        Mistake("This says that b does not dominate a. Two points may well leave each other undominated.",
                lambda a, b: not dominates(b, a)),
        Mistake("You look at the first axis only.", lambda a, b: a[0] > b[0]),
        Mistake("Python compares tuples and lists from left to right: a > b looks at the second axis only when the "
                "first is equal. Compare each axis.", lambda a, b: tuple(a) > tuple(b)),
        Mistake("You look at the last axis only.", lambda a, b: a[-1] > b[-1]),
        Mistake("You count the axes on which a is better: more of them do not pay for a loss on another.",
                lambda a, b: sum((x > y) - (x < y) for x, y in zip(a, b, strict=True)) > 0),
        Mistake("You compare the best number of each. Compare axis by axis.",
                lambda a, b: max(a) > max(b)),
    ],
    library=("dominates",),
)  # fmt: skip


def _by_each(points: Sequence[Point], beats: Callable[[Point, Point], bool]) -> list[int]:
    return [i for i, p in enumerate(points) if not any(beats(q, p) for q in points)]


def _hull(points: Sequence[Point]) -> list[int]:
    """The frontier without the points that lie below a straight line between two others."""
    front = pareto_front(points)

    def below(p: Point) -> bool:
        for a in (points[i] for i in front):
            for b in (points[i] for i in front):
                if a[0] < p[0] < b[0] and p[1] < a[1] + (b[1] - a[1]) * (p[0] - a[0]) / (b[0] - a[0]):
                    return True
        return False

    return [i for i in front if not below(points[i])]


def _one_sweep(points: Sequence[Point]) -> list[int]:
    """Keeps a point when nothing before it in the list dominates it."""
    return [i for i, p in enumerate(points) if not any(dominates(q, p) for q in points[:i])]


def _first_of_equals(points: Sequence[Point]) -> list[int]:
    return [i for i in pareto_front(points) if points[i] not in points[:i]]


_CLOUD: list[Point] = [
    (11.0, 21.0), (12.0, 26.0), (14.0, 22.0), (16.0, 21.0), (13.0, 22.0),
    (17.0, 15.0), (16.0, 21.0), (17.0, 20.0),
]  # fmt: skip
# (14, 22) lies in a dent of the frontier, (13, 22) is level with it, (16, 21) comes twice


def _clouds(rng: np.random.Generator) -> Sequence[Case]:
    drawn = rng.integers(0, 9, size=(4, 7, 2)).astype(float).tolist()
    return [(_CLOUD,), (_CLOUD[::-1],), ([(3.0, 3.0)],), *(([tuple(p) for p in cloud],) for cloud in drawn)]


FRONTIER = Exercise(
    "frontier", pareto_front, _clouds,
    [
        Mistake("These are the dominated points. The exercise asks for the points that no other point dominates.",
                lambda points: [i for i in range(len(points)) if i not in pareto_front(points)]),
        Mistake("A point that is level with another on one axis and worse on the other is dominated too: you ask for "
                "better on both.", lambda points: _by_each(points, _far)),
        Mistake("Of equal points neither dominates the other: both stay.", _first_of_equals),
        Mistake("The ends alone are not the frontier: a compromise between them is on it if no point dominates it.",
                lambda points: sorted({max(range(len(points)), key=lambda i: (points[i][axis], points[i][1 - axis]))
                                       for axis in (0, 1)})),
        Mistake("You compare each point with those before it only. A point that dominates it may come later in the "
                "list.",
                _one_sweep),
        Mistake("Those are the best sums. The frontier asks for no exchange rate between the axes.",
                lambda points: [i for i, p in enumerate(points) if sum(p) == max(sum(q) for q in points)]),
        Mistake("You leave out points in a dent, below the straight line between two others. No model lies on that "
                "line, so no point dominates them.", _hull),
        Mistake("These are True and False for each point. Return the positions of the points that are True.",
                lambda points: [i in pareto_front(points) for i in range(len(points))]),
        Mistake("These are the points. Return their positions in the list.",
                lambda points: [points[i] for i in pareto_front(points)]),
        Mistake("You keep the points that dominate no other. Keep those that no other dominates.",
                lambda points: [i for i, p in enumerate(points) if not any(dominates(p, q) for q in points)]),
    ],
    library=("pareto_front",),
)  # fmt: skip


def my_points(student: str) -> tuple[list[Point], Point]:
    """Four models (LRL, HRL) with whole numbers, one of them dominated, in random order, and a reference."""
    rng = personal(student, "lesson06")
    x0, y0 = (int(n) for n in rng.integers(1, 6, size=2))
    dx, dy = rng.integers(2, 6, size=3), rng.integers(2, 6, size=3)
    xs, ys = (x0 + np.cumsum(dx)).tolist(), (y0 + np.cumsum(dy)).tolist()[::-1]
    front = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
    inner = (front[1][0] - 1.0, front[1][1] - 1.0)
    order = rng.permutation(4)
    return [[*front, inner][i] for i in order], (float(x0), float(y0))


def my_area(student: str) -> Exercise:
    """Exercise 3: the area that the student's own four points dominate."""
    points, reference = my_points(student)
    return Exercise("area", lambda: hypervolume(points, reference),
                    mistakes=[Mistake(says, lambda wrong=wrong: wrong(points, reference))
                              for says, wrong in _WRONG_AREAS if wrong not in _NOT_BY_HAND],
                    student=student)  # fmt: skip


def _boxes(points: Sequence[Point], reference: Point) -> list[float]:
    return [(x - reference[0]) * (y - reference[1]) for x, y in points if _far((x, y), reference)]


def _sum_of_boxes(points: Sequence[Point], reference: Point) -> float:
    """Of the frontier's boxes."""
    return sum(_boxes([points[i] for i in pareto_front(points)], reference))


def _sum_of_all_boxes(points: Sequence[Point], reference: Point) -> float:
    return sum(_boxes(points, reference))


def _largest_box(points: Sequence[Point], reference: Point) -> float:
    return max(_boxes(points, reference), default=0.0)


def _bounding_box(points: Sequence[Point], reference: Point) -> float:
    inside = [p for p in points if _far(p, reference)]
    return (max(x for x, _ in inside) - reference[0]) * (max(y for _, y in inside) - reference[1]) if inside else 0.0


def _no_reference(points: Sequence[Point], reference: Point) -> float:
    return hypervolume(points, (0.0, 0.0))


def _straight_lines(points: Sequence[Point], reference: Point) -> float:
    """Below the polygon through the frontier, instead of below its staircase."""
    front = sorted({points[i] for i in pareto_front(points) if _far(points[i], reference)})
    if not front:
        return 0.0
    height = [y - reference[1] for _, y in front]
    total = (front[0][0] - reference[0]) * height[0]
    return total + sum((b[0] - a[0]) * (g + h) / 2
                       for a, b, g, h in zip(front, front[1:], height, height[1:], strict=False))  # fmt: skip


def _trapezoids(points: Sequence[Point], reference: Point) -> float:
    """Below the polygon through the frontier, from its first point on only."""
    front = sorted({points[i] for i in pareto_front(points) if _far(points[i], reference)})
    return sum((b[0] - a[0]) * (a[1] + b[1] - 2 * reference[1]) / 2 for a, b in pairwise(front))


def _boxes_of_any_sign(points: Sequence[Point], reference: Point) -> float:
    return sum((x - reference[0]) * (y - reference[1]) for x, y in points)


def _all_lines(points: Sequence[Point], reference: Point) -> float:
    return sum((b[0] - a[0]) * (a[1] + b[1] - 2 * reference[1]) / 2 for a, b in pairwise(sorted(points)))


def _outer_stairs(points: Sequence[Point], reference: Point) -> float:
    """The staircase that takes the better coordinate between two neighbours."""
    front = sorted({points[i] for i in pareto_front(points) if _far(points[i], reference)})
    if not front:
        return 0.0
    total = (front[0][0] - reference[0]) * (front[0][1] - reference[1])
    return total + sum((b[0] - a[0]) * (a[1] - reference[1]) for a, b in pairwise(front))


def _inside_out(points: Sequence[Point], reference: Point) -> float:
    """Counts points that are not above the reference."""
    lowest = tuple(min(axis) for axis in zip(*points, reference, strict=True))
    return hypervolume(points, lowest)


_WRONG_AREAS: list[tuple[str, Callable[[Sequence[Point], Point], float]]] = [
    ("You add up a box for each point of the frontier; where boxes overlap, the overlap counts twice.", _sum_of_boxes),
    ("You add up the boxes of all points. Boxes overlap, and dominated points add nothing at all.", _sum_of_all_boxes),
    ("That is the largest single box. Its neighbours reach further on one axis, and that counts too.", _largest_box),
    ("That is one box around all points: no model has both the best x and the best y.", _bounding_box),
    ("The area begins at the reference, not at zero: subtract it on both axes.", _no_reference),
    ("Straight lines between the points: no model lies on them. The region is a staircase.", _straight_lines),
    ("Straight lines between the points, and the part to the left of the first point is missing.", _trapezoids),
    ("Between two neighbours the staircase is as high as the right one, the lower: you take the higher.",
     _outer_stairs),
    ("A point that is not above the reference on both axes adds nothing.", _inside_out),
    ("You add up the boxes of all points, those below the reference too. Boxes overlap.", _boxes_of_any_sign),
    ("Straight lines through all points, dominated ones too. The region is the staircase of the frontier.", _all_lines),
]  # fmt: skip


# With four points by hand these come to what another slip gives.
_NOT_BY_HAND = (_inside_out, _trapezoids, _boxes_of_any_sign, _all_lines)


def _areas(rng: np.random.Generator) -> Sequence[Case]:
    drawn = rng.integers(4, 19, size=(2, 6, 2)).astype(float).tolist()
    return [
        ([(1.0, 3.0), (3.0, 2.0), (4.0, 1.0)], (0.0, 0.0)), (_CLOUD, (10.0, 16.0)), (_CLOUD[::-1], (2.0, 3.0)),
        *(([tuple(p) for p in cloud], (3.0, 5.0)) for cloud in drawn),
    ]  # fmt: skip


AREA = Exercise(
    "area", hypervolume, _areas, [Mistake(says, wrong) for says, wrong in _WRONG_AREAS], library=("hypervolume",)
)


def verdict(before: Sequence[float], after: Sequence[float]) -> str:
    """Exercise 5: "better", "worse", or "noise" if the seeds of either model differ by as much as the means do."""
    delta = sum(after) / len(after) - sum(before) / len(before)
    spread = max(max(values) - min(values) for values in (before, after))
    if abs(delta) <= spread:
        return "noise"
    return "better" if delta > 0 else "worse"


def finding(before: Sequence[float], after: Sequence[float], smaller_is_better: bool = False) -> str:
    """The same rule in words for a table: "better", "worse" or "noise: no finding"; one seed finds nothing."""
    if len(before) < 2 or len(after) < 2:
        return "one seed: no finding"
    said = verdict(after, before) if smaller_is_better else verdict(before, after)
    return f"{said}: no finding" if said == "noise" else said


def _by_spread(before: Sequence[float], after: Sequence[float], spread: float) -> str:
    delta = sum(after) / len(after) - sum(before) / len(before)
    return "noise" if abs(delta) <= spread else "better" if delta > 0 else "worse"


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _signs(before: Sequence[float], after: Sequence[float]) -> str:
    deltas = [b - a for a, b in zip(before, after, strict=True)]
    return "better" if min(deltas) > 0 else "worse" if max(deltas) < 0 else "noise"


_SEEDS: list[Case] = [
    ([10.0, 11.0], [14.0, 15.5]), ([14.0, 15.5], [10.0, 11.0]), ([10.0, 14.0], [12.0, 16.0]),
    ([10.0, 10.2], [11.0, 14.0]), ([10.0, 13.0], [12.0, 12.4]), ([10.0, 13.0], [14.0, 14.2]),
    ([20.0, 21.0], [23.0, 23.5]), ([20.0, 21.0], [18.0, 18.5]), ([10.0, 12.0], [12.0, 14.0]), ([9.0, 9.5], [9.6, 9.1]),
    ([50.0, 50.2], [50.9, 51.0]), ([10.0, 11.0], [11.5, 12.5]), ([12.5, 11.5], [11.0, 10.0]),
    ([10.0, 10.4], [10.8, 12.2]), ([10.0, 10.1], [10.3, 12.3]),
]  # fmt: skip


def _seed_cases(rng: np.random.Generator) -> Sequence[Case]:
    drawn = np.round(rng.normal(20, 2, size=(6, 2, 2)) + rng.normal(0, 3, size=(6, 2, 1)), 1).tolist()
    return [*_SEEDS, *((a, b) for a, b in drawn)]


VERDICT = Exercise(
    "verdict", verdict, _seed_cases,
    [
        Mistake('The sign of the mean alone: then nothing is ever "noise".', lambda a, b: _by_spread(a, b, 0.0)),
        Mistake("You ask whether the seeds agree on the sign. Two seeds agree by chance half of the time. Ask "
                "whether the difference is larger than the spread.", _signs),
        Mistake("The spread of the first model alone. The second one's seeds may differ more.",
                lambda a, b: _by_spread(a, b, _range(a))),
        Mistake("The spread of the second model alone. The first one's seeds may differ more.",
                lambda a, b: _by_spread(a, b, _range(b))),
        Mistake("You take the smaller of the two spreads; the larger one decides.",
                lambda a, b: _by_spread(a, b, min(_range(a), _range(b)))),
        Mistake('"better" and "worse" are swapped: the difference is after minus before.',
                lambda a, b: {"better": "worse", "worse": "better", "noise": "noise"}[verdict(a, b)]),
        Mistake("You add the two spreads. The larger one alone decides.",
                lambda a, b: _by_spread(a, b, _range(a) + _range(b))),
        Mistake("You average the two spreads (for two seeds that is to ask whether their ranges overlap). The larger "
                "spread alone decides.",
                lambda a, b: _by_spread(a, b, (_range(a) + _range(b)) / 2)),
        Mistake("You take a standard deviation. The spread here is the largest seed minus the smallest.",
                lambda a, b: _by_spread(a, b, max(float(np.std(a, ddof=1)), float(np.std(b, ddof=1))))),
        Mistake("You take a standard deviation (with n). The spread here is the largest seed minus the smallest.",
                lambda a, b: _by_spread(a, b, max(float(np.std(a)), float(np.std(b))))),
        Mistake("A fixed threshold of one point: what is noise depends on how far the seeds lie apart.",
                lambda a, b: _by_spread(a, b, 1.0)),
        Mistake("You compare the first seeds only.",
                lambda a, b: _by_spread(a[:1], b[:1], max(_range(a), _range(b)))),
    ],
)  # fmt: skip
