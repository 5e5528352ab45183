"""Tatoeba's exports and the files of manythings.org: reading, cleaning, splitting, attribution, fetching.

The files are written here in their real formats; the server is on this machine.
"""

from __future__ import annotations

import bz2
import gzip
import zipfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from pmd_corpora import tatoeba6
from pmd_corpora.cleaning import sentence_key
from pmd_corpora.tatoeba6 import build, tidy
from pmd_corpora.tatoeba_files import LANGUAGES
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.errors import UserError
from tests.local_server import Page, serve

SIZES = {"fr": 40, "de": 30, "zh": 25, "tr": 20, "ro": 15, "et": 10, "valid": 5, "test": 6}
Rows = Sequence[tuple[str, str]]  # English, foreign


def english_lines(count: int) -> list[str]:
    who, what, which = (
        ("Tom sees", "She buys", "They want", "We paint", "You find", "He sells"),
        ("the red", "the old", "that big", "this new", "your wet"),
        ("door.", "lamp.", "car.", "dog.", "wall.", "card."),
    )
    return [" ".join(words) for words in product(who, what, which)][:count]


def translate(english: str, lang: str) -> str:
    """An invented translation that no cleaning rule objects to: words backwards, with an ending for the language."""
    words = english.removesuffix(".").lower().split()
    if lang == "zh":
        return "".join(chr(0x4E00 + 7 * ord(char)) for word in words for char in word if char not in "aeo") + "。"
    ending = {"fr": "é", "de": "ü", "et": "õ", "ro": "ă", "tr": "ş"}[lang]
    return " ".join(word[::-1] + ending for word in words).capitalize() + "."


def rows(lang: str, count: int = 120) -> list[tuple[str, str]]:
    return [(english, translate(english, lang)) for english in english_lines(count)]


def export(folder: Path, texts: dict[str, Rows], newline: str = "\n", packed: bool = True) -> Path:
    """The weekly exports: eng ids from 1, foreign ids from 100,000 in steps a language."""
    folder.mkdir(exist_ok=True)
    ids: dict[str, int] = {}
    files: dict[str, list[str]] = {}
    for number, (lang, text) in enumerate(texts.items(), 1):
        code = LANGUAGES[lang]
        files[f"{code}_sentences"] = [f"{100_000 * number + i}\t{code}\t{xx}" for i, (_, xx) in enumerate(text)]
        files[f"{code}-eng_links"] = [
            f"{100_000 * number + i}\t{ids.setdefault(en, len(ids) + 1)}" for i, (en, _) in enumerate(text)
        ]
    files["eng_sentences"] = [f"{key}\teng\t{en}" for en, key in ids.items()] + ["99999\teng\tNobody links to this."]
    for name, lines in files.items():
        data = "".join(line + newline for line in lines).encode()
        if packed:
            (folder / f"{name}.tsv.bz2").write_bytes(bz2.compress(data))
        else:
            (folder / f"{name}.tsv").write_bytes(data)
    return folder


def anki(folder: Path, lang: str, text: Rows, credit: str = "CK") -> Path:
    """manythings.org: `English TAB foreign TAB attribution`."""
    code = LANGUAGES[lang]
    path = folder / f"{code}-eng" / f"{code}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    note = "CC-BY 2.0 (France) Attribution: tatoeba.org"
    lines = [f"{en}\t{xx}\t{note} #{i} ({credit}) & #{i + 7} (sacredceltic)\n" for i, (en, xx) in enumerate(text, 500)]
    path.write_bytes("".join(lines).encode())
    return folder


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def all_rows(corpus: Corpus, pair: str) -> set[tuple[str, str]]:
    return {row for texts in (corpus.train, corpus.valid, corpus.test) for row in texts[pair]}


@pytest.fixture
def six(tmp_path: Path) -> Path:
    return export(tmp_path / "six", {lang: rows(lang) for lang in LANGUAGES})


# --- the whole ------------------------------------------------------------------------------------------------------


def test_exports_become_a_long_tailed_corpus_without_leaks(six: Path, tmp_path: Path) -> None:
    corpus = load_corpus(build(tmp_path / "out", source=six, sizes=SIZES))
    assert (corpus.name, corpus.licence, corpus.direction) == ("tatoeba6", "CC BY 2.0 FR", "m2o")
    assert dict(zip(corpus.pairs, corpus.sizes, strict=True)) == {f"{lang}-en": SIZES[lang] for lang in LANGUAGES}
    held: set[str] = set()
    for pair in corpus.pairs:
        lang = pair.removesuffix("-en")
        assert (len(corpus.valid[pair]), len(corpus.test[pair])) == (5, 6)
        assert all_rows(corpus, pair) <= {(xx, en) for en, xx in rows(lang)}
        held |= {sentence_key(side) for texts in (corpus.valid, corpus.test) for row in texts[pair] for side in row}
    trained = {sentence_key(side) for pair in corpus.pairs for row in corpus.train[pair] for side in row}
    assert held and not held & trained


