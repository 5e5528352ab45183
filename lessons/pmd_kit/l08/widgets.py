"""The widget of lesson 08."""

from __future__ import annotations

import ipywidgets as ipw

from pmd_kit.l08.alpha_grid import STRATEGIES, AlphaGrid
from pmd_kit.widgets import chooser, redrawn


def alpha_grid(stored: AlphaGrid) -> ipw.VBox:
    """Choose a strategy and a measure: what each alpha did to each pair, for both students."""
    return redrawn(
        stored.grid,
        "Choose a strategy and a measure (Tab; Space or ← →). Is there a column that suits all rows? Does the best "
        "column for dev loss agree with that for BLEU?",
        strategy=chooser(
            options=[(name, key) for key, name in STRATEGIES.items()], value="bi-pmd", description="strategy"
        ),
        of=chooser(options=[("dev loss saved", "dev_loss"), ("BLEU gained", "bleu")], description="measure"),
    )
