"""The sentences of lesson 13 and its study: what is stored is whole, and holds no sentence of the corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.own_sentences import plain
from pmd_kit.l13.sentences import PARROT, REFERENCES, SOURCES, Translated
from pmd_kit.l13.study import Study
from pmd_lite.errors import UserError

RESULTS = Path(__file__).resolve().parents[2] / "lessons" / "results"


def test_every_model_has_translated_every_sentence() -> None:
    stored = Translated.load(RESULTS / "own_sentences.json")
    assert stored.about.keys() == stored.translations.keys()
    for by_pair in stored.translations.values():
        assert {pair: len(texts) for pair, texts in by_pair.items()} == dict.fromkeys(SOURCES, len(REFERENCES))
    assert stored.table(0).columns[:2] == ["pair", "source"] and len(stored.table(0).rows) == len(SOURCES)


def test_closeness_by_hand(tmp_path: Path) -> None:
    texts = {pair: list(REFERENCES) for pair in SOURCES} | {"et-en": [PARROT] * 3 + list(REFERENCES[3:])}
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"translations": {"m": texts}, "about": {"m": "?"}, "command": "c"}), encoding="utf-8")
    ((_, *close, parrots),) = Translated.load(file).closeness().rows
    assert close == pytest.approx([100] * 5 + [50]) and parrots == 3
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="it lacks"):
        Translated.load(file)


def test_sentences_are_compared_without_case_and_punctuation() -> None:
    assert plain("Où est la clé,  MARIE ?") == plain("où est la clé marie") != plain("où est la cle marie")


def test_a_folder_without_records_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no records; make them with python -m benchmarks\.study"):
        Study.load(tmp_path)
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="it lacks"):
        Study.load(tmp_path)
    (tmp_path / "a.json").write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.json: another version made it"):
        Study.load(tmp_path)


def test_the_stored_study_holds_no_text() -> None:
    """Scores and counts only: a text with several words would be a sentence of the corpus."""

    def texts(part: object) -> list[str]:
        if isinstance(part, dict):
            return [text for value in part.values() for text in texts(value)]
        return (
            [t for p in part for t in texts(p)] if isinstance(part, list) else [part] if isinstance(part, str) else []
        )

    for file in (RESULTS / "studies" / "real-text").glob("*.json"):
        for student in json.loads(file.read_text(encoding="utf-8"))["students"]:
            assert all(" " not in text for text in texts(student["pairs"])), file
