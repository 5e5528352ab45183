"""Step through the searches of an Auto-PMD run: what was tried, what came out, what was chosen, what became of it.

Everything shown is read from the run directory. `metrics.jsonl` holds mu, the trial matrix R, the chosen actions and
the new weights of every search; the weights before it and those of its three trials follow from the searches before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets as ipw
import torch

from pmd_kit.l10.figures import ORDER, search_step
from pmd_kit.l10.searches import Search
from pmd_kit.widgets import redrawn
from pmd_lite.config import DistillConfig
from pmd_lite.distillation.actions import act, logit, lossy_trials
from pmd_lite.distillation.auto import AutoPMD, DynamicMD
from pmd_lite.errors import UserError
from pmd_lite.figures.style import LessonFigure
from pmd_lite.run import Run

_SAME = 1e-6  # a replayed weight differs from the logged one by rounding at most


@dataclass(frozen=True)
class SearchLog:
    """All searches of a run.

    labels: names of the students. searches: for each student, in order. start: the weight of every pair before the
    first search. total: steps of the run. uniform: one action is taken for all pairs (Dynamic-MD).
    """

    pairs: Sequence[str]
    labels: Sequence[str]
    searches: Sequence[Sequence[Search]]
    start: float
    total: int
    uniform: bool

    @classmethod
    def of(cls, run: Run | str | Path) -> SearchLog:
        """Read a run directory. Raises UserError for a run without a search, or a log that does not fit its config."""
        run = run if isinstance(run, Run) else Run(run)
        distill, train, lines = run.config.distill, run.config.train, run.dir.metrics()
        logged = [run.searches(student) for student in range(len(run.labels))]
        if not all(logged):
            raise UserError(_why_none(run))
        total = train.steps if not train.epochs else lines[-1]["step"]
        searches = [_replay(found, distill, str(run.path)) for found in logged]
        return cls(run.pairs, run.labels, searches, distill.alpha0, total, issubclass(run.method.distiller, DynamicMD))

    def describe(self, student: int, number: int, sums: bool = False) -> str:
        """Search `number` (from 1) of `student` (from 0) in words: the alternative text of its figure."""
        search = self.searches[student][number - 1]
        said = [f"{self.title(student, number)}."]
        for i, pair in enumerate(self.pairs):
            losses = ", ".join(f"{action} {search.results[action][i]:.4f}" for action in ORDER)
            wish = "" if search.best[i] == search.actions[i] else f" (its own best is {search.best[i]})"
            said.append(f"{pair}: dev loss {losses}; taken {search.actions[i]}{wish}, "
                        f"alpha {search.before[i]:.3f} to {search.after[i]:.3f}.")  # fmt: skip
        if sums or self.uniform:
            said.append("Sum: " + ", ".join(f"{action} {search.sums[action]:.4f}" for action in ORDER)
                        + f"; lowest {search.lowest_sum}.")  # fmt: skip
        return " ".join(said)

    @property
    def first(self) -> int:
        """Step of the first search."""
        return self.searches[0][0].step

    def path(self, student: int) -> dict[str, list[float]]:
        """{pair: weights before the first search and after each one}."""
        found = self.searches[student]
        return {pair: [self.start, *(search.after[i] for search in found)] for i, pair in enumerate(self.pairs)}

    def title(self, student: int, number: int) -> str:
        """Which student, which search, when, with which step size."""
        search, among = self.searches[student][number - 1], len(self.searches[student])
        when = f"search {number} of {among}, step {search.step:,} of {self.total:,}"
        return f"{self.labels[student]}: {when}, mu = {search.mu:.2f}"

    def figure(self, student: int = 0, number: int = 1, sums: bool = False) -> LessonFigure:
        """One search. sums: with a last row of sums over the pairs, which a run of Dynamic-MD has in any case.

        Raises UserError for a student (from 0) or a search (from 1) that is not there.
        """
        if not 0 <= student < len(self.labels) or not 1 <= number <= len(self.searches[student]):
            raise UserError(f"There is no search {number} of student {student}: students are counted from 0 to "
                            f"{len(self.labels) - 1}, searches from 1 to {len(self.searches[0])}.")  # fmt: skip
        return search_step(
            self.title(student, number), self.pairs, self.searches[student], number, self.start, self.total,
            sums or self.uniform, alt=self.describe(student, number, sums),
        )  # fmt: skip


def search_stepper(run: Run | str | Path, student: int = 0) -> ipw.VBox:
    """Go through the searches of a run one by one: Previous, Next, a slider over them, and the choice of a student.

    Raises UserError for a run that has made no search.
    """
    log = SearchLog.of(run)
    last = len(log.searches[student])
    names = [(label, i) for i, label in enumerate(log.labels)]
    # Buttons, since in JupyterLab the arrow keys of a focused list would move to another cell.
    who = ipw.ToggleButtons(options=names, value=student, style={"button_width": "auto"})
    which = ipw.IntSlider(value=1, min=1, max=last, description="search", continuous_update=False)
    previous, following = (ipw.Button(description=name, layout={"width": "7em"}) for name in ("Previous", "Next"))
    previous.on_click(lambda _: setattr(which, "value", max(1, which.value - 1)))
    following.on_click(lambda _: setattr(which, "value", min(last, which.value + 1)))
    sums = ipw.Checkbox(value=log.uniform, disabled=log.uniform, description="sums, as Dynamic-MD", indent=False)
    box = redrawn(
        log.figure,
        "Before you press Next (Tab, then Space): which action will each pair take? The lowest dev loss of a row has "
        "a frame and a star. Then watch the weights below.",
        student=who, number=which, sums=sums,
    )  # fmt: skip
    caption, *_, picture = box.children
    rows = [ipw.HBox(row, layout={"flex_flow": "row wrap"}) for row in ([who, sums], [previous, following, which])]
    box.children = (caption, *rows, picture)
    return box


def _replay(lines: Sequence[Mapping[str, Any]], distill: DistillConfig, where: str) -> list[Search]:
    """The searches of one student from its log, with the weights before each. Raises UserError when the two clash."""
    clip, most = distill.resolved.alpha_clip, float(logit(torch.tensor(distill.alpha_max, dtype=torch.float64)))
    logits = logit(torch.full((len(lines[0]["alpha"]),), distill.alpha0, dtype=torch.float64))
    found = []
    for line in lines:
        order, mu, actions = line["trials"], line["mu"], line["actions"]
        tried, before = lossy_trials(logits, order, mu, clip) if clip < 1 else (
            torch.stack([act(logits, action, mu) for action in order]), logits
        )  # fmt: skip
        tried = tried.clamp(max=most)
        logits = torch.stack([act(x, action, mu) for x, action in zip(before, actions, strict=True)]).clamp(max=most)
        after = torch.tensor(line["alpha"], dtype=torch.float64)
        if not torch.allclose(torch.sigmoid(logits), after, rtol=0, atol=_SAME):
            raise UserError(f"{where}: the search at step {line['step']} does not lead from the weights before it to "
                            "those it names. Are metrics.jsonl and config.json of one run?")  # fmt: skip
        trials = dict(zip(order, torch.sigmoid(tried).tolist(), strict=True))
        results = dict(zip(order, line["results"], strict=True))
        start = torch.sigmoid(before).tolist()
        found.append(Search(line["step"], mu, order, start, trials, results, actions, after.tolist()))
    return found


def _why_none(run: Run) -> str:
    """What to say of a run that has no search to show."""
    if not issubclass(run.method.distiller, AutoPMD):
        name = run.method.name
        return f"{run.path} was trained with {name}, which searches nothing; give a run of auto-pmd or dynamic-md."
    return (
        f"{run.path} has not come to its first search. Searches begin after {run.config.distill.resolved.start:.0%} of "
        "training and come every update_every steps (0: every update_epochs epochs)."
    )
