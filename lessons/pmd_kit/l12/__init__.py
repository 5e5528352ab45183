"""Lesson 12, the rivals: its checks, its figures, its widgets and a comparison read closely."""

from pmd_kit.l12 import checks, comparison, figures, widgets

__all__ = ["checks", "comparison", "figures", "widgets"]
