"""The list of symbols: each code name exists, each symbol stands once, the page in docs is the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from pmd_kit.notation import GLOSSARY, NOTATION, Symbol, notation_page, notation_table
from pmd_lite.distillation.actions import increase

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("symbol", NOTATION, ids=lambda symbol: symbol.code)
def test_each_code_name_exists(symbol: Symbol) -> None:
    assert symbol.resolve() is not None


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert Symbol("", "", "", "distillation.actions:increase", "").resolve() is increase
    with pytest.raises(AttributeError):
        Symbol("", "", "", "distillation.actions:increse", "").resolve()
    with pytest.raises(ImportError):
        Symbol("", "", "", "distillation.action:increase", "").resolve()


def test_nothing_stands_twice() -> None:
    assert len({s.symbol for s in NOTATION}) == len(NOTATION) == len(notation_table().rows)
    assert all(meaning and word not in meaning.split() for word, meaning in GLOSSARY.items())


def test_the_page_is_made_from_the_list() -> None:
    assert (ROOT / "docs" / "notation.md").read_text(encoding="utf-8") == notation_page()
