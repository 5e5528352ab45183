"""Build the website: `make site` writes build/site/html/index.html.

The pages are the committed notebooks with their outputs (none is executed again), the texts in docs/, and the API
reference. Sphinx makes a static site of them, with a table of contents, a search field, and links to the page before
and after. The site needs no server and no network: MathJax, which sets the formulas, is copied into it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from pathlib import Path

import nbformat
from links import broken, from_elsewhere, rewritten
from reference import build as build_reference
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from lessons.navigation import repository  # noqa: E402  (the folder above is not on Python's path before)

TEXTS = (
    "results.md", "methods.md", "notation.md", "faq.md", "several_gpus.md", "instructor.md", "teaching.md",
    "assessment.md", "log.md",
)  # fmt: skip
CONF = '''"""Settings of Sphinx for the website of pmd_lite, written by docs/book.py."""
project = "pmd_lite"
extensions = ["myst_nb", "sphinx.ext.mathjax"]
html_theme = "furo"
html_title = "pmd_lite"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
nb_execution_mode = "off"  # the committed outputs are the ones that the texts speak of
nb_ipywidgets_js = {}
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"
# Outputs hold more than one form; a notebook's text cells may begin with any level of heading.
suppress_warnings = ["mystnb.mime_priority", "myst.header"]
'''
STYLE = """div.math { overflow-y: hidden; }  /* a formula needs no scroll bar of its own */
.content { width: 62em; max-width: 100%; }  /* the theme's 46em cut most lines of code and tables */
.content pre { font-size: .78em; }
.cell_output .stream pre { white-space: pre-wrap; }  /* as JupyterLab shows printed lines */
.cell_output td, .cell_output th { padding: .15em .7em; }
"""
INDEX = """

```{{toctree}}
:hidden:
:caption: Lessons

{lessons}
```

```{{toctree}}
:hidden:
:caption: Texts

{texts}
```

```{{toctree}}
:hidden:
:caption: Reference

Python API <reference>
```

```{{toctree}}
:hidden:
:caption: Solutions

{solutions}
```
"""
REFERENCE = """# Python API

Made by pdoc from the docstrings: <a href="reference/index.html">every module of pmd_lite</a>. It has a search field of
its own.

"""


def moved(path: Path) -> Path | None:
    """Where a file of the repository stands in the site's sources, relative to their root; None where it does not."""
    if path == ROOT / "README.md":
        return Path("index.md")
    inside = path.is_relative_to(ROOT) and path.exists()
    if inside and (path.suffix == ".ipynb" or (path.parent == ROOT / "docs" and path.name in TEXTS)):
        return path.relative_to(ROOT)
    return None


def link_for(label: str, target: str, start: Path, page: Path, address: str) -> str:
    """The link from a file of the repository, `start`, as it must stand on its page (a path within the site).

    A module leads to its page of the API reference. A file that the site lacks leads to the repository, or nowhere.
    """
    name, hash_sign, anchor = target.partition("#")
    path = (start.parent / name).resolve()
    if there := moved(path):
        return f"[{label}]({_relative(there, page)}{hash_sign}{anchor})"
    if path == ROOT / "lessons" / "solutions":
        return f"[{label}]({_relative(next(iter(_notebooks('lessons/solutions'))), page)})"
    if path.suffix == ".py" and path.is_relative_to(ROOT / "pmd_lite") and path.exists():
        module = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
        return f'<a href="{_relative(Path(f"reference/{module}.html"), page)}">{label}</a>'
    if address and path.is_relative_to(ROOT) and path.exists():
        return f"[{label}](https://github.com/{address}/blob/HEAD/{path.relative_to(ROOT).as_posix()})"
    return label


def _relative(target: Path, page: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def _notebooks(folder: str) -> list[Path]:
    return [path.relative_to(ROOT) for path in sorted((ROOT / folder).glob("[0-9][0-9]_*.ipynb"))]


def write_sources(out: Path) -> None:
    """conf.py and all pages, with their links changed, into the empty folder `out`."""
    address = repository(ROOT / "pyproject.toml")

    def changed(text: str, start: Path, page: Path) -> str:
        return rewritten(text, lambda label, target: link_for(label, target, start, page, address))

    lessons, solutions = _notebooks("lessons"), _notebooks("lessons/solutions")
    for page in (*lessons, *solutions):
        nb = nbformat.read(ROOT / page, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = changed(cell.source, ROOT / page, page)
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, out / page)
    texts = [Path("docs") / name for name in TEXTS]
    for page in texts:
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / page).write_text(changed((ROOT / page).read_text(encoding="utf-8"), ROOT / page, page), encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, out / "docs")
    names = {
        name: "\n".join(page.with_suffix("").as_posix() for page in pages)
        for name, pages in (("lessons", lessons), ("texts", texts), ("solutions", solutions))
    }
    start = changed((ROOT / "README.md").read_text(encoding="utf-8"), ROOT / "README.md", Path("index.md"))
    (out / "index.md").write_text(start + INDEX.format(**names), encoding="utf-8")
    (out / "reference.md").write_text(REFERENCE, encoding="utf-8")
    (out / "conf.py").write_text(CONF, encoding="utf-8")
    (out / "_static").mkdir()
    (out / "_static" / "site.css").write_text(STYLE, encoding="utf-8")


def copy_mathjax(to: Path) -> None:
    """The files of MathJax that a browser asks for: the program, its TeX extensions, its fonts."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise SystemExit("sphinx-mathjax-offline is not installed: pip install -r requirements-site.txt")
    found = Path(spec.origin).parent / "static" / "mathjax"
    to.mkdir(parents=True, exist_ok=True)
    shutil.copy(found / "tex-chtml.js", to)
    for part in ("input/tex/extensions", "output/chtml/fonts"):
        shutil.copytree(found / part, to / part, dirs_exist_ok=True)


def build(out: Path) -> list[str]:
    """Write the site into `out`/html, from sources in `out`/src; returns what is wrong with its links."""
    shutil.rmtree(out, ignore_errors=True)
    source, pages = out / "src", out / "html"
    source.mkdir(parents=True)
    write_sources(source)
    if status := build_main(["-q", "-b", "html", "-d", str(out / "cache"), str(source), str(pages)]):
        raise SystemExit(status)
    copy_mathjax(pages / "_static" / "mathjax")
    build_reference(pages / "reference")
    return [*broken(pages), *from_elsewhere(pages)]


def main() -> int:
    """Build, check the links, and say where the site is; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out
    wrong = build(out)
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{len(list((out / 'html').rglob('*.html')))} pages: open {out / 'html' / 'index.html'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
