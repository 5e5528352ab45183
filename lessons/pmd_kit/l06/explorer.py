"""The frontier explorer: choose runs, two axes and a measure; see who is dominated, by whom, and the area.

Fed by a folder of runs (see `contenders`); the picture is `frontier_plane`'s. All controls are reached with Tab and
moved with the keyboard, and the alternative text of the picture says what it shows after each move.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ipywidgets as ipw

from pmd_kit.l06.contenders import HIGHER_IS_BETTER, Contender, collect
from pmd_kit.l06.frontier_plane import AXES, frontier_plane, standing_table, usual_reference
from pmd_kit.widgets import chooser
from pmd_lite.errors import UserError
from pmd_lite.figures.style import figure_html


def _named(kind: Callable[..., Any], name: str, **options: Any) -> Any:
    """A control with its name. Each has a layout of its own: a shared one would hide all of them with the first."""
    return kind(description=name, layout=ipw.Layout(width="26em"), style={"description_width": "11em"}, **options)


class FrontierExplorer:
    """The plane with its controls; `box` is the widget. A folder that changes can be read again.

    opens: the runs that are ticked at first, those of other lessons are not; without them all runs are.
    """

    def __init__(self, folder: str | Path, opens: Sequence[Contender] = ()):
        self.folder, self._quiet, self._opens = folder, False, [c.scores for c in opens]
        self.corpus, self.across, self.up = (chooser([], description=name) for name in ("corpus", "across", "up"))
        self.measure = chooser(list(HIGHER_IS_BETTER), description="measure")
        self.joined = ipw.Checkbox(value=True, description="mean over seeds", indent=False)
        self.corner = tuple(_named(ipw.FloatText, f"area from ({name})") for name in ("across", "up"))
        self.again, self.all, self.none = (ipw.Button(description=d) for d in ("read folder again", "all", "none"))
        self.ticks: dict[str, ipw.Checkbox] = {}
        self.boxes = ipw.GridBox(layout=ipw.Layout(grid_template_columns="repeat(2, 24em)"))
        self.picture = ipw.HTML()
        self.box = ipw.VBox([
            ipw.HTML("<p>Tick runs (Tab moves, Space ticks), choose the axes, and see which are left. Which points "
                     "does each one dominate? What happens to the frontier with the other measure?</p>"),
            self.corpus, self.measure, self.across, self.up, ipw.HBox(self.corner),
            ipw.HBox([self.joined, self.all, self.none, self.again]),
            self.boxes, self.picture,
        ])  # fmt: skip
        self.again.on_click(lambda _: self.read())
        self.all.on_click(lambda _: self.tick(True))
        self.none.on_click(lambda _: self.tick(False))
        self.corpus.observe(lambda _: self._rebuild(), names="value")
        self.joined.observe(lambda _: self._rebuild(), names="value")
        for control in (self.measure, self.across, self.up):
            control.observe(lambda _: self._move_corner(), names="value")
        for control in self.corner:
            control.observe(lambda _: self._redraw(), names="value")
        self.read()

    def read(self) -> None:
        """Look into the folder: finished runs become contenders, everything else a note."""
        self.found = collect(self.folder)
        corpora = list(dict.fromkeys(c.corpus for c in self.found.contenders))
        with self._silently():
            kept = self.corpus.value
            self.corpus.options = corpora
            first = [c.corpus for c in self.found.contenders if c.scores in self._opens] + corpora
            self.corpus.value = kept if kept in corpora else next(iter(first), None)
            self.corpus.layout.display = "none" if len(corpora) < 2 else None
        self._rebuild()

    def tick(self, on: bool) -> None:
        """Choose all, or none."""
        with self._silently():
            for box in self.ticks.values():
                box.value = on
        self._redraw()

    @property
    def contenders(self) -> list[Contender]:
        """Who could be chosen: those of the chosen corpus, seeds together or apart."""
        of_corpus = [c for c in self.found.contenders if c.corpus == self.corpus.value]
        return of_corpus if self.joined.value else [one for c in of_corpus for one in c.apart()]

    @property
    def axes(self) -> tuple[str, str]:
        """The chosen axes."""
        return self.across.value, self.up.value

    def _rebuild(self) -> None:
        """New tick boxes and axes for another set of contenders; what stays keeps its tick."""
        if self._quiet:
            return
        contenders = self.contenders
        with self._silently():
            before = {label: box.value for label, box in self.ticks.items()}
            self.ticks = {}
            for c in contenders:
                ticked = before.get(c.label, not self._opens or c.scores in self._opens)
                box = ipw.Checkbox(value=ticked, description=c.label, indent=False)
                box.observe(lambda _: self._redraw(), names="value")
                self.ticks[c.label] = box
            self.boxes.children = list(self.ticks.values())
            names = list(contenders[0].axes) if contenders else []
            for control, usual in zip((self.across, self.up), AXES, strict=True):
                kept = control.value
                control.options = names
                control.value = kept if kept in names else usual if usual in names else None
        self._move_corner()

    def _move_corner(self) -> None:
        if self._quiet:
            return
        with self._silently():
            for control, value in zip(self.corner, usual_reference(self.contenders, self.measure.value, self.axes),
                                      strict=True):  # fmt: skip
                control.value = value
        self._redraw()

    def _redraw(self) -> None:
        if self._quiet:
            return
        everybody = self.contenders
        chosen = [c for c in everybody if self.ticks[c.label].value]
        view = (self.measure.value, self.axes, (self.corner[0].value, self.corner[1].value))
        try:
            if not chosen:
                raise UserError("Tick at least one run." if everybody else "There is no finished run to show.")
            looks = {c.label: i for i, c in enumerate(everybody)}
            picture = figure_html(frontier_plane(chosen, *view, looks=looks)) + standing_table(chosen, *view).to_html()
        except UserError as error:
            picture = f"<p>{html.escape(str(error))}</p>"
        unmeasured = [c.label for c in chosen if not c.cloud(view[0], view[1])] if "<img" in picture else []
        notes = [*([f"no {view[0]}: {', '.join(unmeasured)}"] if unmeasured else []), *self.found.notes]
        listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        self.picture.value = picture + (f"<p>Not in the picture:</p><ul>{listed}</ul>" if notes else "")

    @contextmanager
    def _silently(self) -> Iterator[None]:
        """Change controls without a redraw at each of them."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before


def frontier_explorer(folder: str | Path = "runs", opens: Sequence[Contender] = ()) -> ipw.VBox:
    """The explorer of all runs in a folder. opens: those that are ticked at first."""
    return FrontierExplorer(folder, opens).box
