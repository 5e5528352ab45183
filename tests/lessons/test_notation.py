"""The list of symbols: each code name exists, each symbol stands once, the page in docs is the list."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("number", range(1, 13))
def test_each_equation_is_found_in_the_notation_the_library_and_the_tests(number: int) -> None:
    """As "Eq. N" (or within "Eq. 9-11") in the list and in docstrings, and as a test called test_eq_N_..."""

    def named(text: str) -> bool:
        spans = re.findall(r"Eq\. (\d+)(?:-(\d+))?(?:, (\d+))?(?: and (\d+))?", text)
        first_last = [(int(one), int(last or one)) for one, last, *_ in spans]
        more = {int(x) for _, _, *others in spans for x in others if x}
        return number in more or any(first <= number <= last for first, last in first_last)

    def texts(folder: str) -> str:
        return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py")))

    assert any(named(symbol.where) for symbol in NOTATION)
    assert named(texts("pmd_lite"))
    assert f"def test_eq_{number}_" in texts("tests/paper")


def test_nothing_stands_twice() -> None:
    assert len({s.symbol for s in NOTATION}) == len(NOTATION) == len(notation_table().rows)
    assert all(meaning and word not in meaning.split() for word, meaning in GLOSSARY.items())


def test_the_page_is_made_from_the_list() -> None:
    assert (ROOT / "docs" / "notation.md").read_text(encoding="utf-8") == notation_page()
