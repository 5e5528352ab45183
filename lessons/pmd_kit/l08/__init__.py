"""Lesson 08, Uni-PMD and Bi-PMD: its checks, its figures, its widgets, alpha grid and second opinions."""

from pmd_kit.l08 import alpha_grid, checks, figures, second_opinions, widgets

__all__ = ["alpha_grid", "checks", "figures", "second_opinions", "widgets"]
