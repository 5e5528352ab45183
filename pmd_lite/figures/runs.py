"""The figures of runs: reads curves and scores from run directories and hands plain data to `plots`."""

from collections.abc import Sequence
from typing import Protocol

from pmd_lite.config import Config
from pmd_lite.errors import UserError
from pmd_lite.evaluation.score_tables import Scored, labelled
from pmd_lite.figures import plots
from pmd_lite.figures.style import LessonFigure
from pmd_lite.methods import Method

ONE_PAIR = "its axes are the larger and the smaller pairs, and this corpus has one pair"
"""Why there is no frontier."""


class Drawable(Scored, Protocol):
    """What the figures read of a run besides its scores (`pmd_lite.run.Run` has all of it)."""

    config: Config
    method: Method

    def curve(self, field: str, student: int = 0) -> tuple[list[int], dict[str, list[float]]]:
        """Steps and, per pair, one field of the metrics."""

    def point(self, student: int = 0) -> tuple[float, float]:
        """(LRL, HRL) average test BLEU."""


def dev_loss_of(runs: Sequence[Drawable]) -> LessonFigure:
    """Dev loss per pair of every student. Raises UserError for runs of other corpora, or evaluated at other steps."""
    students = labelled(runs)
    steps, _ = runs[0].curve("dev_loss")
    if other := [str(run.path) for run in runs if run.curve("dev_loss")[0] != steps]:
        raise UserError(f"{other[0]} was evaluated at other steps than {runs[0].path}. Draw them one by one")
    losses = {label: run.curve("dev_loss", i)[1] for run, i, label in students}
    alt = f"Dev loss in nats per token over {steps[-1]} steps, a panel per pair: {', '.join(losses)}"
    return plots.dev_loss(steps, losses, alt=alt)


def alphas_of(run: Drawable) -> LessonFigure:
    """Distillation weights of every student of one run."""
    steps, _ = run.curve("alpha")
    alphas = {label: run.curve("alpha", i)[1] for i, label in enumerate(run.labels)}
    ends = "; ".join(f"{label}: " + ", ".join(f"{pair} {a[-1]:.2f}" for pair, a in by_pair.items())
                     for label, by_pair in alphas.items())  # fmt: skip
    return plots.alpha_over_time(steps, alphas, alt=f"Distillation weights over {steps[-1]} steps. At the end {ends}")


def frontier_of(runs: Sequence[Drawable]) -> LessonFigure:
    """Every student on the plane of low- and high-resource BLEU, with the baselines' frontier and arrows A -> A'.

    An arrow leads from a single model to the student of a mutual run that samples at the same temperature. Runs that
    lack the BLEU of a pair are left out; raises UserError when no run remains, for runs of different corpora, and for a
    corpus of one pair.
    """
    labelled(runs)
    if len(runs[0].pairs) < 2:
        raise UserError(ONE_PAIR)
    whole = [run for run in runs if not run.without_bleu]
    if not whole:
        lost = "; ".join(f"{run.path} has no BLEU for {', '.join(run.without_bleu)}" for run in runs)
        raise UserError(f"no run to draw: {lost}")
    points: dict[str, tuple[float, float]] = {}
    single: dict[str, str] = {}
    ours: dict[str, str] = {}
    for run, i, label in labelled(whole):
        points[label] = run.point(i)
        spec = run.method.samplers[i]
        tau = f"tau={run.config.tau:g}" if spec == "tau" else spec
        (single if len(run.labels) == 1 else ours)[label] = tau
    arrows = [(a, b) for a, tau in single.items() for b, other in ours.items() if tau == other]
    text = "; ".join(f"{label} LRL {x:.1f} HRL {y:.1f}" for label, (x, y) in points.items())
    return plots.frontier(points, alt=f"Average BLEU of low- and high-resource pairs. {text}", baselines=list(single),
                          ours=list(ours), arrows=arrows)  # fmt: skip
