"""Lesson 03, a Transformer you can read: its checks, its figures, its widgets, attention and parity."""

from pmd_kit.l03 import attention, checks, figures, parity, widgets

__all__ = ["attention", "checks", "figures", "parity", "widgets"]
