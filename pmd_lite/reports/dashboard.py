"""Where a run stands, in one figure: read from its directory, so it does not matter who trains, or whether still.

    dashboard(path)                   the figure, now
    watch(path)                       a widget that draws it anew every few seconds, beside a run in another process
    train(..., show="dashboard")      the same figure below the cell that trains, after every evaluation

A run that is being written, or was killed, may leave half a last line in metrics.jsonl; it is passed over.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets as ipw
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

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

Lines = Sequence[Mapping[str, Any]]
ROW = 2.1  # inches


@dataclass(frozen=True)
class Standing:
    """How far a run is. Rates are those of the last stretch between two evaluations."""

    step: int
    total: int | None
    """None: an older run did not write it down."""
    seconds: float
    tokens_per_second: float
    steps_per_second: float
    skipped: int
    """Updates of all students that fp16 overflow made the scaler leave out."""
    finished: bool

    @property
    def seconds_left(self) -> float | None:
        """At the pace of the last stretch; None when there is nothing to tell it by."""
        if self.finished:
            return 0.0
        if self.total is None or not self.steps_per_second > 0:
            return None
        return (self.total - self.step) / self.steps_per_second

    def words(self, times: bool = True) -> str:
        """One line, with or without what takes time."""
        of = f" of {self.total:,} ({100 * self.step / self.total:.0f} %)" if self.total else ""
        said = [f"step {self.step:,}{of}"]
        if self.finished:
            said.append(f"finished after {clock(self.seconds)}" if times else "finished")
        elif times:
            said.append(f"{self.tokens_per_second:,.0f} target tokens/s")
            if self.seconds_left is not None:
                said.append(f"{clock(self.seconds_left)} left")
        if self.skipped:
            said.append(f"{self.skipped:,} updates skipped by overflow")
        return ", ".join(said)


def standing(run: Run) -> Standing:
    """How far a run is. Raises UserError before its first evaluation."""
    lines = [line for line in run.dir.metrics() if line["event"] == "eval"]
    if not lines:
        raise UserError(f"{run.path} has not been evaluated yet: there is nothing to draw before its first evaluation.")
    steps = [line["step"] for line in lines if line["student"] == 0]
    rate = throughput(lines)[1][-1]
    last = lines[-1]
    at = {line["step"]: float(line["seconds"]) for line in lines}
    before = steps[-2] if len(steps) > 1 else 0
    elapsed = at[steps[-1]] - at.get(before, 0.0)
    skipped = {line["student"]: int(line["overflow_skips"]) for line in lines}  # the last line of each student stays
    total = last.get("total") or (run.config.train.steps if not run.config.train.epochs else None)
    pace = (steps[-1] - before) / elapsed if elapsed > 0 else math.nan
    return Standing(steps[-1], total, at[steps[-1]], rate, pace, sum(skipped.values()), run.dir.finished)


def throughput(lines: Lines) -> tuple[list[int], list[float]]:
    """Steps of evaluations, and target tokens of all students per second since the one before (searches included)."""
    tokens: dict[int, float] = {}
    seconds: dict[int, float] = {}
    for line in lines:
        tokens[line["step"]] = tokens.get(line["step"], 0.0) + sum(line["tokens"])
        seconds[line["step"]] = float(line["seconds"])
    rates, before = [], 0.0
    for step, now in seconds.items():
        rates.append(tokens[step] / (now - before) if now > before else math.nan)
        before = now
    return list(tokens), rates


def dashboard(run_dir: str | Path | Run, times: bool = True) -> LessonFigure:
    """Dev losses, weights and sampling probabilities of every student, tokens per second, skipped updates.

    Panels that would say nothing are left out: weights of a run that never distils, skips where no scaler is at work.
    times: False leaves out what differs from machine to machine.
    Raises UserError when `run_dir` is no run directory, or before the first evaluation.
    """
    run = run_dir if isinstance(run_dir, Run) else Run(run_dir)
    where = standing(run)
    lines = [line for line in run.dir.metrics() if line["event"] == "eval"]
    of = [[line for line in lines if line["student"] == i] for i in range(len(run.labels))]
    fields = [("dev_loss", "dev loss (nats)"), ("p", "share of draws")]
    if any(any(line["alpha"]) for line in lines):
        fields.insert(1, ("alpha", r"weight $\alpha$"))
    scaled = run.config.train.precision == "fp16" or where.skipped > 0
    title = f"{run.method.name} on {run.corpus['name']}: {where.words(times)}"
    alt = f"{title}. " + "; ".join(
        f"{label} dev loss " + ", ".join(f"{p} {x:.2f}" for p, x in zip(run.pairs, seen[-1]["dev_loss"], strict=True))
        for label, seen in zip(run.labels, of, strict=True)
        if seen
    )
    columns = max(2, len(run.labels))
    fig, axes = new_figure(alt, len(fields) * len(run.labels) + times + scaled, columns=columns, height=ROW)
    rest = iter(axes)
    handles: list[Line2D] = []
    for field, name in fields:
        for label, seen in zip(run.labels, of, strict=True):
            handles = _curves(next(rest), seen, field, f"{name}, {_short(label)}", run.pairs)
    if times:
        _rates(next(rest), *throughput(lines))
    if scaled:
        _skips(next(rest), run.labels, of)
    fig.supxlabel("training step", fontsize=TEXT_SIZE)
    legend_above(fig, handles, run.pairs)
    fig.legends[0].set_title(title)
    fig.legends[0].get_title().set_fontsize(TEXT_SIZE)
    return settled(fig)


def live(run_dir: Path) -> Callable[[], None] | None:
    """Show a place for the dashboard below the cell that runs now; the function returned fills it, again and again.

    None outside notebooks. All happens in the thread that calls: nothing is drawn while training computes.
    """
    from IPython import get_ipython
    from IPython.display import display

    if not hasattr(get_ipython(), "kernel"):
        return None
    waiting = {"text/plain": f"{run_dir}: waiting for the first evaluation"}
    handle = display(waiting, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def draw() -> None:
        fig = dashboard(run_dir)
        handle.update({"text/html": figure_html(fig), "text/plain": fig.alt_text}, raw=True)

    return draw


def watch(run_dir: str | Path, every: float = 5.0) -> ipw.VBox:
    """The dashboard of a run in another process or thread, drawn anew every `every` seconds while it has news.

    It lives in the notebook's own event loop, without a thread: while a cell of this notebook computes, it rests. It
    ends when the run ends or Stop is pressed. Without an event loop it draws once.
    """
    if not every > 0:
        raise UserError(f"every={every}: give a number of seconds above 0")
    picture, stop = ipw.HTML(), ipw.Button(description="Stop watching")
    path, seen = Path(run_dir), _State()

    def redraw() -> None:
        if seen.news(path):
            try:
                picture.value = figure_html(dashboard(path))
            except UserError as error:
                picture.value = f"<p>{error}</p>"

    async def follow() -> None:
        while not stop.disabled:
            await asyncio.sleep(every)
            redraw()
            stop.disabled = stop.disabled or seen.finished
        stop.description = "Finished" if seen.finished else "Stopped"

    def on_stop(_: object) -> None:
        stop.disabled = True

    redraw()
    stop.on_click(on_stop)
    box = ipw.VBox([picture, stop])
    if seen.finished:
        stop.disabled, stop.description = True, "Finished"
        return box
    try:
        box.task = asyncio.get_running_loop().create_task(follow())  # the loop itself would forget a task nobody holds
    except RuntimeError:
        stop.disabled = True
    return box


class _State:
    """What of a run directory was drawn last."""

    def __init__(self) -> None:
        self.size, self.finished = -1, False

    def news(self, path: Path) -> bool:
        """Whether there is more to draw than the last time."""
        metrics = path / "metrics.jsonl"
        now = (metrics.stat().st_size if metrics.exists() else 0), (path / "finished.json").exists()
        changed = now != (self.size, self.finished)
        self.size, self.finished = now
        return changed


def clock(seconds: float) -> str:
    """ "3 h 20 min", "4 min" or "12 s"."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, rest = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours} h {rest:02d} min" if hours else f"{minutes} min"


