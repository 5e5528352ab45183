"""WMT-6 from a small Hub on this machine: the same requests, the same schema, several shards with small row groups."""

from __future__ import annotations

import errno
import gzip
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="only the WMT-6 script reads parquet: requirements-download.txt")
pytest.importorskip("huggingface_hub", reason="only the WMT-6 script reads the Hub: requirements-download.txt")

import pyarrow.parquet as pq  # noqa: E402

from pmd_corpora import wmt6, wmt6_drawing, wmt6_sampling  # noqa: E402
from pmd_corpora.fetch import Offline  # noqa: E402
from pmd_corpora.wmt6_cleaning import STOP_WORDS, clean, normalise  # noqa: E402
from pmd_lite.data.corpus import load_corpus  # noqa: E402
from pmd_lite.errors import UserError  # noqa: E402
from tests.local_server import Address, Page, serve  # noqa: E402

COMMIT = "c0ffee" + "0" * 34
Row = tuple[str | None, str | None]  # foreign, English
FOREIGN = {
    "fr": "la ligne {} est dans le texte",
    "de": "die Zeile {} ist nicht mit dem Text",
    "et": "see rida {} ei ole selle tekst",
    "ro": "linia {} este din acest text",
    "tr": "bu metin {} ve bir satır daha",
}
LANGUAGES = ("fr", "de", "zh", "et", "ro", "tr")
SHARDS = {"fr": (300, 200, 100), "de": (60, 60), "zh": (60,), "et": (50,), "ro": (40,), "tr": (40,)}  # rows
SIZES = {"fr": 120, "de": 40, "zh": 20, "et": 15, "ro": 12, "tr": 10}
HELD = {"validation": 4, "test": 5}
GROUP = 10  # rows


def spell(lang: str, number: int) -> str:
    """A word of letters that no other language or number has."""
    return lang + "".join("abcdefghij"[int(digit)] for digit in f"{number:04d}")


def row(lang: str, number: int) -> tuple[str, str]:
    """A pair that no rule objects to; English lines of different languages differ too."""
    word = spell(lang, number)
    if lang == "zh":
        return "第" + "".join(
            chr(0x4E00 + 7 * ord(letter)) for letter in word
        ) + "行文字在这里", f"the line {word} is here"
    return FOREIGN[lang].format(word), f"the line {word} is with that text"


def parquet(rows: Sequence[Row], lang: str, group: int = GROUP, english: str = "en") -> bytes:
    """A shard as the Hub holds it: one column `translation`, a struct of two texts."""
    kind = pa.struct([(english, pa.string()), (lang, pa.string())])
    column = pa.array([{lang: foreign, english: en} for foreign, en in rows], type=kind)
    out = io.BytesIO()
    pq.write_table(pa.table({"translation": column}), out, row_group_size=group)
    return out.getvalue()


def shards(lang: str) -> list[list[Row]]:
    at, found = 0, []
    for count in SHARDS[lang]:
        found.append([row(lang, number) for number in range(at, at + count)])
        at += count
    return found


def files_of(lang: str, name: str, parts: Sequence[Sequence[Row]], group: int = GROUP) -> dict[str, bytes]:
    return {
        f"{lang}-en/{name}-{number:05d}-of-{len(parts):05d}.parquet": parquet(part, lang, group)
        for number, part in enumerate(parts)
    }


def plain_files(lang: str) -> dict[str, bytes]:
    """All three splits of one language."""
    found = files_of(lang, "train", shards(lang))
    for at, (name, count) in enumerate(HELD.items(), 8):
        found |= files_of(lang, name, [[row(lang, 1000 * at + number) for number in range(count)]])
    return found


PLAIN = {lang: plain_files(lang) for lang in LANGUAGES}


