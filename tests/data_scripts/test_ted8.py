"""TED-8 from every form of its corpus: the .tsv files as they are on their site, the Hub's parquet files."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora import ted8, ted_sources
from pmd_corpora.archives import text_lines
from pmd_corpora.fetch import Offline, Remote
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError
from tests.local_server import Page, serve

_CODES = """en es pt-br fr ru he ar ko zh-cn it ja zh-tw nl ro tr de vi pl pt bg el fa sr hu hr uk cs id th sv sk sq lt
da calv my sl mk fr-ca fi hy hi nb ka mn et ku gl mr zh ur eo ms az ta bn kk be eu bs"""
HEADER = ["talk_name", *_CODES.split()]
COUNTS = {"ko": 6, "fr": 5, "bg": 4, "el": 4, "mk": 3, "hi": 2, "mr": 2, "bs": 1}
ROWS = {"train": 6, "valid": 2, "test": 2}
FILES = {"train": "all_talks_train.tsv", "valid": "all_talks_dev.tsv", "test": "all_talks_test.tsv"}
Row = dict[str, str]


def rows_of(split: str) -> list[Row]:
    """English in every row; in train each language only in its first COUNTS rows, as in the real corpus."""
    rows = []
    for number in range(ROWS[split]):
        codes = [code for code, count in COUNTS.items() if split != "train" or number < count]
        rows.append({"talk_name": "a_talk", "en": f"{split} number {number} ."})
        rows[-1] |= {code: f"{code} {split} {number} ." for code in codes}
    return rows


def tsv(rows: list[Row], *, header: list[str] = HEADER, end: str = "\n") -> bytes:
    lines = [header, *([row.get(code, "__NULL__") for code in header] for row in rows)]
    return "".join("\t".join(line) + end for line in lines).encode()


def everything(**changed: list[Row]) -> dict[str, bytes]:
    return {FILES[split]: tsv(changed.get(split) or rows_of(split)) for split in FILES}


def folder_of(files: dict[str, bytes], place: Path) -> Path:
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return place


def archive_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def parquet_of(rows: list[Row]) -> bytes:
    """As the Hub converts it: two lists a row, missing and incomplete translations left out."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    there = [{code: text for code, text in row.items() if code != "talk_name"} for row in rows]
    translations = [{"language": sorted(cells), "translation": [cells[c] for c in sorted(cells)]} for cells in there]
    table = pyarrow.table({"translations": translations, "talk_name": [row["talk_name"] for row in rows]})
    out = io.BytesIO()
    parquet.write_table(table, out, row_group_size=2)
    return out.getvalue()


def shards() -> dict[str, bytes]:
    """The Hub's files by their path; train in two."""
    train = rows_of("train")
    parts = {"train/0000": train[:4], "train/0001": train[4:]}
    parts |= {"validation/0000": rows_of("valid"), "test/0000": rows_of("test")}
    return {f"{name}.parquet": parquet_of(rows) for name, rows in parts.items()}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def pairs_of(text: bytes, code: str = "bs") -> list[tuple[str, str]]:
    lines = text_lines(io.BytesIO(text), "x.tsv")
    return ted8.collect(ted_sources.tsv_rows(lines, "x.tsv", [code]), [code]).pairs[code]


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Published numbers for a corpus of ten rows."""
    monkeypatch.setattr(ted8, "DIVERSE", COUNTS)
    monkeypatch.setattr(ted8, "ROWS", ROWS)
    monkeypatch.setattr(ted8, "HELD_OUT", {code: (2, 2) for code in COUNTS})
    yield


def remotes(monkeypatch: pytest.MonkeyPatch, url: str, archive: bytes, *names: str) -> None:
    """The script's addresses, in the same form, on the local server."""
    own = Remote(tuple(f"{url}/{name}" for name in names), "ted_talks.tar.gz", len(archive),
                 hashlib.sha256(archive).hexdigest())  # fmt: skip
    hub = tuple(
        Remote(tuple(u.replace("https://huggingface.co", url) for u in remote.urls), remote.name)
        for remote in ted_sources.PARQUET
    )
    monkeypatch.setattr(ted_sources, "ARCHIVE", own)
    monkeypatch.setattr(ted_sources, "PARQUET", hub)


# --- the corpus that comes of it ------------------------------------------------------------------------------------


