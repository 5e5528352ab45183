"""Figures hold the numbers given, can be read without colour, carry their alternative text, and are reproducible."""

from __future__ import annotations

import base64
import html.parser
import io
import math
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.path import Path as Curve
from matplotlib.text import Text
from PIL import Image

from pmd_kit import pictures
from pmd_lite.errors import UserError
from pmd_lite.figures import plots, style
from pmd_lite.figures.style import LessonFigure

PAIRS = ["fr-en", "de-en", "tr-en"]
STEPS = [100, 200, 300, 400]
BY_PAIR = {"fr-en": [0.1, 0.2, 0.3, 0.25], "de-en": [0.1, 0.1, 0.2, 0.2], "tr-en": [0.1, 0.4, 0.6, 0.5]}
LOSSES = {"model 1": {"fr-en": [4.0, 3.0, 2.5, 2.6], "tr-en": [5.0, 4.0, 4.5, 5.0]}}
LOSSES["model 2"] = {"tr-en": [5.0, 4.2, 4.1, 4.0]}
POINTS = {"A": (12.0, 26.0), "B": (16.0, 22.0), "A'": (15.5, 26.4), "B'": (16.6, 25.1)}
ARROWS = [("A", "A'"), ("B", "B'")]
ALT = 'Two lines: "τ = 1" falls, α & β <rise> – and the reader may not see it.'

# name: (a call without alt, the same call with nothing to draw)
FIGURES: dict[str, tuple[Callable[..., LessonFigure], Callable[..., LessonFigure]]] = {
    "sampling": (
        lambda **k: pictures.sampling_distribution(PAIRS, [300, 200, 10], [1, 5, math.inf], **k),
        lambda **k: pictures.sampling_distribution([], [], [1], **k),
    ),
    "dev_loss": (lambda **k: plots.dev_loss(STEPS, LOSSES, **k), lambda **k: plots.dev_loss(STEPS, {"m": {}}, **k)),
    "alpha": (
        lambda **k: plots.alpha_over_time(STEPS, {"student 1": BY_PAIR, "student 2": BY_PAIR}, **k),
        lambda **k: plots.alpha_over_time(STEPS, {}, **k),
    ),
    "probabilities": (
        lambda **k: pictures.probabilities_over_time(STEPS, BY_PAIR, **k),
        lambda **k: pictures.probabilities_over_time([], {"fr-en": []}, **k),
    ),
    "frontier": (
        lambda **k: plots.frontier(POINTS, baselines=["A", "B"], ours=["A'", "B'"], arrows=ARROWS, **k),
        lambda **k: plots.frontier({}, **k),
    ),
}
every_figure = pytest.mark.parametrize("name", FIGURES)


def lines(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """{label: (x, y)} of the labelled lines."""
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in ax.lines
        if not str(line.get_label()).startswith("_")
    }


def stars(ax: Axes) -> list[tuple[float, float]]:
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_marker() == "*"]  # type: ignore[index]


def legend_texts(fig: LessonFigure) -> list[str]:
    return [text.get_text() for legend in fig.legends for text in legend.get_texts()]


# ---------------------------------------------------------------- what a figure holds
def test_sampling_distribution_follows_equation_2() -> None:
    fig = pictures.sampling_distribution(["a", "b"], [90, 10], [1, 2, math.inf], alt=ALT)
    drawn = [y for _, y in lines(fig.axes[0]).values()]
    assert drawn[0] == pytest.approx([0.9, 0.1])
    assert drawn[1] == pytest.approx([0.75, 0.25])  # square roots 3 : 1
    assert drawn[2] == pytest.approx([0.5, 0.5])
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["a", "b"]
    assert legend_texts(fig) == [r"$\tau=1$", r"$\tau=2$", r"$\tau=\infty$"]


