"""Lesson 16, beyond the paper: its checks, lives and own strategies, and a stored study."""

from pmd_kit.l16 import checks, conditions, lives, own_strategies

__all__ = ["checks", "conditions", "lives", "own_strategies"]
