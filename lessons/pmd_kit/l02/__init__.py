"""Lesson 02, temperature sampling: its checks."""

from pmd_kit.l02 import checks

__all__ = ["checks"]