def test_the_archive_becomes_eight_pairs_with_the_splits_of_the_talks(tmp_path: Path) -> None:
    source = tmp_path / "ted_talks.tar.gz"
    source.write_bytes(archive_of(everything()))
    corpus = load_corpus(ted8.build(tmp_path / "out", source=source))
    assert corpus.name == "ted8-diverse" and corpus.direction == "m2o"
    assert dict(zip(corpus.pairs, corpus.sizes, strict=True)) == {f"{code}-en": n for code, n in COUNTS.items()}
    assert list(corpus.train["hi-en"]) == [
        ("hi train 0 .", "train number 0 ."),
        ("hi train 1 .", "train number 1 ."),
    ]
    assert list(corpus.valid["bs-en"]) == [(f"bs valid {n} .", f"valid number {n} .") for n in (0, 1)]
    assert list(corpus.test["ko-en"]) == [(f"ko test {n} .", f"test number {n} .") for n in (0, 1)]


def test_licence_and_tokenisation_stand_beside_the_data(tmp_path: Path) -> None:
    out = ted8.build(tmp_path / "out", source=folder_of(everything(), tmp_path / "in"))
    corpus = load_corpus(out)
    text = (out / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for place in (corpus.licence, text):
        assert "CC BY-NC-ND" in place and "no redistribution" in place
    for place in (corpus.source, text):
        assert "Moses-tokenised" in place and "not comparable" in place
    assert "| Korean (ko) | 6 | 2 | 2 | as expected |" in text


def test_one_to_many_is_the_same_text_turned_round(tmp_path: Path) -> None:
    source = folder_of(everything(), tmp_path / "in")
    into = load_corpus(ted8.build(tmp_path / "into", source=source))
    out_of = load_corpus(ted8.build(tmp_path / "out_of", source=source, direction="o2m"))
    assert out_of.direction == "o2m" and out_of.fingerprint == into.reversed().fingerprint != into.fingerprint


def test_the_related_set_has_its_own_eight_languages_and_no_published_counts(tmp_path: Path) -> None:
    rows = {s: [{**row, **{c: f"{c} {row['en']}" for c in ted8.RELATED}} for row in rows_of(s)] for s in ROWS}
    corpus = load_corpus(ted8.build(tmp_path / "out", source=folder_of(everything(**rows), tmp_path / "in"),
                                    which="related"))  # fmt: skip
    assert sorted(corpus.pairs) == [f"{c}-en" for c in ("az", "be", "cs", "gl", "pt", "ru", "sk", "tr")]
    assert corpus.train["pt-en"][5] == ("pt train number 5 .", "train number 5 .") and set(corpus.sizes) == {6}


@pytest.mark.parametrize("form", ["packed tsv", "hub tree", "hub download", "old hub names"])
def test_every_form_of_the_source_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    if form == "packed tsv":
        files = {f"{name}.gz": gzip.compress(data) for name, data in everything().items()}
    else:
        files = shards()
        if form == "hub tree":
            files = {f"plain_text/{name}": data for name, data in files.items()}
        elif form == "hub download":
            files = {name.replace("/", "-"): data for name, data in files.items()}
        else:
            files = {f"ted_multi-{name.replace('/', '-')}": data for name, data in files.items()}
    plain = ted8.build(tmp_path / "plain", source=folder_of(everything(), tmp_path / "train test"))
    other = ted8.build(tmp_path / "other", source=folder_of(files, tmp_path / "validation train"))
    assert contents(other) == contents(plain)


# --- what stands in a cell ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("english", "foreign", "kept"),
    [
        ('He said " no " .', 'Rekao je " ne .', ('Rekao je " ne .', 'He said " no " .')),
        ('"', '""', ('""', '"')),
        ("Don &apos;t .", "Nemoj .", ("Nemoj .", "Don &apos;t .")),
        ("A NULL hypothesis .", "Nulta .", ("Nulta .", "A NULL hypothesis .")),
        ("__NULL__", "Nema .", None),
        ("There .", "__NULL__", None),
        ("There .", "_ _ NULL _ _", None),
        ("First part . _ _ NULL _ _", "Prvi dio . Drugi .", None),
        ("Here __NULL__ .", "Ovdje .", None),
        ("", "Prazno .", None),
        ("Blank .", " \u3000", None),
        ("One\u2028two", "Jedan\x85dva", ("Jedan dva", "One two")),
        ("One\rtwo\x0b", "Jedan", ("Jedan", "One two ")),
        (" spaces stay ", "ovako", ("ovako", " spaces stay ")),
    ],
)
def test_cells_are_kept_as_they_are_or_left_out(english: str, foreign: str, kept: tuple[str, str] | None) -> None:
    before, after = {"en": "Before .", "bs": "Prije ."}, {"en": "After .", "bs": "Poslije ."}
    rows = [before, {"en": english, "bs": foreign}, after]
    expected = [("Prije .", "Before ."), *([kept] if kept else []), ("Poslije .", "After .")]
    assert pairs_of(tsv(rows)) == expected


