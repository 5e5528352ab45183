"""What a Corpus promises: the same text from each form on disk, decoded late, checked across splits, written safely."""

from __future__ import annotations

import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.data.reading import Flat, ParallelText
from pmd_lite.errors import UserError

Texts = dict[str, dict[str, list[tuple[str, str]]]]
FOREIGN = {"fr": "la maison numéro", "de": "das Haus Nummer", "zh": "第 房子"}


def sample() -> Texts:
    """Three pairs into English with 9, 6 and 6 training pairs and no sentence in two places."""
    sizes = {"fr-en": (9, 2, 2), "de-en": (6, 2, 2), "zh-en": (6, 2, 2)}
    return {
        pair: {
            split: [
                (f"{FOREIGN[pair[:2]]} {split} {i}", f"the house number {pair[:2]} {split} {i}") for i in range(size)
            ]
            for split, size in zip(("train", "valid", "test"), sizes[pair], strict=True)
        }
        for pair in sizes
    }


def as_tsv(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{src}\t{trg}\n" for src, trg in pairs).encode()


def column(pairs: list[tuple[str, str]], side: int) -> bytes:
    return "".join(f"{pair[side]}\n" for pair in pairs).encode()


def put(directory: Path, files: dict[str, bytes]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return directory


Form = Callable[[str, str, list[tuple[str, str]]], dict[str, bytes]]
FORMS: dict[str, Form] = {
    "tsv": lambda split, pair, text: {f"{split}.{pair}.tsv": as_tsv(text)},
    "tsv.gz": lambda split, pair, text: {f"{split}.{pair}.tsv.gz": as_tsv(text)},
    "crlf": lambda split, pair, text: {f"{split}.{pair}.tsv": as_tsv(text).replace(b"\n", b"\r\n")},
    "no last line end": lambda split, pair, text: {f"{split}.{pair}.tsv": as_tsv(text)[:-1]},
    "plain": lambda split, pair, text: {f"{split}.{pair}.{pair.split('-')[s]}": column(text, s) for s in (0, 1)},
    "plain.gz": lambda split, pair, text: {f"{split}.{pair}.{pair.split('-')[s]}.gz": column(text, s) for s in (0, 1)},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_corpus(form: str, tmp_path: Path) -> None:
    texts = sample()
    for pair, splits in texts.items():
        for split, text in splits.items():
            put(tmp_path / "c", FORMS[form](split, pair, text))
    corpus = load_corpus(tmp_path / "c")
    for pair, splits in texts.items():
        for split, text in splits.items():
            assert list(getattr(corpus, split)[pair]) == text
    assert corpus.fingerprint == Corpus.from_texts("other name", texts).fingerprint
    mended = {"crlf": "CRLF", "no last line end": "no line end"}.get(form)
    assert len(corpus.warnings) == (9 if mended else 0)
    assert all(mended and mended in warning for warning in corpus.warnings)


def test_short_plain_names_pair_each_language_with_english(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        files = {f"{split}.{code}": f"{code} {split} un\n{code} {split} deux\n".encode() for code in ("fr", "de", "en")}
        put(tmp_path, files)
    corpus = load_corpus(tmp_path, allow_leakage=True)
    assert set(corpus.pairs) == {"fr-en", "de-en"}
    assert list(corpus.test["de-en"]) == [("de test un", "en test un"), ("de test deux", "en test deux")]


def test_order_sizes_languages_direction(tmp_path: Path) -> None:
    texts = sample()
    corpus = Corpus.from_texts("c", {pair: texts[pair] for pair in ("zh-en", "de-en", "fr-en")})
    assert corpus.pairs == ("fr-en", "de-en", "zh-en")  # 9, then 6 and 6 by name
    assert corpus.sizes == [9, 6, 6]
    assert corpus.languages == ("de", "en", "fr", "zh")
    assert corpus.direction == "m2o" and corpus.reversed().direction == "o2m"
    mixed = Corpus.from_texts("c", {"fr-en": texts["fr-en"], "en-de": texts["de-en"]}, allow_leakage=True)
    assert mixed.direction == "m2m"
    assert Corpus.from_texts("c", {"en-zh": texts["zh-en"]}).direction == "m2o"
    out = write_corpus(corpus, tmp_path / "c")
    manifest = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    manifest["pairs"] = ["zh-en", "fr-en", "de-en"]
    (out / "corpus.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert load_corpus(out).sizes == [6, 9, 6]
    assert load_corpus(out).fingerprint == corpus.fingerprint


def test_reversed_is_the_corpus_of_the_exchanged_sides() -> None:
    texts = sample()
    corpus = Corpus.from_texts("c", texts)
    turned: Texts = {
        "-".join(pair.split("-")[::-1]): {split: [(t, s) for s, t in text] for split, text in splits.items()}
        for pair, splits in texts.items()
    }
    assert corpus.reversed().pairs == ("en-fr", "en-de", "en-zh")
    assert list(corpus.reversed().train["en-de"]) == turned["en-de"]["train"]
    assert corpus.reversed().fingerprint == Corpus.from_texts("c", turned).fingerprint != corpus.fingerprint
    assert corpus.reversed().reversed().fingerprint == corpus.fingerprint


def test_fingerprint_sees_every_text_and_name() -> None:
    seen = {Corpus.from_texts("c", sample()).fingerprint}
    for split in ("train", "valid", "test"):
        texts = sample()
        texts["de-en"][split][-1] = ("das Haus", "the hause")
        seen.add(Corpus.from_texts("c", texts).fingerprint)
    texts = sample()
    texts["da-en"] = texts.pop("de-en")  # the same place in the alphabetical order
    seen.add(Corpus.from_texts("c", texts).fingerprint)
    assert len(seen) == 5


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_parallel_text_is_a_sequence(data: st.DataObject) -> None:
    word = st.text(st.characters(codec="utf-8", categories=["L", "N", "S", "P"]), max_size=5)
    pairs = data.draw(st.lists(st.tuples(word, word), min_size=1, max_size=8))
    text = ParallelText(Flat("x.tsv", as_tsv(pairs)))
    assert len(text) == len(pairs) and list(text) == pairs
    assert [text[i] for i in range(-len(pairs), len(pairs))] == pairs + pairs
    for bad in (len(pairs), -len(pairs) - 1):
        with pytest.raises(IndexError):
            text[bad]
    cut = data.draw(st.slices(len(pairs)))
    assert list(text[cut]) == pairs[cut]
    assert b"".join(text[cut].raw()) == as_tsv(pairs[cut])
    assert list(text[cut].swap()) == [(trg, src) for src, trg in pairs[cut]]
    assert list(text.swap().swap()) == pairs
    assert text.sha256 == hashlib.sha256(as_tsv(pairs)).hexdigest()
    assert text.swap().sha256 == hashlib.sha256(as_tsv([(t, s) for s, t in pairs])).hexdigest()
    src, trg = text.side_hashes()
    sides = [s for s, _ in pairs] + [t for _, t in pairs]
    hashes = [*src.tolist(), *trg.tolist()]
    assert [sides.index(side) for side in sides] == [hashes.index(number) for number in hashes]


def test_no_python_object_per_sentence(tmp_path: Path) -> None:
    lines = 30_000
    big = [(f"phrase source {i}", f"target phrase {i}") for i in range(lines)]
    held = [(f"autre {i}", f"other {i}") for i in range(3)]
    texts = {"train": big, "valid": held[:1], "test": held[1:]}
    put(tmp_path, {f"{split}.fr-en.tsv": as_tsv(text) for split, text in texts.items()})
    load_corpus(tmp_path)  # imports and caches of the first call do not count
    tracemalloc.start()
    try:
        corpus = load_corpus(tmp_path)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert corpus.train["fr-en"][29_999] == big[-1]
    itself = (tmp_path / "train.fr-en.tsv").stat().st_size  # a text of less than 8 MB is kept in memory
    assert kept < itself + 40 * lines  # three int64 a line are 24 bytes; two str objects would be about 140


visible = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029\ufeff")
sentence = st.builds(lambda a, b: f"{a}x{b}", st.text(visible, max_size=12), st.text(visible, max_size=12))
part = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=5)
splits = st.fixed_dictionaries({"train": part, "valid": part, "test": part})


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["fr-en", "zh_CN-en", "en-mkd"]), splits, min_size=1))
def test_write_then_load_gives_the_text_back(tmp_path_factory: pytest.TempPathFactory, texts: Texts) -> None:
    corpus = Corpus.from_texts("naïve", texts, licence="CC0", source="a “test”", allow_leakage=True)
    out = write_corpus(corpus, tmp_path_factory.mktemp("w") / "c")
    again = load_corpus(out, allow_leakage=True)
    for pair in texts:
        for split in ("train", "valid", "test"):
            assert list(getattr(again, split)[pair]) == texts[pair][split]
    same = ("name", "pairs", "licence", "source", "fingerprint", "sizes")
    assert [getattr(again, key) for key in same] == [getattr(corpus, key) for key in same]
    assert again.path == out


def test_manifest_says_what_sha256sum_and_wc_say(tmp_path: Path) -> None:
    out = write_corpus(sample(), tmp_path / "deep" / "c", licence="CC0", source="here")
    manifest = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["licence"], manifest["source"]) == ("c", "CC0", "here")
    names = {path.name for path in out.iterdir()} - {"corpus.json"}
    assert names == set(manifest["files"]) and len(names) == 9
    for name in names:
        data = (out / name).read_bytes()
        assert manifest["files"][name] == {"lines": data.count(b"\n"), "sha256": hashlib.sha256(data).hexdigest()}


