"""Lesson 12, the rivals: its checks, its figures and its widgets."""

from pmd_kit.l12 import checks, figures, widgets

__all__ = ["checks", "figures", "widgets"]
