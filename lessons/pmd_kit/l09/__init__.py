"""Lesson 09, actions on alpha: its checks and its figures."""

from pmd_kit.l09 import checks, figures

__all__ = ["checks", "figures"]