@contextmanager
def hub(changes: Mapping[str, Mapping[str, bytes | Page]] | None = None, sha: str = COMMIT) -> Iterator[Address]:
    """A Hub with the four data sets. `changes`: files of a language that replace those of the same split."""
    pages: dict[str, bytes | Page] = {}
    for repo in wmt6.REPOSITORIES:
        files: dict[str, bytes | Page] = {".gitattributes": b"*.parquet lfs"}
        for lang in LANGUAGES:
            if wmt6.SOURCES[lang].repo == repo:
                new = (changes or {}).get(lang, {})
                replaced = {path.partition("-0")[0] for path in new}
                files |= {path: data for path, data in PLAIN[lang].items() if path.partition("-0")[0] not in replaced}
                files |= new
        sizes = {path: len(data.body if isinstance(data, Page) else data) for path, data in files.items()}
        about = {"id": repo, "sha": sha, "siblings": [{"rfilename": path, "size": n} for path, n in sizes.items()]}
        for revision in ("main", sha):
            body = json.dumps(about).encode()
            pages[f"api/datasets/{repo}/revision/{revision}"] = Page(body, headers={"Content-Type": "application/json"})
        pages |= {f"datasets/{repo}/resolve/{sha}/{path}": data for path, data in files.items()}
    with serve(pages) as url:
        yield url


