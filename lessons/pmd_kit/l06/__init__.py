"""Lesson 06, the trade-off: its checks, its figures, contenders, explorer and frontier plane."""

from pmd_kit.l06 import checks, contenders, explorer, figures, frontier_plane

__all__ = ["checks", "contenders", "explorer", "figures", "frontier_plane"]
