"""A long table that a page shows folded: a line to click, or to open with Enter, and the table behind it."""

from __future__ import annotations

import html
from dataclasses import dataclass

from pmd_lite.evaluation.tables import Table


@dataclass(frozen=True, repr=False)
class Folded:
    """summary: what is behind the fold. before: as many rows stand above it, open. A terminal shows the table whole."""

    summary: str
    table: Table
    before: int = 0

    def _repr_html_(self) -> str:
        first = Table(self.table.columns, self.table.rows[: self.before]).to_html() if self.before else ""
        return (f'{first}<details><summary>{html.escape(self.summary)}</summary><div style="overflow-x:auto">'
                f"{self.table.to_html()}</div></details>")  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.table.to_text()}"
