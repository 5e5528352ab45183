"""Pictures that are painted once: for tests that read what is written beside them."""

from __future__ import annotations

from typing import Any

import pytest

from pmd_lite.figures import style


def paint_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every picture has the pixels of the first, which take most of the time, and its own text."""
    real, painted = style.png_bytes, []

    def png_bytes(fig: Any, *dpi: int) -> bytes:
        if not painted:
            painted.append(real(fig, *dpi))
        return painted[0]

    monkeypatch.setattr(style, "png_bytes", png_bytes)
