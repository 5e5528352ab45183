"""Lesson 10, Auto-PMD: its checks, its figures, searches, stepper, students and trials."""

from pmd_kit.l10 import checks, figures, searches, stepper, students, trials

__all__ = ["checks", "figures", "searches", "stepper", "students", "trials"]
