"""Lesson 14, TED-8-Diverse on one GPU: its checks and its figures."""

from pmd_kit.l14 import checks, figures

__all__ = ["checks", "figures"]