def build(out: Path, url: str, **options: Any) -> Path:
    return wmt6.build(out, **{"endpoint": url, "sizes": SIZES, **options})


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def ranges(url: Address) -> list[tuple[str, str]]:
    """(file, Range) of every part of a file that was asked for."""
    return [(asked.path, asked.headers["Range"]) for asked in url.requests if "Range" in asked.headers]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wmt6_sampling, "WAIT", 0.01)
    monkeypatch.setattr(wmt6_sampling, "RETRIES", 1)
    monkeypatch.delenv("PMD_OFFLINE", raising=False)


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of the plain Hub with seed 0, and its report; read only."""
    out = tmp_path_factory.mktemp("wmt6") / "out"
    with hub() as url:
        return build(out, url)


# --- what is made -----------------------------------------------------------------------------------------------------


def test_corpus_has_the_exact_sizes_and_loads_without_a_warning(built: Path) -> None:
    corpus = load_corpus(built)
    assert corpus.pairs == ("fr-en", "de-en", "zh-en", "et-en", "ro-en", "tr-en")
    assert corpus.sizes == list(SIZES.values()) and corpus.warnings == () and corpus.name == "wmt6"
    for lang in LANGUAGES:
        pair, rows = f"{lang}-en", {line for part in shards(lang) for line in part}
        assert set(corpus.train[pair]) <= rows and len(set(corpus.train[pair])) == SIZES[lang]
        assert list(corpus.valid[pair]) == [row(lang, 8000 + n) for n in range(4)]
        assert list(corpus.test[pair]) == [row(lang, 9000 + n) for n in range(5)]


def test_manifest_and_report_name_revision_commit_and_counts(built: Path) -> None:
    manifest, report = (json.loads((built / name).read_text("utf-8")) for name in ("corpus.json", "report.json"))
    assert f"wmt/wmt14@{COMMIT}" in manifest["source"] and "ATTRIBUTION.md" in manifest["licence"]
    assert report["repositories"]["wmt/wmt18"] == {"revision": "main", "commit": COMMIT}
    french = report["pairs"]["fr-en"]
    assert french["counts"] == {"rows": 140, "not drawn": 20, "train": 120}  # 1.15 x 120 = 138 rows, 14 groups
    assert (french["row groups read"], french["row groups"], french["rows"]) == (14, 60, 600)
    assert french["held out pairs"] == {"valid": 4, "test": 5}
    stretches = french["stretches"]
    assert [s["row groups"] for s in stretches[:5]] == [[0, 7], [8, 15], [16, 23], [24, 29], [0, 4]]
    assert sum((Counter(s["counts"]) for s in stretches), Counter()) == Counter(french["counts"])
    assert "valid.fr-en: newstest2013 has 3,000 sentence pairs elsewhere, 4 here." in report["notes"]
    text = (built / "ATTRIBUTION.md").read_text("utf-8")
    assert "datasets/wmt/wmt17 (zh-en), commit c0ffee" in text and "| train | 120 | 40 | 20 | 15 | 12 | 10 |" in text


def test_every_shard_contributes_in_proportion_to_its_rows(built: Path) -> None:
    stretches = json.loads((built / "report.json").read_text("utf-8"))["pairs"]["fr-en"]["stretches"]
    read: Counter[str] = Counter()
    for stretch in stretches:
        read[stretch["file"]] += stretch["row groups read"]
    for (_, count), share in zip(sorted(read.items()), (1 / 2, 1 / 3, 1 / 6), strict=True):
        assert abs(count - 14 * share) < 2
    numbers = {row("fr", n): n for n in range(600)}
    drawn = [numbers[pair] for pair in load_corpus(built).train["fr-en"]]
    assert drawn == sorted(drawn)
    shares = Counter(0 if n < 300 else 1 if n < 500 else 2 for n in drawn)
    assert all(abs(shares[at] / 120 - share) < 0.15 for at, share in enumerate((1 / 2, 1 / 3, 1 / 6)))


def test_same_seed_same_bytes_and_another_seed_other_rows(built: Path, tmp_path: Path) -> None:
    with hub() as url:
        again = build(tmp_path / "again", url)
        other = build(tmp_path / "other", url, seed=1, work=tmp_path / "again.work")
    assert tree(again) == tree(built)
    first, second = (set(load_corpus(path).train["fr-en"]) for path in (built, other))
    assert len(second) == 120 and len(first & second) < 60
    assert tree(other)["test.fr-en.tsv"] == tree(built)["test.fr-en.tsv"]


def test_few_large_row_groups_still_give_every_shard_its_share(tmp_path: Path) -> None:
    large = {"fr": files_of("fr", "train", shards("fr"), group=1000)}  # one group a shard
    with hub(large) as url:
        out = build(tmp_path / "out", url)
    numbers = {row("fr", n): n for n in range(600)}
    drawn = Counter(numbers[pair] // 100 for pair in load_corpus(out).train["fr-en"])
    assert sum(drawn.values()) == 120 and all(8 <= drawn[at] <= 34 for at in range(6))  # 20 each, 3.3 standard errors


def test_only_footers_and_the_chosen_row_groups_are_read(tmp_path: Path) -> None:
    with hub() as url:
        build(tmp_path / "out", url)
        asked = [part for path, part in ranges(url) if "fr-en/train" in path]
    assert len(asked) == 3 + 14  # shards, row groups


# --- the order of the row groups --------------------------------------------------------------------------------------


def bare_split(rows: Sequence[Sequence[int]]) -> wmt6_sampling.Split:
    split = object.__new__(wmt6_sampling.Split)
    split.groups = [
        wmt6_sampling.Group(shard, number, count, 0)
        for shard, part in enumerate(rows)
        for number, count in enumerate(part)
    ]
    return split


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.text(max_size=5))
def test_every_beginning_of_the_order_lies_evenly_over_the_shards(groups: list[int], seed: str) -> None:
    split = bare_split([[10] * count for count in groups])
    order = split.order(seed)
    assert sorted(order, key=lambda group: group.name) == split.groups
    for length in range(1, len(order) + 1):
        read = Counter(group.shard for group in order[:length])
        assert all(abs(read[shard] - length * count / sum(groups)) < 3 for shard, count in enumerate(groups))


def test_groups_are_taken_until_rows_suffice_and_every_shard_has_given() -> None:
    order = bare_split([[10] * 4, [10] * 4]).groups
    assert wmt6_sampling.first_groups(order, 11) == 5  # two hold enough, the fifth is the first of the second shard
    assert wmt6_sampling.first_groups(order, 55) == 6
    assert wmt6_sampling.first_groups(order, 999) == 8


# --- interruptions ----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 5, 15, 20])  # finished row groups; 15 is the first German one
def test_killed_run_goes_on_and_reads_no_finished_group_again(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    write, done = wmt6_drawing._write_group, []

    def stop(path: Path, **words: Any) -> None:
        if len(done) == after:
            next(words["rows"])
            path.write_bytes(b"half a row group")
            raise Killed
        write(path, **words)
        done.append(path)

    with hub() as url:
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(wmt6_drawing, "_write_group", stop)
            build(tmp_path / "out", url)
        assert not (tmp_path / "out").exists() and len(list((tmp_path / "out.work").rglob("*.tsv.gz"))) == after
        first = len(url.requests)
        out = build(tmp_path / "out", url)
        assert tree(out) == tree(built)
        twice = {part for part, count in Counter(ranges(url)).items() if count > 1}
        assert len(twice) == 1, "the one that was not finished"
        later = [asked.path for asked in url.requests[first:]]
        assert not [path for path in later if "validation" in path or "test-" in path or "revision/main" in path]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["load_corpus", "write_with_attribution", "write_json"])
def test_run_killed_at_the_end_goes_on_without_network(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def stop(*args: Any, **options: Any) -> None:
        if place != "write_json" or args[0].name == "report.json":
            raise Killed
        wmt6_json(*args)

    wmt6_json = wmt6.write_json
    with hub() as url, monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(wmt6, place, stop)
        build(tmp_path / "out", url)
    assert tree(build(tmp_path / "out", "http://127.0.0.1:9")) == tree(built)


@pytest.mark.slow
def test_finished_corpus_is_written_anew_but_never_another_one(built: Path, tmp_path: Path) -> None:
    with hub() as url:
        out = build(tmp_path / "out", url)
        assert tree(build(out, url)) == tree(built)
        with pytest.raises(UserError, match="has another corpus"):
            build(out, url, seed=1)
        assert tree(out) == tree(built)
        build(out, url, seed=1, overwrite=True)
        assert tree(out) != tree(built) and json.loads((out / "report.json").read_text("utf-8"))["seed"] == 1


def test_unsuitable_place_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with hub() as url:
        for name, message in (("full", "has another corpus"), ("file", "is a file")):
            with pytest.raises(UserError, match=message):
                build(tmp_path / name, url)
        assert url.requests == []


def test_work_of_another_revision_is_not_mixed_in(tmp_path: Path) -> None:
    with hub() as url:
        build(tmp_path / "a", url, work=tmp_path / "work")
        build(tmp_path / "b", url, work=tmp_path / "work", revisions={"wmt14": COMMIT})
        with pytest.raises(UserError, match=rf"was begun with wmt/wmt14@main \({COMMIT}\)"):
            build(tmp_path / "c", url, work=tmp_path / "work", revisions={"wmt14": "other"})
        with pytest.raises(UserError, match="wmt/wmt99 is not used here"):
            build(tmp_path / "d", url, revisions={"wmt99": "main"})


@pytest.mark.slow
def test_full_disk_is_said_in_one_line_and_the_run_goes_on(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = gzip.GzipFile.write, []

    def full(self: gzip.GzipFile, data: bytes) -> int:
        count.append(data)
        if len(count) == 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    with hub() as url:
        with monkeypatch.context() as patched, pytest.raises(UserError, match=r"No space left on device.*Make room"):
            patched.setattr(gzip.GzipFile, "write", full)
            build(tmp_path / "out", url)
        assert tree(build(tmp_path / "out", url)) == tree(built)


def test_damaged_file_of_a_row_group_is_named(tmp_path: Path) -> None:
    with hub() as url:
        out = build(tmp_path / "out", url)
        file = sorted((tmp_path / "out.work" / "fr").rglob("*.tsv.gz"))[3]
        for data in (file.read_bytes()[:-9], gzip.compress(b"a\tb\n")):
            file.write_bytes(data)
            with pytest.raises(UserError, match=rf"{file.name} is damaged"):
                build(out, url)


# --- cleaning ---------------------------------------------------------------------------------------------------------

FRENCH, ENGLISH = "La séance est levée.", "The sitting is closed."


@pytest.mark.parametrize(
    ("lang", "foreign", "english", "expected"),
    [
        ("fr", FRENCH, ENGLISH, "kept"),
        ("fr", ENGLISH, FRENCH, "language"),  # turned round
        ("fr", "Click here to read the terms.", "Read the terms of use here.", "language"),
        ("de", "The commission has not replied to that.", "Die Kommission hat darauf nicht geantwortet.", "language"),
        ("de", "Das ist nicht die Antwort.", "Das war nicht die ganze Antwort.", "language"),
        ("tr", "Görüşmeler yarın başlıyor.", "Talks start tomorrow.", "kept"),
        ("et", "See on hea väike mõte.", "That is a good small idea.", "kept"),
        ("fr", "Nicolas Sarkozy, Paris", "Nicolas Sarkozy in Paris", "kept"),
        ("zh", "中国的首都是北京。", "The capital of China is Beijing.", "kept"),
        ("zh", "中国的 WTO 代表团", "China's delegation to the WTO", "kept"),
        ("zh", "The capital is Beijing.", "中国的首都是北京，中国的首都是北京。", "script"),
        ("zh", "Beijing WTO delegation 代表", "The delegation to the WTO in Beijing", "script"),
        ("fr", "Заседание закрыто.", ENGLISH, "script"),
        ("fr", FRENCH, "Заседание the закрыто.", "script"),
        ("fr", "La sÃ©ance est levÃ©e.", ENGLISH, "mojibake"),
        ("fr", FRENCH, "The sitting isn\u00e2\u20ac\u2122t closed.", "mojibake"),
        ("fr", "La s\ufffdance est lev\ufffde.", ENGLISH, "mojibake"),
        ("de", "Das macht \u201eSpaß\u201c.", 'That is "fun".', ("Das macht \u201eSpaß\u201c.", 'That is "fun".')),
        ("fr", "la « liberté\u00a0»", 'the "freedom"', ("la « liberté »", 'the "freedom"')),
        ("fr", "Ce n'est pas lui.", "It's not him, he'd say.", "kept"),
        ("fr", "", ENGLISH, "blank"),
        ("fr", None, ENGLISH, "blank"),
        ("fr", FRENCH, " \u200b\u00a0\u2028", "blank"),
        ("fr", "WTO/OMC", "wto/omc", "same text"),
        ("fr", "la " * 250 + "fin", "the " * 250 + "end", "length"),
        ("fr", "la " * 249 + "fin", "the " * 249 + "end", "kept"),
        ("zh", "文" * 401, "the text " * 100, "length"),
        ("fr", "la séance est", "the sitting is closed for now, until Monday", "ratio"),  # 3 to 8; 7.5 is allowed
        ("zh", "文", "the capital of China", "ratio"),
        ("fr", "a\u2028b\u2029c\x85la\x00e", "a\tb\r\nc the \x07e f", ("a b c la e", "a b c the e f")),
        ("fr", "un  «\tdeux»", 'one  "\ttwo', ("un « deux»", 'one " two')),
        ("fr", "e\u0301te\u0301 \ufeffici", "summer here", ("été ici", "summer here")),
        ("ro", "Bun\u0103 \u015fi \u0163ar\u0103 s\u0327i", "good and land", ("Bună și țară și", "good and land")),
        ("tr", "\u015fey", "thing", ("şey", "thing")),
    ],
)  # fmt: skip
def test_cleaning_by_example(lang: str, foreign: str | None, english: str, expected: tuple[str, str] | str) -> None:
    assert clean(foreign, english, lang) == ((foreign, english) if expected == "kept" else expected)


def test_no_english_stop_word_is_one_of_another_language() -> None:
    english = STOP_WORDS["en"]
    assert all(not english & words for lang, words in STOP_WORDS.items() if lang != "en")


@given(st.text())
def test_normalised_text_is_one_sound_line_and_stays_as_it_is(text: str) -> None:
    line = normalise(text, "fr")
    assert line == normalise(line, "fr") and len(line.splitlines()) <= 1 and "\t" not in line and line == line.strip()


@pytest.mark.slow
def test_unsound_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    """Null, blank, swapped, repeated and badly encoded rows among the Romanian ones; CRLF and tabs do no harm."""
    good = [row("ro", n) for n in range(20)]
    bad: list[Row] = [(None, "the text"), ("acest text", None), (" ", "the text"), good[0][::-1], good[1], good[2]]
    strange = ("acest\ttext este\r\n\u2028un \u015fir", 'the "text" is\x00here')
    raw = parquet([*good, *bad, strange, ("rXXXau", "the bad text")], "ro", 1000).replace(b"rXXXau", b"r\xe9\xe9\xe9au")
    with hub({"ro": {"ro-en/train-00000-of-00001.parquet": raw}}) as url:
        out = build(tmp_path / "out", url, sizes={**SIZES, "ro": 21})
    counts = json.loads((out / "report.json").read_text("utf-8"))["pairs"]["ro-en"]["counts"]
    assert counts == {"rows": 28, "blank": 3, "language": 1, "mojibake": 1, "duplicate": 2, "train": 21}
    assert list(load_corpus(out).train["ro-en"]) == [*good, ("acest text este un șir", 'the "text" is here')]


def test_pairs_with_a_line_of_any_held_out_set_are_dropped(tmp_path: Path) -> None:
    good = [row("tr", n) for n in range(20)]
    leaks = [
        ("bu bir metin", row("fr", 9001)[1].upper() + "!"),  # an English test line of another pair
        ("bu iki metin", row("tr", 8002)[1]),
        (row("tr", 9003)[0], "that is another translation"),
    ]
    with hub({"tr": files_of("tr", "train", [[*leaks, *good]])}) as url:
        out = build(tmp_path / "out", url, sizes={**SIZES, "tr": 20})
    assert json.loads((out / "report.json").read_text("utf-8"))["pairs"]["tr-en"]["counts"]["held out"] == 3
    assert list(load_corpus(out).train["tr-en"]) == good


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_paper_and_scale_keeps_a_thousand() -> None:
    full = {"fr": 3_000_000, "de": 1_500_000, "zh": 400_000, "et": 80_000, "ro": 10_000, "tr": 5_000}
    assert full == wmt6.SIZES and sum(full.values()) == 4_995_000 and wmt6.scaled(1) == full
    assert list(wmt6.scaled(0.01).values()) == [30_000, 15_000, 4_000, 1_000, 1_000, 1_000]
    assert list(wmt6.scaled(0.5).values()) == [1_500_000, 750_000, 200_000, 40_000, 5_000, 2_500]
    assert list(wmt6.scaled(1e-9).values()) == [1_000] * 6
    for scale in (0, -1, 1.5, float("nan")):
        with pytest.raises(UserError, match=r"--scale .* above 0 and at most 1"):
            wmt6.scaled(scale)


def test_scale_never_asks_for_more_than_the_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wmt6.SIZES, "tr", 700)
    assert wmt6.scaled(0.01)["tr"] == 700


def test_further_groups_are_read_when_cleaning_leaves_too_few(tmp_path: Path) -> None:
    """Every second German row is blank: the first 46 rows hold 23 pairs, so more are read, never the same twice."""
    rows = [row("de", n) if n % 2 else ("", "the text") for n in range(120)]
    with hub({"de": files_of("de", "train", [rows[:60], rows[60:]])}) as url:
        out = build(tmp_path / "out", url)
        asked = Counter(part for part in ranges(url) if "de-en/train" in part[0])
    german = json.loads((out / "report.json").read_text("utf-8"))["pairs"]["de-en"]
    assert german["counts"]["train"] == 40 == len(load_corpus(out).train["de-en"])
    assert 8 <= german["row groups read"] <= 11 and max(asked.values()) == 1


def test_too_few_pairs_are_an_error_with_numbers(tmp_path: Path) -> None:
    rows = [row("et", n % 30) for n in range(50)]
    with hub({"et": files_of("et", "train", [rows])}) as url, pytest.raises(UserError) as caught:
        build(tmp_path / "out", url, sizes={**SIZES, "et": 31})
    assert "et-en: 30 different clean pairs in all 50 rows of wmt/wmt18, but 31 are wanted" in str(caught.value)
    assert "duplicate 20" in str(caught.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("sizes", [{"fr": 0}, {"xx": 5}, {"fr": 2.5}, {"fr": True}])
def test_impossible_sizes_are_refused(tmp_path: Path, sizes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"cannot be used\. Give whole numbers above 0 for fr, de, zh, et, ro, tr"):
        build(tmp_path / "out", "http://127.0.0.1:9", sizes=sizes)


# --- a Hub that misbehaves --------------------------------------------------------------------------------------------

SHARD = "fr-en/train-00001-of-00003.parquet"


def french(page: bytes | Page) -> dict[str, dict[str, bytes | Page]]:
    """The French training shards, with this page as the second."""
    return {"fr": {**files_of("fr", "train", shards("fr")), SHARD: page}}


GOOD = PLAIN["fr"][SHARD]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "message"),
    [
        (Page(GOOD, status=404), rf"{SHARD}: .* answers with status 404\. Check the name"),
        (Page(GOOD, status=503), rf"{SHARD}: .* answers with status 503\. Run the command again later"),
        (Page(b"<html>sign in</html>" * 99), rf"{SHARD} at .* is damaged"),
        (Page(GOOD, ranges=False, length=None, headers={"Content-Type": "text/html"}), r"we asked for .* bytes"),
        (Page(GOOD[:-1000]), rf"{SHARD} at .* is damaged"),
        (Page(GOOD[:4] + bytes(len(GOOD) // 2) + GOOD[4 + len(GOOD) // 2 :]), rf"{SHARD}.* is damaged"),
    ],
    ids=["404", "503", "html", "no ranges", "truncated", "zeros"],
)
def test_bad_shard_is_named(tmp_path: Path, page: Page, message: str) -> None:
    with hub(french(page)) as url, pytest.raises(UserError, match=message) as caught:
        build(tmp_path / "out", url, sizes={**SIZES, "fr": 500})
    assert "\n" not in str(caught.value) and not isinstance(caught.value, Offline)


@pytest.mark.slow
def test_connection_that_breaks_off_is_tried_again(built: Path, tmp_path: Path) -> None:
    with hub(french(Page(GOOD, cut=20, cuts=1))) as url:
        assert tree(build(tmp_path / "out", url)) == tree(built)


def test_missing_shard_and_missing_language_are_named(tmp_path: Path) -> None:
    two = files_of("fr", "train", shards("fr"))
    del two[SHARD]
    with hub({"fr": two}) as url, pytest.raises(UserError, match="2 of 3 shards of fr-en/train are there"):
        build(tmp_path / "a", url)
    other = {"tr": {"tr-en/train-00000-of-00001.parquet": parquet([row("tr", 1)], "tr", english="eng")}}
    with hub(other) as url, pytest.raises(UserError, match=r"translation\.en is missing"):
        build(tmp_path / "b", url)
    with hub({"fr": {"fr-en/train-0.txt": b""}}) as url, pytest.raises(UserError, match=r"no fr-en/train-\*\.parquet"):
        build(tmp_path / "c", url)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (Page(b"", status=404, headers={"X-Error-Code": "RepoNotFound"}), "status 404. Check the name and --revision"),
        (Page(b"", status=500), "answers with status 500. Run the command again later"),
        (Page(b"<html>sign in</html>"), "is damaged, or not such a file"),
        (Page(b'{"id": "wmt/wmt14", "sha": "x", "siblings": []}'), "holds no parquet file"),
    ],
    ids=["404", "500", "html", "empty"],
)
def test_bad_answer_about_a_data_set_is_said(tmp_path: Path, page: Page, message: str) -> None:
    with serve({"api/datasets/wmt/wmt14/revision/main": page}) as url, pytest.raises(UserError, match=message):
        build(tmp_path / "out", url)


# --- without network --------------------------------------------------------------------------------------------------


def test_without_network_one_line_says_at_once_what_works(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    start = time.monotonic()
    assert wmt6.main(["--out", str(tmp_path / "out"), "--scale", "0.01"]) == 2
    assert time.monotonic() - start < 5
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "does not answer" in said and "python -m pmd_lite data catalogs6" in said


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "PMD_OFFLINE"])
def test_offline_variables_give_the_same_line_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", variable == "HF_HUB_OFFLINE")  # read at import
    with hub() as url:
        with pytest.raises(Offline, match=rf"{variable} forbids.*data catalogs6"):
            build(tmp_path / "out", url)
        assert url.requests == []


def test_network_lost_on_the_way_keeps_what_is_there(built: Path, tmp_path: Path) -> None:
    with hub() as url:
        url.pages[f"datasets/wmt/wmt18/resolve/{COMMIT}/et-en/train-00000-of-00001.parquet"].cut = 0
        with pytest.raises(Offline, match=r"et-en/train-00000-of-00001\.parquet cannot be read"):
            build(tmp_path / "out", url)
        url.pages[f"datasets/wmt/wmt18/resolve/{COMMIT}/et-en/train-00000-of-00001.parquet"].cut = None
        before = len(url.requests)
        assert tree(build(tmp_path / "out", url)) == tree(built)
        assert not [asked.path for asked in url.requests[before:] if "fr-en" in asked.path]


def test_missing_package_is_named_with_its_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pmd_corpora.wmt6_sampling")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pyarrow is missing\. Run: pip install .pmd_lite\[download\]"):
        build(tmp_path / "out", "http://127.0.0.1:9")


# --- command line -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_command_line_builds_with_the_endpoint_of_the_environment(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wmt6, "SIZES", SIZES)
    out = tmp_path / "out"
    with hub() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert wmt6.main(["--out", str(out), "--revision", "wmt14", COMMIT, "--work", str(tmp_path / "w")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n" and "| train | 120 | 40 |" in printed.err and "may be deleted now" in printed.err
    assert tree(out)["train.fr-en.tsv"] == tree(built)["train.fr-en.tsv"]
    assert wmt6.main(["--out", str(out), "--revision", "wmt99", "main"]) == 2
    assert "wmt99 is not used here" in capsys.readouterr().err
