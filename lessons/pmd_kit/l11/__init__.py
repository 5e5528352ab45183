"""Lesson 11, is independence true: its checks, its figures, its widgets, dwi and dwi tables."""

from pmd_kit.l11 import checks, dwi, dwi_tables, figures, widgets

__all__ = ["checks", "dwi", "dwi_tables", "figures", "widgets"]
