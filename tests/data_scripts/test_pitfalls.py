"""The table of pitfalls in data_scripts/README.md: every row names tests that exist, or says why it cannot occur."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows() -> list[list[str]]:
    text = (ROOT / "data_scripts" / "README.md").read_text(encoding="utf-8")
    table = text.split("## Pitfalls", 1)[1]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_pitfall_has_a_test_or_a_reason() -> None:
    known = {name for path in (ROOT / "tests").rglob("test_*.py")
             for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}  # fmt: skip
    assert len(rows()) >= 25
    for pitfall, done, tests in rows():
        named = re.findall(r"`(test_\w+)`", tests)
        assert named or done.startswith("cannot occur"), pitfall
        assert set(named) <= known, f"{pitfall}: no test {set(named) - known}"
