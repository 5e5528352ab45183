"""Stored sentences: counts come back as the numbers they were, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pmd_kit.l13.sentences import StoredSentences
from pmd_lite.errors import UserError
from pmd_lite.evaluation.significance import bleu_of, sentence_stats


def test_counts_give_the_bleu_of_the_sentences_they_were_taken_from(tmp_path: Path) -> None:
    hyps, refs = ["a b c d e", "x y z u v w"], ["a b c d f", "x y z u v w"]
    stats = sentence_stats(hyps, refs, "en")
    example = {"pair": "fr-en", "source": "s", "reference": "r", "translations": {"one": "t", "two": ""}}
    file = tmp_path / "x.json"
    counts = {"one": {"fr-en": [" ".join(map(str, row)) for row in stats]}}
    file.write_text(json.dumps({"examples": [example], "statistics": counts}))
    stored = StoredSentences.load(file)
    found = stored.counts["one"]["fr-en"]
    assert (found == stats).all()
    assert float(bleu_of(found.sum(axis=0))) == pytest.approx(float(bleu_of(stats.sum(axis=0))))
    assert stored.table("fr-en", ["two", "one"]).rows == [["s", "r", "(nothing)", "t"]]
    with pytest.raises(UserError, match="no sentences of 'de-en'; there are"):
        stored.table("de-en", ["one"])


def test_another_file_is_no_stored_sentences(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    with pytest.raises(UserError, match="no stored sentences"):
        StoredSentences.load(file)
    file.write_text("{}")
    with pytest.raises(UserError, match=r"real_text\.py writes them"):
        StoredSentences.load(file)
