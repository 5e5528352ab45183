"""Lesson 13, real text: its checks and sentences."""

from pmd_kit.l13 import checks, sentences

__all__ = ["checks", "sentences"]
