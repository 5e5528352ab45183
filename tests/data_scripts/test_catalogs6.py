"""Sentences from message catalogs: reading, cleaning, splitting by cluster, and the corpus that is made of them.

No real package is needed: the tests write small distributions, with catalogs in the real binary format, into a
temporary directory and put that on sys.path.
"""

from __future__ import annotations

import gettext
import io
import json
import struct
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora import catalogs6
from pmd_corpora.catalog_sources import LANGUAGES, SOURCES, Package, choose_sources, read_json, read_mo, read_package
from pmd_corpora.cleaning import clean_pair, paragraphs, plain, sentence_key
from pmd_corpora.clusters import Pair, cut_corpus, find_clusters
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError

Install = Callable[..., Path]
HEADER = (
    "Project-Id-Version: PACKAGE VERSION\nContent-Type: text/plain; charset={}\nPlural-Forms: nplurals=2; plural=n>1;\n"
)
SIZES = {"fr": 500, "de": 40, "zh": 30, "et": 20, "ro": 10, "tr": 5, "valid": 6, "test": 8}


def mo_bytes(messages: dict[str, str], *, charset: str = "utf-8", order: str = "<", header: str | None = None) -> bytes:
    """A `.mo` file as msgfmt writes it: sorted keys, table of keys, table of values, then NUL-terminated text."""
    table = {"": HEADER.format(charset) if header is None else header, **messages}
    encoding = "utf-8" if charset == "CHARSET" else charset
    entries = sorted((key.encode(encoding), value.encode(encoding)) for key, value in table.items())
    at = 28 + 16 * len(entries)
    tables, text = [b"", b""], b""
    for side in (0, 1):
        for entry in entries:
            tables[side] += struct.pack(f"{order}2I", len(entry[side]), at + len(text))
            text += entry[side] + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, at)
    return head + tables[0] + tables[1] + text


def english_lines(count: int = 216) -> list[str]:
    verbs, kinds, things = (
        ("Open", "Close", "Move", "Print", "Lock", "Copy"),
        ["red", "old", "big", "new", "wet", "dry"],
        ["door", "lamp", "file", "page", "wall", "card"],
    )
    return [f"{verb} the {kind} {thing}" for verb, kind, thing in product(verbs, kinds, things)][:count]


