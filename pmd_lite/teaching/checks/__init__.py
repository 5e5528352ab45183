"""The checks of the exercises, a file for each lesson; `core` says how a check works."""

from pmd_lite.teaching.checks.lesson00 import check_winners

__all__ = ["check_winners"]
