"""Run one notebook from top to bottom, as a reader would, and read its outputs.

`make demo`, `make lessons` and the tests use it, so "the lesson runs" means the same in all three.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_NOT_FOR_A_RUN = shutil.ignore_patterns("*.ipynb", "*.py", "src", "pmd_kit", "__pycache__", ".*")


class CellFailed(Exception):
    """A cell of a lesson failed. `str()` gives its source and a short traceback, without colour codes."""

    def __init__(self, name: str, number: int, source: str, traceback: list[str], last_line: str) -> None:
        self.name, self.number, self.source, self.last_line = name, number, source, last_line
        shown = "\n".join(traceback[-15:]) or last_line
        super().__init__(f"{name}, cell {number} failed:\n\n{indented(source)}\n\n{shown}")


@dataclass(frozen=True)
class Figure:
    """A picture in the outputs of a notebook: PNG data in base64, and its text alternative ("" where there is none)."""

    cell: int
    png: str
    alt: str


def indented(text: str) -> str:
    """`text` with four spaces before every line, so that code is visible as code in a message."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def lesson_folder(lessons: Path, to: Path) -> Path:
    """Copy the files beside the lessons (pictures, small data) into `to`, and return `to`.

    Notebooks and sources are not copied. A lesson that writes files then writes into the copy, never into the checkout.
    """
    shutil.copytree(lessons, to, ignore=_NOT_FOR_A_RUN, dirs_exist_ok=True)
    return to


def run(
    nb: NotebookNode,
    folder: Path,
    *,
    name: str,
    size: str | None = None,
    timeout: int | None = None,
    on_cell: Callable[[int, NotebookNode], None] | None = None,
) -> NotebookNode:
    """Execute every cell of `nb` in a fresh kernel whose working directory is `folder`; outputs are written into `nb`.

    Args:
        size: value of PMD_SIZE for the kernel ("ci" or "lesson"); None leaves the environment as it is.
        timeout: seconds a cell may take; None means no limit.
        on_cell: called with the position and the cell before each cell.

    Raises CellFailed. The kernel is stopped in every case, also after Ctrl-C.
    """
    client = NotebookClient(
        nb,
        timeout=timeout,
        kernel_name=KERNELSPEC["name"],
        record_timing=False,  # times in every cell would differ each time a notebook is built
        shutdown_kernel="immediate",  # a kernel in a training loop would not answer a request to stop
        extra_arguments=["--IPKernelApp.log_level=40"],  # no warning about the unencrypted loopback connection
        resources={"metadata": {"path": str(folder)}},
    )
    with client.setup_kernel(env=environment(size)):
        for position, cell in enumerate(nb.cells):
            if on_cell:
                on_cell(position, cell)
            try:
                client.execute_cell(cell, position)
            except CellExecutionError as err:
                last = f"{err.ename}: {err.evalue}" if err.evalue else err.ename
                raise CellFailed(name, position + 1, cell.source, _traceback(cell), last) from None
            except CellTimeoutError:
                last = f"it took longer than {timeout} seconds"
                raise CellFailed(name, position + 1, cell.source, [], last) from None
            except DeadKernelError:
                last = "the Python process of the notebook ended; the usual cause is too little memory"
                raise CellFailed(name, position + 1, cell.source, [], last) from None
    return nb


def environment(size: str | None) -> dict[str, str]:
    """The variables of a kernel; `size` is the value of PMD_SIZE."""
    # MPLBACKEND=Agg, which many servers set, would make plt.show() draw nothing in a notebook.
    env = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    return env if size is None else {**env, "PMD_SIZE": size}


def _traceback(cell: NotebookNode) -> list[str]:
    errors = [out for out in cell.outputs if out.output_type == "error"]
    return [line for out in errors for part in out.traceback for line in _ANSI.sub("", part).splitlines()]


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell ([] where there are none)."""
    return list(cell.metadata.get("tags", []))


def code_outputs(nb: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    """(number of the cell, output) for every output of the notebook; cells are counted from 1."""
    for number, cell in enumerate(nb.cells, start=1):
        if cell.cell_type == "code":
            for out in cell.outputs:
                yield number, out


def stderr_texts(nb: NotebookNode) -> list[tuple[int, str]]:
    """(number of the cell, text) of everything the notebook wrote to the error stream."""
    return [(n, out.text) for n, out in code_outputs(nb) if out.output_type == "stream" and out.name == "stderr"]


class _Images(HTMLParser):
    """Collects the pictures inside an HTML output: the library shows a figure with its text in this form."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep (data, text alternative) of a picture."""
        found = dict(attrs)
        kind, _, png = (found.get("src") or "").partition(",")
        if tag == "img" and kind == "data:image/png;base64":
            self.found.append((png, found.get("alt") or ""))


def figures(nb: NotebookNode) -> list[Figure]:
    """Every picture of the notebook, with its text alternative.

    The text is in an <img> element or, for a plain picture, in `alt` in the metadata of the output.
    """
    found = []
    for number, out in code_outputs(nb):
        data, meta = out.get("data", {}), out.get("metadata", {})
        images = _Images()
        images.feed(data.get("text/html", ""))
        if "image/png" in data and not images.found:
            images.found = [(data["image/png"], meta.get("image/png", {}).get("alt") or meta.get("alt") or "")]
        found += [Figure(number, png, alt.strip()) for png, alt in images.found]
    return found


def result_tables(nb: NotebookNode) -> list[str]:
    """The plain-text outputs of the cells with the tag `result-table`."""
    texts = []
    for cell in nb.cells:
        if cell.cell_type == "code" and "result-table" in tags(cell):
            for out in cell.outputs:
                text = out.get("data", {}).get("text/plain") or (out.text if out.get("name") == "stdout" else "")
                if text.strip():
                    texts.append(text.rstrip())
    return texts