def test_a_byte_order_mark_and_crlf_are_no_part_of_the_text() -> None:
    rows = [{"en": f"English {n}", "bs": f"bosanski {n}"} for n in range(3)]  # bs is the last column
    assert pairs_of(b"\xef\xbb\xbf" + tsv(rows, end="\r\n")) == [(f"bosanski {n}", f"English {n}") for n in range(3)]


def test_columns_are_found_by_the_header_wherever_they_stand() -> None:
    assert pairs_of(tsv([{"en": "one", "bs": "jedan"}], header=["bs", "talk_name", "en"])) == [("jedan", "one")]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n"), max_size=8), max_size=5))
def test_no_text_shifts_a_line_or_a_column(texts: list[str]) -> None:
    rows = [{"en": f"{n} {text} .", "hi": f"{text} {n} ."} for n, text in enumerate(texts)]
    found = pairs_of(tsv(rows), "hi")
    assert [int(english.split()[0]) for _, english in found] == list(range(len(texts)))
    for (foreign, english), text in zip(found, texts, strict=True):
        assert len(f"{foreign}\t{english}".splitlines()) == 1
        assert foreign[: len(text)] == english[2:-2] and len(english) == len(text) + 4
        assert not text.isprintable() or foreign.startswith(text)


def test_mended_and_suspicious_lines_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of("train")
    rows[0]["bs"] = "a\u2029b"
    rows[1]["hi"] = "NULL i sve ."
    rows[5]["ko"] = " "
    source = folder_of(everything(train=rows), tmp_path / "in")
    ted8.build(tmp_path / "out", source=source, strict=False)
    said = capsys.readouterr().err
    assert "train: 1 bs pairs with a line separator" in said
    assert "train: 1 hi pairs with the word NULL" in said
    assert "train: 1 ko pairs with a blank side" in said


# --- repetitions ----------------------------------------------------------------------------------------------------


def test_only_whole_test_pairs_are_taken_out_of_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = rows_of("train"), rows_of("test")
    test[0] |= {"en": "Thank you .", "ko": "감사합니다 .", "fr": "Merci ."}
    train[0] |= {"en": "Thank you .", "ko": "감사합니다 .", "fr": "Merci bien ."}  # for ko a leak, for fr none
    train[2] |= {"en": train[1]["en"], "fr": train[1]["fr"]}  # fr says the same twice
    out = ted8.build(tmp_path / "out", source=folder_of(everything(train=train, test=test), tmp_path / "in"))
    corpus, said = load_corpus(out), capsys.readouterr().err
    assert (len(corpus.train["ko-en"]), len(corpus.train["fr-en"])) == (5, 5)
    assert ("감사합니다 .", "Thank you .") not in list(corpus.train["ko-en"])
    assert "train.ko-en: 1 of 6 pairs are test pairs too: left out" in said and "train.fr-en: 1 of" not in said
    assert "1 of 5 training pairs repeat an earlier one" in said
    # The table and the published numbers are those of the files, before anything was taken out.
    assert "| Korean (ko) | 6 | 2 | 2 | as expected |" in said


# --- numbers --------------------------------------------------------------------------------------------------------


def test_other_numbers_than_published_stop_the_build_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder_of(everything(train=rows_of("train")[:5]), tmp_path / "in")
    with pytest.raises(UserError) as raised:
        ted8.build(tmp_path / "out", source=source)
    assert "train: 6 rows expected, 5 found" in str(raised.value)
    assert "train.ko-en: 6 pairs expected, 5 found" in str(raised.value) and "fr-en" not in str(raised.value)
    assert "strict=False" in str(raised.value) and not (tmp_path / "out").exists()
    assert load_corpus(ted8.build(tmp_path / "out", source=source, strict=False)).sizes[:2] == [5, 5]
    assert "train.ko-en: 6 pairs expected, 5 found" in capsys.readouterr().err


def test_held_out_numbers_are_only_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ted8.HELD_OUT, "mr", (3, 2))
    out = ted8.build(tmp_path / "out", source=folder_of(everything(), tmp_path / "in"))
    assert "| Marathi (mr) | 2 | 2 | 2 | 2 / 3 / 2 |" in (out / "ATTRIBUTION.md").read_text(encoding="utf-8")