@pytest.mark.parametrize("direction", ["m2o", "o2m"])
def test_every_line_is_attributed_to_its_two_sentences(six: Path, tmp_path: Path, direction: str) -> None:
    out = build(tmp_path / "out", source=six, sizes=SIZES, direction=direction)  # type: ignore[arg-type]
    assert load_corpus(out).direction == direction
    sentences = {}
    for path in six.glob("*_sentences.tsv.bz2"):
        for line in bz2.decompress(path.read_bytes()).decode().splitlines():
            key, _, text = line.split("\t")
            sentences[int(key)] = text
    lines = gzip.decompress((out / "attributions.txt.gz").read_bytes()).decode().splitlines()
    assert len(lines) == sum(SIZES[lang] + 5 + 6 for lang in LANGUAGES)
    for line in lines:
        name, number, credit = line.split("\t")
        english, foreign = (sentences[int(part)] for part in credit.removeprefix("tatoeba.org #").split(" & #"))
        row = (out / name).read_text(encoding="utf-8").split("\n")[int(number) - 1].split("\t")
        assert row == ([foreign, english] if direction == "m2o" else [english, foreign])


def test_attribution_names_licence_files_and_counts(six: Path, tmp_path: Path) -> None:
    text = (build(tmp_path / "out", source=six, sizes=SIZES) / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "CC BY 2.0 FR" in text and "https://tatoeba.org/sentences/show/N" in text and str(tmp_path) not in text
    cells = {row[1]: row for line in text.split("\n") if len(row := [cell.strip() for cell in line.split("|")]) > 4}
    assert set(cells) >= {"eng_sentences.tsv.bz2", "cmn_sentences.tsv.bz2", "est-eng_links.tsv.bz2"}
    assert cells["eng_sentences.tsv.bz2"][3] == str((six / "eng_sentences.tsv.bz2").stat().st_size)
    assert cells["pairs read"][2:8] == ["120"] * 6 and cells["left for training"][2:8] == ["109"] * 6
    assert cells["train"][2:8] == ["40", "30", "25", "20", "15", "10"]


def test_same_files_and_seed_give_the_same_bytes(six: Path, tmp_path: Path) -> None:
    first = contents(build(tmp_path / "a", source=six, sizes=SIZES))
    assert contents(build(tmp_path / "b", source=six, sizes=SIZES)) == first
    assert contents(build(tmp_path / "a", source=six, sizes=SIZES)) == first, "again in the same place"
    other = contents(build(tmp_path / "c", source=six, sizes=SIZES, seed=1))
    assert other["test.fr-en.tsv"] != first["test.fr-en.tsv"]


def test_another_corpus_is_replaced_only_when_told(six: Path, tmp_path: Path) -> None:
    before = contents(build(tmp_path / "out", source=six, sizes=SIZES))
    with pytest.raises(UserError, match="has another corpus"):
        build(tmp_path / "out", source=six, sizes=SIZES, seed=1)
    assert contents(tmp_path / "out") == before, "both attribution files too are as they were"
    assert contents(build(tmp_path / "out", source=six, sizes=SIZES, seed=1, overwrite=True)) != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "six"], "no temporary file stays"


