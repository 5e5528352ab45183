"""Lessons show the library's own code: what is shown is the source, and a part that is gone is noticed."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from pathlib import Path

import nbformat
import pytest

from lessons.listings import relist
from pmd_kit.folding import Folded
from pmd_kit.listing import excerpt, listing
from pmd_lite.distillation.losses import kd_loss, pmd_loss
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table
from pmd_lite.model.layers import EncoderLayer, attend
from pmd_lite.training.trainer import Trainer

LESSONS = Path(__file__).resolve().parents[2] / "lessons"


def seen(page: str) -> str:
    """The text of an HTML page as a reader sees it."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_a_listing_is_the_source_under_the_name_of_its_file() -> None:
    shown = listing(attend, EncoderLayer.forward, pmd_loss)
    assert [file for file, _ in shown.pieces] == ["pmd_lite/model/layers.py", "pmd_lite/distillation/losses.py"]
    page = seen(shown._repr_html_())
    for thing in (attend, EncoderLayer.forward, pmd_loss):
        source = textwrap.dedent(inspect.getsource(thing)).rstrip()
        assert source in repr(shown) and source in page
    assert inspect.getsource(kd_loss) not in repr(shown)


def test_colours_stand_in_the_tags() -> None:
    page = listing(pmd_loss)._repr_html_()
    assert '<span style="color: ' in page and "class=" not in page and "<style" not in page


def test_an_excerpt_ends_where_it_should_and_notices_that_the_library_changed() -> None:
    shown = repr(excerpt(Trainer.run, "while self.clock.step", "self._between_steps"))
    lines = shown.splitlines()
    assert "a part of Trainer.run" in lines[0]
    assert lines[1].startswith("while ") and "self._between_steps" in lines[-1]
    with pytest.raises(UserError, match=r"Trainer\.run has no lines from 'while True'"):
        excerpt(Trainer.run, "while True", "return")


@pytest.mark.parametrize("path", sorted(LESSONS.glob("**/[0-9][0-9]_*.ipynb")), ids=lambda path: path.stem)
def test_a_stored_page_lists_the_source_of_today(path: Path) -> None:
    assert relist(nbformat.read(path, as_version=4)) == [], (
        f"run: python -m lessons.build --text --only {path.name[:2]}"
    )


def test_an_old_listing_is_found_and_renewed() -> None:
    (path,) = LESSONS.glob("07_*.ipynb")
    nb = nbformat.read(path, as_version=4)
    (cell,) = [cell for cell in nb.cells if cell.source == "listing(ce_loss, kd_loss, pmd_loss)"]
    (out,) = cell.outputs
    now = dict(out.data)
    out.data["text/plain"] = out.data["text/plain"].replace("def pmd_loss", "def old_loss")
    assert relist(nb) == ["listing(ce_loss, kd_loss, pmd_loss)"]
    assert dict(out.data) == now and relist(nb) == []


def test_a_folded_table_shows_its_first_rows_and_hides_all() -> None:
    table = Table(["n", "word"], [[1, "one"], [2, "two"], [3, "three"]])
    before, _, behind = Folded("All <3> rows", table, before=2)._repr_html_().partition("<details>")
    assert "one" in before and "two" in before and "three" not in before
    assert "<summary>All &lt;3&gt; rows</summary>" in behind and all(word in behind for word in ("one", "two", "three"))
    assert Folded("All", table)._repr_html_().startswith("<details>")
    assert "three" in repr(Folded("All", table, before=1)), "a terminal has no fold"
