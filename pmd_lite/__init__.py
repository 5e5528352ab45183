"""Pareto Mutual Distillation for multilingual translation: a course and a compact library.

import pmd_lite as pmd
corpus = pmd.load_corpus("longtail")
run = pmd.train(corpus, "auto-pmd", "toy")
run.table()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmd_lite.api import load_corpus, run_size, train
    from pmd_lite.comparing.compare import compare
    from pmd_lite.comparing.comparison import Comparison
    from pmd_lite.config import PRESETS, Config, preset
    from pmd_lite.errors import UserError
    from pmd_lite.evaluation.score_tables import bleu_table
    from pmd_lite.exchange.marian import import_marian
    from pmd_lite.methods import METHODS
    from pmd_lite.planning.estimate import Estimate, estimate
    from pmd_lite.processes import launch, train_side_by_side
    from pmd_lite.run import Run

__all__ = [
    "METHODS", "PRESETS", "Comparison", "Config", "Estimate", "Run", "UserError", "bleu_table", "compare", "estimate",
    "import_marian", "launch", "load_corpus", "preset", "run_size", "train", "train_side_by_side",
]  # fmt: skip
__version__ = "0.1.0"
_HOMES = ("errors", "config", "methods", "run", "evaluation.score_tables", "exchange.marian", "api",
          "planning.estimate", "processes", "comparing.comparison", "comparing.compare")  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name, imported with its first use: what needs no torch, such as --help, starts without it."""
    if name in __all__:
        for home in (import_module(f"{__name__}.{home}") for home in _HOMES):
            if name in vars(home):
                return globals().setdefault(name, vars(home)[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