def translate(english: str, lang: str) -> str:
    """An invented translation that no cleaning rule objects to: words backwards, with an ending for the language."""
    if lang == "zh":
        return "".join(chr(0x4E00 + 7 * ord(char)) for char in english.lower() if char.isalpha() and char not in "aeo")
    ending = {"fr": "é", "de": "ü", "et": "õ", "ro": "ă", "tr": "ş"}[lang]
    return " ".join(word[::-1].lower() + ending for word in english.split()).capitalize()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """install(name, {path: bytes}, ...) makes an installed distribution with a RECORD; it is importable by metadata."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(
        name: str, files: dict[str, bytes], *, version: str = "1.0", licence: str = "MIT", record: bool = True
    ) -> Path:
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {licence}\n"
        contents = {f"{info}/METADATA": metadata.encode(), **files}
        if record:
            contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*contents, f"{info}/RECORD")).encode()
        for path, data in contents.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_bytes(data)
        return site

    yield make


def six_catalogs(folder: str, lines: list[str], **extra: str) -> dict[str, bytes]:
    """Catalogs of one package in all six languages, each holding `lines`."""
    names = {"fr": "fr", "de": "de_DE", "zh": "zh_Hans", "et": "et", "ro": "ro", "tr": "tr"}
    return {
        f"{folder}/locale/{names[lang]}/LC_MESSAGES/django.mo": mo_bytes(
            {**{en: translate(en, lang) for en in lines}, **extra}
        )
        for lang in LANGUAGES
    }


# --- cleaning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lang", "raw", "expected"),
    [
        ("en", "&Open the _file...", "Open the file"),
        ("en", "Save &As", "Save As"),
        ("en", "Sp&eed up", "Speed up"),
        ("en", "Research & development", "Research & development"),
        ("en", "Search &amp; replace", "Search & replace"),
        ("en", "Are you <b>sure</b>?<br/>Really?", "Are you sure? Really?"),
        ("en", "Read the [manual](https://example.org/x) **now**", "Read the manual now"),
        ("en", "  Name of\n\tthe page: ", "Name of the page"),
        ("en", "Don\u2019t \u201cpanic\u201d \u2026", 'Don\'t "panic"'),
        ("en", '"All in quotes"', "All in quotes"),
        ("en", 'Say "yes" or "no"', 'Say "yes" or "no"'),
        ("en", "* Remove the file(s)", "Remove the file"),
        ("en", "Wait here, please!", "Wait here, please!"),
        ("fr", "\u00ab\u00a0Oui\u00a0\u00bb ou non\u00a0?", '"Oui" ou non?'),
        ("fr", "e\u0301te\u0301", "\u00e9t\u00e9"),
        ("ro", "\u015ei \u0163ara \u015fi \u0162inut", "\u0218i \u021bara \u0219i \u021ainut"),
        ("tr", "ba\u015fka", "ba\u015fka"),
        ("zh", "打开文件(&F)...", "打开文件"),
        ("zh", "名称：", "名称"),
        ("de", "Hallo\u200b\u2028Welt", "Hallo Welt"),
    ],
)
def test_plain_by_hand(lang: str, raw: str, expected: str) -> None:
    assert plain(raw, lang) == expected
    assert plain(expected, lang) == expected, "clean text must stay as it is"


@pytest.mark.parametrize(
    ("lang", "english", "foreign", "expected"),
    [
        ("fr", "The page was %(what)s here", "La page a été %(what)s ici", "placeholder"),
        ("fr", "Found %d of them", "Il y en a %d", "placeholder"),
        ("fr", "Hello {name}, welcome back", "Bonjour {name}, bienvenue", "placeholder"),
        ("fr", "Costs $price in total", "Coûte $price en tout", "placeholder"),
        (
            "fr",
            "Battery below 10% of power",
            "Batterie sous les 10% de charge",
            ("Battery below 10% of power", "Batterie sous les 10% de charge"),
        ),
        ("de", "See https://example.org for help", "Siehe https://example.org", "code"),
        ("de", "The user_id is required", "Die user_id wird gebraucht", "code"),
        ("de", "Usage: tool [command] now", "Aufruf: tool [Befehl]", "code"),
        ("de", "Home Assistant Cloud", "Home Assistant Cloud", "same text"),
        ("de", "Open the page", "Открыть страницу", "script"),
        ("zh", "Open the page", "Ouvrir la page", "script"),
        ("zh", "Open the page", "打开页面", ("Open the page", "打开页面")),
        (
            "zh",
            "Connect to Home Assistant now",
            "连接到 Home Assistant",
            ("Connect to Home Assistant now", "连接到 Home Assistant"),
        ),
        ("de", "Open page", "Seite öffnen", "length"),
        ("de", "1 2 3 pages", "1 2 3 Seiten", "length"),
        ("de", " ".join(["word"] * 21), " ".join(["Wort"] * 21), "length"),
        ("de", "Cancel the edit of this comment", "Abbruch", "ratio"),
        ("de", "Keep the last 5 pages", "Die letzten 50 Seiten behalten", "numbers"),
        ("fr", "invalid page number given", "invalid page number donné", "untranslated"),
        ("fr", "Open the page.", "Ouvrir la page", ("Open the page", "Ouvrir la page")),
        ("fr", "Open the page.", "Ouvrir la page.", ("Open the page.", "Ouvrir la page.")),
    ],
)
def test_clean_pair_by_hand(lang: str, english: str, foreign: str, expected: tuple[str, str] | str) -> None:
    assert clean_pair(english, foreign, lang) == expected


@given(st.text(max_size=60), st.sampled_from(["en", *LANGUAGES]))
def test_plain_text_is_one_clean_line(text: str, lang: str) -> None:
    once = plain(text, lang)
    assert "\t" not in once and len(once.splitlines()) <= 1 and once == " ".join(once.split())


def test_paragraphs_are_cut_only_when_both_sides_have_as_many() -> None:
    assert paragraphs("One line\nof text.\n\nAnother.", "Eine Zeile.\\n\\nNoch eine.") == [
        ("One line\nof text.", "Eine Zeile."),
        ("Another.", "Noch eine."),
    ]
    assert paragraphs("One.\n\nTwo.", "Alles.") == [("One. Two.", "Alles.")]


def test_sentence_key_forgets_case_punctuation_and_numbers_only() -> None:
    assert sentence_key("Phase 1: Power.") == sentence_key("phase 27 power")
    assert sentence_key("Phase power") != sentence_key("Phase 1 power")
    assert sentence_key("打开 文件。") != sentence_key("打开页面")


# --- reading --------------------------------------------------------------------------------------------------------

MESSAGES = {
    "Open the page": "Ouvrir la page",
    "menu\x04Close the page": "Fermer la page",
    "%d page\0%d pages": "%d feuille\0%d feuilles",
    "untranslated": "",
}
PAIRS = [
    ("%d page", "%d feuille"),
    ("%d pages", "%d feuilles"),
    ("Open the page", "Ouvrir la page"),
    ("Close the page", "Fermer la page"),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("charset", ["utf-8", "CHARSET", "iso-8859-1"])
def test_mo_contexts_plurals_and_header(tmp_path: Path, order: str, charset: str) -> None:
    messages = {**MESSAGES, "The summer": "L'été"}
    file = tmp_path / "a.mo"
    file.write_bytes(mo_bytes(messages, charset=charset, order=order))
    assert sorted(read_mo(file)) == sorted([*PAIRS, ("The summer", "L'été")])


def test_mo_agrees_with_gettext(tmp_path: Path) -> None:
    data = mo_bytes(MESSAGES)
    (tmp_path / "a.mo").write_bytes(data)
    catalog = gettext.GNUTranslations(io.BytesIO(data))
    ours = dict(read_mo(tmp_path / "a.mo"))
    assert ours["Open the page"] == catalog.gettext("Open the page")
    assert ours["Close the page"] == catalog.pgettext("menu", "Close the page")
    assert (ours["%d page"], ours["%d pages"]) == tuple(catalog.ngettext("%d page", "%d pages", n) for n in (1, 5))


def test_plural_forms_of_one_and_three(tmp_path: Path) -> None:
    file = tmp_path / "a.mo"
    file.write_bytes(mo_bytes({"one page\0many pages": "许多页"}))
    assert read_mo(file) == [("many pages", "许多页")]
    file.write_bytes(mo_bytes({"one page\0many pages": "o pagină\0câteva pagini\0multe de pagini"}))
    assert read_mo(file) == [("one page", "o pagină"), ("many pages", "câteva pagini")]


def test_truncated_mo_names_the_file(tmp_path: Path) -> None:
    data = mo_bytes(MESSAGES)
    file = tmp_path / "broken.mo"
    for length in (0, 3, 19, 40, 100, len(data) - 2):
        file.write_bytes(data[:length])
        with pytest.raises(UserError, match=r"broken\.mo: .*reinstall"):
            read_mo(file)
    file.write_bytes(b"not a catalog at all, but long enough to be one")
    with pytest.raises(UserError, match=r"broken\.mo: .*not a \.mo file"):
        read_mo(file)
    with pytest.raises(UserError, match=r"absent\.mo: cannot read"):
        read_mo(tmp_path / "absent.mo")


def test_json_catalogs_pair_equal_keys(tmp_path: Path) -> None:
    english = {"config": {"step": {"title": "Set up the device"}, "only_here": "Alone"}, "same": "Yes", "number": 3}
    french = {"same": "Oui", "config": {"step": {"title": "Configurer"}}, "other": "Rien", "number": 3}
    for name, data in (("en.json", english), ("fr.json", french)):
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    assert read_json(tmp_path / "en.json", tmp_path / "fr.json") == [
        ("Set up the device", "Configurer"),
        ("Yes", "Oui"),
    ]
    (tmp_path / "fr.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"fr\.json: .*damaged"):
        read_json(tmp_path / "en.json", tmp_path / "fr.json")


def test_package_reads_listed_catalogs_only(install: Install) -> None:
    files = {
        "app/locale/zh-Hans/LC_MESSAGES/x.mo": mo_bytes({"Open": "打开"}),
        "app/locale/pt_BR/LC_MESSAGES/x.mo": mo_bytes({"Open": "Abrir"}),
        "app/translations/en.json": b'{"a": "Close"}',
        "app/translations/tr.json": b'{"a": "Kapat"}',
    }
    site = install("some-app", files, version="2.5")
    (site / "app/locale/fr/LC_MESSAGES").mkdir(parents=True)
    (site / "app/locale/fr/LC_MESSAGES/x.mo").write_bytes(mo_bytes({"Open": "Ouvrir"}))  # not in RECORD
    package = read_package(choose_sources(["Some_App"], False)[0])
    assert (package.version, package.licence) == ("2.5", "MIT")
    assert {lang: found for lang, found in package.messages.items() if found} == {
        "zh": [("Open", "打开")],
        "tr": [("Close", "Kapat")],
    }


def test_package_without_record(install: Install) -> None:
    install("bare-app", {}, record=False)
    with pytest.raises(UserError, match="bare-app has no list of its files"):
        read_package(choose_sources(["bare-app"], False)[0])


def test_missing_and_copyleft_packages(
    install: Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("pmd_corpora.catalog_sources._installed", lambda name: name != "Trac")
    with pytest.raises(UserError, match=r"Not installed: Trac\. Run `pip install Trac==1\.6 --no-deps`"):
        choose_sources(None, False)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"no-such-app.*pip install no-such-app"):
        choose_sources(["no-such-app"], False)
    assert catalogs6.main(["--out", str(tmp_path / "out"), "--packages", "no-such-app"]) == 2
    assert "no-such-app" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_copyleft_needs_consent(install: Install) -> None:
    install("free-app", {}, licence="GPL-3.0-or-later")
    with pytest.raises(UserError, match=r"free-app is under a copyleft licence .*--include-copyleft"):
        choose_sources(["free-app"], False)
    assert [source.name for source in choose_sources(["free-app"], True)] == ["free-app"]


def test_requirements_list_exactly_the_permissive_sources() -> None:
    text = (Path(__file__).parents[2] / "requirements-realdata.txt").read_text(encoding="utf-8")
    pins = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert pins == [source.pin for source in SOURCES if not source.copyleft]
    assert all("GPL" in source.licence for source in SOURCES if source.copyleft)
    assert not any("GPL" in source.licence for source in SOURCES if not source.copyleft)


# --- collecting -----------------------------------------------------------------------------------------------------


def package(name: str, lang: str, *messages: tuple[str, str]) -> Package:
    return Package(name, "1", "MIT", {**{code: [] for code in LANGUAGES}, lang: list(messages)})


def test_most_frequent_translation_wins_and_variants_are_one_sentence() -> None:
    packages = [
        package("first", "de", ("Open page 1 now", "Seite 1 aufmachen"), ("Close this page", "Seite zumachen")),
        package("second", "de", ("Close this page", "Seite schließen"), ("Close this page", "Seite schließen")),
        package("third", "de", ("open page 2 now.", "Seite 2 öffnen."), ("Open page 7 now", "Seite 7 öffnen")),
    ]
    collected = catalogs6.collect(packages)
    assert collected.pairs["de"] == [
        Pair("Seite 1 aufmachen", "Open page 1 now", "first"),
        Pair("Seite schließen", "Close this page", "second"),
    ]
    assert collected.counts["messages read"]["de"] == 6 and collected.counts["duplicate"]["de"] == 4


def test_romanian_catalog_without_diacritics_is_left_out() -> None:
    lines = english_lines(10)
    good = package("good", "ro", *((line, translate(line, "ro")) for line in lines[:5]))
    bare = package("bare", "ro", *((line, translate(line, "ro").replace("ă", "a")) for line in lines[5:]))
    collected = catalogs6.collect([good, bare])
    assert {pair.origin for pair in collected.pairs["ro"]} == {"good"} and len(collected.pairs["ro"]) == 5
    assert collected.counts["no diacritics"]["ro"] == 5


# --- splitting ------------------------------------------------------------------------------------------------------


@given(st.lists(st.frozensets(st.integers(0, 12), max_size=3), max_size=25))
def test_clusters_agree_with_flooding(items: list[frozenset[int]]) -> None:
    label = list(range(len(items)))
    for _ in items:  # the long way round: spread the lowest number until nothing changes
        for i, j in product(range(len(items)), repeat=2):
            if items[i] & items[j]:
                label[i] = label[j] = min(label[i], label[j])
    assert find_clusters(items) == label


def spell(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


side = st.integers(0, 60).map(spell)
languages = st.dictionaries(
    st.sampled_from(["fr", "de", "zh"]), st.lists(st.tuples(side, side), min_size=12, max_size=80), min_size=1
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(languages, st.integers(1, 5), st.integers(1, 5), st.integers(0, 3), st.booleans())
def test_no_held_out_line_is_trained_on(
    drawn: dict[str, list[tuple[str, str]]], valid: int, test: int, seed: int, parallel: bool
) -> None:
    pairs = {
        lang: [Pair(f"{xx.upper()}!", en, "drawn") for xx, en in lines]
        + [Pair(f"{lang} {spell(i)} x", f"En {spell(i)} {'' if parallel else lang}.", "own") for i in range(40)]
        for lang, lines in drawn.items()
    }
    cut = cut_corpus(pairs, {lang: 30 for lang in pairs}, valid, test, seed)
    keys: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for lang, splits in cut.texts.items():
        for split, chosen in splits.items():
            assert chosen and set(chosen) <= set(pairs[lang]) and len(set(chosen)) == len(chosen)
            keys[split] |= {sentence_key(text) for pair in chosen for text in pair[:2]}
        assert len(splits["train"]) == min(30, cut.available[lang])
        assert len(splits["valid"]) <= valid and len(splits["test"]) <= test
    assert not keys["train"] & keys["valid"] and not keys["train"] & keys["test"] and not keys["valid"] & keys["test"]
    if cut.shared:
        assert len({tuple(p.english for p in splits[s]) for splits in cut.texts.values() for s in ("valid",)}) == 1
        assert all(len(splits["test"]) == test for splits in cut.texts.values())
    assert cut == cut_corpus(
        {lang: lines[::-1] for lang, lines in pairs.items()}, {lang: 30 for lang in pairs}, valid, test, seed
    )


def test_own_held_out_lines_when_languages_share_none() -> None:
    lines = english_lines()
    pairs = {
        lang: [Pair(translate(line, lang), line, "x") for line in lines[start : start + 60]]
        for start, lang in ((0, "fr"), (60, "de"))
    }
    cut = cut_corpus(pairs, {"fr": 99, "de": 10}, 4, 6, 0)
    assert not cut.shared
    assert [[len(cut.texts[lang][split]) for split in ("train", "valid", "test")] for lang in pairs] == [
        [50, 4, 6],
        [10, 4, 6],
    ]


def test_large_clusters_are_never_held_out() -> None:
    lines = english_lines(40)
    pairs = {
        "fr": [Pair(translate(line, "fr"), line, "x") for line in lines]
        + [Pair(f"Autre {line}", lines[0], "x") for line in lines[1:9]]
    }
    for seed in range(20):
        cut = cut_corpus(pairs, {"fr": 99}, 4, 4, seed)
        assert not any(pair.english == lines[0] for split in ("valid", "test") for pair in cut.texts["fr"][split])


def test_too_few_sentences() -> None:
    with pytest.raises(UserError, match="Only 3 usable sentence pairs for fr"):
        cut_corpus({"fr": [Pair(translate(line, "fr"), line, "x") for line in english_lines(3)]}, {"fr": 9}, 2, 2, 0)


# --- the whole ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_packages(install: Install) -> list[str]:
    lines = english_lines()
    install("app-one", six_catalogs("one", lines[:160], **{"Only {name} here": "Rien {name} ici"}), version="1.5")
    install("app-two", six_catalogs("two", lines[120:]), licence="Apache-2.0")
    return ["app-one", "app-two"]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_build_counts_and_attribution(two_packages: list[str], tmp_path: Path) -> None:
    out = catalogs6.build(tmp_path / "out", packages=two_packages, sizes=SIZES)
    corpus = load_corpus(out)
    assert corpus.pairs == tuple(f"{lang}-en" for lang in LANGUAGES) and corpus.warnings == ()
    # 216 different sentences, 14 held out: French gets the other 202 of the 500 asked for.
    assert corpus.sizes == [202, 40, 30, 20, 10, 5]
    assert all(len(corpus.valid[pair]) == 6 and len(corpus.test[pair]) == 8 for pair in corpus.pairs)
    held = {
        split: {tuple(en for _, en in getattr(corpus, split)[pair]) for pair in corpus.pairs}
        for split in ("valid", "test")
    }
    assert len(held["valid"]) == len(held["test"]) == 1, "the same English lines in the same order"
    trained = {side for pair in corpus.pairs for row in corpus.train[pair] for side in row}
    assert not trained & {
        side for pair in corpus.pairs for texts in (corpus.valid, corpus.test) for row in texts[pair] for side in row
    }
    assert corpus.licence == "app-one 1.5: MIT; app-two 1.0: Apache-2.0"
    text = (out / "ATTRIBUTION.md").read_text(encoding="utf-8")
    rows = {
        cells[1]: cells for line in text.splitlines() if len(cells := [cell.strip() for cell in line.split("|")]) > 6
    }
    counts = [sum(int(rows[name][4 + column]) for name in two_packages) for column in range(6)]
    assert counts == [size + 14 for size in corpus.sizes]
    assert rows["app-two"][2:4] == ["1.0", "Apache-2.0"]
    assert "fr (of 500)" in text


def test_build_is_deterministic_and_seeded(two_packages: list[str], tmp_path: Path) -> None:
    first = contents(catalogs6.build(tmp_path / "a", packages=two_packages, sizes=SIZES))
    assert contents(catalogs6.build(tmp_path / "b", packages=two_packages, sizes=SIZES)) == first
    assert contents(catalogs6.build(tmp_path / "a", packages=two_packages, sizes=SIZES)) == first, (
        "again in the same place"
    )
    other = contents(catalogs6.build(tmp_path / "c", packages=two_packages, sizes=SIZES, seed=1))
    assert other["test.fr-en.tsv"] != first["test.fr-en.tsv"]


def test_build_replaces_another_corpus_only_when_told(two_packages: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = contents(catalogs6.build(out, packages=two_packages, sizes=SIZES))
    with pytest.raises(UserError, match="has another corpus"):
        catalogs6.build(out, packages=two_packages, sizes=SIZES, seed=1)
    assert contents(out) == before, "ATTRIBUTION.md too is as it was"
    assert contents(catalogs6.build(out, packages=two_packages, sizes=SIZES, seed=1, overwrite=True)) != before


@pytest.mark.parametrize("sizes", [{"es": 5}, {"fr": 0}, {"valid": 2.5}])
def test_sizes_are_checked(sizes: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"sizes: {next(iter(sizes))}=.*whole numbers"):
        catalogs6.build(tmp_path / "out", sizes=sizes)
