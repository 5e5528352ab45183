"""Lesson 16, beyond the paper: its checks, its figures, lives and own strategies."""

from pmd_kit.l16 import checks, figures, lives, own_strategies

__all__ = ["checks", "figures", "lives", "own_strategies"]