def test_dev_loss_has_one_panel_per_pair_and_marks_the_minimum() -> None:
    fig = plots.dev_loss(STEPS, LOSSES, alt=ALT)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["fr-en", "tr-en"]
    assert lines(fig.axes[0]) == {"model 1": (STEPS, LOSSES["model 1"]["fr-en"])}
    assert lines(fig.axes[1]) == {model: (STEPS, by_pair["tr-en"]) for model, by_pair in LOSSES.items()}
    assert [stars(ax) for ax in fig.axes] == [[(300, 2.5)], [(200, 4.0), (400, 4.0)]]
    assert legend_texts(fig) == ["model 1", "model 2", "lowest dev loss"]


def test_dev_loss_keeps_every_star_and_the_settled_part_in_view() -> None:
    steps = list(range(20))
    falling = [100.0, 50.0, 20.0, 9.0, *[4.0 - 0.1 * i for i in range(16)]]
    low, high = plots.dev_loss(steps, {"m": {"tr-en": falling}}, alt=ALT).axes[0].get_ylim()
    assert low < min(falling) and 4.0 < high < 9.0  # the fall from 100 leaves the panel, the settled part fills it
    short = plots.dev_loss(STEPS, {"m": {"tr-en": [100.0, 5.0, 4.0, 4.0]}}, alt=ALT)
    assert short.axes[0].get_ylim()[1] > 100  # too few points to speak of a settled part


def test_a_missing_loss_is_a_gap_and_never_the_minimum() -> None:
    fig = plots.dev_loss(STEPS, {"m": {"a": [3.0, math.nan, 2.0, 2.5], "b": [math.nan] * 4}}, alt=ALT)
    assert [stars(ax) for ax in fig.axes] == [[(300, 2.0)], []]
    assert np.isnan(lines(fig.axes[0])["m"][1][1])


def test_alpha_has_one_panel_per_student_from_zero_to_one() -> None:
    second = {pair: [1 - a for a in values] for pair, values in BY_PAIR.items()}
    fig = plots.alpha_over_time(STEPS, {"student 1": BY_PAIR, "student 2": second}, alt=ALT)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["student 1", "student 2"]
    for ax, by_pair in zip(fig.axes, (BY_PAIR, second), strict=True):
        assert {pair: y for pair, (_, y) in lines(ax).items()} == by_pair
        low, high = ax.get_ylim()
        assert -0.1 < low <= 0 and 1 <= high < 1.1 and ax.get_yscale() == "linear"
    assert legend_texts(fig) == PAIRS


