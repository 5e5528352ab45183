"""Lesson 13, real text: its checks, the sentences written for it, and the stored study."""

from pmd_kit.l13 import checks, sentences, study

__all__ = ["checks", "sentences", "study"]