def test_published_numbers_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sum(ted8.DIVERSE.values()) == 766_352 and sum(ted8.ROWS.values()) == 271_360
    assert len(HEADER) == 61 and {code for codes in ted8.CODES.values() for code in codes} <= set(HEADER)
    assert ted_sources.ARCHIVE.urls[0] == "http://phontron.com/data/ted_talks.tar.gz"
    assert all(url.startswith("https://huggingface.co/datasets/neulab/ted_multi/resolve/")
               for remote in ted_sources.PARQUET for url in remote.urls)  # fmt: skip
    assert [remote.name for remote in ted_sources.PARQUET] == [
        "train-0000.parquet", "train-0001.parquet", "validation-0000.parquet", "test-0000.parquet",
    ]  # fmt: skip


# --- damage ---------------------------------------------------------------------------------------------------------


def damaged(what: str) -> dict[str, bytes]:
    files = everything()
    train, lines = FILES["train"], files[FILES["train"]].split(b"\n")
    if what == "latin-1":
        files[train] = files[train].replace(b"fr train 3 .", "déjà .".encode("latin-1"))
    elif what == "short row":
        files[train] = b"\n".join([*lines[:4], b"a_talk\tonly three\tcolumns", *lines[5:]])
    elif what == "cut file":
        files[train] = b"\n".join(lines[:6]) + b"\n" + lines[6][:200]
    elif what == "no column":
        files[FILES["test"]] = tsv(rows_of("test"), header=[code for code in HEADER if code not in ("mk", "bs")])
    elif what == "web page":
        files[FILES["valid"]] = b"<!DOCTYPE html>\n<html>Moved</html>\n"
    elif what == "empty file":
        files[FILES["valid"]] = b""
    else:
        del files[FILES["valid"]]
    return files


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("latin-1", r"all_talks_train\.tsv:5: byte \d+ of the line, 0xe9, is not UTF-8"),
        ("short row", r"all_talks_train\.tsv:5: 3 columns, but the header has 61\. .*--no-strict"),
        ("cut file", r"all_talks_train\.tsv:7: \d+ columns, but the header has 61"),
        ("no column", r"all_talks_test\.tsv:1: no column mk, bs; the line begins 'talk_name'"),
        ("web page", r"all_talks_dev\.tsv:1: no column en, ko, .*the line begins '<!DOCTYPE html>'"),
        ("empty file", r"all_talks_dev\.tsv:1: no column en"),
        ("no file", r"(has neither|0 members named) all_talks_dev\.tsv"),
    ],
)
def test_damage_is_named_with_file_and_line(what: str, message: str, packed: bool, tmp_path: Path) -> None:
    source = folder_of(damaged(what), tmp_path / "in")
    if packed:
        source = tmp_path / "ted_talks.tar.gz"
        source.write_bytes(archive_of(damaged(what)))
    with pytest.raises(UserError, match=message):
        ted8.build(tmp_path / "out", source=source)
    assert not (tmp_path / "out").exists()


def test_without_strict_a_short_row_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ted8.build(tmp_path / "out", source=folder_of(damaged("short row"), tmp_path / "in"), strict=False)
    assert [en[13:14] for _, en in load_corpus(out).train["ko-en"]] == list("01245")
    assert "all_talks_train.tsv:5: 3 columns, but the header has 61: left out" in capsys.readouterr().err


