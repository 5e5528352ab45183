"""Links: change those of a text for the website, find those of finished pages that lead nowhere. Needs no package."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

_CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:|//|#", re.IGNORECASE)


def rewritten(text: str, change: Callable[[str, str], str]) -> str:
    """The Markdown text with change(label, target) in place of each link to a local file; code is left as it is."""

    def one(found: re.Match[str]) -> str:
        return found[0] if _ELSEWHERE.match(found[2]) else change(found[1], found[2])

    parts, end = [], 0
    for code in _CODE.finditer(text):
        # A label may contain code, as in [`layers.py`](layers.py), so code inside of a link is not a border.
        if any(link.start() <= code.start() < link.end() for link in _LINK.finditer(text)):
            continue
        parts += [_LINK.sub(one, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(one, text[end:])])


class _Page(HTMLParser):
    """Collects where a page's links lead and which anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.programs: list[str] = []  # of the loaded files, those without which a page may not work
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links, loaded files and anchors of a tag."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loaded = found.get("src", "") or (found.get("href", "") if tag == "link" else "")
        if loaded and not loaded.startswith("data:"):
            self.loads.append(loaded)
            if tag != "img":
                self.programs.append(loaded)


def broken(folder: Path) -> list[str]:
    """One sentence for each link of the HTML pages below `folder` to a file or an anchor that is not there."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        for link in [*page.links, *page.loads]:
            target, _, anchor = html.unescape(link).partition("#")
            target = target.split("?")[0]
            if re.match(r"[a-z]+:|//", link, re.IGNORECASE):
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            if file.is_dir():
                file /= "index.html"
            if not file.exists():
                wrong.append(f"{name}: {target} is not there")
            elif anchor and file in pages and unquote(anchor) not in pages[file].anchors:
                wrong.append(f"{name}: {target or 'this page'} has no place {anchor!r}")
    return wrong


def from_elsewhere(folder: Path) -> list[str]:
    """One sentence for each script or style that a page loads from another machine (badges are pictures)."""
    return [
        f"{path.relative_to(folder).as_posix()}: loads {address}"
        for path in sorted(folder.rglob("*.html"))
        for address in _read(path).programs
        if re.match(r"https?:|//", address)
    ]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
