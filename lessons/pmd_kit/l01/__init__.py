"""Lesson 01, unequal languages: its checks and its figures."""

from pmd_kit.l01 import checks, figures

__all__ = ["checks", "figures"]
