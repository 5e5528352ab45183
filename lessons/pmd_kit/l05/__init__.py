"""Lesson 05, translating and scoring: its checks, its figures, its widgets, beams and bleu checks."""

from pmd_kit.l05 import beams, bleu_checks, checks, figures, widgets

__all__ = ["beams", "bleu_checks", "checks", "figures", "widgets"]
