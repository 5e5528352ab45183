"""Lesson 03, a Transformer you can read: its checks, its figures, its widgets, architecture, attention and parity."""

from pmd_kit.l03 import architecture, attention, checks, figures, parity, widgets

__all__ = ["architecture", "attention", "checks", "figures", "parity", "widgets"]
