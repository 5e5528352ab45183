"""`make demo`: run lesson 00 as it is, and write its results to files that you can look at.

The two factories come first, within a minute; then the three translation systems. Writes build/demo/00_*.ipynb
(executed), the same as one HTML page, and each figure as PNG; prints the results in the order of the lesson.
"""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path

import nbformat
from jinja2 import DictLoader
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from lessons.build import tidy
from lessons.execution import CellFailed, Figure, figures, indented, lesson_folder, result_tables, run
from pmd_corpora.terminal import terminal

ROOT = Path(__file__).resolve().parents[1]
# The page template of nbconvert leaves out the text alternative of a figure; ours keeps it.
_PAGE = """{% extends 'lab/index.html.j2' %}
{% block data_png scoped %}<img src="data:image/png;base64,{{ output.data['image/png'] }}"
 alt="{{ (output | get_metadata('alt', 'image/png') or '') | escape }}">{% endblock data_png %}"""


class Progress:
    """Prints one line when a section of the lesson begins, with the number of the cell."""

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def __call__(self, position: int, cell: NotebookNode) -> None:
        """Print the line if this cell begins a section."""
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            heading = cell.source.splitlines()[0].lstrip("# ")
            print(f"  [{position + 1:2d}/{self.cells}] {heading}", flush=True)


def write_page(nb: NotebookNode, path: Path) -> None:
    """The executed notebook as one HTML page, figures inside."""
    exporter = HTMLExporter(
        template_file="page.html.j2", extra_loaders=[DictLoader({"page.html.j2": _PAGE})], embed_images=True
    )
    page, _ = exporter.from_notebook_node(nb, resources={"metadata": {"name": path.stem, "path": str(path.parent)}})
    path.write_text(page, encoding="utf-8", newline="\n")


def write_figures(found: list[Figure], folder: Path) -> list[Path]:
    """Each figure as figure_01.png, figure_02.png, ... in `folder`."""
    paths = []
    for number, figure in enumerate(found, start=1):
        path = folder / f"figure_{number:02d}.png"
        path.write_bytes(base64.b64decode(figure.png))
        paths.append(path)
    return paths


def demo(notebook: Path, out: Path) -> int:
    """Run `notebook`, write its results to `out` (emptied first), report on the terminal. Returns the exit status."""
    shutil.rmtree(out, ignore_errors=True)
    lesson_folder(notebook.parent, out)
    nb = nbformat.read(notebook, as_version=4)
    target = out / notebook.name
    print(f"Running {notebook.name}; Ctrl-C stops it.", flush=True)
    try:
        run(nb, out, name=notebook.name, on_cell=Progress(len(nb.cells)))
    except CellFailed as err:
        print(f"\nCell {err.number} of {err.name} failed:\n", file=sys.stderr)
        print(f"{indented(err.source)}\n\n{err.last_line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; no process is left running.", file=sys.stderr)
        return 130
    finally:
        nbformat.write(nb, target)  # also after a failure, so that you can read the cells that ran before it
    tidy(nb, notebook.name)  # a page has no kernel to move its sliders
    write_page(nb, target.with_suffix(".html"))
    drawn = figures(nb)
    paths = write_figures(drawn, out)
    for table in result_tables(nb):
        print(f"\n{table}")
    print("\nLook at")
    print(f"  {shown(target.with_suffix('.html'))}  the whole lesson as one page, for any browser")
    print(f"  {shown(target)}  the same as a notebook")
    for path, figure in zip(paths, drawn, strict=True):
        print(f"  {shown(path)}  {figure.alt}")
    print("Then open the lessons with `make lab`, and train on real sentences with `make realdata`.")
    return 0


def shown(path: Path) -> Path:
    """`path` relative to the root of the checkout if it is inside, else unchanged."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main() -> int:
    """Find lesson 00 and run it."""
    found = sorted((ROOT / "lessons").glob("00_*.ipynb"))
    if not found:
        print("There is no lessons/00_*.ipynb. Build it with `make lessons`.", file=sys.stderr)
        return 1
    return demo(found[0], ROOT / "build" / "demo")


if __name__ == "__main__":
    with terminal():
        sys.exit(main())
