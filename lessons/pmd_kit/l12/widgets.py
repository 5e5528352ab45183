"""The widget of lesson 12."""

from __future__ import annotations

import ipywidgets as ipw

from pmd_kit.l12.comparison import card
from pmd_kit.widgets import chooser, redrawn
from pmd_lite.comparing.comparison import Comparison


def method_picker(comparison: Comparison, start: str = "tau=1") -> ipw.VBox:
    """Choose a system of a comparison: which pairs it trains when, and where that leads."""
    return redrawn(
        lambda label: card(comparison, label),
        "Choose a system (Tab; Space or ← →). The star shows where it ends up among all others; which curves on the "
        "left lead to the right, which to the top?",
        label=chooser(options=list(comparison.systems), value=start, description="system"),
    )
