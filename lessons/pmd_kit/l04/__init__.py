"""Lesson 04, training one model: its checks, its figures and small training."""

from pmd_kit.l04 import checks, figures, small_training

__all__ = ["checks", "figures", "small_training"]
