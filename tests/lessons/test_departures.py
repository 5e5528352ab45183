"""One list of departures: each row names a file that is there and an option that is legal and changes something."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any, get_args

import pytest

from pmd_kit.departures import DEPARTURES, Departure, to_markdown
from pmd_kit.paper_tables import deviations
from pmd_lite.comparing.entries import parse_settings
from pmd_lite.config import PRESETS, Config, preset
from pmd_lite.model.decoding import Stop

ROOT = Path(__file__).resolve().parents[2]
WITH_OPTION = [row for row in DEPARTURES if row.option]


def named(row: Departure) -> str:
    return row.what


def leaf(config: Config, option: str) -> Any:
    section, _, name = option.rpartition(".")
    return getattr(getattr(config, section) if section else config, name)


def test_docs_and_lesson_show_this_very_list() -> None:
    assert to_markdown() in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert len(deviations().rows) == len(DEPARTURES) == len({row.what for row in DEPARTURES})


@pytest.mark.parametrize("row", DEPARTURES, ids=named)
def test_the_file_is_there(row: Departure) -> None:
    assert (ROOT / "pmd_lite" / row.file).resolve().is_file()


@pytest.mark.parametrize("row", WITH_OPTION, ids=named)
def test_the_option_is_legal_and_changes_ours(row: Departure) -> None:
    """In at least one preset the value differs from the preset's, so the option can change it."""
    ((name, value),) = parse_settings([row.option]).items()
    value = float(value) if isinstance(leaf(PRESETS["wmt6"], name), float) else value
    changed = [leaf(preset(p, **{name: value}), name) == value != effective(PRESETS[p], name) for p in ("ted8", "wmt6")]
    assert any(changed)


def effective(config: Config, option: str) -> Any:
    """The value in effect: that of the bundle if the field leaves it open."""
    value = leaf(config, option)
    return getattr(config.distill.resolved, option.rpartition(".")[2]) if value is None else value


def test_every_member_of_the_bundle_has_its_row() -> None:
    options = {row.option.partition("=")[0] for row in DEPARTURES}
    assert {f"distill.{name}" for name in dataclasses.asdict(Config().distill.resolved)} <= options


def test_the_one_word_that_is_no_field_of_the_configuration() -> None:
    row = next(row for row in DEPARTURES if row.what == "end of beam search")
    assert '`stop="full"`' in row.released and "full" in get_args(Stop)
    tree = ast.parse((ROOT / "pmd_lite" / row.file).read_text(encoding="utf-8"))
    search = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "beam_search")
    assert "stop" in {a.arg for a in search.args.kwonlyargs}
