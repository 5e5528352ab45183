"""Every way we know to damage a corpus gives one clear error with place and remedy; no such corpus loads or trains."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError

PAIRS, SPLITS = ("fr-en", "de-en"), ("train", "valid", "test")
SIZES = {"train": 12, "valid": 5, "test": 5}
REMEDY = re.compile(
    r"\b(Add|Build|Check|Choose|Correct|Did you mean|Fetch|Give|It is gzip data: add|Keep|Leave|Pack|Put|Remove|"
    r"Rename|Replace|Restore|Save|Split|Use|Use|Write)\b"
)
Files = dict[str, bytes]


def sides(split: str, pair: str) -> list[tuple[str, str]]:
    code = pair[:2]
    return [(f"« {code} {split} » numéro {i}", f"the {code} {split} number {i}") for i in range(SIZES[split])]


def good(form: str) -> Files:
    """The sound corpus: as .tsv, as .tsv.gz, or as plain files (bytes still unpacked)."""
    files: Files = {}
    for pair in PAIRS:
        for split in SPLITS:
            text = sides(split, pair)
            if form == "plain":
                for side, code in enumerate(pair.split("-")):
                    files[f"{split}.{pair}.{code}"] = "".join(f"{line[side]}\n" for line in text).encode()
            else:
                files[f"{split}.{pair}.{form}"] = "".join(f"{src}\t{trg}\n" for src, trg in text).encode()
    return files


def put(directory: Path, files: Files, packed: bool = True) -> Path:
    directory.mkdir(exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(gzip.compress(data, 1) if packed and name.endswith(".gz") else data)
    return directory


@dataclass(frozen=True)
class Case:
    """One spoiled corpus and what its error must name."""

    kind: str
    files: Files
    name: str  # of the file that the error must name
    line: int | None = None
    said: str = ""  # what the error must say besides
    packed: bool = True  # False: the bytes of .gz files are as they shall lie on the disk

    def __str__(self) -> str:
        return f"{self.kind} in {self.name}{f':{self.line}' if self.line else ''}".replace(" ", "_")


# What is done to the bytes of one side of a line; each works for .tsv and for plain files.
SIDE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "blank": (lambda side: b"", "blank"),
    "spaces": (lambda side: b"   ", "blank"),
    "ideographic spaces": (lambda side: "\u3000\u3000".encode(), "blank"),
    "no-break space": (lambda side: "\u00a0".encode(), "blank"),
    "zero-width": (lambda side: " \u200b\u2060".encode(), "blank"),
    "NUL": (lambda side: side[:3] + b"\0" + side[3:], r"U\+0000"),
    "escape": (lambda side: b"\x1b[1m" + side, r"U\+001B"),
    "vertical tab": (lambda side: side + b"\x0b", r"line separator U\+000B"),
    "form feed": (lambda side: side + b"\x0c", r"line separator U\+000C"),
    "file separator": (lambda side: side + b"\x1c", r"line separator U\+001C"),
    "delete": (lambda side: side + b"\x7f", r"U\+007F"),
    "next line": (lambda side: side + "\u0085x".encode(), r"line separator U\+0085"),
    "line separator": (lambda side: "\u2028".encode() + side, r"line separator U\+2028"),
    "paragraph separator": (lambda side: side + "\u2029".encode(), r"line separator U\+2029"),
    "C1 control": (lambda side: side + "\u0080".encode(), r"U\+0080"),
    "carriage return": (lambda side: side[:4] + b"\r" + side[4:], "carriage return"),
    "tab": (lambda side: side.replace(b" ", b"\t", 1), "tab"),
    "Latin-1": (lambda side: side + b"\xe9t\xe9", "0xe9, is not UTF-8"),
    "cut character": (lambda side: side + "é".encode()[:1], "0xc3, is not UTF-8"),
    "lone continuation": (lambda side: b"\x80" + side, "byte .* 0x80, is not UTF-8"),
    "overlong": (lambda side: side + b"\xc0\x80", "0xc0, is not UTF-8"),
    "surrogate": (lambda side: side + b"\xed\xa0\x80", "0xed, is not UTF-8"),
    "beyond Unicode": (lambda side: side + b"\xf5\x80\x80\x80", "0xf5, is not UTF-8"),
    "over-long": (lambda side: side + b" word" * 2_000, "over 10,000 characters"),
}
# What is done to a whole line of a .tsv file.
LINE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no tab": (lambda line: line.replace(b"\t", b" "), "one column"),
    "empty line": (lambda line: b"", "one column"),
    "three columns": (lambda line: line + b"\tscore", "3 columns"),
    "comma for tab": (lambda line: line.replace(b"\t", b","), "one column"),
    "line lost its end": (lambda line: line + b"\t" + line.replace(b"\t", b""), "3 columns"),
    "CRLF here only": (lambda line: line + b"\r", "carriage return"),
    "broken in two": (lambda line: line.replace(b"\t", b"\n"), "one column"),
    "blank line before": (lambda line: b"\n" + line, "one column"),
}
# What is done to all bytes of one file.
WHOLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty file": (lambda data: b"", "is empty"),
    "byte-order mark": (lambda data: b"\xef\xbb\xbf" + data, "BOM"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without mark": (lambda data: data.decode().encode("utf-16-le"), ""),
    "Latin-1 file": (lambda data: data.decode().encode("latin-1"), "0xab, is not UTF-8|one column"),
    "old Mac line ends": (lambda data: data.replace(b"\n", b"\r"), "carriage return"),
    "binary": (lambda data: bytes(range(256)) * 4, ""),
    "zeros": (lambda data: bytes(4096), ""),
    "only a line end": (lambda data: b"\n", ""),
    "blank last line": (lambda data: data + b"\n", ""),
    "comment on top": (lambda data: b"# corpus\n" + data, ""),
    "HTML of an error page": (lambda data: b"<!DOCTYPE html>\n<h1>404</h1>\n", ""),
}


def line_cases() -> Iterator[Case]:
    """Kind x form x side; split, pair and line take turns so that every combination of two occurs."""
    turns = cycle((pair, split, place) for place in (0, 2, -1) for split in SPLITS for pair in PAIRS)
    for form in ("tsv", "tsv.gz", "plain"):
        for which in (0, 1):
            for kind, (spoil, said) in SIDE.items():
                for pair, split, place in (next(turns), next(turns)):
                    files, text = good(form), sides(split, pair)
                    number = place % len(text)
                    name = f"{split}.{pair}.{pair.split('-')[which] if form == 'plain' else form}"
                    lines = files[name].split(b"\n")
                    parts = lines[number].split(b"\t")
                    at = which if len(parts) == 2 else 0
                    parts[at] = spoil(parts[at])
                    lines[number] = b"\t".join(parts)
                    files[name] = b"\n".join(lines)
                    said_here = "columns|tab" if kind == "tab" else said
                    yield Case(f"{kind} ({'trg' if which else 'src'})", files, name, number + 1, said_here)
    for form in ("tsv", "tsv.gz"):
        for kind, (spoil, said) in LINE.items():
            for pair, split, place in (next(turns), next(turns), next(turns)):
                files = good(form)
                name = f"{split}.{pair}.{form}"
                lines = files[name].split(b"\n")
                number = place % (len(lines) - 1)
                lines[number] = spoil(lines[number])
                files[name] = b"\n".join(lines)
                yield Case(kind, files, name, number + 1, said)


def file_cases() -> Iterator[Case]:
    """Whole files that are damaged, missing, doubled, misnamed, cut off or of unequal length."""
    places = [(split, pair) for split in SPLITS for pair in PAIRS]
    turns = cycle(places)
    for form in ("tsv", "tsv.gz", "plain"):
        for kind, (spoil, said) in WHOLE.items():
            if form == "plain" and kind in ("only a line end", "comment on top", "HTML of an error page"):
                continue  # there the line counts differ: see below
            split, pair = next(turns)
            files = good(form)
            name = f"{split}.{pair}.{pair[:2] if form == 'plain' else form}"
            files[name] = spoil(files[name])
            if form == "plain" and kind in ("old Mac line ends", "binary", "zeros", "blank last line"):
                said = "lines and"
            yield Case(kind, files, name, None, said)
    for split, pair in places:
        base = f"{split}.{pair}"
        src, trg = pair.split("-")
        for form in ("tsv", "tsv.gz"):
            files, said = without(good(form), f"{base}.{form}"), f"no {split} split for {pair}"
            yield Case("missing", files, f"{base}.tsv", None, said)
        for side in (src, trg):
            yield Case("missing side", without(good("plain"), f"{base}.{side}"), f"{base}.{side}", None, "is missing")
        plain = good("plain")
        text = plain[f"{base}.{trg}"]
        cut = plain | {f"{base}.{trg}": text[: text.rindex(b"\n", 0, -1) + 1]}
        yield Case("one line short", cut, f"{base}.{trg}", None, r"has \d+ lines and")
        yield Case("one line more", plain | {f"{base}.{trg}": text + b"more\n"}, f"{base}.{trg}", None, "lines and")
        double = good("tsv") | {f"{base}.tsv.gz": good("tsv")[f"{base}.tsv"]}
        yield Case("tsv and gz", double, f"{base}.tsv.gz", None, "twice")
        both = good("tsv") | {name: data for name, data in plain.items() if name.startswith(base)}
        yield Case("tsv and plain", both, f"{base}.{src}", None, "twice")
        packed = {name: gzip.compress(data, 1) for name, data in good("tsv.gz").items()}
        name = f"{base}.tsv.gz"
        yield Case("cut gz", packed | {name: packed[name][:-9]}, name, None, "cut off", packed=False)
        yield Case("cut gz header", packed | {name: packed[name][:5]}, name, None, "cut off", packed=False)
        yield Case("not gz", packed | {name: good("tsv.gz")[name]}, name, None, "not valid gzip", packed=False)
        checksum = packed | {name: packed[name][:-8] + bytes(8)}
        yield Case("gz checksum", checksum, name, None, "not valid gzip", packed=False)
        yield Case("empty gz", packed | {name: b""}, name, None, "is empty", packed=False)
        yield Case("gz named tsv", good("tsv") | {f"{base}.tsv": packed[name]}, f"{base}.tsv", 1, "gzip data: add .gz")
        names = {f"{base.upper()}.tsv": "", f"dev.{pair}.tsv": "dev", f"{split}.{pair.upper()}.tsv": "unknown language"}
        names |= {f"{split}.{src}{trg}.tsv": "unknown language", f"{split}.en-en.tsv": "same language twice"}
        names |= {f"{split}.{src}_{trg}.tsv": "unknown language", f"{split}.french-en.tsv": "'french'"}
        for wrong, said in names.items():
            files = good("tsv")
            files[wrong] = files.pop(f"{base}.tsv")
            yield Case("misnamed", files, wrong, None, said)
        leaking = good("tsv")
        if split != "train":
            continue
        test_lines = leaking[f"test.{pair}.tsv"].split(b"\n")
        lines = leaking[f"train.{pair}.tsv"].split(b"\n")
        lines[7] = test_lines[2]
        leaking[f"train.{pair}.tsv"] = b"\n".join(lines)
        yield Case("test pair in train", leaking, f"train.{pair}.tsv", 8, f"test.{pair}.tsv:3.*allow_leakage")


def without(files: Files, name: str) -> Files:
    return {key: data for key, data in files.items() if key != name}


CASES = [*line_cases(), *file_cases()]


def error_of(directory: Path) -> str:
    """The error that loading gives; if it is not a UserError, or if there is no error, the test fails."""
    with pytest.raises(UserError) as caught:
        load_corpus(directory)
    message = str(caught.value)
    assert REMEDY.search(message), f"no remedy in: {message}"
    assert "\n" not in message and len(message) < 500 + 3 * len(str(directory))
    return message


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "plain"])
def test_the_sound_corpus_loads(form: str, tmp_path: Path) -> None:
    corpus = load_corpus(put(tmp_path / "c", good(form)))
    assert corpus.sizes == [12, 12] and corpus.warnings == ()


def test_the_cases_are_many_and_different() -> None:
    assert len({tuple(sorted(case.files.items())) for case in CASES}) == len(CASES) >= 200
    assert len({case.kind for case in CASES}) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_spoiled_corpus_gives_one_clear_error(case: Case, tmp_path: Path) -> None:
    message = error_of(put(tmp_path / "c", case.files, case.packed))
    assert re.search(rf"{re.escape(case.name)}\b", message), message
    if case.line:
        assert f"{case.name}:{case.line}:" in message, message
    assert re.search(case.said, message), message


def spoil_manifest(edit: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        manifest = json.loads(data)
        edit(manifest)
        return json.dumps(manifest).encode()

    return spoil


def spoil_entry(name: str = "train.fr-en.tsv", **entry: object) -> Callable[[bytes], bytes]:
    return spoil_manifest(lambda manifest: manifest.update(files={name: entry}))


MANIFESTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "not valid JSON"),
    "cut": (lambda data: data[: len(data) // 2], "not valid JSON"),
    "trailing comma": (lambda data: data.replace(b"\n}", b",\n}"), r"corpus\.json .*not valid JSON.*line \d+"),
    "Latin-1": (lambda data: data.replace(b'"name": "', b'"name": "\xe9'), "not valid JSON"),
    "byte-order mark": (lambda data: b"\xef\xbb\xbf" + data, "not valid JSON"),
    "deep": (lambda data: b"[" * 100_000, "recursion"),
    "a list": (lambda data: b"[]", "it is not an object"),
    "a number": (lambda data: b"3", "it is not an object"),
    "name no text": (spoil_manifest(lambda m: m.update(name=3)), r"it\.name is not a text"),
    "licence null": (spoil_manifest(lambda m: m.update(licence=None)), r"it\.licence is not a text"),
    "source a list": (spoil_manifest(lambda m: m.update(source=["a"])), r"it\.source is not a text"),
    "pairs a text": (spoil_manifest(lambda m: m.update(pairs="fr-en")), r"it\.pairs is not a list"),
    "pairs numbers": (spoil_manifest(lambda m: m.update(pairs=[1])), "an entry of it.pairs is not a text"),
    "pair twice": (spoil_manifest(lambda m: m.update(pairs=["fr-en", "de-en", "fr-en"])), '"pairs" names one twice'),
    "pair unlisted": (spoil_manifest(lambda m: m.update(pairs=["fr-en"])), '"pairs" lacks de-en'),
    "pair absent": (spoil_manifest(lambda m: m.update(pairs=["fr-en", "de-en", "et-en"])), r"et-en\.tsv is missing"),
    "pair misspelt": (spoil_manifest(lambda m: m.update(pairs=["fr-en", "DE-en"])), "unknown language 'DE'"),
    "pair of one": (spoil_manifest(lambda m: m.update(pairs=["fr-en", "en-en"])), "same language twice"),
    "files a list": (spoil_manifest(lambda m: m.update(files=[])), r"it\.files is not an object"),
    "entry no object": (spoil_manifest(lambda m: m.update(files={"a.tsv": 12})), r"it\.files\.a\.tsv is not an object"),
    "lines a text": (spoil_entry(lines="12", sha256=""), r"\.lines is not a whole number"),
    "lines a truth value": (spoil_entry(lines=True, sha256=""), r"\.lines is not a whole number"),
    "no sha256": (spoil_entry(lines=12), "lacks 'sha256'"),
    "wrong lines": (spoil_entry(lines=13, sha256="0"), r"train\.fr-en\.tsv has 12 lines; .* says 13"),
    "wrong sha256": (spoil_entry(lines=12, sha256="0"), r"train\.fr-en\.tsv does not have the sha256 .* was changed"),
    "file unknown": (spoil_entry("dev.fr-en.tsv", lines=5, sha256="0"), r'"files" names dev\.fr-en\.tsv'),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_spoiled_manifest_gives_one_clear_error(kind: str, tmp_path: Path) -> None:
    texts = {pair: {split: sides(split, pair) for split in SPLITS} for pair in PAIRS}
    out = write_corpus(texts, tmp_path / "c")
    spoil, said = MANIFESTS[kind]
    (out / "corpus.json").write_bytes(spoil((out / "corpus.json").read_bytes()))
    message = error_of(out)
    assert re.search(said, message), message
    assert "corpus.json" in message or kind == "pair absent"


@pytest.mark.parametrize("split", SPLITS)
def test_text_changed_since_it_was_written_is_noticed(split: str, tmp_path: Path) -> None:
    texts = {pair: {split: sides(split, pair) for split in SPLITS} for pair in PAIRS}
    file = write_corpus(texts, tmp_path / "c") / f"{split}.de-en.tsv"
    data = file.read_bytes()
    file.write_bytes(data.replace(b"number 1", b"number 7", 1))
    assert re.search(rf"{split}\.de-en\.tsv does not have the sha256 in .*corpus\.json", error_of(tmp_path / "c"))
    file.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    assert re.search(rf"{split}\.de-en\.tsv has \d+ lines; .*corpus\.json says \d+", error_of(tmp_path / "c"))
    file.write_bytes(data)
    assert load_corpus(tmp_path / "c").sizes == [12, 12]


def test_directories_that_are_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "tatoeba6_easy").mkdir()
    near = error_of(tmp_path / "tatoeba_easy")
    assert re.search(r"tatoeba_easy does not exist\. Did you mean .*tatoeba6_easy\?", near)
    assert "does not exist. Build" in error_of(tmp_path / "nothing" / "like it")
    empty = error_of(tmp_path / "tatoeba6_easy")
    assert re.search(r"has no corpus file \(it is empty\)\. Add files with the names .*train\.fr-en\.tsv", empty)
    put(tmp_path / "notes", {"README.md": b"hello", "train.log": b"step 1"})
    assert re.search(r"has no corpus file \(README\.md, train\.log\)", error_of(tmp_path / "notes"))
    assert re.search(r"README\.md is a file\. Give the directory", error_of(tmp_path / "notes" / "README.md"))
    put(tmp_path / "two", {f"{split}.{code}": b"a\n" for split in SPLITS for code in ("fr", "de")})
    assert re.search(r"do not say which language is the source\. Rename", error_of(tmp_path / "two"))
    files = {f"{split}.{code}": f"{split} {code}\n".encode() for split in SPLITS for code in ("fr", "en")}
    put(tmp_path / "short", without(files, "valid.en"))
    assert re.search(r"valid\.en is missing", error_of(tmp_path / "short"))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    form=st.sampled_from(["tsv", "tsv.gz", "plain"]),
    manifest=st.booleans(),
    strict=st.booleans(),
    which=st.integers(0, 99),
    place=st.integers(0, 999),
    byte=st.one_of(st.sampled_from(list(b"\n\r\t \x00\xc2\xe2\xff")), st.integers(0, 255)),
    how=st.sampled_from(["replace", "insert", "delete", "cut"]),
)
def test_random_damage_loads_as_many_lines_or_is_a_user_error(
    tmp_path_factory: pytest.TempPathFactory,
    form: str, manifest: bool, strict: bool, which: int, place: int, byte: int, how: str,
) -> None:  # fmt: skip
    directory = tmp_path_factory.mktemp("damage") / "c"
    if manifest:
        write_corpus({pair: {split: sides(split, pair) for split in SPLITS} for pair in PAIRS}, directory)
    else:
        put(directory, good(form))
    names = sorted(path.name for path in directory.iterdir())
    file = directory / names[which % len(names)]
    data = file.read_bytes()
    at = place * len(data) // 1000
    tail = {"replace": bytes([byte]) + data[at + 1 :], "insert": bytes([byte]) + data[at:], "delete": data[at + 1 :]}
    file.write_bytes(data[:at] + tail.get(how, b""))
    try:
        corpus = load_corpus(directory, strict=strict)
    except UserError as error:
        assert REMEDY.search(str(error))
        return
    for split in SPLITS:
        for pair in corpus.pairs:
            text = getattr(corpus, split)[pair]
            assert len(text) == len(list(text)) <= SIZES[split] + (1 if how != "cut" else 0)
            if strict and how != "cut":
                assert len(text) == SIZES[split]
            assert all(src.strip() and trg.strip() for src, trg in text)
