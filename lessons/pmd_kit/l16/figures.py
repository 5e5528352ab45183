"""The figure of lesson 16: two objectives that are not languages, as a plane with the clouds of seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pmd_lite.figures.plots import frontier
from pmd_lite.figures.style import TEXT_SIZE, XY, LessonFigure, settled


def plane(
    clouds: Mapping[str, Sequence[XY]], x: str, y: str, *, alt: str, arrows: Sequence[tuple[str, str]] = ()
) -> LessonFigure:
    """Means of several systems on the plane of two objectives, up and to the right better, each with its seeds.

    clouds: {name: one (x, y) per seed}. x, y: names of the axes. arrows: (from, to) names.
    """
    means = {name: (_mean(cloud, 0), _mean(cloud, 1)) for name, cloud in clouds.items()}
    fig = frontier(means, alt=alt, arrows=arrows, seeds=clouds)
    fig.set_layout_engine("constrained")  # laid out anew, for other names of the axes
    ax = fig.axes[0]
    ax.set_xlabel(x, fontsize=TEXT_SIZE)
    ax.set_ylabel(y, fontsize=TEXT_SIZE)
    return settled(fig)


def _mean(cloud: Sequence[XY], axis: int) -> float:
    return sum(point[axis] for point in cloud) / len(cloud)
