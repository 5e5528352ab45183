"""Data sets of the Hub by name, and directories of mtdata: stand-ins here of the exact forms."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pmd_corpora import hub, mtdata
from pmd_corpora.assembling import Making
from pmd_lite.cli.arguments import main
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.errors import UserError
from tests.local_server import Page, serve

Rows = Sequence[tuple[str, str]]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def rows(code: str, count: int, first: int = 0) -> list[tuple[str, str]]:
    """Invented sentences, no two of them alike in more than numbers."""
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"]
    names = [" ".join(words[int(digit)] for digit in str(number)) for number in range(first, first + count)]
    return [(f"{code} {name} {code}", f"the {name} one") for name in names]


# --- the Hub ----------------------------------------------------------------------------------------------------------


def parquet(of: Rows, codes: tuple[str, str] = ("fr", "en"), nested: bool = True) -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [dict(zip(codes, row, strict=True)) for row in of]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{"translation": row} for row in columns] if nested else columns), out)
    return out.getvalue()


def pages(files: Mapping[str, bytes], name: str = "somebody/opus") -> dict[str, bytes | Page]:
    """What the Hub answers about one data set."""
    siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
    about = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()
    page = Page(about, headers={"Content-Type": "application/json"})
    return {**{f"api/datasets/{name}/revision/{revision}": page for revision in ("main", COMMIT)},
            **{f"datasets/{name}/resolve/{COMMIT}/{path}": data for path, data in files.items()}}  # fmt: skip


def test_a_data_set_is_built_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shards, splits of its own, the configuration named the other way round; one training pair is a test pair."""
    pytest.importorskip("huggingface_hub")
    train, valid, test = rows("fr", 30), rows("fr", 4, 100), rows("fr", 5, 200)
    files = {
        "en-fr/train-00000-of-00002.parquet": parquet([*train[:20], test[0]]),
        "en-fr/train-00001-of-00002.parquet": parquet([*train[20:], train[0]]),
        "en-fr/validation-00000-of-00001.parquet": parquet(valid), "en-fr/test-00000-of-00001.parquet": parquet(test),
        "de-en/train-00000-of-00001.parquet": parquet(rows("de", 50, 300), ("de", "en")),
    }  # fmt: skip
    with serve(pages(files)) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        words = ["--pairs", "fr-en", "de-en", "--valid", "3", "--test", "3", "--out", str(tmp_path / "out")]
        assert main(["data", "hub", "somebody/opus", *words]) == 0
        part = load_corpus(hub.build(tmp_path / "part", "somebody/opus", pairs=["fr-en"], most=7, endpoint=url))
        with pytest.raises(UserError, match=r"no training text of tr-en.*Its configurations: de-en, en-fr"):
            hub.build(tmp_path / "no", "somebody/opus", pairs=["tr-en"], endpoint=url)
    corpus = load_corpus(tmp_path / "out")
    assert list(corpus.train["fr-en"]) == train and list(corpus.test["fr-en"]) == test
    assert list(corpus.valid["fr-en"]) == valid
    assert len(corpus.valid["de-en"]) == 3 and sum(len(of["de-en"]) for of in splits(corpus)) == 50
    assert corpus.source == f"Hugging Face Hub: somebody/opus@{COMMIT}"
    assert list(part.train["fr-en"]) == train[:7]


def test_columns_without_a_struct_are_read_too(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with serve(pages({"data/train-0.parquet": parquet(rows("fr", 40), nested=False)})) as url:
        corpus = load_corpus(hub.build(tmp_path / "out", "somebody/opus", pairs=["en-fr"], endpoint=url))
        with pytest.raises(UserError, match="no columns de and en; it has en, fr"):
            hub.build(tmp_path / "no", "somebody/opus", pairs=["de-en"], endpoint=url)
    assert {(fr, en) for of in splits(corpus) for en, fr in of["en-fr"]} == {*rows("fr", 40)}


def splits(corpus: Corpus) -> list[Mapping[str, Rows]]:
    return [corpus.train, corpus.valid, corpus.test]


# --- mtdata -----------------------------------------------------------------------------------------------------------


def written(folder: Path, texts: Mapping[str, Rows], langs: tuple[str, str] = ("fra", "eng")) -> Path:
    """Files as mtdata 0.5.1 writes them: train.fra, train-parts/ID.fra, dev.fra, test1.fra, and others beside them."""
    for name, of in texts.items():
        for side, lang in enumerate(langs):
            path = folder / f"{name}.{lang}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{row[side]}\n" for row in of), encoding="utf-8")
    for name in ("references.bib", "train.stats.json", "train.meta.jsonl.gz", "mtdata.signature.txt"):
        (folder / name).write_bytes(b"")
    (folder / "train-parts").mkdir(exist_ok=True)
    (folder / "train-parts" / ".valid.Statmt-x-1-fra-eng").write_bytes(b"")
    return folder


