"""Lesson 07, learning from each other: its checks, its figures, its widgets and students."""

from pmd_kit.l07 import checks, figures, students, widgets

__all__ = ["checks", "figures", "students", "widgets"]
