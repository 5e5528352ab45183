"""The neural network (transformer.py) and how it translates (decoding.py)."""

from __future__ import annotations

from pmd_lite.model.decoding import Hypothesis, beam_search, translate_batch
from pmd_lite.model.transformer import Transformer

__all__ = ["Hypothesis", "Transformer", "beam_search", "translate_batch"]
