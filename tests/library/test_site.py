"""The website, built where Sphinx is, and the API reference in it: every module has a page, every link a target.

Links are changed and checked by code that needs nothing.
"""

from __future__ import annotations

import html
import importlib.util
import re
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make site` makes."""
    out = tmp_path_factory.mktemp("site")
    run("docs/book.py", "--out", str(out))
    return out / "html"


def run(*words: str) -> None:
    made = subprocess.run([sys.executable, *words], cwd=ROOT, text=True, capture_output=True)
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]


@pytest.mark.slow
@needs_sphinx
def test_the_site_has_every_lesson_and_no_dead_link(site: Path) -> None:
    lessons = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.ipynb"))
    for notebook in lessons:
        page = (site / "lessons" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert 'src="data:image/png;base64,' in page, "a lesson's figures are in its page"
    for name in ("index.html", "search.html", "searchindex.js", "docs/faq.html", "reference/pmd_lite/api.html"):
        assert (site / name).exists(), name
    assert (site / "_static" / "mathjax" / "tex-chtml.js").exists()


# ---------------------------------------------------------------- the API reference


@pytest.fixture(scope="module")
def pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference as a part of the site, or, where no site can be built, by itself."""
    if not MISSING:
        return Path(request.getfixturevalue("site"), "reference")
    out = tmp_path_factory.mktemp("docs")
    run("docs/reference.py", "--out", str(out))
    return out


def test_the_reference_alone_is_built_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pdoc")
    reference = module("reference")
    monkeypatch.setattr(reference, "modules", lambda: ["pmd_lite.errors"])
    monkeypatch.setattr(sys, "argv", ["reference.py", "--out", str(tmp_path / "out")])
    reference.main()
    assert "Error" in (tmp_path / "out" / "pmd_lite" / "errors.html").read_text(encoding="utf-8")
    assert f"open {tmp_path / 'out' / 'index.html'}" in capsys.readouterr().out


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_every_module_has_a_page(pages: Path) -> None:
    modules = {path.relative_to(ROOT).with_suffix("") for path in (ROOT / "pmd_lite").rglob("*.py")}
    wanted = {Path(str(module).removesuffix("/__init__")) for module in modules if module.name != "__main__"}
    assert {page.relative_to(pages).with_suffix("") for page in pages.rglob("*.html")} == wanted | {Path("index")}


@pytest.mark.slow
def test_a_page_says_what_the_docstring_says(pages: Path) -> None:
    api = text_of(pages / "pmd_lite" / "api.html")
    assert "Train one method on one corpus; returns the finished run" in " ".join(api.split())
    losses = text_of(pages / "pmd_lite" / "distillation" / "losses.html")
    assert "Eq. 3" in losses


@pytest.mark.slow
def test_links_between_pages_lead_somewhere(pages: Path) -> None:
    broken, checked = [], 0
    for page in pages.rglob("*.html"):
        for target in re.findall(r'href="([^"#:]+\.html)(?:#([^"]*))?"', page.read_text(encoding="utf-8")):
            file, anchor = (page.parent / target[0]).resolve(), target[1]
            checked += 1
            if not file.exists() or (anchor and f'id="{anchor}"' not in file.read_text(encoding="utf-8")):
                broken.append(f"{page.name} -> {target[0]}#{target[1]}")
    assert checked > 100
    assert not broken
