"""A user's own parallel text: read, split by cluster, checked, written."""

from __future__ import annotations

import gzip
import zipfile
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmd_corpora import local
from pmd_corpora.assembling import Making
from pmd_corpora.cleaning import sentence_key
from pmd_corpora.parallel_files import check_sides, one_line, read_moses, read_tmx
from pmd_lite.cli.arguments import main
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
    out = local.build(tmp_path / "out", tsv, *plain, making=Making(valid=5, test=6, licence="mine"))
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
    corpus = load_corpus(local.build(tmp_path / "out", *inputs, making=Making(valid=3, test=3)))
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


def test_near_copies_in_a_split_directory_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "given"
    given.mkdir()
    write(
        given / "train.ar-en.tsv",
        ["\u0643\u0650\u062a\u0627\u0628\tA book", "\u0628\u064a\u062a\tTwo HOUSES!", "\u0648\tAnd"],
    )
    write(given / "valid.ar-en.tsv", ["\u0628\u064a\u062a\u0627\u0646\ttwo houses"])
    write(given / "test.ar-en.tsv", ["\u0643\u062a\u0627\u0628\tThe book"])
    assert local.main([str(given), "--out", str(tmp_path / "out")]) == 0
    assert "train.ar-en.tsv:1: 2 training pairs have a line of valid or test" in capsys.readouterr().err


def test_errors_name_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fr, en = write(tmp_path / "a.fr", ["un", "deux"]), write(tmp_path / "a.en", ["one"])
    tsv = write(tmp_path / "a.fr-en.tsv", ["un\tone", "deux two"])
    cases = [
        ([fr, en], r"a\.fr has 2 lines and .*a\.en has 1"),
        ([tsv], r"a\.fr-en\.tsv:2: no `source TAB target`"),
        ([fr, write(tmp_path / "a.de", ["eins", " "])], r"a\.de:2: a blank line"),
        ([tmp_path / "none.fr-en.tsv"], r"none\.fr-en\.tsv cannot be read"),
        ([tsv, tsv], r"the pair fr-en is given twice"),
        ([fr], r"a\.fr: the file of its other side must come next"),
        ([fr, write(tmp_path / "b.en", ["one", "two"])], r"a\.fr: the file of its other side must come next"),
        ([fr, en, tmp_path / "test.fr"], r"test\.fr: this text is split already"),
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


def test_a_plain_file_of_windows_reads_like_any_other(tmp_path: Path) -> None:
    rows = lines(40, "fr")
    (tmp_path / "a.fr").write_bytes(b"\xef\xbb\xbf" + "".join(f"{fr}\r\n" for fr, _ in rows).encode())
    english = write(tmp_path / "a.en", [f'"{en}"' if i % 2 else en for i, (_, en) in enumerate(rows)])
    corpus = load_corpus(local.build(tmp_path / "out", tmp_path / "a.fr", english))
    assert {src for texts in (corpus.train, corpus.valid, corpus.test) for src, _ in texts["fr-en"]} == {
        fr for fr, _ in rows
    }
    assert sum(trg.count('"') for texts in (corpus.train, corpus.valid, corpus.test) for _, trg in texts["fr-en"]) == 40


def test_bytes_that_are_no_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a.fr").write_bytes(b"un\nd\xe9j\xe0 vu\n")
    with pytest.raises(UserError, match=r"a\.fr:2: byte 2 of the line, 0xe9, is not UTF-8"):
        local.build(tmp_path / "out", tmp_path / "a.fr", write(tmp_path / "a.en", ["one", "two"]))
    whole = gzip.compress("\n".join(f"{a}\t{b}" for a, b in lines(900, "fr")).encode())
    (tmp_path / "a.fr-en.tsv.gz").write_bytes(whole[:-60])
    with pytest.raises(UserError, match=r"a\.fr-en\.tsv\.gz:\d+: damaged from here on"):
        local.build(tmp_path / "out", tmp_path / "a.fr-en.tsv.gz")


# --- TMX ------------------------------------------------------------------------------------------------------------


def tmx(
    path: Path, units: list[dict[str, str]], *, srclang: str = "*all*", head: str = "", code: str = "utf-8"
) -> Path:
    """A TMX 1.4 file as translation memories are exported; the texts of `units` are XML already."""
    body = ""
    for number, unit in enumerate(units, 1):
        tuvs = (f'<tuv xml:lang="{lang}"><prop type="x">p</prop><seg>{text}</seg></tuv>' for lang, text in unit.items())
        body += f"<tu tuid='{number}'><note>A note.</note>{''.join(tuvs)}</tu>\n"
    header = f'<header creationtool="t" segtype="sentence" adminlang="en" srclang="{srclang}" datatype="xml"/>'
    root = f'<tmx version="1.4">\n{header}\n<body>\n{body}</body></tmx>\n'
    data = f'<?xml version="1.0" encoding="{code}"?>\n{head}{root}'.encode(code)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_a_translation_memory_becomes_a_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines(40, "fr")
    units = [{"en-US": en, "fr-CA": fr} for fr, en in rows]
    file = tmx(tmp_path / "memory.fr-en.tmx.gz", [*units, {"en-US": "Alone"}, {"fr-CA": " ", "en-US": "Blank"}])
    corpus = load_corpus(local.build(tmp_path / "out", file))
    assert {row for texts in (corpus.train, corpus.valid, corpus.test) for row in texts["fr-en"]} == set(rows)
    assert "memory.fr-en.tmx.gz: 2 units skipped, without text on one side." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "srclang", "pairs", "expected"),
    [
        ("memory.tmx", "*all*", [], "en-fr"),  # the order in the file
        ("memory.tmx", "FR-fr", [], "fr-en"),
        ("memory.tmx", "de", [], "en-fr"),
        ("x.fr-en.tmx", "en", [], "fr-en"),
        ("to-do.tmx", "fr", [], "fr-en"),  # "to-do" names no languages of the file
        ("x.en-fr.tmx", "en", ["fr-en"], "fr-en"),
    ],
)
def test_the_pair_of_a_memory(tmp_path: Path, name: str, srclang: str, pairs: list[str], expected: str) -> None:
    file = tmx(tmp_path / name, [{"en-GB": "One", "FR": "Un"}], srclang=srclang)
    rows = [("Un", "One")] if expected == "fr-en" else [("One", "Un")]
    assert read_tmx(file, pairs) == ({expected: rows}, [])


