"""Single sentences of a stored comparison: translations to read, and counts to test differences with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmd_lite.errors import UserError
from pmd_lite.evaluation.significance import SentenceStats
from pmd_lite.evaluation.tables import Table


@dataclass(frozen=True)
class StoredSentences:
    """What benchmarks/real_text.py stores beside the summary of its comparison.

    examples: a pair, a source, its reference and every system's translation each. counts: {system: {pair: [sentence,
    10]}}, see `evaluation.significance.SentenceStats`.
    """

    examples: Sequence[Mapping[str, Any]]
    counts: Mapping[str, Mapping[str, SentenceStats]]

    @classmethod
    def load(cls, path: Path) -> StoredSentences:
        """Raises UserError when the file is absent or holds no sentences."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            counts = {
                system: {
                    pair: np.array([row.split() for row in rows], dtype=np.int64) for pair, rows in by_pair.items()
                }
                for system, by_pair in data["statistics"].items()
            }
            return cls(data["examples"], counts)
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{path}: no stored sentences ({error}); benchmarks/real_text.py writes them") from None

    def table(self, pair: str, labels: Sequence[str]) -> Table:
        """Source, reference and translations of one pair. Raises UserError for an unknown pair."""
        chosen = [example for example in self.examples if example["pair"] == pair]
        if not chosen:
            raise UserError(f"no sentences of {pair!r}; there are {sorted({e['pair'] for e in self.examples})}")
        rows = [
            [e["source"], e["reference"], *(e["translations"][label] or "(nothing)" for label in labels)]
            for e in chosen
        ]
        return Table(["source", "reference", *labels], rows, caption=f"{pair}, test sentences of Tatoeba")