def test_lenient_reading_drops_bad_lines_and_keeps_their_numbers(tmp_path: Path) -> None:
    good = sample()["fr-en"]
    lines = as_tsv(good["train"]).split(b"\n")
    lines[1] = "\u3000\u200b\tblank to the eye".encode()
    lines[4] = lines[5] = b"no tab"
    lines[6], lines[7] = b"sep\xe2\x80\xa8\tarator", b"x" * 10_001 + b"\tlong"
    held = {f"{split}.fr-en.tsv": as_tsv(good[split]) for split in ("valid", "test")}
    put(tmp_path, held | {"train.fr-en.tsv": b"\n".join(lines)})
    with pytest.raises(UserError, match=r"train\.fr-en\.tsv:2: the source side is blank.* 4 more unsound"):
        load_corpus(tmp_path)
    corpus = load_corpus(tmp_path, strict=False)
    kept = [0, 2, 3, 8]
    assert list(corpus.train["fr-en"]) == [good["train"][i] for i in kept]
    text = corpus.train["fr-en"]
    assert [text.where(i).rpartition(":")[2] for i in range(4)] == ["1", "3", "4", "9"]
    assert text[2:].where(0).endswith("train.fr-en.tsv:4")
    assert [int(warning.rpartition("(")[2].split()[0]) for warning in corpus.warnings] == [1, 2, 1, 1]  # by kind
    assert corpus.sizes == [4]


