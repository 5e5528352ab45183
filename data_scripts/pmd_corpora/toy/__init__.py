"""Invented languages: corpora that are small enough for a laptop, and of which we know every word."""

from pmd_corpora.toy.corpus import Texts, explain, toy_corpus, toy_languages, toy_texts

__all__ = ["Texts", "explain", "toy_corpus", "toy_languages", "toy_texts"]
