"""The small TED-8 and WMT-6 of lessons 14 and 15: through the scripts of the real data, without an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from pmd_corpora import ted8, wmt6
from pmd_kit.miniatures import HELD, TED_COLUMNS, TED_SIZES, WMT_SIZES, write_ted, write_wmt
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError


def test_sizes_are_those_of_the_scripts() -> None:
    assert TED_SIZES == ted8.DIVERSE and list(TED_SIZES) == list(ted8.DIVERSE)
    assert WMT_SIZES == wmt6.SIZES and list(WMT_SIZES) == list(wmt6.SIZES)


def test_the_script_makes_ted_8_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_ted(tmp_path / "raw")
    header = (source / "all_talks_train.tsv").read_text("utf-8").split("\n")[0].split("\t")
    assert header == ["talk_name", *TED_COLUMNS] and len(header) == 61
    corpus = load_corpus(ted8.build(tmp_path / "out", source=source, strict=False))
    counts = {code: size // 400 for code, size in TED_SIZES.items()}
    counts["fr"] += 2  # of the odd lines
    assert dict(zip(corpus.pairs, corpus.sizes, strict=True)) == {f"{code}-en": n for code, n in counts.items()}
    assert all(len(corpus.test[pair]) == len(corpus.valid[pair]) == HELD for pair in corpus.pairs)
    said = capsys.readouterr().err
    assert "1 fr pairs with a blank side" in said and "1 fr pairs with a line separator" in said
    assert "1 fr pairs with the word NULL kept" in said
    assert not any("NULL _" in text for pair in corpus.pairs for row in corpus.train[pair] for text in row)


def test_the_same_files_every_time(tmp_path: Path) -> None:
    one, two = (write_ted(tmp_path / name) for name in "ab")
    assert all((one / file.name).read_bytes() == file.read_bytes() for file in two.iterdir())
    with pytest.raises(UserError, match="smallest language would have no sentence"):
        write_ted(tmp_path / "c", shrink=10_000)


def test_wmt_6_has_its_names_order_and_tail(tmp_path: Path) -> None:
    corpus = load_corpus(write_wmt(tmp_path / "out"))
    assert corpus.name == "wmt6" and corpus.pairs == ("fr-en", "de-en", "zh-en", "et-en", "ro-en", "tr-en")
    assert corpus.sizes == sorted(corpus.sizes, reverse=True) and corpus.sizes[0] == 1200 and corpus.sizes[-1] == 20
    assert corpus.warnings == ()
