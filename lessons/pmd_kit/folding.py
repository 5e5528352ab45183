"""A long table that a page shows folded: a line to click, or to open with Enter, and the table behind it."""

from __future__ import annotations

import html
from dataclasses import dataclass

from pmd_lite.evaluation.tables import Table


@dataclass(frozen=True, repr=False)
class Folded:
    """summary: what is behind the fold. A terminal shows the table whole."""

    summary: str
    table: Table

    def _repr_html_(self) -> str:
        return (f'<details><summary>{html.escape(self.summary)}</summary><div style="overflow-x:auto">'
                f"{self.table.to_html()}</div></details>")  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.table.to_text()}"
