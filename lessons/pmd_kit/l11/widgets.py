"""The widget of lesson 11."""

from __future__ import annotations

import ipywidgets as ipw

from pmd_kit.l11.dwi import StoredSearches
from pmd_kit.widgets import chooser, redrawn


def interaction_picker(stored: StoredSearches) -> ipw.VBox:
    """Choose a search and two pairs: the loss of the first over the actions of both."""
    search, pair, other = stored.least_own()
    names = [(name, i) for i, name in enumerate(stored.pairs)]
    return redrawn(
        stored.grid,
        "Choose a search and two pairs (Tab; Space or ← →). If the assumption holds, every row has one "
        "colour. Which pair changes the loss of which?",
        search=chooser(options=[(stored.name(i), i) for i in range(len(stored.searches))], value=search,
                            description="search"),
        pair=chooser(options=names, value=pair, description="loss of"),
        other=chooser(options=names, value=other, description="beside"),
    )  # fmt: skip
