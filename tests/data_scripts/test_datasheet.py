"""The datasheet: numbers counted by hand, hints about exchanged sides, a page that needs no other file."""

from __future__ import annotations

import base64
import io
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from pmd_corpora import datasheet
from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

FRENCH = {
    "train": [
        ("Le chat dort.", "The cat sleeps."), ("« le chien dort »", "the dog sleeps !"),
        ("Le chat dort.", "The cat sleeps."), ("Un oiseau", "A bird"),
    ],
    "valid": [("la mer", "the sea")],
    "test": [("le chat nage", "the cat swims"), ("Un oiseau", "A bird")],
}  # fmt: skip
CHINESE = {
    "train": [("猫睡觉。", "A cat sleeps now"), ("狗 睡觉", "A dog sleeps")],
    "valid": [("狗 睡觉", "A dog sleeps")],
    "test": [("猫游泳", "the cats swim")],
}


def corpus(name: str = "by hand", **pairs: dict[str, list[tuple[str, str]]]) -> Corpus:
    texts = {key.replace("_", "-"): value for key, value in pairs.items()}
    return Corpus.from_texts(name, texts, licence="CC0 <1.0>", source="typed & counted", allow_leakage=True)


@pytest.fixture(scope="module")
def by_hand() -> Corpus:
    return corpus("<b>hand</b> & more", fr_en=FRENCH, zh_en=CHINESE)


# ---- numbers


def test_every_number_is_the_one_counted_by_hand(by_hand: Corpus) -> None:
    fr, zh = datasheet.look(by_hand)
    assert (fr.pair, fr.sizes, fr.repeated, fr.leaked) == ("fr-en", (4, 1, 2), 1, (0, 1))
    assert (fr.src.language, fr.src.unit, fr.src.lengths.tolist()) == ("fr", "words", [3, 3, 3, 2])
    assert fr.src.types == 6  # le chat dort chien un oiseau
    assert fr.src.unseen == pytest.approx(1 / 5)  # nage, of le chat nage un oiseau
    assert (fr.trg.types, fr.trg.unseen) == (6, pytest.approx(1 / 5))
    assert (zh.pair, zh.sizes, zh.repeated, zh.leaked) == ("zh-en", (2, 1, 1), 0, (1, 0))
    assert (zh.src.unit, zh.src.lengths.tolist(), zh.src.types) == ("characters", [3, 3], 4)
    assert zh.src.unseen == pytest.approx(2 / 3)
    assert (zh.trg.unit, zh.trg.lengths.tolist(), zh.trg.types, zh.trg.unseen) == ("words", [4, 3], 5, 1.0)
    assert [side.odd for f in (fr, zh) for side in (f.src, f.trg)] == [0, 0, 0, 0]
    assert (fr.example, datasheet.hints([fr, zh])) == (("Le chat dort.", "The cat sleeps."), [])


def test_tables_show_them(by_hand: Corpus) -> None:
    sizes, words, faults = (table.to_text() for table in datasheet.summary(datasheet.look(by_hand)))
    # 4 ^ (1/5) = 1.3195, 2 ^ (1/5) = 1.1487
    assert [line.split() for line in sizes.splitlines()[-2:]] == [
        ["fr-en", "4", "1", "2", "0.667", "0.535"], ["zh-en", "2", "1", "1", "0.333", "0.465"],
    ]  # fmt: skip
    assert ["zh-en", "zh", "characters", "3.0", "4", "66.7%"] in [line.split() for line in words.splitlines()]
    assert "lines a pair" not in words
    assert "fr-en 1 25.0% 0 1 0.0% other 0.0% other" in [" ".join(line.split()) for line in faults.splitlines()]


@pytest.mark.parametrize(
    ("line", "unspaced", "units"),
    [
        ("«Ça va?» – L'été, 3 % !", False, ["ça", "va", "l'été", "3"]),
        ("हिन्दी भाषा।", False, ["हिन्दी", "भाषा"]),  # to Python vowel signs are not letters, but they belong to the word
        ("Καλημέρα, κόσμε;", False, ["καλημέρα", "κόσμε"]),
        ("你好,世界 3!", True, ["你", "好", "世", "界", "3"]),
        ("« »", False, []),
    ],
)
def test_what_a_word_is(line: str, unspaced: bool, units: list[str]) -> None:
    assert datasheet._units(line, unspaced) == units


def test_many_lines_are_sampled_at_equal_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [(" ".join(["a"] * (n + 1)), f"b{n}") for n in range(10)]
    text = corpus(fr_en={"train": lines, "valid": [("v", "w")], "test": [("a b", "b4 b5")]})
    monkeypatch.setattr(datasheet, "LINES", 3)
    (facts,) = datasheet.look(text)
    assert facts.src.lengths.tolist() == [1, 5, 9]  # every fourth of ten
    assert (facts.sizes[0], facts.trg.types, facts.trg.unseen) == (10, 3, 0.5)
    assert "in 3 lines a pair" in datasheet.summary([facts])[1].caption