def test_a_memory_of_three_languages_needs_pairs_and_gives_several(tmp_path: Path) -> None:
    units = [{"en": f"{one} x", "de": f"{one} y", "fr": f"{one} z"} for one in "abc"] + [{"en": "d x", "de": "d y"}]
    file = tmx(tmp_path / "memory.tmx", units)
    with pytest.raises(UserError, match=r"memory\.tmx: it holds en, de, fr, .* --pairs fr-en"):
        read_tmx(file)
    texts, notes = read_tmx(file, ["fr-en", "de-fr"])
    assert texts == {
        "fr-en": [("a z", "a x"), ("b z", "b x"), ("c z", "c x")],
        "de-fr": [("a y", "a z"), ("b y", "b z"), ("c y", "c z")],
    }
    assert notes == [f"{file}: 1 units skipped, without text on one side."] * 2


@pytest.mark.parametrize(
    ("seg", "expected"),
    [
        ('Press <bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept> now', "Press Save now"),
        ('A <ph>{0}<sub>alt text</sub>%s</ph>break<it pos="begin">[i]</it> in', "A break in"),
        ("The <hi>word <hi>it</hi>self</hi> stays<ut>{x}</ut>.", "The word itself stays."),
        ("One\n   two\tthree\u2028four\u00a0five &#x85; six", "One two three four five six"),
        ("&quot;Tom &amp; I&quot; &#233;<![CDATA[ <b> ]]>", '"Tom & I" é <b>'),
        ("zero\u200bwidth", "zero\u200bwidth"),
    ],
)
def test_codes_go_and_text_stays(tmp_path: Path, seg: str, expected: str) -> None:
    file = tmx(tmp_path / "a.tmx", [{"en": seg, "fr": "Un"}])
    assert read_tmx(file)[0] == {"en-fr": [(expected, "Un")]}


