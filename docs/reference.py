"""Build the API reference from the docstrings of pmd_lite: `make docs` writes build/docs/index.html.

pdoc imports every module and turns its docstrings into one page, with links between the pages and a search field.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
import warnings
from pathlib import Path

import pdoc
import pdoc.render

import pmd_lite


def modules() -> list[str]:
    """Every module of pmd_lite by its full name, but `__main__`, which would run the command line."""
    names = [one.name for one in pkgutil.walk_packages(pmd_lite.__path__, "pmd_lite.")]
    return ["pmd_lite", *(name for name in names if not name.endswith("__main__"))]


def build(out: Path) -> list[Path]:
    """Write one page for each module into `out`, with an index; returns the pages."""
    pdoc.render.configure(
        docformat="google", footer_text=f"pmd_lite, Python {sys.version_info[0]}.{sys.version_info[1]}"
    )
    with warnings.catch_warnings():
        # pdoc cannot name the types of a NamedTuple's constructor when annotations are strings; the page shows them as
        # they are written.
        warnings.filterwarnings("ignore", "Error parsing type annotation")
        # It finds most modules by itself, but not those of a room that lists its public names.
        warnings.filterwarnings("ignore", ".*has already been added")
        pdoc.pdoc(*modules(), output_directory=out)
    return sorted(out.rglob("*.html"))


def main() -> None:
    """Build, and say where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/docs"))
    words = parser.parse_args()
    pages = build(words.out)
    print(f"{len(pages)} pages: open {words.out / 'index.html'}")


if __name__ == "__main__":
    main()