def test_unsuitable_sources(tmp_path: Path) -> None:
    whole = archive_of(everything())
    cases = [
        ("cut.tar.gz", whole[: len(whole) * 2 // 3], r"cut\.tar\.gz"),
        ("page.tar.gz", b"<!DOCTYPE html><html>Not here</html>", r"page\.tar\.gz cannot be read as an archive"),
        ("empty.tar.gz", b"", r"empty\.tar\.gz cannot be read as an archive"),
        ("nested/x.txt", b"hello", r"nested has neither all_talks_train\.tsv nor \.parquet files of the split train"),
    ]
    for name, data, message in cases:
        source = folder_of({name: data}, tmp_path) / name
        with pytest.raises(UserError, match=message):
            ted8.build(tmp_path / "out", source=source if source.name != "x.txt" else source.parent)
    with pytest.raises(UserError, match=r"none\.tar\.gz does not exist"):
        ted8.build(tmp_path / "out", source=tmp_path / "none.tar.gz")
    for options in ({"which": "divers"}, {"direction": "m2m"}):
        with pytest.raises(UserError, match="choose diverse or related, and m2o or o2m"):
            ted8.build(tmp_path / "out", source=tmp_path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["truncated", "text", "other columns"])
def test_damaged_parquet_is_named(what: str, tmp_path: Path) -> None:
    files = shards()
    if what == "truncated":
        files["train/0001.parquet"] = files["train/0001.parquet"][:-30]
    elif what == "text":
        files["train/0001.parquet"] = b"version https://git-lfs.github.com/spec/v1\n"
    else:
        import pyarrow
        from pyarrow import parquet

        out = io.BytesIO()
        parquet.write_table(pyarrow.table({"translation": ["x"]}), out)  # without the s
        files["train/0001.parquet"] = out.getvalue()
    with pytest.raises(UserError, match=r"0001\.parquet: not a sound parquet file of ted_multi \(.{9,}\)"):
        ted8.build(tmp_path / "out", source=folder_of(files, tmp_path / "in"))


def test_parquet_without_pyarrow_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = folder_of({"train/0000.parquet": b"PAR1"}, tmp_path / "in")
    with pytest.raises(UserError, match=r"pip install .pmd_lite\[download\]"):
        ted8.build(tmp_path / "out", source=source)


# --- the network ----------------------------------------------------------------------------------------------------


def test_a_missing_address_is_followed_by_the_mirror_and_the_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(everything())
    with serve({"mirror.gz": archive}) as url:
        remotes(monkeypatch, url, archive, "gone.gz", "mirror.gz")
        out = ted8.build(tmp_path / "out", direction="o2m")
        assert [request.path for request in url.requests] == ["/gone.gz", "/mirror.gz"]
        assert load_corpus(out).sizes == list(COUNTS.values())
        ted8.build(tmp_path / "again")
        assert len(url.requests) == 2 and (tmp_path / "downloads" / "ted_talks.tar.gz").read_bytes() == archive


@pytest.mark.slow
@pytest.mark.parametrize("answer", [Page(b"<!DOCTYPE html><html>maintenance</html>"), Page(b"x", status=404)])
def test_when_the_site_fails_the_copy_on_the_hub_is_used(
    answer: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = "datasets/neulab/ted_multi/resolve/refs%2Fconvert%2Fparquet/plain_text"
    with serve({"site.gz": answer, **{f"{tree}/{name}": data for name, data in shards().items()}}) as url:
        remotes(monkeypatch, url, archive_of(everything()), "site.gz")
        out = ted8.build(tmp_path / "out")
    assert "copy on the Hugging Face Hub" in capsys.readouterr().err
    plain = ted8.build(tmp_path / "plain", source=folder_of(everything(), tmp_path / "in"))
    assert contents(out) == contents(plain)


def test_when_the_site_fails_and_pyarrow_is_missing_both_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ted_sources, "find_spec", lambda name: None)
    with serve({}) as url:
        remotes(monkeypatch, url, b"x", "gone.gz")
        with pytest.raises(UserError, match=r"404.*needs pyarrow: pip install .pmd_lite\[download\]"):
            ted8.build(tmp_path / "out")
        assert [request.path for request in url.requests] == ["/gone.gz"]


def test_offline_says_what_works_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMD_OFFLINE", "1")
    with pytest.raises(Offline, match=r"PMD_OFFLINE.*catalogs6"):
        ted8.build(tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- writing, command line ------------------------------------------------------------------------------------------


def test_another_corpus_is_replaced_only_when_told(tmp_path: Path) -> None:
    source, out = folder_of(everything(), tmp_path / "in"), tmp_path / "out"
    before = contents(ted8.build(out, source=source))
    assert contents(ted8.build(out, source=source, seed=5)) == before, "the same text is written anew"
    with pytest.raises(UserError, match="has another corpus"):
        ted8.build(out, source=source, direction="o2m")
    assert contents(out) == before, "ATTRIBUTION.md too is as it was"
    after = contents(ted8.build(out, source=source, direction="o2m", overwrite=True))
    assert "train.en-bs.tsv" in after and "ATTRIBUTION.md" in after and "train.bs-en.tsv" not in after


def test_an_attribution_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    out = folder_of({"ATTRIBUTION.md": b"my notes\n"}, tmp_path / "out")
    with pytest.raises(UserError, match=r"has ATTRIBUTION\.md, which is not part of a corpus"):
        ted8.build(out, source=folder_of(everything(), tmp_path / "in"), overwrite=True)
    assert contents(out) == {"ATTRIBUTION.md": b"my notes\n"}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = folder_of(everything(train=rows_of("train")[:5]), tmp_path / "in")
    command = ["--out", str(tmp_path / "out"), "--source", str(source), "--direction", "o2m"]
    assert ted8.main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("ted8: ") and said.count("\n") == 1
    assert ted8.main([*command, "--no-strict"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    assert load_corpus(tmp_path / "out").direction == "o2m"