def test_a_pair_looks_the_same_in_every_panel_and_unlike_the_others() -> None:
    fig = plots.alpha_over_time(STEPS, {"student 1": BY_PAIR, "student 2": {"tr-en": BY_PAIR["tr-en"]}}, alt=ALT)
    looks = [[(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines] for ax in fig.axes]
    assert len(set(looks[0])) == 3 and looks[1] == [looks[0][2]]
    (ax,) = pictures.probabilities_over_time(STEPS, BY_PAIR, alt=ALT).axes
    assert [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines] == looks[0]
    for ax in plots.dev_loss(STEPS, LOSSES, alt=ALT).axes[1:]:  # here the lines are models
        assert [line.get_color() for line in ax.lines if line.get_marker() != "*"] == list(style.COLOURS[:2])


def test_probabilities_hold_the_data() -> None:
    fig = pictures.probabilities_over_time(np.array(STEPS), {p: np.array(v) for p, v in BY_PAIR.items()}, alt=ALT)
    assert lines(fig.axes[0]) == {pair: (STEPS, values) for pair, values in BY_PAIR.items()}
    assert legend_texts(fig) == PAIRS


def test_frontier_points_arrows_and_curves() -> None:
    points = POINTS | {"C": (13.0, 21.0)}  # beaten by A' and others: not on the gray line
    fig = plots.frontier(points, baselines=["B", "C", "A"], ours=["A'", "B'"], arrows=ARROWS, alt=ALT)
    (ax,) = fig.axes
    marks = {line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_gid()}  # type: ignore[index]
    assert marks == points
    left, low = ax.get_xlim()[0], ax.get_ylim()[0]
    assert lines(ax) == {
        "frontier of baselines": ([left, 12.0, 16.0, 16.0], [26.0, 26.0, 22.0, low]),
        "frontier of Pareto-MD": ([left, 15.5, 16.6, 16.6], [26.4, 26.4, 25.1, low]),
    }
    fronts = [line for line in ax.lines if str(line.get_label()).startswith("frontier")]
    assert {line.get_drawstyle() for line in fronts} == {"steps-pre"}, "no slope: nobody has trained what lies on it"
    assert len({line.get_linestyle() for line in fronts}) == 2, "colour is not all that tells them apart"
    arrows = {t.get_gid(): (t.xyann, t.xy) for t in ax.texts if t.get_gid()}  # type: ignore[attr-defined]
    assert arrows == {"A->A'": (POINTS["A"], POINTS["A'"]), "B->B'": (POINTS["B"], POINTS["B'"])}
    assert {t.get_text() for t in ax.texts if t.get_text()} == set(points)
    assert "low-resource" in ax.get_xlabel() and "high-resource" in ax.get_ylabel()


def test_arrow_heads_come_to_their_points_on_paper() -> None:
    fig = plots.frontier(POINTS, arrows=[("A", "A'")], alt=ALT)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    (arrow,) = [t for t in ax.texts if t.get_gid()]
    path = arrow.arrow_patch.get_path().vertices  # type: ignore[attr-defined]  # display coordinates, shrunk by 6 pt
    for vertex, name in ((path[0], "A"), (path[2], "A'")):
        assert np.linalg.norm(vertex - ax.transData.transform(POINTS[name])) < 10 * fig.dpi / 72


def test_frontier_seeds_show_each_run_and_one_standard_deviation() -> None:
    runs = [(1.0, 10.0), (2.0, 12.0), (3.0, 14.0)]
    (ax,) = plots.frontier({"A": (2.0, 12.0), "B": (5.0, 9.0)}, seeds={"A": runs, "B": [(5.0, 9.0)]}, alt=ALT).axes
    clouds = [np.column_stack(line.get_data()).tolist() for line in ax.lines if line.get_alpha() == 0.4]
    assert clouds == [[list(run) for run in runs], [[5.0, 9.0]]]
    (bars,) = ax.containers  # one run has no spread, so that B has no bars
    ends = [segment.tolist() for collection in bars.lines[2] for segment in collection.get_segments()]
    assert ends == [[[1.0, 12.0], [3.0, 12.0]], [[2.0, 10.0], [2.0, 14.0]]]


def test_names_in_a_crowd_do_not_cover_each_other_or_the_points() -> None:
    # Six twins: two names on the same side of a twin would cover each other.
    points = {f"method {i}": (14 + i // 2 % 3 + 0.02 * (i % 2), 28 + i // 6 + 0.02 * (i % 2)) for i in range(12)}
    fig = plots.frontier(points, alt=ALT)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    boxes = [Text.get_window_extent(t) for t in ax.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert not any(box.contains(*ax.transData.transform(p)) for p in points.values())
        assert fig.bbox.contains(box.x0, box.y0) and fig.bbox.contains(box.x1, box.y1)


def test_names_do_not_cross_steps_bars_or_arrows() -> None:
    """Each of these lines passes above and to the right of a point, where a name stands if nothing is there."""
    points = {"under an arrow": (10.0, 20.0), "its end": (13.0, 21.0), "under a bar": (11.0, 24.0),
              "barred": (12.0, 24.2), "under a step": (10.5, 22.0), "step": (12.6, 22.2)}  # fmt: skip
    arrows, seeds = [("under an arrow", "its end")], {"barred": [(10.4, 24.1), (13.6, 24.3)]}
    fig = plots.frontier(points, baselines=["step"], arrows=arrows, seeds=seeds, alt=ALT)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    fronts = [line for line in ax.lines if str(line.get_label()).startswith("frontier")]
    steps = [np.repeat(line.get_xydata(), 2, axis=0) for line in fronts]  # each corner: the x before, the y behind
    lines = [np.column_stack([xy[:-1, 0], xy[1:, 1]]) for xy in steps]
    lines += [bar for bars in ax.containers for part in bars.lines[2] for bar in part.get_segments()]
    lines += [np.array([t.xyann, t.xy]) for t in ax.texts if t.get_gid()]  # type: ignore[attr-defined]
    assert len(lines) == 1 + 2 + 1
    for box in (Text.get_window_extent(t) for t in ax.texts if t.get_text()):
        assert not any(Curve(ax.transData.transform(line)).intersects_bbox(box, filled=False) for line in lines)


# ---------------------------------------------------------------- how it looks
def test_series_are_told_apart_with_and_without_colour() -> None:
    styles = [style.series_style(i) for i in range(28)]
    assert len({(s["color"], s["linestyle"]) for s in styles}) == 28
    assert len({(s["linestyle"], s["marker"]) for s in styles[:8]}) == 8  # eight languages in black and white
    assert len({s["color"] for s in styles[:7]}) == 7
    with pytest.raises(UserError, match="At most 28 series"):
        style.series_style(28)


def test_colours_are_okabe_ito_and_visible_on_white() -> None:
    okabe_ito = {(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115)}
    okabe_ito |= {(240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167)}
    rgb = [tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in style.COLOURS]
    assert set(rgb) <= okabe_ito and len(set(rgb)) == 7
    for colour in rgb:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (luminance + 0.05) > 2.1  # WCAG contrast to white; yellow has 1.3


@every_figure
def test_text_is_readable_at_notebook_width(name: str) -> None:
    fig = FIGURES[name][0](alt=ALT)
    assert fig.get_figwidth() * style.SCREEN_DPI < 700
    texts = [t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible()]
    assert texts and min(t.get_fontsize() for t in texts) >= 9


def inside_the_figure(fig: LessonFigure) -> None:
    fig.draw_without_rendering()
    box = fig.get_tightbbox()  # inches
    width, height = fig.get_size_inches()
    assert box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= width + 0.02 and box.y1 <= height + 0.02


@pytest.mark.slow
@every_figure
def test_nothing_is_cut_off_at_the_edge_of_the_figure(name: str) -> None:
    fig = FIGURES[name][0](alt=ALT)
    inside_the_figure(fig)


def test_long_legends_fit() -> None:
    names = [f"auto-pmd model_{i} (tau={i}), a folder with a long name" for i in range(5)]
    inside_the_figure(plots.dev_loss(STEPS, {n: {"tr-en": [4.0, 3.0, 2.0, 2.5]} for n in names}, alt=ALT))


# ---------------------------------------------------------------- alternative text and files
@every_figure
def test_alternative_text_is_required(name: str) -> None:
    draw, _ = FIGURES[name]
    with pytest.raises(TypeError, match="alt"):
        draw()
    with pytest.raises(UserError, match="alternative text"):
        draw(alt=" ")
    assert draw(alt=ALT).alt_text == ALT


@every_figure
def test_nothing_to_draw_is_an_error(name: str) -> None:
    with pytest.raises(UserError):
        FIGURES[name][1](alt=ALT)


def test_uneven_data_and_unknown_names_are_named() -> None:
    with pytest.raises(UserError, match='"tr-en" has 3 values for 4 steps'):
        pictures.probabilities_over_time(STEPS, BY_PAIR | {"tr-en": [0.1, 0.2, 0.3]}, alt=ALT)
    with pytest.raises(UserError, match="No point is named Z"):
        plots.frontier(POINTS, arrows=[("A", "Z")], alt=ALT)
    with pytest.raises(UserError, match="temperature is positive"):
        pictures.sampling_distribution(["a"], [10], [0.0], alt=ALT)


@pytest.mark.slow
@every_figure
def test_saved_files_carry_the_text_and_are_equal_twice(name: str, tmp_path: Path) -> None:
    fig = FIGURES[name][0](alt=ALT)
    first = style.save_figure(fig, tmp_path / "new folder" / "fig.v1")
    assert [p.name for p in first] == ["fig.v1.png", "fig.v1.pdf"]
    again = style.save_figure(FIGURES[name][0](alt=ALT), str(tmp_path / "again"))
    for a, b in zip(first, again, strict=True):
        assert a.read_bytes() == b.read_bytes()
    with Image.open(first[0]) as image:
        assert image.info["Description"] == ALT and "Software" not in image.info
        assert image.info["dpi"][0] == pytest.approx(300, abs=0.1)
    subject = re.search(rb"/Subject \((.*?)(?<!\\)\)", first[1].read_bytes(), re.DOTALL)
    assert subject and pdf_string(subject[1]) == ALT


def pdf_string(raw: bytes) -> str:
    """Undo the escapes of a PDF text string in UTF-16."""
    plain = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), raw)
    return re.sub(rb"\\(.)", rb"\1", plain, flags=re.DOTALL).decode("utf-16")


@pytest.mark.slow
def test_another_process_draws_the_same_bytes_without_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from pmd_lite.figures import plots; from pmd_lite.figures.style import save_figure\n"
        "points = {'A': (1, 2), 'B': (2, 1)}\n"
        "fig = plots.frontier(points, baselines=['A', 'B'], arrows=[('A', 'B')], alt='x')\n"
        "save_figure(fig, sys.argv[1])\n"
        "print({'matplotlib.pyplot', 'IPython'} & set(sys.modules))"
    )
    env = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", code, str(tmp_path / "b")]
    run = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8")
    assert (run.returncode, run.stdout.strip()) == (0, "set()"), run.stderr
    points = {"A": (1.0, 2.0), "B": (2.0, 1.0)}
    style.save_figure(plots.frontier(points, baselines=["A", "B"], arrows=[("A", "B")], alt="x"), tmp_path / "a")
    for suffix in (".png", ".pdf"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


class Images(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.found.append(dict(attrs))


def test_html_image_is_the_figure_with_its_text() -> None:
    fig = FIGURES["alpha"][0](alt=ALT)
    (image,) = Images(fig._repr_html_()).found
    assert image["alt"] == ALT
    data = base64.b64decode(str(image["src"]).removeprefix("data:image/png;base64,"))
    whole = np.asarray(Image.open(io.BytesIO(style.png_bytes(fig))).convert("RGB"), dtype=float)
    shown = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=float)
    assert shown.shape == whole.shape and shown.shape[1] <= 700
    assert np.abs(shown - whole).mean() < 2  # of 255: fewer colours, the same picture


def test_exported_notebook_carries_the_text() -> None:
    nbformat = pytest.importorskip("nbformat")
    exporters = pytest.importorskip("nbconvert.exporters")
    fig = FIGURES["probabilities"][0](alt=ALT)
    output = nbformat.v4.new_output("display_data", {"text/html": fig._repr_html_(), "text/plain": ALT})
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("fig", outputs=[output])])
    page, _ = exporters.HTMLExporter(template_name="basic").from_notebook_node(book)
    assert ALT in [image.get("alt") for image in Images(page).found]


@pytest.mark.slow
def test_threads_draw_the_same_picture() -> None:
    expected = zlib.crc32(style.png_bytes(FIGURES["dev_loss"][0](alt=ALT)))
    found: list[int] = []
    workers = [
        threading.Thread(target=lambda: found.append(zlib.crc32(style.png_bytes(FIGURES["dev_loss"][0](alt=ALT)))))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [expected] * 2
