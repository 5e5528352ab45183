"""How every figure looks and how it leaves the program: colours, sizes, PNG, PDF and HTML with alternative text.

Figures are built on matplotlib.figure.Figure and never through pyplot: pyplot keeps global state, and a notebook may
run widget callbacks in a second thread. The same data give the same bytes, so a reviewer can compare figures.
"""

import base64
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import textalloc
from matplotlib.axes import Axes
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator
from PIL import Image

from pmd_lite.disk import write_atomic, write_bytes
from pmd_lite.errors import UserError

# Okabe and Ito's palette, told apart with any colour vision. Yellow is left out: too pale for a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
LINE_STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "---")
GRAY = "#767676"

WIDTH = 7.0  # inches: the text width of a notebook at 96 dots per inch
SCREEN_DPI, PRINT_DPI = 96, 300
TEXT_SIZE, SMALL_TEXT_SIZE = 10.0, 9.0  # points
MARKS_PER_LINE = 12

XY = tuple[float, float]


class LessonFigure(Figure):
    """A figure with its alternative text; as the last value of a notebook cell it shows both."""

    def __init__(self, alt: str, height: float) -> None:
        if not alt.strip():
            raise UserError("A figure needs an alternative text: say in one or two sentences what there is to see.")
        super().__init__(figsize=(WIDTH, height), dpi=SCREEN_DPI, layout="constrained", facecolor="white")
        self.alt_text = alt

    def _repr_html_(self) -> str:
        return figure_html(self)


MOST_PANELS = 60  # more take minutes to draw, and half a metre to print


