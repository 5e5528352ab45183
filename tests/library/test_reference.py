"""`make docs`: every module has its page with the text of its docstrings, and every link has a target."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    made = subprocess.run([sys.executable, "docs/reference.py", "--out", str(out)], cwd=ROOT, text=True,
                          capture_output=True)  # fmt: skip
    assert (made.returncode, made.stderr) == (0, "")
    return out


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
