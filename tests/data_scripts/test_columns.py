"""Text in columns: scored TSV, CSV and JSON Lines give the pairs that a reader of the file would take."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pmd_corpora import local
from pmd_corpora.columns import Columns, read_columns
from pmd_lite.cli.arguments import main
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError

PAIR = "fr-en"
SCORED = ["1.2\tun chat\ta cat", "0.9\tun chien\ta dog", "1.05\tune vache\ta cow"]  # as LASER's mining writes them


def file(path: Path, lines: Sequence[str]) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.fr-en.tsv", "a.fr-en.tsv.gz"])
def test_lines_below_the_threshold_are_left_out_and_counted(tmp_path: Path, name: str) -> None:
    rows, notes = read_columns(file(tmp_path / name, SCORED), PAIR, Columns(score="1", least=1.05))
    assert rows == [("un chat", "a cat"), ("une vache", "a cow")]
    assert "1 lines left out, score below 1.05" in notes[0]


def test_columns_are_chosen_by_number(tmp_path: Path) -> None:
    path = file(tmp_path / "a.tsv", [f"http://x\t{line}\tmore" for line in SCORED])
    rows, _ = read_columns(path, "en-fr", Columns(("4", "3"), "2", 1.1))
    assert rows == [("a cat", "un chat")]


def test_a_csv_has_the_rules_of_quotes_and_a_header(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", ["en,laser,fr", '"He said ""no"", twice",1.5,il a dit non', '"two\nlines",2,deux'])
    rows, _ = read_columns(path, PAIR, Columns(score="laser", least=1))
    assert rows == [("il a dit non", 'He said "no", twice'), ("deux", "two lines")]
    semicolons = file(tmp_path / "b.csv", ["source;target", "un, deux;one, two"])
    assert read_columns(semicolons, PAIR, Columns())[0] == [("un, deux", "one, two")]


def test_objects_of_both_forms_are_read(tmp_path: Path) -> None:
    objects = [{"translation": {"en": "one", "fr": "un"}, "score": 0.7}, {"fr": "deux", "en": "two", "score": 0.1}]
    path = file(tmp_path / "a.jsonl", [*map(json.dumps, objects), ""])
    assert read_columns(path, PAIR, Columns())[0] == [("un", "one"), ("deux", "two")]
    assert read_columns(path, PAIR, Columns(score="score", least=0.5))[0] == [("un", "one")]


BAD = [
    ("a.fr-en.tsv", SCORED, {}, r"a.fr-en.tsv:1: no `source TAB target`"),
    ("a.fr-en.tsv", ["1\ta\tb\tc"], {"score_column": "1", "min_score": 0.0}, r":1: 4 columns.*--columns 2 3"),
    ("a.fr-en.tsv", [*SCORED, "x\ta\tb"], {"score_column": "1", "min_score": 0.0}, r":4: the score in column 1 is 'x'"),
    ("a.fr-en.tsv", ["nan\ta\tb"], {"score_column": "1", "min_score": 0.0}, r":1: the score in column 1 is 'nan'"),
    ("a.fr-en.tsv", SCORED, {"score_column": "7", "min_score": 0.0, "columns": ("2", "3")}, r":1: no column '7'"),
    ("a.fr-en.tsv", SCORED, {"score_column": "1"}, "both --score-column and --min-score"),
    ("a.fr-en.tsv", SCORED, {"columns": ("2",)}, "name two"),
    ("a.fr-en.csv", ["french,english", "un,one"], {}, r":2: the columns are 'french', 'english'"),
    ("a.fr-en.csv", ["fr,en", '"un" deux,one'], {}, r":2: .*Repair the quotes"),
    ("a.csv", ["fr,en", "un,one"], {}, "which pair is it.*--pairs fr-en"),
    ("a.fr-en.jsonl", ["{"], {}, r":1: not JSON"),
    ("a.fr-en.jsonl", ["[1]"], {}, r":1: not an object"),
    ("a.fr-en.jsonl", ['{"fr": 3, "en": "x"}'], {}, r":1: fr is 3, not a text"),
    ("fr-en.tmx", ["<tmx/>"], {"columns": ("1", "2")}, "has no columns"),
]


@pytest.mark.parametrize(("name", "lines", "options", "message"), BAD)
def test_a_fault_is_named_with_file_and_line(
    tmp_path: Path, name: str, lines: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        local.build(tmp_path / "out", file(tmp_path / name, lines), **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_the_command_and_the_script_have_the_same_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(1000, 1080)]
    lines = [f"{2 if at % 2 else 0.5}\tligne {name}\tline {name}" for at, name in enumerate(names)]
    words = [
        str(file(tmp_path / "a.fr-en.tsv", lines)),
        "--score-column",
        "1",
        "--min-score",
        "1",
        "--valid",
        "2",
        "--test",
        "2",
    ]
    assert main(["data", "local", *words, "--out", str(tmp_path / "a")]) == 0
    assert local.main([*words, "--out", str(tmp_path / "b")]) == 0
    corpus = load_corpus(tmp_path / "a")
    assert sum(len(of[PAIR]) for of in (corpus.train, corpus.valid, corpus.test)) == 40 and len(corpus.valid[PAIR]) == 2
    assert corpus.fingerprint == load_corpus(tmp_path / "b").fingerprint
    capsys.readouterr()
    for run in (main, local.main):
        with pytest.raises(SystemExit) as end:
            run([*(["data", "local"] if run is main else []), *words, "--out", "x", "--licnce", "x"])
        assert end.value.code == 2 and "--licence" in capsys.readouterr().err