def new_figure(
    alt: str, panels: int = 1, *, columns: int = 1, height: float = 3.6, share_y: bool = False
) -> tuple[LessonFigure, list[Axes]]:
    """A figure with `panels` axes in rows of `columns`; height: inches of one row. UserError for too many panels."""
    if panels > MOST_PANELS:
        raise UserError(f"At most {MOST_PANELS} panels fit into one figure, not {panels}. Draw fewer.")
    columns = min(columns, panels)
    rows = -(-panels // columns)
    fig = LessonFigure(alt, height * rows)
    axes = [fig.add_subplot(rows, columns, 1)]
    for i in range(1, panels):
        axes.append(fig.add_subplot(rows, columns, i + 1, sharey=axes[0] if share_y else None))
    for ax in axes:
        ax.grid(True, color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=SMALL_TEXT_SIZE)
        if columns > 1:  # narrow panels: fewer numbers, so that they do not touch
            ax.xaxis.set_major_locator(MaxNLocator(4))
    return fig, axes


def series_style(index: int, points: int = 0) -> dict[str, Any]:
    """Colour, line style and marker of series number `index`: no two of 28 share colour and line style.

    points: length of the line; long lines have few markers, and each line has them at other places. Raises UserError
    for more than 28 series.
    """
    most = len(COLOURS) * len(LINE_STYLES)
    if index >= most:
        raise UserError(f"At most {most} series can be told apart in one figure. Draw fewer.")
    every = max(1, round(points / MARKS_PER_LINE))
    return {
        "color": COLOURS[index % len(COLOURS)], "linestyle": LINE_STYLES[index % len(LINE_STYLES)],
        "marker": MARKERS[index % len(MARKERS)], "markersize": 5.5, "linewidth": 1.6,
        "markevery": (index * every // 3 % every, every),
    }  # fmt: skip


def name_axes(ax: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Label one pair of axes at readable sizes."""
    ax.set_xlabel(x, fontsize=TEXT_SIZE)
    ax.set_ylabel(y, fontsize=TEXT_SIZE)
    ax.set_title(title, fontsize=TEXT_SIZE, loc="left", fontweight="bold")


def legend_above(fig: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """One legend for the whole figure, above the axes, where it hides no data; long labels get fewer columns."""
    letters = max(len(re.sub(r"\\[A-Za-z]+", "x", label.replace("$", ""))) for label in labels)  # $\tau$ is one
    entry = (0.62 * letters + 6) * SMALL_TEXT_SIZE  # about so many points, with handle and gaps
    most = min(4, max(1, int(72 * fig.get_figwidth() // entry)))
    rows = -(-len(labels) // most)
    fig.legend(
        handles, labels, loc="outside upper center", ncols=-(-len(labels) // rows), fontsize=SMALL_TEXT_SIZE,
        frameon=False, handlelength=3.2,
    )  # fmt: skip


def settled(fig: LessonFigure) -> LessonFigure:
    """Fix the layout of the finished figure.

    The layout depends a little on the state it starts from: the ticks fit the size of the axes, whose margins fit the
    tick labels. A new layout at each drawing would not give the same bytes twice.
    """
    if engine := fig.get_layout_engine():
        engine.execute(fig)
        fig.set_layout_engine("none")
    return fig


def png_bytes(fig: Figure, dpi: int = SCREEN_DPI) -> bytes:
    """The figure as PNG with its alternative text in the field Description; for ipywidgets.Image, for instance."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Description": alt_text(fig), "Software": None})
    return buffer.getvalue()


def save_figure(fig: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write stem.png (300 dpi) and stem.pdf, both with the alternative text inside, and return the two paths.

    The same figure gives the same bytes. Missing folders are made.
    """
    stem = Path(stem)
    png, pdf = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".pdf")
    write_bytes(png, png_bytes(fig, PRINT_DPI))
    # Without these fields the file would name today's date and the matplotlib version.
    unset = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    write_atomic(pdf, lambda p: fig.savefig(p, format="pdf", metadata={"Subject": alt_text(fig), **unset}))
    return png, pdf


def _few_colours(png: bytes) -> bytes:
    """The same picture with a palette of 64 colours: a third of the bytes, which stay in git with the notebook.

    The octree keeps the colour of a small mark; a median cut would spend the palette on large areas and turn it gray.
    """
    small = io.BytesIO()
    method, no = Image.Quantize.FASTOCTREE, Image.Dither.NONE
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(64, method=method, dither=no)
    picture.save(small, format="PNG", optimize=True)
    return small.getvalue()


def figure_html(fig: Figure) -> str:
    """An <img> element that holds the PNG itself and the alternative text."""
    data = base64.b64encode(_few_colours(png_bytes(fig))).decode("ascii")
    alt = html.escape(alt_text(fig), quote=True)
    return f'<img src="data:image/png;base64,{data}" alt="{alt}" style="max-width:100%">'


def alt_text(fig: Figure) -> str:
    """The alternative text of a figure made by this package; UserError for any other figure."""
    alt = getattr(fig, "alt_text", "")
    if not alt:
        raise UserError("This figure has no alternative text. Set fig.alt_text to a sentence that says what it shows.")
    return str(alt)


def place_labels(ax: Axes, names: Sequence[str], points: Sequence[XY]) -> None:
    """Write each name beside its point, where it covers nothing that the axes show; a line ties it to the point.

    Call it last: names stand where the layout of the figure is now, which stays as it is.
    """
    settled(cast(LessonFigure, ax.figure))
    drawn = [(line, np.array(line.get_xydata())) for line in ax.lines if line.get_transform() == ax.transData]
    marks = np.concatenate([xy for line, xy in drawn if line.get_linestyle() == "None"])
    lines = [np.transpose(STEP_LOOKUP_MAP[line.get_drawstyle()](*xy.T)) for line, xy in drawn
             if line.get_linestyle() != "None"]  # fmt: skip
    lines += [bar for bars in ax.collections if isinstance(bars, LineCollection) for bar in bars.get_segments()]
    lines += [np.array([arrow.xyann, arrow.xy]) for arrow in ax.texts if isinstance(arrow, Annotation)]
    x, y = np.transpose(points)
    textalloc.allocate(
        ax, x, y, list(names), textsize=SMALL_TEXT_SIZE, linecolor=GRAY, linewidth=0.7, zorder=5,
        x_scatter=marks[:, 0], y_scatter=marks[:, 1],
        x_lines=[line[:, 0] for line in lines], y_lines=[line[:, 1] for line in lines],
    )  # fmt: skip