def test_lenient_reading_drops_the_same_line_of_both_plain_files(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        sources, targets = [f"s{i} {split}" for i in range(5)], [f"t{i} {split}" for i in range(5)]
        sources[1], targets[3] = " ", "\u00a0"
        for code, side in (("fr", sources), ("en", targets)):
            put(tmp_path, {f"{split}.fr-en.{code}": "\n".join(side).encode()})
    text = load_corpus(tmp_path, strict=False).test["fr-en"]
    assert list(text) == [(f"s{i} test", f"t{i} test") for i in (0, 2, 4)]
    assert text.where(1).endswith("test.fr-en.fr:3")


def test_longest_side_is_counted_in_characters() -> None:
    texts = sample()
    texts["zh-en"]["train"][2] = ("字" * 10_000, "three bytes each")
    Corpus.from_texts("c", texts)
    texts["zh-en"]["train"][2] = ("字" * 10_001, "three bytes each")
    with pytest.raises(UserError, match=r"train\.zh-en \(in memory\):3: the source side has over 10,000"):
        Corpus.from_texts("c", texts)


def test_test_pairs_in_train_stop_the_run_unless_allowed() -> None:
    texts = sample()
    texts["fr-en"]["train"][2] = texts["fr-en"]["test"][1]
    where = r"train\.fr-en \(in memory\):3: 1 training .*test\.fr-en \(in memory\):2.*allow_leakage"
    with pytest.raises(UserError, match=where):
        Corpus.from_texts("c", texts)
    corpus = Corpus.from_texts("c", texts, allow_leakage=True)
    assert any("test pairs too" in warning for warning in corpus.warnings)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("fr", "valid", (0, 1)), "1 training pairs are in valid.fr-en"),
        (("fr", "valid", (0, None)), "1 training sources are in its valid or test"),
        (("fr", "test", (0, None)), "1 training sources are in its valid or test"),
        (("de", "test", (None, 1)), "1 training targets are in the test set of some pair"),
        (("fr", "test", (None, 1)), "1 training targets are in the test set of some pair"),
        (("de", "test", (0, None)), None),  # another language: a chance likeness, no leak
        (("de", "valid", (None, 1)), None),  # only the pair's own valid counts
    ],
)
def test_leaks_are_told_with_their_line(line: tuple[str, str, tuple[int | None, int | None]], said: str | None) -> None:
    texts = sample()
    code, split, (src, trg) = line
    there = texts[f"{code}-en"][split][0]
    texts["fr-en"]["train"][4] = ("une autre" if src is None else there[0], "another" if trg is None else there[1])
    found = [warning for warning in Corpus.from_texts("c", texts).warnings if said and said in warning]
    assert len(found) == (1 if said else 0)
    assert all(warning.startswith("train.fr-en (in memory):5: ") for warning in found)
    if said is None:
        assert Corpus.from_texts("c", texts).warnings == ()


def test_repeated_pairs_are_counted_with_examples() -> None:
    texts = sample()
    train = texts["de-en"]["train"]
    train[1] = train[3] = train[4] = train[0]
    train[5] = (train[0][0], "another translation is not a repetition")
    (warning,) = Corpus.from_texts("c", texts).warnings
    assert warning.startswith("train.de-en (in memory):2, :4, :5: 3 of 6 training pairs repeat")