def test_what_stops_a_run_half_way_does_not_stop_the_next(
    six: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents(build(tmp_path / "out", source=six, sizes=SIZES))

    def killed(*args: object) -> None:
        (tmp_path / "out" / "ATTRIBUTION.md").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(tatoeba6, "write_with_attribution", killed)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", source=six, sizes=SIZES)
    monkeypatch.undo()
    assert contents(build(tmp_path / "out", source=six, sizes=SIZES)) == whole


def test_fewer_lines_than_asked_for_are_all_taken_and_told(tmp_path: Path) -> None:
    source = export(tmp_path / "src", {"fr": rows("fr", 60)})
    corpus = load_corpus(build(tmp_path / "out", source=source, languages=["fr"]))
    text = (tmp_path / "out" / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert [len(texts["fr-en"]) for texts in (corpus.train, corpus.valid, corpus.test)] == [45, 7, 8], "a quarter held"
    assert "fr train (of 20,000), fr valid (of 500), fr test (of 500)" in text


def test_easy_lines_are_short_and_of_common_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = rows("fr", 90)
    long = [(f"{en.removesuffix('.')} and {e.lower()}", f"{xx.removesuffix('.')} dnaé {x.lower()}")
            for (en, xx), (e, x) in zip(common[:20], common[20:40], strict=True)]  # fmt: skip
    rare = [("Tom sees the xylophone.", "Mot seesé ehté xylophoné."), ("Tom sees the “quark”.", "Mot seesé ehté kruq.")]
    source = export(tmp_path / "src", {"fr": [*common, *long, *rare]})
    monkeypatch.setattr(tatoeba6, "VOCABULARY", 22)
    sizes = {"fr": 999, "valid": 4, "test": 5}
    corpus = load_corpus(build(tmp_path / "out", source=source, languages=["fr"], easy=True, sizes=sizes))
    assert corpus.name == "tatoeba6_easy"
    assert all_rows(corpus, "fr-en") == {(xx, en) for en, xx in common}
    assert "| not easy | 22 |" in (tmp_path / "out" / "ATTRIBUTION.md").read_text(encoding="utf-8")


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lang", "raw", "expected"),
    [
        ("fr", "Quelle lampe est la plus verte\u00a0?", "Quelle lampe est la plus verte ?"),
        ("fr", "« E\u0301te\u0301 », dit-il\u2026", "« Été », dit-il…"),
        ("en", 'He said "no"\tand left.', 'He said "no" and left.'),
        ("en", "One\u2028two\x85three  four\r", "One two three four"),
        ("ro", "\u015ei \u0163ara \u015fi \u0162inut", "\u0218i \u021bara \u0219i \u021ainut"),
        ("tr", "ba\u015fka", "ba\u015fka"),
        ("zh", "你幾歲?", "你幾歲?"),
    ],
)
def test_text_is_changed_as_little_as_possible(lang: str, raw: str, expected: str) -> None:
    assert tidy(raw, lang) == expected


def test_what_is_no_sentence_or_no_translation_is_left_out(tmp_path: Path) -> None:
    odd = [
        ("Nu ştiu încă!", "I don't know those lamps yet.", True),
        ('A spus: "da"\tși a plecat.', 'He said: "yes" and left.', True),
        ("Da, vin.", "I'm coming.", False),  # two English words
        (" ".join(["unu"] * 15), " ".join(["one"] * 15), False),
        ("Am 3 mere.", "I have 4 apples.", False),
        ("Мне это нравится.", "I like this green one.", False),
        ("", "There is nothing here.", False),
        ("Nu știu deloc încă!", "I don't know those lamps yet!", False),  # a second translation of one English sentence
    ]
    text = [*rows("ro", 60), *((en, xx) for xx, en, _ in odd)]
    source = export(tmp_path / "src", {"ro": text})
    sizes = {"ro": 999, "valid": 3, "test": 3}
    corpus = load_corpus(build(tmp_path / "out", source=source, languages=["ro"], sizes=sizes))
    extra = {row for row in all_rows(corpus, "ro-en")} - {(xx, en) for en, xx in rows("ro", 60)}
    yes = ('A spus: "da" și a plecat.', 'He said: "yes" and left.')
    assert extra == {("Nu știu încă!", "I don't know those lamps yet."), yes}


def test_links_to_sentences_that_are_not_there_are_counted(tmp_path: Path) -> None:
    plain = export(tmp_path / "plain", {"fr": rows("fr")})
    astray = export(tmp_path / "astray", {"fr": rows("fr")})
    links = bz2.decompress((astray / "fra-eng_links.tsv.bz2").read_bytes())
    (astray / "fra-eng_links.tsv.bz2").write_bytes(bz2.compress(b"100000\t777777\n123\t1\n" + links))
    built = [build(tmp_path / f"out {s.name}", source=s, languages=["fr"], sizes=SIZES) for s in (plain, astray)]
    assert (built[0] / "train.fr-en.tsv").read_bytes() == (built[1] / "train.fr-en.tsv").read_bytes()
    assert "links to no sentence" not in (built[0] / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "| links to no sentence | 2 |" in (built[1] / "ATTRIBUTION.md").read_text(encoding="utf-8")


def test_crlf_and_unpacked_exports_give_the_same_text(tmp_path: Path) -> None:
    plain = export(tmp_path / "a", {"zh": rows("zh")})
    crlf = export(tmp_path / "b", {"zh": rows("zh")}, newline="\r\n", packed=False)
    english = crlf / "eng_sentences.tsv"
    english.write_bytes(b"\xef\xbb\xbf" + english.read_bytes())
    built = [build(tmp_path / f"out {s.name}", source=s, languages=["zh"], sizes=SIZES) for s in (plain, crlf)]
    assert load_corpus(built[0]).fingerprint == load_corpus(built[1]).fingerprint


# --- manythings.org -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["folder", "flat", "zip"])
def test_files_of_manythings_keep_their_attributions(tmp_path: Path, form: str) -> None:
    source = anki(tmp_path / "src", "tr", rows("tr"))
    file = source / "tur-eng" / "tur.txt"
    if form == "zip":
        with zipfile.ZipFile(source / "tur-eng.zip", "w") as archive:
            archive.write(file, "tur.txt")
            archive.writestr("_about.txt", "about")
        file.unlink()
    elif form == "flat":
        file.rename(source / "tur.txt")
    out = build(tmp_path / "out", source=source, languages=["tr"], sizes=SIZES)
    known = {xx: f"CC-BY 2.0 (France) Attribution: tatoeba.org #{i} (CK) & #{i + 7} (sacredceltic)"
             for i, (_, xx) in enumerate(rows("tr"), 500)}  # fmt: skip
    unpacked = gzip.decompress((out / "attributions.txt.gz").read_bytes()).decode()
    lines = [line.split("\t") for line in unpacked.split("\n")]
    train = (out / "train.tr-en.tsv").read_text(encoding="utf-8").split("\n")
    credits = {int(number): credit for name, number, credit in lines[:-1] if name == "train.tr-en.tsv"}
    assert len(credits) == 20
    assert all(known[train[number - 1].split("\t")[0]] == credit for number, credit in credits.items())


def test_exports_are_preferred_language_by_language(tmp_path: Path) -> None:
    source = export(tmp_path / "src", {"fr": rows("fr")})
    anki(source, "fr", rows("de"))
    anki(source, "et", rows("et"))
    corpus = load_corpus(build(tmp_path / "out", source=source, languages=["et", "fr"], sizes=SIZES))
    assert all_rows(corpus, "fr-en") <= {(xx, en) for en, xx in rows("fr")} and len(corpus.train["et-en"]) == 10


# --- what goes wrong ------------------------------------------------------------------------------------------------


def break_truncated(folder: Path) -> None:
    path = folder / "fra_sentences.tsv.bz2"
    path.write_bytes(path.read_bytes()[:-30])


def break_html(folder: Path) -> None:
    (folder / "fra-eng_links.tsv.bz2").write_bytes(b"\r\n<!DOCTYPE html>\n<html><title>Log in</title></html>")


def replace_line(name: str, line: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        lines = bz2.decompress((folder / name).read_bytes()).split(b"\n")
        lines[2] = line
        (folder / name).write_bytes(bz2.compress(b"\n".join(lines)))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (break_truncated, r"fra_sentences\.tsv\.bz2:\d+: damaged from here on"),
        (break_html, r"fra-eng_links\.tsv\.bz2:1: this is a web page"),
        (replace_line("fra_sentences.tsv.bz2", b"7\tdeu\tEin Satz."), r"fra_sentences\.tsv\.bz2:3: .*in 'deu', not"),
        (replace_line("fra_sentences.tsv.bz2", b"7\tfra\t\xc9t\xe9"), r"fra_sentences\.tsv\.bz2:3: .*0xc9, is not UTF"),
        (replace_line("fra_sentences.tsv.bz2", b"7\tfra"), r"fra_sentences\.tsv\.bz2:3: no `id TAB language TAB text`"),
        (replace_line("eng_sentences.tsv.bz2", b"seven\teng\tHi."), r"eng_sentences\.tsv\.bz2:3: no `id TAB"),
        (replace_line("fra-eng_links.tsv.bz2", b"7\t8\t9"), r"fra-eng_links\.tsv\.bz2:3: no `id TAB id`"),
        (replace_line("fra-eng_links.tsv.bz2", b""), r"fra-eng_links\.tsv\.bz2:3: no `id TAB id`"),
        (lambda folder: (folder / "eng_sentences.tsv.bz2").unlink(), r"holds no text for fr: put eng_sentences"),
    ],
)
def test_damage_is_told_with_file_and_line(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    source = export(tmp_path / "src", {"fr": rows("fr")})
    change(source)
    with pytest.raises(UserError, match=message):
        build(tmp_path / "out", source=source, languages=["fr"], sizes=SIZES)
    assert not (tmp_path / "out").exists()


def test_sides_in_the_wrong_order_or_language_are_noticed(tmp_path: Path) -> None:
    anki(tmp_path / "a", "zh", [(xx, en) for en, xx in rows("zh")])
    with pytest.raises(UserError, match=r"cmn\.txt: the sides of zh-en look swapped: 0% of the lines of zh"):
        build(tmp_path / "out", source=tmp_path / "a", languages=["zh"])
    anki(tmp_path / "b", "fr", [(xx, en) for en, xx in rows("fr")])
    with pytest.raises(UserError, match=r"fra\.txt: the sides of fr-en look swapped: 0% of the lines of en"):
        build(tmp_path / "out", source=tmp_path / "b", languages=["fr"])
    anki(tmp_path / "c", "zh", rows("fr"))
    with pytest.raises(UserError, match=r"cmn\.txt: is the zh side of zh-en in another language\? 0%"):
        build(tmp_path / "out", source=tmp_path / "c", languages=["zh"])
    anki(tmp_path / "d", "fr", [("One two three.", "Un\tdeux trois.")])
    with pytest.raises(UserError, match=r"fra\.txt:1: 4 columns"):
        build(tmp_path / "out", source=tmp_path / "d", languages=["fr"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": {"es": 5}}, r"sizes: es=5 .*whole numbers"),
        ({"sizes": {"fr": 0}}, r"sizes: fr=0"),
        ({"sizes": {"valid": True}}, r"sizes: valid=True"),
        ({"languages": ["fr", "kab"]}, r"languages: kab\. Choose among fr, de, zh, tr, ro, et"),
        ({"languages": []}, r"languages: none"),
        ({"direction": "m2m"}, r"direction 'm2m'"),
    ],
)
def test_options_are_checked_before_anything_is_read(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(tmp_path / "out", source=tmp_path, **options)  # type: ignore[arg-type]


def test_command_line_says_in_one_line_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = export(tmp_path / "src", {lang: rows(lang, 40) for lang in ("fr", "de")})
    assert tatoeba6.main(["--out", str(tmp_path / "out"), "--source", str(source)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "holds no text for zh, tr, ro, et" in said and "--languages" in said
    arguments = ["--out", str(tmp_path / "out"), "--source", str(source), "--languages", "de", "fr", "--easy"]
    assert tatoeba6.main([*arguments, "--direction", "o2m"]) == 0
    assert load_corpus(tmp_path / "out").pairs == ("en-de", "en-fr")


# --- fetching -------------------------------------------------------------------------------------------------------


def test_an_address_without_the_file_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = export(tmp_path / "src", {"fr": rows("fr")})
    pages = {f"new/{path.name[:3]}/{path.name}": path.read_bytes() for path in source.iterdir()}
    with serve({name: Page(data) for name, data in pages.items()}) as url:
        monkeypatch.setattr(tatoeba6, "ADDRESSES", (f"{url}/old", f"{url}/new"))
        out = build(tmp_path / "out", languages=["fr"], sizes=SIZES)
        assert [one.path for one in url.requests if one.path.startswith("/new")] == [
            "/new/eng/eng_sentences.tsv.bz2",
            "/new/fra/fra_sentences.tsv.bz2",
            "/new/fra/fra-eng_links.tsv.bz2",
        ]
        asked = len(url.requests)
        build(tmp_path / "again", languages=["fr"], sizes=SIZES)
        assert len(url.requests) == asked, "what is there is not fetched again"
    local = build(tmp_path / "local", source=source, languages=["fr"], sizes=SIZES)
    assert load_corpus(out).fingerprint == load_corpus(local).fingerprint
    assert (tmp_path / "downloads" / "tatoeba" / "eng_sentences.tsv.bz2").is_file()


def test_without_network_the_message_names_the_folder_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMD_OFFLINE", "1")
    assert tatoeba6.main(["--out", str(tmp_path / "out")]) == 2
    assert "--source" in capsys.readouterr().err.split("\n")[-2] and not (tmp_path / "out").exists()


def test_addresses_are_those_of_the_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(tatoeba6, "fetch", lambda remote, folder: seen.append((remote.urls[0], remote.name)))
    with pytest.raises(UserError, match="holds no text"):
        build(tmp_path / "out")
    base = "https://downloads.tatoeba.org/exports/per_language"
    assert len(seen) == 13 and (f"{base}/cmn/cmn-eng_links.tsv.bz2", "cmn-eng_links.tsv.bz2") in seen
    assert seen[0] == (f"{base}/eng/eng_sentences.tsv.bz2", "eng_sentences.tsv.bz2")
