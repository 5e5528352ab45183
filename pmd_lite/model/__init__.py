"""The neural network (transformer.py), how it translates (decoding.py), and several that translate as one."""

from pmd_lite.model.decoding import Hypothesis, beam_search, translate_batch
from pmd_lite.model.ensemble import Ensemble
from pmd_lite.model.transformer import Transformer

__all__ = ["Ensemble", "Hypothesis", "Transformer", "beam_search", "translate_batch"]
