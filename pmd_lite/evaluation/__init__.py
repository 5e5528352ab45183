"""Judging translations: BLEU and chrF (bleu), trade-offs between languages (pareto), tables of results (tables)."""