def _short(label: str) -> str:
    """ "auto-pmd model_1 (tau=1)" -> "model_1 (tau=1)": the method stands in the title."""
    return label.split(" ", 1)[1] if " model_" in label else label


def _curves(ax: Axes, seen: Lines, field: str, title: str, pairs: Sequence[str]) -> list[Line2D]:
    """One line per pair."""
    steps = [line["step"] for line in seen]
    handles = []
    for i, pair in enumerate(pairs):
        handles += ax.plot(steps, [line[field][i] for line in seen], label=pair, **series_style(i, len(steps)))
    if field == "alpha":
        ax.set_ylim(-0.03, 1.03)
    elif field == "p":
        ax.set_ylim(bottom=0)
    name_axes(ax, title=title)
    return handles


def _rates(ax: Axes, steps: Sequence[int], rates: Sequence[float]) -> None:
    ax.plot(steps, rates, **series_style(4, len(steps)))
    ax.set_ylim(bottom=0)
    name_axes(ax, title="target tokens/s, all students")


def _skips(ax: Axes, labels: Sequence[str], of: Sequence[Lines]) -> None:
    for i, (label, seen) in enumerate(zip(labels, of, strict=True)):
        steps = [line["step"] for line in seen]
        ax.plot(steps, [line["overflow_skips"] for line in seen], drawstyle="steps-post", label=_short(label),
                **series_style(i, len(steps)))  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=TEXT_SIZE - 2)
    name_axes(ax, title="updates skipped by overflow")