def test_copied_text_is_told() -> None:
    texts = sample()
    for count, told in ((3, False), (4, True)):
        texts["de-en"]["train"][:count] = [(f"word {i}", f"word {i}") for i in range(count)]
        assert any("two equal sides" in warning for warning in Corpus.from_texts("c", texts).warnings) == told


@pytest.mark.parametrize("direction", ["m2o", "o2m"])
def test_a_pair_turned_round_is_told(direction: str) -> None:
    texts = sample()
    texts["de-en"] = {split: [(trg, src) for src, trg in text] for split, text in texts["de-en"].items()}
    for split, own in (("train", "Zug"), ("valid", "gültig"), ("test", "Probe")):  # the German side shares only numbers
        text = texts["de-en"][split]
        text[:] = [(src, f"das Haus {own} Nummer x{i}") for i, (src, _) in enumerate(text)]
    if direction == "o2m":
        texts = {f"en-{p[:2]}": {s: [(b, a) for a, b in t] for s, t in splits.items()} for p, splits in texts.items()}
    (warning,) = Corpus.from_texts("c", texts).warnings
    name, ordinal = ("de-en", "first") if direction == "m2o" else ("en-de", "second")
    assert warning.startswith(f"train.{name} (in memory): sides exchanged? Here its {ordinal} column")


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a\nb", "c")), r"train\.fr-en \(in memory\):4: a line end"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a\tb", "c")), r"train\.fr-en \(in memory\):4: 3 columns"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a\u2028b", "c")), r"in memory\):4: the line separator U\+2028"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a", "\ud800")), r"in memory\):4: half a surrogate pair"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a", " ")), r"in memory\):4: the target side is blank"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, "ab"), r"in memory\):4: 'ab' is not a pair of texts"),
        (lambda t: t["fr-en"]["train"].__setitem__(3, ("a", 5)), r"in memory\):4: .* is not a pair of texts"),
        (lambda t: t["fr-en"]["valid"].clear(), r"valid\.fr-en \(in memory\) is empty"),
        (lambda t: t["fr-en"].pop("test"), r"fr-en has the splits .*Give exactly train, valid and test"),
        (lambda t: t["fr-en"].update(dev=[("a", "b")]), r"fr-en has the splits"),
        (lambda t: t.update({"FR-en": t.pop("fr-en")}), r"unknown language 'FR'"),
        (lambda t: t.update({"en-en": t.pop("fr-en")}), r"same language twice"),
        (lambda t: t.clear(), r"there are no pairs"),
    ],
)
def test_texts_in_memory_meet_the_same_checks(break_it: Callable[[Texts], object], said: str) -> None:
    texts = sample()
    break_it(texts)
    with pytest.raises(UserError, match=said):
        Corpus.from_texts("c", texts)


def test_writing_never_destroys_what_it_should_not(tmp_path: Path) -> None:
    first, second = sample(), sample()
    second["fr-en"]["train"].append(("une de plus", "one more"))
    out = write_corpus(first, tmp_path / "c")
    assert write_corpus(first, out, licence="CC0") == out  # the same text: fine
    assert load_corpus(out).licence == "CC0"
    with pytest.raises(UserError, match="overwrite=True"):
        write_corpus(second, out)
    assert load_corpus(out).sizes == [9, 6, 6]
    write_corpus(second, out, overwrite=True)
    assert load_corpus(out).sizes == [10, 6, 6]
    (out / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        write_corpus(first, out, overwrite=True)
    assert (out / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    with pytest.raises(UserError, match="is a file"):
        write_corpus(first, out / "thesis.txt", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert load_corpus(write_corpus(first, tmp_path / "empty")).sizes == [9, 6, 6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "empty"]  # no temporary directory is left


@pytest.mark.parametrize("what", ["os.fsync", "Path.rename"])
def test_a_failed_write_leaves_the_old_corpus(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write_corpus(sample(), tmp_path / "c")
    before = load_corpus(out).fingerprint
    other = sample()
    other["zh-en"]["test"].append(("多", "more"))
    rename = Path.rename

    def fail(given: int | Path, *rest: Path) -> Path:
        if isinstance(given, Path) and given.suffix != ".part":
            return rename(given, *rest)  # the old corpus may be moved out of the way ...
        raise OSError(28, "No space left on device")  # ... but the new one cannot take its place

    monkeypatch.setattr(f"pmd_lite.disk.{what}", fail)
    with pytest.raises(UserError, match="No space left"):
        write_corpus(other, out, overwrite=True)
    monkeypatch.undo()
    assert load_corpus(out).fingerprint == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
