"""Tables: the same cells in three formats, the right ones in bold, and no text that breaks the markup."""

from __future__ import annotations

import html.parser
import math
import re
import unicodedata

import pytest

from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Spread, Table, mean_spread

COLUMNS = ["method", "steps", "fr-en", "tr-en"]
ROWS: list[list[Cell]] = [
    ["tau=1", 12000, 29.004, 9.5],
    ["tau=5", 8000, 27.2, None],
    ["Auto-PMD", 9000, 28.996, mean_spread([14.0, 15.0, 16.0])],
]


class Cells(html.parser.HTMLParser):
    """Collects (tag, scope, text, bold) of each table cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None, str, bool]] = []
        self.bold = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th"):
            self.found.append((tag, dict(attrs).get("scope"), "", False))
        self.bold = self.bold or tag == "strong"

    def handle_endtag(self, tag: str) -> None:
        self.bold = self.bold and tag != "strong"

    def handle_data(self, data: str) -> None:
        if self.found and data.strip():
            tag, scope, text, bold = self.found[-1]
            self.found[-1] = (tag, scope, text + data, bold or self.bold)


def bold_in_html(table: Table) -> list[str]:
    return [text for _, _, text, bold in Cells(table.to_html()).found if bold]


def bold_in_markdown(table: Table) -> list[str]:
    return re.findall(r"\*\*(.+?)\*\*", table.to_markdown())


def test_plain_text_is_aligned() -> None:
    assert Table(COLUMNS, ROWS).to_text() == "\n".join(
        [
            "method     steps  fr-en         tr-en",
            "--------  ------  -----  ------------",
            "tau=1     12,000  29.00          9.50",
            "tau=5      8,000  27.20             -",
            "Auto-PMD   9,000  29.00  15.00 ± 1.00",
        ]
    )


def test_markdown() -> None:
    assert Table(COLUMNS, ROWS, caption="Test BLEU").to_markdown() == "\n".join(
        [
            "Test BLEU",
            "",
            "| method | steps | fr-en | tr-en |",
            "| :--- | ---: | ---: | ---: |",
            "| tau=1 | 12,000 | 29.00 | 9.50 |",
            "| tau=5 | 8,000 | 27.20 | - |",
            "| Auto-PMD | 9,000 | 29.00 | 15.00 ± 1.00 |",
        ]
    )


def test_html_holds_the_same_cells_with_header_scopes() -> None:
    table = Table(COLUMNS, ROWS, caption="Test <BLEU>")
    cells = Cells(table.to_html()).found
    assert [text for _, scope, text, _ in cells if scope == "col"] == COLUMNS
    assert [text for _, scope, text, _ in cells if scope == "row"] == ["tau=1", "tau=5", "Auto-PMD"]
    texts = [text for _, _, text, _ in cells[len(COLUMNS) :]]
    rows = [line.split(" | ") for line in table.to_markdown().splitlines()[4:]]
    assert texts == [cell.strip("| ") for row in rows for cell in row]
    assert "<caption>Test &lt;BLEU&gt;</caption>" in table.to_html()
    assert table._repr_html_() == table.to_html() and repr(table) == table.to_text()


def test_only_what_a_test_has_marked_is_bold() -> None:
    table = Table(
        ["m", "BLEU", "diff"], [["a", 3.0, ""], ["b", 9.0, "+6.0 ▲"], ["c", 1.0, "-2.0 ▼"], ["d", 8.0, "+5.0"]]
    )
    assert bold_in_markdown(table) == bold_in_html(table) == ["+6.0 ▲", "-2.0 ▼"], "the best score may be luck"


def test_text_cannot_break_out_of_its_cell() -> None:
    table = Table(["a|b", "x"], [["<b>\n*|*", 1.0], ["<script>", 2.0]])
    assert "<script" not in table.to_html() and "&lt;script&gt;" in table.to_html()
    lines = table.to_markdown().splitlines()
    assert len(lines) == 4 and all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)
    assert "<" not in table.to_markdown() and not bold_in_markdown(table)


def test_wide_characters_keep_columns_aligned() -> None:
    lines = Table(["zho", "n"], [["我喜欢", 1], ["abc", 22]]).to_text().splitlines()
    ends = [sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) for line in lines]
    assert ends == [10, 10, 10, 10]


def test_mean_spread_counted_on_paper() -> None:
    spread = mean_spread([1.0, 2.0, 3.0, 6.0])  # mean 3, squares 4 + 1 + 0 + 9 = 14, over n - 1 = 3
    assert (spread.mean, spread.n) == (3.0, 4) and spread.spread == pytest.approx(math.sqrt(14 / 3))
    assert mean_spread([7.25]) == Spread(7.25, None, 1)
    assert Table(["m", "x"], [["a", mean_spread([7.25])]], digits=1).to_text().endswith("a  7.2")


def test_bad_tables_are_refused() -> None:
    with pytest.raises(UserError, match="no values"):
        mean_spread([])
    with pytest.raises(UserError, match="Row 2 of the table has 1 cells for 2 columns"):
        Table(["a", "b"], [["x", 1.0], ["y"]])
    with pytest.raises(UserError, match="at least one column"):
        Table([], [])


def test_columns_that_no_line_can_hold_follow_below() -> None:
    """Every cell of a table of a hundred pairs is printed once, no line is long, and each part names its rows."""
    pairs = [f"l{i}-en" for i in range(100)]
    text = Table(["model", *pairs], [["tau=1", *(i + 0.5 for i in range(100))]], digits=1).to_text()
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert max(len(line) for block in blocks for line in block) <= 160
    cells = [dict(zip(head.split(), row.split(), strict=True)) for head, _, row in blocks]
    assert all(block.pop("model") == "tau=1" for block in cells)
    assert [item for block in cells for item in block.items()] == [(p, f"{i}.5") for i, p in enumerate(pairs)]
