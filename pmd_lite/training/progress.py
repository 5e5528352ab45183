"""What training shows while it runs: a bar with the time left, a line per evaluation, or a live figure."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from tqdm.auto import tqdm  # in a notebook a widget

from pmd_lite.config import Show
from pmd_lite.interfaces import Clock


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "IPython" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel")


class Progress:
    """Counts updates and tokens; prints to stderr (bar) or stdout (lines), or draws in a notebook (dashboard)."""

    def __init__(
        self, show: Show, name: str, pairs: Sequence[str], total: int, done: int = 0,
        redraw: Callable[[], None] | None = None,
    ):  # fmt: skip
        """redraw: draws the dashboard; without it (outside notebooks) show="dashboard" prints lines."""
        if show == "auto":
            show = "bar" if sys.stderr.isatty() or in_notebook() else "lines"
        self.recorded: Callable[[], None] = lambda: None
        """Training calls this after it has written new lines to metrics.jsonl."""
        if show == "dashboard":
            show, self.recorded = ("off", redraw) if redraw else ("lines", self.recorded)
        self.show, self.name, self.pairs, self.total = show, name, pairs, total
        self._dev: dict[int, float] | None = {} if show == "bar" and in_notebook() else None
        self._bar: tqdm[None] | None = None
        if show == "bar":
            self._bar = tqdm(total=total, initial=done, desc=name, unit="step", dynamic_ncols=True, smoothing=0.05)
            # tqdm reads the wall clock, which jumps when a laptop wakes up or a time server corrects the time.
            self._bar._time = time.perf_counter
            self._bar.start_t = self._bar.last_print_t = time.perf_counter()
        self._started, self._first, self._tokens, self._rate_tokens = time.perf_counter(), done, 0, 0

    def advance(self, step: int, tokens: int) -> None:
        """Count one update of every student, with `tokens` target tokens in all."""
        self._tokens += tokens
        if self._bar is not None:
            self._bar.update(1)
            if step % 20 == 0:
                self._bar.set_postfix_str(f"{self.tokens_per_second:,.0f} tok/s", refresh=False)

    @property
    def seconds(self) -> float:
        """Seconds since this process began or resumed the run."""
        return time.perf_counter() - self._started

    @property
    def tokens_per_second(self) -> float:
        """Target tokens of all students per second of this process."""
        return self._tokens / max(self.seconds, 1e-9)

    def evaluation(self, step: int, student: int, losses: Sequence[float]) -> None:
        """Print the dev losses of one student, pair by pair."""
        if self.show == "off":
            return
        if self._dev is not None and self._bar is not None:  # beside the bar, because lines would push it away
            self._dev[student] = sum(losses) / len(losses)
            self._bar.set_description(f"{self.name}  dev {', '.join(f'{loss:.2f}' for loss in self._dev.values())}")
            return
        left = (self.total - step) * self.seconds / max(1, step - self._first)
        dev = by_pair(self.pairs, losses, ".2f", " ")
        line = f"{self.name}  step {step}/{self.total}  model_{student + 1}  dev {dev}"
        line += f"  ({self.tokens_per_second:,.0f} tok/s, {duration(left)} left)" if student == 0 else ""
        self.say(line)

    def say(self, line: str) -> None:
        """Print a line without breaking the bar."""
        out: TextIO = sys.stderr if self.show == "bar" and self._dev is None else sys.stdout
        if self.show != "off":
            tqdm.write(line, file=out)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def by_pair(pairs: Sequence[str], values: Sequence[float], form: str, between: str = ", ") -> str:
    """The value of every pair; of more than 20 pairs, which would fill the screen, the mean and both ends."""
    if len(pairs) > 20:
        ends = [f"{value:{form}} ({pair})" for value, pair in (f(zip(values, pairs, strict=True)) for f in (min, max))]
        return f"mean {sum(values) / len(values):{form}} of {len(pairs)} pairs, from {' to '.join(ends)}"
    return between.join(f"{pair} {value:{form}}" for pair, value in zip(pairs, values, strict=True))


def describe_passes(
    clock: Clock, pairs: Sequence[str], visits: Sequence[Sequence[float]], so_far: bool = False
) -> list[str]:
    """Lines of text: how long an epoch is, and how often students see a sentence in the run, or have seen it so far.

    visits: [student][pair] how often each sentence of the pair is seen.
    """
    epochs = f"{clock.total / clock.epoch:,.1f}".removesuffix(".0")
    lines = [f"an epoch is {clock.epoch:,} updates; the run has {clock.total:,}, which are {epochs} epochs"]
    for i, row in enumerate(visits):
        who = (f"model_{i + 1} " if len(visits) > 1 else "") + ("has seen" if so_far else "sees")
        lines.append(f"{who} each sentence so many times: {by_pair(pairs, [float(f'{x:.3g}') for x in row], ',g')}")
    return lines


def duration(seconds: float) -> str:
    """Seconds in a readable unit: "3.4 s", "59 min", "1 h 23 min", "111 h (4.6 days)"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.2g} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes / 60
    return f"{hours:,.0f} h ({hours / 24:,.1f} days)" if hours >= 48 else f"{minutes // 60} h {minutes % 60:02d} min"
