"""Invented languages: a corpus small enough for a laptop, whose every word is known."""

from pmd_lite.data.toy.corpus import Texts, explain, toy_corpus, toy_languages, toy_texts

__all__ = ["Texts", "explain", "toy_corpus", "toy_languages", "toy_texts"]
