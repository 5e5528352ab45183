"""The website: links are changed and checked by code that needs nothing; the site itself is built where Sphinx is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def module(name: str) -> ModuleType:
    """A file of docs/, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


links = module("links")


def test_links_of_a_text_are_changed_and_code_is_not() -> None:
    text = "[a](x.md#part) ![p](p.png) [b](https://e.org) [c](#here)\n`[d](y.md)` [`e`](z.py)\n```\n[f](y.md)\n```\n"
    changed = links.rewritten(text, lambda label, target: f"<{label}|{target}>")
    assert changed == text.replace("[a](x.md#part)", "<a|x.md#part>").replace("[`e`](z.py)", "<`e`|z.py>")


def write(folder: Path, **pages: str) -> None:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    write(tmp_path, a='<a href="b.html#there">x</a> <a href="#top" id="top">y</a> <a href="https://e.org/z">z</a>',
          b='<p id="there"></p><img src="data:image/png;base64,AA">')  # fmt: skip
    assert links.broken(tmp_path) == []
    write(tmp_path, c='<a href="b.html#gone">x</a><a href="d.html?x=1">y</a><a href="#no">z</a><img src="p.png">')
    assert links.broken(tmp_path) == [
        "c.html: b.html has no place 'gone'", "c.html: d.html is not there", "c.html: this page has no place 'no'",
        "c.html: p.png is not there",
    ]  # fmt: skip


def test_what_is_loaded_from_another_machine_is_named(tmp_path: Path) -> None:
    write(tmp_path, a='<script src="https://cdn.e.org/x.js"></script><a href="https://e.org">a link is no load</a>')
    assert links.from_elsewhere(tmp_path) == ["a.html: loads https://cdn.e.org/x.js"]


NEEDED = ("sphinx", "myst_nb", "furo", "sphinx-mathjax-offline", "pdoc")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_sphinx = pytest.mark.skipif(
    bool(MISSING), reason=f"pip install -r requirements-site.txt: no {', '.join(MISSING)}"
)


@pytest.mark.slow
@needs_sphinx
def test_the_site_has_every_lesson_and_no_dead_link(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "docs/book.py", "--out", str(tmp_path)], cwd=ROOT, text=True,
                          capture_output=True)  # fmt: skip
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    pages = tmp_path / "html"
    lessons = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.ipynb"))
    for notebook in lessons:
        page = (pages / "lessons" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert 'src="data:image/png;base64,' in page, "a lesson's figures are in its page"
    for name in ("index.html", "search.html", "searchindex.js", "docs/faq.html", "reference/pmd_lite/api.html"):
        assert (pages / name).exists(), name
    assert (pages / "_static" / "mathjax" / "tex-chtml.js").exists()