@given(st.lists(st.tuples(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30)), min_size=1, max_size=5))
def test_any_text_comes_back_as_one_line(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    allowed = [  # what XML can hold at all; a word each keeps every unit
        tuple("x" + "".join(c for c in side if c in "\t\n" or " " <= c < "\ufffe") for side in row) for row in rows
    ]
    file = tmx(tmp_path_factory.mktemp("any") / "a.fr-en.tmx", [{"fr": escape(a), "en": escape(b)} for a, b in allowed])
    texts, _ = read_tmx(file)
    assert texts["fr-en"] == [(one_line(a), one_line(b)) for a, b in allowed]
    assert all(len(side.splitlines()) == 1 and "\t" not in side for row in texts["fr-en"] for side in row)


@pytest.mark.parametrize("code", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_encoding_is_the_one_the_file_names(tmp_path: Path, code: str) -> None:
    file = tmx(tmp_path / "a.fr-en.tmx", [{"fr": "déjà vu", "en": "seen"}], code=code)
    assert read_tmx(file)[0] == {"fr-en": [("déjà vu", "seen")]}


def test_of_two_variants_the_first_counts_and_old_attributes_are_known(tmp_path: Path) -> None:
    file = tmp_path / "a.tmx"
    tuvs = ["en-US'><seg>Color", "en-GB'><seg>Colour", "fr'><seg> ", "fr'><seg>Couleur"]
    unit = "".join(f"<tuv lang='{tuv}</seg></tuv>" for tuv in tuvs)
    doctype = '<!DOCTYPE tmx SYSTEM "tmx11.dtd">'
    file.write_text(f"{doctype}<tmx><header/><body><tu>{unit}</tu></body></tmx>", encoding="utf-8")
    assert read_tmx(file)[0] == {"en-fr": [("Color", "Couleur")]}


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">\n' for i in range(1, 10))


@pytest.mark.parametrize(
    ("head", "seg", "message"),
    [
        (f'<!DOCTYPE tmx [\n<!ENTITY l0 "ha">\n{LAUGHS}]>', "&l9;", r"a\.tmx:3: declares the entity 'l0'"),
        ('<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/hostname">]>', "&e;", r"a\.tmx:2: declares the entity 'e'"),
        ('<!DOCTYPE tmx [<!ENTITY % p "x">]>', "x", r"a\.tmx:2: declares the entity 'p'"),
        ('<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n', "a&nbsp;b", r"a\.tmx:6: the entity &nbsp; is not defined"),
        ("", "a&nbsp;b", r"a\.tmx:5: undefined entity"),
        ("", "a < b", r"a\.tmx:5: not well-formed"),
        ("", "a</seg></tuv></tu><tu><tuv><seg>b", r"a\.tmx:5: <tuv> without xml:lang"),
    ],
)
def test_unsafe_or_unsound_xml_is_told_with_its_line(tmp_path: Path, head: str, seg: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_tmx(tmx(tmp_path / "a.tmx", [{"en": seg, "fr": "Un"}], head=head))


def test_what_is_no_whole_memory_is_refused(tmp_path: Path) -> None:
    whole = tmx(tmp_path / "whole.tmx", [{"en": f"One {i}", "fr": f"Un {i}"} for i in range(500)]).read_bytes()
    page = b"<!DOCTYPE html>\n<html><head><meta charset='utf-8'><title>Not found</title></head></html>"
    cases = [
        ("cut.tmx", whole[: len(whole) // 2], r"cut\.tmx:\d{3}: .*The file is cut short"),
        ("cut.tmx.gz", gzip.compress(whole)[:-20], r"cut\.tmx\.gz: not a sound gzip file"),
        ("plain.tmx.gz", whole, r"plain\.tmx\.gz: not a sound gzip file"),
        ("empty.tmx", b"", r"empty\.tmx:1: no element found"),
        ("page.tmx", page, r"page\.tmx:2: the file begins with <html>, not <tmx>"),
        ("latin.tmx", whole.replace(b"Un 7<", b"\xe9t\xe9<"), r"latin\.tmx:12: not well-formed .*encoding"),
        ("code.tmx", whole.replace(b'"utf-8"', b'"klingon"'), r"code\.tmx:1: unknown encoding"),
        ("none.tmx", b"<tmx><header/><body/></tmx>", r"none\.tmx: it holds no language"),
    ]
    for name, data, message in cases:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=message):
            read_tmx(tmp_path / name)
    with pytest.raises(UserError, match=r"gone\.tmx cannot be read"):
        read_tmx(tmp_path / "gone.tmx")


# --- Moses zips -----------------------------------------------------------------------------------------------------


def moses(path: Path, members: dict[str, str | bytes]) -> Path:
    """A zip as OPUS packs it, with the members that the script ignores."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("README", "LICENSE", "Test.en-fr.xml", "Test.en-fr.ids", "Test.en-fr.scores"):
            archive.writestr(name, f"{name}, first line\nsecond line\n")
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_moses_zip_becomes_a_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines(40, "fr")
    odd = [("", "nothing here"), ("rien \u200b", " "), ("a\tb\u2028c  \x07d", 'say "e"'), ("x" * 10_001, "too long")]
    sides = ["".join(f"{row[side]}\r\n" for row in [*odd, *rows]) for side in (0, 1)]
    file = moses(tmp_path / "fr-en.txt.zip", {"v2/Test.en-fr.fr": "\ufeff" + sides[0], "v2/Test.en-fr.en": sides[1]})
    corpus = load_corpus(local.build(tmp_path / "out", file))
    assert corpus.pairs == ("fr-en",), "the name of the zip says which side is the source"
    written = {row for texts in (corpus.train, corpus.valid, corpus.test) for row in texts["fr-en"]}
    assert written == {*rows, ("a b c d", 'say "e"')}
    said = capsys.readouterr().err
    assert "2 units skipped, without text on one side" in said and "1 units skipped, over 10,000 characters" in said


@pytest.mark.parametrize(
    ("name", "pairs", "expected"),
    [("Test.zip", [], "en-fr"), ("Test.zip", ["fr-en"], "fr-en"), ("fr-en.txt.zip", [], "fr-en")],
)
def test_the_pair_of_a_zip(tmp_path: Path, name: str, pairs: list[str], expected: str) -> None:
    file = moses(tmp_path / name, {"Test.en-fr.en": "One\n", "Test.en-fr.fr": "Un\n"})
    assert read_moses(file, pairs) == ({expected: [("Un", "One") if expected == "fr-en" else ("One", "Un")]}, [])


def test_regional_codes_of_opus_are_kept(tmp_path: Path) -> None:
    file = moses(tmp_path / "en-zh_CN.txt.zip", {"T.en-zh_CN.en": "One\n", "T.en-zh_CN.zh_CN": "一\n"})
    assert read_moses(file, ["zh_CN-en"])[0] == {"zh_CN-en": [("一", "One")]}


def test_zips_that_cannot_be_trusted_or_told_apart_are_refused(tmp_path: Path) -> None:
    good: dict[str, str | bytes] = {"T.en-fr.en": "One\nTwo\n", "T.en-fr.fr": "Un\nDeux\n"}
    cases: list[tuple[str, dict[str, str | bytes], str]] = [
        ("slip", {**good, "../T.en-fr.fr": "Un\n"}, r"slip\.zip: the member '\.\./T\.en-fr\.fr' leads out"),
        ("lines", {**good, "T.en-fr.fr": "Un\n"}, r"lines\.zip:T\.en-fr\.en has 2 lines and .*T\.en-fr\.fr has 1"),
        ("latin", {**good, "T.en-fr.fr": b"Un\nd\xe9j\xe0\n"}, r"latin\.zip:T\.en-fr\.fr:2: .*0xe9, is not UTF-8"),
        ("two", {**good, "U.en-fr.fr": "Un\n"}, r"two\.zip: en-fr needs one member ending in \.fr, but: T.*, U"),
        ("pairs", {**good, "T.de-en.de": "Eins\n"}, r"pairs\.zip: it holds de, en, fr, so .* --pairs fr-en"),
        ("none", {"text.txt": "One\n"}, r"none\.zip: it holds .*, so its pair is unknown"),
        ("half", {"T.en-fr.en": "One\n"}, r"half\.zip: en-fr needs one member ending in \.fr, but: none"),
        ("blank", {"T.en-fr.en": "\n", "T.en-fr.fr": "Un\n"}, r"blank\.zip: no unit with text on both sides"),
    ]
    for name, members, message in cases:
        with pytest.raises(UserError, match=message):
            read_moses(moses(tmp_path / f"{name}.zip", members))
    file = moses(tmp_path / "good.zip", good)
    data = file.read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    (tmp_path / "page.zip").write_bytes(b"<!DOCTYPE html><html>404</html>")
    for name in ("cut", "page", "gone"):
        with pytest.raises(UserError, match=rf"{name}\.zip"):
            read_moses(tmp_path / f"{name}.zip")
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02")) + 8  # the flags of the first entry of the directory
    (tmp_path / "locked.zip").write_bytes(data[:at] + bytes([data[at] | 1]) + data[at + 1 :])
    with pytest.raises(UserError, match=r"locked\.zip: the member 'README' is encrypted"):
        read_moses(tmp_path / "locked.zip")


# --- which side is which --------------------------------------------------------------------------------------------

ENGLISH = [f"{who} {what} the {thing}" for who in ("They", "Men") for what in ("see", "sold") for thing in
           ("cat", "dog", "car", "house", "tree")]  # fmt: skip
FRENCH = ["ils ont vu le chat noir"] * 20
CHINESE = ["他们看见了猫"] * 20


@pytest.mark.parametrize(
    ("pair", "src", "trg", "expected"),
    [
        ("fr-en", FRENCH, ENGLISH, "fine"),
        ("fr-en", ENGLISH, FRENCH, "swapped: 0% of the lines of en hold a common English word, 100% of those of fr"),
        ("en-fr", FRENCH, ENGLISH, "swapped"),
        ("fr-en", ENGLISH, ENGLISH, "is the fr side of fr-en in English?"),
        ("fr-en", FRENCH * 10, FRENCH * 10, "is the en side of fr-en in another language?"),
        ("fr-en", FRENCH, FRENCH, "fine"),  # too little to say so
        ("fr-en", ENGLISH[:19], FRENCH[:19], "fine"),
        ("zh-en", CHINESE, ENGLISH, "fine"),
        ("zh_CN-en", ENGLISH, CHINESE, "swapped: 0% of the lines of zh hold a letter of zh, 100% of those of en"),
        ("zh-fr", FRENCH, FRENCH, "is the zh side of zh-fr in another language?"),
        ("zh-fr", CHINESE[:11] + FRENCH[:9], FRENCH, "fine"),  # names and quotations do no harm
        ("ru-uk", FRENCH, FRENCH, "fine"),  # one script: it tells nothing
    ],
)
def test_sides_that_do_not_look_like_their_language(pair: str, src: list[str], trg: list[str], expected: str) -> None:
    rows = list(zip(src, trg, strict=True))
    if expected.startswith("swapped"):
        with pytest.raises(UserError, match=f"a.tsv: the sides of {pair} look {expected}"):
            check_sides(rows, pair, "a.tsv")
    elif expected == "fine":
        assert check_sides(rows, pair, "a.tsv") == []
    else:
        assert [note for note in check_sides(rows, pair, "a.tsv") if note.startswith(f"a.tsv: {expected}")]


def test_swapped_sides_are_found_in_files_and_in_split_directories(tmp_path: Path) -> None:
    rows = [f"ligne {spell(i)} vraie\tthis line {spell(i)}" for i in range(60)]
    with pytest.raises(UserError, match=r"all\.en-fr\.tsv: the sides of en-fr look swapped"):
        local.build(tmp_path / "out", write(tmp_path / "all.en-fr.tsv", rows))
    (tmp_path / "split").mkdir()
    for split, part in (("train", rows[:40]), ("valid", rows[40:50]), ("test", rows[50:])):
        write(tmp_path / "split" / f"{split}.en-fr.tsv", part)
    with pytest.raises(UserError, match=r"train\.en-fr\.tsv: the sides of en-fr look swapped"):
        local.build(tmp_path / "out", tmp_path / "split")


# --- all together ---------------------------------------------------------------------------------------------------


def test_files_of_all_kinds_make_one_corpus(tmp_path: Path) -> None:
    french, german, turkish = lines(60, "fr"), lines(50, "de"), lines(40, "tr")
    inputs = [
        tmx(tmp_path / "memory.tmx", [{"en-GB": en, "fr": fr} for fr, en in french]),
        moses(tmp_path / "en-de.txt.zip", {f"T.de-en.{code}": "\n".join(row[side] for row in german)
                                           for side, code in enumerate(("de", "en"))}),
        write(tmp_path / "all.tr-en.tsv", ["\t".join(row) for row in turkish]),
    ]  # fmt: skip
    command = [*map(str, inputs), "--pairs", "fr-en", "de-en", "--valid", "3", "--test", "4"]
    assert local.main([*command, "--out", str(tmp_path / "a")]) == 0
    assert local.main([*command, "--out", str(tmp_path / "b")]) == 0
    corpus = load_corpus(tmp_path / "a")
    assert corpus.pairs == ("fr-en", "de-en", "tr-en") and corpus.direction == "m2o"
    assert [en for _, en in corpus.test["fr-en"]] == [en for _, en in corpus.test["tr-en"]]
    for file in (tmp_path / "a").glob("*.tsv"):
        assert (tmp_path / "b" / file.name).read_bytes() == file.read_bytes()


def test_pairs_that_no_file_holds_are_told(tmp_path: Path) -> None:
    file = tmx(tmp_path / "memory.tmx", [{"en": en, "fr": fr} for fr, en in lines(40, "fr")])
    with pytest.raises(UserError, match=r"--pairs de-en: no file holds it; they hold en-fr"):
        local.build(tmp_path / "out", file, pairs=["de-en"])
    with pytest.raises(UserError, match=r"--pairs: unknown language 'FR'"):
        local.build(tmp_path / "out", file, pairs=["FR-en"])
    with pytest.raises(UserError, match=r"memory\.tmx: the pair en-fr is given twice"):
        local.build(tmp_path / "out", file, file)
    with pytest.raises(UserError, match="--pairs and columns are for unsplit files"):
        local.build(tmp_path / "out", tmp_path, pairs=["fr-en"])


def test_the_command_of_the_package_takes_the_new_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = moses(tmp_path / "fr-en.txt.zip", {
        f"T.en-fr.{code}": "\n".join(row[side] for row in lines(40, "fr")) for side, code in enumerate(("fr", "en"))
    })  # fmt: skip
    assert main(["data", "local", str(file), "--out", str(tmp_path / "out")]) == 0
    assert "fr-en: fr phrase" in capsys.readouterr().out
    assert len(load_corpus(tmp_path / "out").train["fr-en"]) == 30
