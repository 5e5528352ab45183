"""Lesson 15, WMT-6 at full scale: its checks and its figures."""

from pmd_kit.l15 import checks, figures

__all__ = ["checks", "figures"]
