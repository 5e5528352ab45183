"""The widget of lesson 12."""

from __future__ import annotations

import ipywidgets as ipw

from pmd_kit.widgets import redrawn
from pmd_lite.comparing.stored import StoredComparison


def method_picker(stored: StoredComparison, start: str = "tau=1") -> ipw.VBox:
    """Choose a system of a stored comparison: whom it trains when, and what comes of it."""
    return redrawn(
        stored.card,
        "Choose a system (Tab, then arrow keys). The star shows where it stands among all others; which curves on the "
        "left lead to the right, which to the top?",
        label=ipw.Dropdown(options=list(stored.systems), value=start, description="system"),
    )