def test_directories_of_mtdata_make_a_corpus(tmp_path: Path) -> None:
    """One merged, with dev and two test sets; one in parts, without held-out sets, languages with scripts."""
    train, dev = rows("fra", 30), rows("fra", 4, 100)
    tests = [rows("fra", 5, 200), rows("fra", 6, 300)]
    whole = {"train": [*train, train[3], tests[1][2]], "train-parts/Statmt-x-1-fra-eng": train,
             "dev": dev, "test1": tests[0], "test2": tests[1], "tests/Statmt-n-1-fra-eng": tests[0]}  # fmt: skip
    one = written(tmp_path / "fra", whole)
    parts = {f"train-parts/OPUS-{name}-v7.1-zho_Hans-eng_US": rows("zho", 20, first)
             for name, first in (("a", 400), ("b", 500))}  # fmt: skip
    two = written(tmp_path / "zho", parts, ("zho_Hans", "eng_US"))
    out = mtdata.build(tmp_path / "out", one, two, pairs=["fra-eng", "eng-zho"], making=Making(valid=3, test=3))
    corpus = load_corpus(out)
    assert list(corpus.train["fra-eng"]) == train and list(corpus.valid["fra-eng"]) == dev
    assert list(corpus.test["fra-eng"]) == [*tests[0], *tests[1]]
    assert sum(len(of["eng-zho"]) for of in splits(corpus)) == 40
    assert all(src.startswith("the") for src, _ in corpus.test["eng-zho"])


FAKE = """#!{python}
import sys
from pathlib import Path
words = sys.argv[1:]
if "FAILS" in words:
    raise SystemExit(3)
out = Path(words[words.index("--out") + 1])
out.mkdir(parents=True)
(out / "called").write_text(" ".join(words))
code = "deu" if "--langs" not in words else words[words.index("--langs") + 1].split("-")[0]
letters = "abcdefghij"
lines = ["".join(letters[int(d)] for d in str(n)) for n in range(1000, 1040)]
(out / ("train." + code)).write_text("".join(code + " " + w + "\\n" for w in lines))
(out / "train.eng").write_text("".join("the " + w + "\\n" for w in lines))
"""


@pytest.mark.skipif(os.name == "nt", reason="a script as a program")
def test_mtdata_is_called_for_recipes_and_data_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mtdata, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(UserError, match="the program mtdata is not here"):
        mtdata.build(tmp_path / "a", pairs=["deu-eng"], recipe=["one"])
    program = tmp_path / "bin" / "mtdata"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert main(["data", "mtdata", "--recipe", "one", "--pairs", "deu-eng", "--out", str(tmp_path / "b")]) == 0
    called = (tmp_path / "b.mtdata" / "deu-eng" / "called").read_text(encoding="utf-8")
    assert called.startswith("get-recipe --recipe-id one --out ") and called.endswith("--merge --drop-tests")
    corpus = load_corpus(
        mtdata.build(tmp_path / "c", pairs=["fra-eng"], train=["OPUS-x-v1-eng-fra", "OPUS-x-v1-eng-deu"])
    )
    called = (tmp_path / "c.mtdata" / "fra-eng" / "called").read_text(encoding="utf-8")
    assert "get --langs fra-eng" in called and called.endswith("--train OPUS-x-v1-eng-fra")
    assert corpus.source == "mtdata: OPUS-x-v1-eng-fra; OPUS-x-v1-eng-deu" and corpus.pairs == ("fra-eng",)
    with pytest.raises(UserError, match="mtdata ended with status 3"):
        mtdata.build(tmp_path / "d", pairs=["deu-eng"], recipe=["FAILS"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": ["fra-eng"]}, "Give --pairs, and one of"),
        ({"pairs": ["fra-eng", "deu-eng"], "recipe": ["one"]}, "2 pairs, 1 directories or recipes"),
        ({"pairs": ["fra-eng"], "train": ["OPUS-x-v1-eng-deu"]}, "--train: no data set of fra-eng"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(tmp_path: Path, options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        mtdata.build(tmp_path / "out", **options)  # type: ignore[arg-type]


def test_a_directory_without_the_pair_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "fra", {"train": rows("fra", 9)})
    with pytest.raises(UserError, match=r"no train\.deu with train\.eng"):
        mtdata.build(tmp_path / "out", folder, pairs=["deu-eng"])
    (folder / "train.eng").write_text("one\n", encoding="utf-8")
    with pytest.raises(UserError, match="have 9 and 1 lines"):
        mtdata.build(tmp_path / "out", folder, pairs=["fra-eng"])


def test_the_options_of_every_text_of_ones_own_are_the_same(tmp_path: Path) -> None:
    """How it is cut and what the corpus is called: --valid, --licence, ... of mtdata are those of local and hub."""
    folder = written(tmp_path / "fra", {"train": rows("fra", 30)})
    words = ["--valid", "3", "--test", "4", "--name", "ours", "--licence", "CC0-1.0"]
    for more in ([], ["--overwrite", "--seed", "6"]):
        out = ["--pairs", "fra-eng", "--out", str(tmp_path / "out")]
        assert main(["data", "mtdata", str(folder), *out, *words, *more]) == 0
    corpus = load_corpus(tmp_path / "out")
    assert (corpus.name, corpus.licence) == ("ours", "CC0-1.0")
    assert [len(of["fra-eng"]) for of in splits(corpus)] == [23, 3, 4]
