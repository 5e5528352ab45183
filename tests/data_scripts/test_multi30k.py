"""Image captions: which go to which pair, which are never trained on, and what happens with damaged files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pmd_corpora import multi30k
from pmd_corpora.fetch import Offline, Remote
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.errors import UserError
from tests.local_server import Page, serve

STEMS = ("train", "val", "test_2016_flickr")
LANGUAGES = ("en", "fr", "de", "cs")
SIZES = {"fr": 8, "de": 4, "cs": 2}
Captions = list[dict[str, str]]


def word(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def captions(stem: str, count: int) -> Captions:
    return [{lang: f"{lang} {stem} {word(n)} ." for lang in LANGUAGES} for n in range(count)]


def files_of(train: Captions | None = None, val: Captions | None = None) -> dict[str, bytes]:
    splits = {
        "train": train or captions("train", 20),
        "val": val or captions("val", 3),
        "test_2016_flickr": captions("test", 4),
    }
    return {
        f"{stem}.{lang}.gz": gzip.compress("".join(f"{one[lang]}\n" for one in split).encode(), mtime=0)
        for stem, split in splits.items()
        for lang in LANGUAGES
    }


def folder_of(files: dict[str, bytes], place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
    return place


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return folder_of(files_of(), tmp_path / "raw")


# --- the corpus -----------------------------------------------------------------------------------------------------


def test_no_caption_is_in_two_pairs_and_each_line_translates_its_own(source: Path, tmp_path: Path) -> None:
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=source, sizes=SIZES))
    assert corpus.name == "multi30k" and corpus.pairs == ("fr-en", "de-en", "cs-en") and corpus.sizes == [8, 4, 2]
    english = [en for pair in corpus.pairs for _, en in corpus.train[pair]]
    assert len(english) == len(set(english)) == 14 and set(english) <= {one["en"] for one in captions("train", 20)}
    for pair in corpus.pairs:
        assert all(foreign == pair[:2] + en[2:] for foreign, en in corpus.train[pair])
    assert corpus.warnings == ()


def test_valid_and_test_are_the_same_english_lines_for_all_pairs(source: Path, tmp_path: Path) -> None:
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=source, sizes=SIZES))
    for pair in corpus.pairs:
        assert list(corpus.valid[pair]) == [(f"{pair[:2]} val {w} .", f"en val {w} .") for w in "abc"]
        assert [en for _, en in corpus.test[pair]] == [f"en test {w} ." for w in "abcd"]


def test_licence_stands_beside_the_data(source: Path, tmp_path: Path) -> None:
    out = multi30k.build(tmp_path / "out", source=source, sizes=SIZES)
    for place in (load_corpus(out).licence, (out / "ATTRIBUTION.md").read_text(encoding="utf-8")):
        assert "CC BY-NC-SA 4.0" in place and "no redistribution" in place


def test_the_seed_alone_decides_which_captions(source: Path, tmp_path: Path) -> None:
    first = contents(multi30k.build(tmp_path / "a", source=source, sizes=SIZES, seed=3))
    assert contents(multi30k.build(tmp_path / "b", source=source, sizes=SIZES, seed=3)) == first
    assert contents(multi30k.build(tmp_path / "a", source=source, sizes=SIZES, seed=3)) == first
    other = contents(multi30k.build(tmp_path / "c", source=source, sizes=SIZES, seed=4))
    assert other["train.fr-en.tsv"] != first["train.fr-en.tsv"]
    assert other["test.fr-en.tsv"] == first["test.fr-en.tsv"]


def test_a_pair_keeps_its_captions_when_a_later_one_changes(source: Path, tmp_path: Path) -> None:
    few = load_corpus(multi30k.build(tmp_path / "few", source=source, sizes=SIZES))
    many = load_corpus(multi30k.build(tmp_path / "many", source=source, sizes={**SIZES, "cs": 8}))
    assert list(few.train["fr-en"]) == list(many.train["fr-en"])
    assert list(few.train["de-en"]) == list(many.train["de-en"])
    assert set(few.train["cs-en"]) < set(many.train["cs-en"])


def test_all_captions_can_be_used_up(source: Path, tmp_path: Path) -> None:
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=source, sizes={"fr": 10, "de": 7, "cs": 3}))
    assert sum(corpus.sizes) == 20
    order = [captions("train", 20).index({lang: lang + en[2:] for lang in LANGUAGES})
             for _, en in corpus.train["fr-en"]]  # fmt: skip
    assert order == sorted(order), "in the order of the files"


@pytest.mark.parametrize(
    ("english", "kept"),
    [
        ("en val b .", False),
        ("EN  Val b!", False),
        ("en test d .", False),
        ("en train a", False),  # the first training caption, once more
        ("en train number 7 .", True),
        ("en val bb .", True),
    ],
)
def test_english_of_a_held_out_or_an_earlier_caption_is_not_trained_on(
    english: str, kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = captions("train", 20)
    train[12]["en"] = english
    source = folder_of(files_of(train), tmp_path / "raw")
    sizes = {"fr": 10, "de": 7, "cs": 2}
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=source, sizes={**sizes, "cs": 3 if kept else 2}))
    trained = [en for pair in corpus.pairs for _, en in corpus.train[pair]]
    assert (english in trained) is kept and "en train a ." in trained
    assert ("1 captions with the English of a held-out or an earlier one left out" in capsys.readouterr().err) != kept


def test_the_published_sizes_and_addresses() -> None:
    assert multi30k.SIZES == {"fr": 16_000, "de": 8_000, "cs": 2_000}
    assert sum(multi30k.SIZES.values()) <= multi30k.LINES["train"] == 29_000
    urls = {remote.name: remote.urls[0] for remote in multi30k.REMOTES}
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    assert urls == {f"{s}.{lang}.gz": f"{base}/{s}.{lang}.gz" for s in STEMS for lang in LANGUAGES} and len(urls) == 12


# --- the files ------------------------------------------------------------------------------------------------------


def test_unpacked_files_give_the_same_corpus(source: Path, tmp_path: Path) -> None:
    plain = {name.removesuffix(".gz"): gzip.decompress(data) for name, data in files_of().items()}
    folder = folder_of(plain, tmp_path / "plain")
    packed = multi30k.build(tmp_path / "a", source=source, sizes=SIZES)
    assert contents(multi30k.build(tmp_path / "b", source=folder, sizes=SIZES)) == contents(packed)


def test_tabs_line_separators_crlf_and_marks_do_not_shift_lines(tmp_path: Path) -> None:
    val = captions("val", 3)
    val[0] |= {"de": "ein\tHund\u2028rennt .", "en": 'a "dog" runs .'}
    files = files_of(val=val)
    files["val.fr.gz"] = gzip.compress(b"\xef\xbb\xbf" + "fr un .\r\nfr \x85deux .\r\nfr trois .\r\n".encode(), mtime=0)
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=folder_of(files, tmp_path / "raw"), sizes=SIZES))
    assert corpus.valid["de-en"][0] == ("ein Hund rennt .", 'a "dog" runs .')
    assert [fr for fr, _ in corpus.valid["fr-en"]] == ["fr un .", "fr  deux .", "fr trois ."]


def test_a_caption_blank_in_one_language_is_in_no_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = captions("train", 20)
    train[6]["cs"] = " "
    source = folder_of(files_of(train), tmp_path / "raw")
    corpus = load_corpus(multi30k.build(tmp_path / "out", source=source, sizes={"fr": 10, "de": 7, "cs": 2}))
    assert "en train g ." not in [en for pair in corpus.pairs for _, en in corpus.train[pair]]
    assert "train.cs.gz:7: blank; the caption is left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "val.de.gz",
            gzip.compress(b"eins\nzwei\n", mtime=0),
            r"raw: unequal numbers of lines \(val\.en\.gz 3, .*val\.de\.gz 2",
        ),
        ("val.de.gz", gzip.compress(b"eins\n\ndrei\n", mtime=0), r"val\.de\.gz:2: a blank line in held-out text"),
        ("train.fr.gz", files_of()["train.fr.gz"][:-9], r"train\.fr\.gz:\d+: damaged from here on"),
        ("train.fr.gz", b"<!DOCTYPE html>\n", r"train\.fr\.gz:1: damaged from here on"),
        (
            "val.cs.gz",
            gzip.compress("a\nčt\n".encode("iso-8859-2"), mtime=0),
            r"val\.cs\.gz:2: byte 1 of the line, 0xe8, is no",
        ),
        ("val.cs.gz", None, r"raw has neither val\.cs\.gz nor val\.cs\. Give the folder data/task1/raw"),
    ],
)
def test_damage_is_named_with_file_and_line(
    name: str, data: bytes | None, message: str, source: Path, tmp_path: Path
) -> None:
    (source / name).unlink()
    if data is not None:
        (source / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        multi30k.build(tmp_path / "out", source=source, sizes=SIZES)
    assert not (tmp_path / "out").exists()


def test_other_numbers_of_lines_than_published_are_reported(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi30k, "LINES", {"train": 20, "valid": 3, "test": 1_000})
    multi30k.build(tmp_path / "out", source=source, sizes=SIZES)
    said = capsys.readouterr().err
    assert "test_2016_flickr: 4 captions, 1,000 were published" in said and "val: 3 captions" not in said


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"fr": 10, "de": 7, "cs": 4}, r"Only 20 captions may be trained on; you ask for fr 10, de 7, cs 4"),
        ({"fr": 5}, r"Only 20 captions .* de 8,000, cs 2,000"),
        ({**SIZES, "es": 5}, r"sizes: es=5 cannot be used"),
        ({**SIZES, "de": 0}, r"sizes: de=0 cannot be used"),
        ({**SIZES, "cs": 2.5}, r"sizes: cs=2\.5 cannot be used"),
    ],
)
def test_sizes_are_checked(sizes: dict[str, int], message: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        multi30k.build(tmp_path / "out", source=source, sizes=sizes)


# --- the network, writing, command line -----------------------------------------------------------------------------


@pytest.mark.slow
def test_files_are_fetched_once_from_whichever_address_has_them(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: dict[str, bytes | Page] = {f"mirror/{name}": data for name, data in files_of().items()}
    pages["first/val.cs.gz"] = Page(b"<!DOCTYPE html>sign in", headers={"Content-Type": "text/html"})
    with serve(pages) as url:
        names = [remote.name for remote in multi30k.REMOTES]
        remotes = tuple(Remote((f"{url}/first/{name}", f"{url}/mirror/{name}"), name) for name in names)
        monkeypatch.setattr(multi30k, "REMOTES", remotes)
        fetched = multi30k.build(tmp_path / "out", sizes=SIZES)
        assert sorted(request.path for request in url.requests) == sorted(
            f"/{place}/{name}" for place in ("first", "mirror") for name in names
        )
        multi30k.build(tmp_path / "again", sizes=SIZES)
        assert len(url.requests) == 24
    assert contents(fetched) == contents(multi30k.build(tmp_path / "local", source=source, sizes=SIZES))


def test_offline_says_what_works_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMD_OFFLINE", "1")
    with pytest.raises(Offline, match=r"train\.en\.gz.*PMD_OFFLINE.*catalogs6"):
        multi30k.build(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_corpus_is_replaced_only_when_told(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = contents(multi30k.build(out, source=source, sizes=SIZES))
    with pytest.raises(UserError, match="has another corpus"):
        multi30k.build(out, source=source, sizes=SIZES, seed=1)
    assert contents(out) == before
    assert contents(multi30k.build(out, source=source, sizes=SIZES, seed=1, overwrite=True)) != before


def test_command_line(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert multi30k.main(["--out", out, "--source", str(source)]) == 2
    assert "\nmulti30k: Only 20 captions" in capsys.readouterr().err
    assert multi30k.main(["--out", out, "--source", str(source), "--sizes", "fr", "8", "de", "4", "cs", "2"]) == 0
    assert capsys.readouterr().out.strip() == out and load_corpus(out).sizes == [8, 4, 2]


def test_a_run_killed_while_it_wrote_the_attribution_does_not_stop_the_next(tmp_path: Path) -> None:
    from pmd_corpora.attribution import write_with_attribution

    corpus = Corpus.from_texts("x", {"fr-en": {s: [(f"{s} un", f"{s} one")] for s in ("train", "valid", "test")}})
    out = write_with_attribution(corpus, tmp_path / "out", "first\n", overwrite=False)
    (out / ".ATTRIBUTION.md.new").write_text("# Where", encoding="utf-8")
    (out / "ATTRIBUTION.md").unlink()
    write_with_attribution(corpus, out, "second\n", overwrite=False)
    assert (out / "ATTRIBUTION.md").read_text(encoding="utf-8").endswith("second\n")
    assert not (out / ".ATTRIBUTION.md.new").exists()
