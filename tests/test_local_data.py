"""A user's own parallel text: read, split by cluster, checked, written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from data_scripts import local
from data_scripts.cleaning import sentence_key
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError


def spell(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:03d}")


def lines(count: int, lang: str) -> list[tuple[str, str]]:
    return [(f"{lang} phrase {spell(i)}", f"english phrase {spell(i)}") for i in range(count)]


def write(path: Path, rows: list[str]) -> Path:
    data = "".join(f"{row}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_unsplit_text_of_two_pairs_is_split_without_leak(tmp_path: Path) -> None:
    french, german = lines(100, "fr"), lines(60, "de")
    tsv = write(
        tmp_path / "all.fr-en.tsv.gz", ["\t".join(row) for row in [*french, ("FR phrase aaa!", "another english line")]]
    )
    plain = [write(tmp_path / f"all.{code}", [row[side] for row in german]) for side, code in ((0, "de"), (1, "en"))]
    out = local.build(tmp_path / "out", tsv, *plain, valid=5, test=6, licence="mine")
    corpus = load_corpus(out)
    assert (corpus.name, corpus.licence) == ("out", "mine")
    assert {pair: (len(corpus.valid[pair]), len(corpus.test[pair])) for pair in corpus.pairs} == {
        "fr-en": (5, 6),
        "de-en": (5, 6),
    }
    assert [en for _, en in corpus.test["fr-en"]] == [en for _, en in corpus.test["de-en"]]
    keys = [
        {sentence_key(side) for pair in corpus.pairs for row in texts[pair] for side in row}
        for texts in (corpus.train, corpus.valid, corpus.test)
    ]
    assert not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]
    assert {row for texts in (corpus.train, corpus.valid, corpus.test) for row in texts["de-en"]} == set(german)


def test_one_to_many_keeps_its_direction(tmp_path: Path) -> None:
    inputs = []
    for code in ("fr", "de"):
        rows = [f"{en}\t{xx}" for xx, en in lines(40, code)]
        inputs.append(write(tmp_path / f"en-{code}.tsv", rows))
    corpus = load_corpus(local.build(tmp_path / "out", *inputs, valid=3, test=3))
    assert corpus.direction == "o2m" and all(src.startswith("english") for src, _ in corpus.train["en-de"])
    assert [src for src, _ in corpus.valid["en-fr"]] == [src for src, _ in corpus.valid["en-de"]]


def test_split_directory_is_checked_and_copied(tmp_path: Path) -> None:
    rows = lines(30, "fr")
    given = tmp_path / "given"
    given.mkdir()
    for split, part in (("train", rows[:20]), ("valid", rows[20:25]), ("test", rows[25:])):
        for side, code in ((0, "fr"), (1, "en")):
            write(given / f"{split}.{code}.gz", [row[side] for row in part])
    assert local.main([str(given), "--out", str(tmp_path / "out"), "--licence", "CC0"]) == 0
    corpus = load_corpus(tmp_path / "out")
    assert list(corpus.train["fr-en"]) == rows[:20] and list(corpus.test["fr-en"]) == rows[25:]


def test_errors_name_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fr, en = write(tmp_path / "a.fr", ["un", "deux"]), write(tmp_path / "a.en", ["one"])
    tsv = write(tmp_path / "a.fr-en.tsv", ["un\tone", "deux two"])
    cases = [
        ([fr, en], r"a\.fr has 2 lines and .*a\.en has 1"),
        ([tsv], r"a\.fr-en\.tsv:2: no `source TAB target`"),
        ([fr, write(tmp_path / "a.de", ["eins", " "])], r"a\.de:2: a blank line"),
        ([tmp_path / "none.fr-en.tsv"], r"none\.fr-en\.tsv cannot be read"),
        ([tsv, tsv], r"the pair fr-en is given twice"),
        ([fr], r"a\.fr: its other side does not follow"),
        ([fr, write(tmp_path / "b.en", ["one", "two"])], r"a\.fr: its other side does not follow"),
        ([fr, en, tmp_path / "test.fr"], r"test\.fr: text that is split already is given as one directory"),
        ([], r"Give files named like all\.fr-en\.tsv"),
    ]
    for files, message in cases:
        with pytest.raises(UserError, match=message):
            local.build(tmp_path / "out", *files)
    assert local.main([str(tsv), "--out", str(tmp_path / "out")]) == 2
    assert "a.fr-en.tsv:2" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_small_text_is_held_out_by_a_quarter(tmp_path: Path) -> None:
    file = write(tmp_path / "fr-en.tsv", ["\t".join(row) for row in lines(40, "fr")])
    corpus = load_corpus(local.build(tmp_path / "out", file))
    assert [len(texts["fr-en"]) for texts in (corpus.train, corpus.valid, corpus.test)] == [30, 5, 5]
