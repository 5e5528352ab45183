"""Lesson 00, the whole story: its checks and stories."""

from pmd_kit.l00 import checks, stories

__all__ = ["checks", "stories"]
