"""How far a run is, in one figure. It is read from the run directory, so any process may train the run.

    dashboard(path)                   the figure, now
    watch(path)                       a widget that redraws it every few seconds, beside a run in another process
    train(..., show="dashboard")      the same figure below the cell that trains, after every evaluation

A run that is still writing, or was killed, may leave half a last line in metrics.jsonl. That line is ignored.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import ipywidgets as ipw

from pmd_lite.errors import UserError
from pmd_lite.figures.style import (
    TEXT_SIZE,
    LessonFigure,
    figure_html,
    legend_above,
    name_axes,
    new_figure,
    series_style,
    settled,
)
from pmd_lite.run import Run
from pmd_lite.training.progress import duration, in_notebook

Lines = Sequence[Mapping[str, Any]]
ROW = 2.1  # inches


@dataclass(frozen=True)
class Standing:
    """How far a run is. Rates are those of the last stretch between two evaluations."""

    step: int
    total: int
    seconds: float
    tokens_per_second: float
    steps_per_second: float
    skipped: int
    """Updates of all students that the scaler left out because fp16 overflowed."""
    finished: bool

    @property
    def seconds_left(self) -> float | None:
        """At the pace of the last stretch; None when this took no time."""
        if self.finished:
            return 0.0
        return (self.total - self.step) / self.steps_per_second if self.steps_per_second > 0 else None

    def words(self, times: bool = True) -> str:
        """One line, with or without durations and speed."""
        parts = [f"step {self.step:,} of {self.total:,} ({100 * self.step / self.total:.0f} %)"]
        if self.finished:
            parts.append(f"finished after {duration(self.seconds)}" if times else "finished")
        elif times:
            parts.append(f"{self.tokens_per_second:,.0f} target tokens/s")
            if self.seconds_left is not None:
                parts.append(f"{duration(self.seconds_left)} left")
        if self.skipped:
            parts.append(f"{self.skipped:,} updates skipped by overflow")
        return ", ".join(parts)


def standing(run: Run) -> Standing:
    """How far a run is. Raises UserError before its first evaluation."""
    lines = run.lines("eval")
    if not lines:
        raise UserError(f"{run.path} has not been evaluated yet: there is nothing to draw before its first evaluation.")
    seconds = {0: 0.0, **{line["step"]: float(line["seconds"]) for line in lines}}
    before, step = list(seconds)[-2:]
    elapsed = seconds[step] - seconds[before]
    skipped = {line["student"]: int(line["overflow_skips"]) for line in lines}  # the last line of each student stays
    pace = (step - before) / elapsed if elapsed > 0 else math.nan
    rate, total = throughput(lines)[1][-1], lines[-1]["total"]
    return Standing(step, total, seconds[step], rate, pace, sum(skipped.values()), run.dir.finished)


def throughput(lines: Lines) -> tuple[list[int], list[float]]:
    """Steps of evaluations, and target tokens of all students per second since the one before (searches included)."""
    tokens: dict[int, float] = {}
    seconds: dict[int, float] = {}
    for line in lines:
        tokens[line["step"]] = tokens.get(line["step"], 0.0) + sum(line["tokens"])
        seconds[line["step"]] = float(line["seconds"])
    spans = [now - before for before, now in pairwise([0.0, *seconds.values()])]
    rates = [made / span if span > 0 else math.nan for made, span in zip(tokens.values(), spans, strict=True)]
    return list(tokens), rates


def dashboard(run_dir: str | Path | Run, times: bool = True) -> LessonFigure:
    """Dev losses, weights and sampling probabilities of every student, tokens per second, skipped updates.

    Panels that would show nothing are left out: weights of a run that never distils, skips where no scaler is used.
    times: False leaves out what differs from machine to machine.
    Raises UserError when `run_dir` is not a run directory, or before the first evaluation.
    """
    run = run_dir if isinstance(run_dir, Run) else Run(run_dir)
    where = standing(run)
    lines = run.lines("eval")
    students = {label: [line for line in lines if line["student"] == i] for i, label in enumerate(run.labels)}
    fields = {"dev_loss": "dev loss (nats)", "alpha": r"weight $\alpha$", "p": "share of draws"}
    if not any(any(line["alpha"]) for line in lines):
        del fields["alpha"]
    scaled = run.config.train.precision == "fp16" or where.skipped > 0
    title = f"{run.method.name} on {run.corpus['name']}: {where.words(times)}"
    ends = {label: zip(run.pairs, of[-1]["dev_loss"], strict=True) for label, of in students.items() if of}
    alt = "; ".join(f"{label} dev loss " + ", ".join(f"{pair} {loss:.2f}" for pair, loss in end)
                    for label, end in ends.items())  # fmt: skip
    panels = len(fields) * len(students) + times + scaled
    fig, axes = new_figure(f"{title}. {alt}", panels, columns=max(2, len(students)), height=ROW)
    rest = iter(axes)
    for field, name in fields.items():
        for label, of in students.items():
            ax = next(rest)
            for i, pair in enumerate(run.pairs):
                ax.plot([line["step"] for line in of], [line[field][i] for line in of], label=pair,
                        **series_style(i, len(of)))  # fmt: skip
            name_axes(ax, title=f"{name}, {_short(label)}")
            if field != "dev_loss":
                ax.set_ylim(*((-0.03, 1.03) if field == "alpha" else (0, None)))
    if times:
        ax = next(rest)
        steps, rates = throughput(lines)
        ax.plot(steps, rates, **series_style(4, len(steps)))
        name_axes(ax, title="target tokens/s, all students")
        ax.set_ylim(bottom=0)
    if scaled:
        ax = next(rest)
        for i, (label, of) in enumerate(students.items()):
            ax.plot([line["step"] for line in of], [line["overflow_skips"] for line in of], label=_short(label),
                    drawstyle="steps-post", **series_style(i, len(of)))  # fmt: skip
        ax.legend(frameon=False, fontsize=TEXT_SIZE - 2)
        name_axes(ax, title="updates skipped by overflow")
        ax.set_ylim(bottom=0)
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    legend_above(fig, *axes[0].get_legend_handles_labels())
    fig.legends[0].set_title(title)
    fig.legends[0].get_title().set_fontsize(TEXT_SIZE)
    return settled(fig)


def _short(label: str) -> str:
    """ "auto-pmd model_1 (tau=1)" -> "model_1 (tau=1)": the method stands in the title."""
    return label.split(" ", 1)[1] if " model_" in label else label


def live(run_dir: Path) -> Callable[[], None] | None:
    """Make room for the dashboard below the cell that runs now; each call of the function returned redraws it there.

    None outside notebooks. Drawing happens in the thread that calls, so never while training computes.
    """
    if not in_notebook():
        return None
    from IPython.display import display

    waiting = {"text/plain": f"{run_dir}: waiting for the first evaluation"}
    handle = display(waiting, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def draw() -> None:
        fig = dashboard(run_dir)
        handle.update({"text/html": figure_html(fig), "text/plain": fig.alt_text}, raw=True)

    return draw


def watch(run_dir: str | Path, every: float = 5.0) -> ipw.VBox:
    """The dashboard of a run in another process or thread, redrawn every `every` seconds if the run wrote something.

    It lives in the notebook's own event loop, without a thread, so it waits while a cell of this notebook computes. It
    ends when the run ends or a reader presses Stop. Without an event loop it draws once. Raises UserError unless
    `every` is positive.
    """
    if not every > 0:
        raise UserError(f"every={every}: give a number of seconds above 0")
    picture, stop = ipw.HTML(), ipw.Button(description="Stop watching")
    metrics, end = Path(run_dir) / "metrics.jsonl", Path(run_dir) / "finished.json"
    drawn: tuple[int, bool] | None = None  # size of metrics.jsonl and whether the run had finished

    def redraw() -> None:
        nonlocal drawn
        now = (metrics.stat().st_size if metrics.exists() else 0), end.exists()
        if now != drawn:
            drawn = now
            try:
                picture.value = figure_html(dashboard(run_dir))
            except UserError as error:
                picture.value = f"<p>{error}</p>"
        if end.exists():
            stop.disabled, stop.description = True, "Finished"

    async def follow() -> None:
        while not stop.disabled:
            await asyncio.sleep(every)
            if not stop.disabled:
                redraw()

    def on_stop(_: object) -> None:
        stop.disabled, stop.description = True, "Stopped"

    redraw()
    stop.on_click(on_stop)
    box = ipw.VBox([picture, stop])
    try:
        # The loop alone would let the garbage collector take the task.
        box.task = asyncio.get_running_loop().create_task(follow())
    except RuntimeError:
        stop.disabled = True
    return box