# ---- wrong languages


@pytest.mark.parametrize(
    ("pair", "train", "said"),
    [
        ("ru-en", [("Кот спит", "The cat"), ("Пёс", "a dog")], []),
        ("ru-en", [("The cat", "Кот спит"), ("a dog", "Пёс")],
         ["100% of the source lines are not in ru's script (Cyrillic). The sides look exchanged.",
          "100% of the target lines are not in en's script (Latin). The sides look exchanged."]),
        ("zh_CN-en", [("猫 cat", "The cat"), ("a big dog 狗", "a dog"), ("Γάτα", "x")],
         ["67% of the source lines are not in zh_CN's script (Han). Is it another language?"]),
        ("el-en", [("Кот спит", "The cat"), ("12:30", "12:30")],
         ["50% of the source lines are not in el's script (Greek). Is it another language?"]),
        ("ko-en", [("고양이", "cat"), ("漢字", "signs")], []),
        ("xx-en", [("Кот спит", "The cat")], []),  # the script of xx is not known
        ("hi-mr", [("हिन्दी भाषा", "मराठी भाषा")], []),
    ],
)  # fmt: skip
def test_a_side_in_another_script_is_told(pair: str, train: list[tuple[str, str]], said: list[str]) -> None:
    splits = {"train": train, "valid": [("v", "w")], "test": [("x", "y")]}
    text = Corpus.from_texts("c", {pair: splits})
    assert datasheet.hints(datasheet.look(text)) == [f"{pair}: {line}" for line in said]


def test_a_few_lines_in_another_script_are_no_warning() -> None:
    train = [("Кот спит", f"cat {n}") for n in range(39)] + [("OK", "OK")]
    text = corpus(ru_en={"train": train, "valid": [("в", "w")], "test": [("х", "y")]})
    facts = datasheet.look(text)
    assert (facts[0].src.odd, datasheet.hints(facts)) == (0.025, [])


# ---- the page


class Page(HTMLParser):
    """Elements in order, with a check that each one that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.mark.slow
def test_the_page_stands_alone_and_can_be_read_aloud(by_hand: Corpus, tmp_path: Path) -> None:
    path = datasheet.write_datasheet(by_hand, tmp_path / "deep" / "datasheet.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>") and page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("title")) == len(page.all("main")) == 1
    assert not {"script", "link", "a", "iframe"} & {tag for tag, _ in page.found}
    assert "url(" not in text and "://" not in text
    assert len(page.all("table")) == len(page.all("caption")) == 4
    assert all(header["scope"] in ("col", "row") for header in page.all("th"))
    pictures = page.all("img")
    assert len(pictures) == 2
    for picture in pictures:
        assert picture["alt"] and "fr-en" in picture["alt"]
        head, _, data = str(picture["src"]).partition(",")
        assert head == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).width == 672
    assert "fr-en 4 pairs, 66.7% and 53.5%" in str(pictures[0]["alt"])
    assert "zh-en 3 characters and 4 words" in str(pictures[1]["alt"])
    assert "Datasheet: <b>hand</b> & more" in page.text and "CC0 <1.0>" in page.text  # shown, not obeyed
    assert {"lang": "zh", "dir": "auto"} in page.all("td") and "猫睡觉。" in page.text
    assert len(by_hand.warnings) == len([p for p in page.all("p") if p.get("class") == "warning"]) > 0


@pytest.mark.slow
def test_the_same_corpus_gives_the_same_bytes(by_hand: Corpus, tmp_path: Path) -> None:
    pages = [datasheet.write_datasheet(by_hand, tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


@pytest.mark.slow
def test_show_prints_all_and_writes_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turned = {split: [(trg, src) for src, trg in text] for split, text in CHINESE.items()}
    place = write_corpus(corpus(fr_en=FRENCH, zh_en=turned), tmp_path / "corpus")
    datasheet.show_corpus(place, None)
    printed = capsys.readouterr().out
    assert "m2o, licence CC0 <1.0>" in printed
    assert "fr-en: Le chat dort.  ->  The cat sleeps." in printed
    assert "warning: zh-en: 100% of the source lines are not in zh's script (Han). The sides look exchanged." in printed
    assert "1 training pairs are test pairs too" in printed
    datasheet.show_corpus(place, tmp_path / "sheet.html")
    assert capsys.readouterr().out == printed + f"datasheet: {tmp_path / 'sheet.html'}\n"
    Page((tmp_path / "sheet.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_a_user_error(
    by_hand: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_corpus(corpus(fr_en=FRENCH), tmp_path / "corpus")
    with pytest.raises(UserError, match="is inside the corpus"):
        datasheet.show_corpus(place, place / "datasheet.html")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left on device"):
        datasheet.write_datasheet(by_hand, tmp_path / "a.html")
    assert not list(tmp_path.glob("a.html*"))
