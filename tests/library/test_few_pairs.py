"""A corpus of one pair, of one sentence, of a hundred pairs; and runs of several corpora are never mixed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from pmd_lite.api import train
from pmd_lite.cli.arguments import main
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.summary import finished_systems
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import read_json, write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.score_tables import by_corpus, score_table
from pmd_lite.figures.runs import dev_loss_of, frontier_of
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT

SETTINGS: dict[str, Any] = {**SHORT, "steps": 2, "eval_every": 1, "update_every": 1}


def trained(corpus: Corpus, out: Path, method: str = "tau=1", **words: Any) -> Run:
    return train(corpus, method, preset("toy", **{**SETTINGS, **words}), out=out, show="off")


@pytest.fixture(scope="module")
def one_pair(tiny_corpus: Corpus) -> Corpus:
    return tiny_corpus.only(["deu-eng"])


@pytest.fixture(scope="module")
def runs(one_pair: Corpus, three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs of one pair and of three; two of them differ only in their seed, and two directories have one name."""
    place = tmp_path_factory.mktemp("runs")
    return {
        "one": trained(one_pair, place / "one", "bi-pmd"),
        "three": trained(three_pairs, place / "three"),
        "seed 2": trained(three_pairs, place / "three, seed 2", seed=2),
        "twin": trained(three_pairs, place / "elsewhere" / "three", dropout=0.0),
    }


def test_one_pair_has_a_table_and_a_mean_but_no_groups(runs: dict[str, Run]) -> None:
    table = runs["one"].table()
    assert table.columns == ["model", "deu-eng", "mean"]
    assert all(row[1] == row[2] for row in table.rows) and len(table.rows) == 2
    assert "HRL" not in table.to_text()
    assert runs["one"].groups == (("deu-eng",), ())
    assert math.isnan(runs["one"].point()[0])


def test_one_sentence_is_trained_on_and_scored(tmp_path: Path) -> None:
    pair = [("ja", "yes")]
    corpus = Corpus.from_texts("one", {"de-en": dict.fromkeys(("train", "valid", "test"), pair)}, allow_leakage=True)
    run = trained(corpus, tmp_path / "r", vocab_size=300, byte_fallback=True)
    assert list(run.bleu()) == ["de-en"] and run.dir.finished


@pytest.mark.slow
def test_the_command_shows_one_pair_and_says_why_there_is_no_frontier(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(runs["one"].path), "--figures"]) == 0
    said = capsys.readouterr().out
    assert f"no frontier of {runs['one'].path}: its axes are the larger and the smaller pairs" in said
    assert (runs["one"].path / "figures" / "dev_loss.png").exists()
    assert not (runs["one"].path / "figures" / "frontier.png").exists()


@pytest.mark.slow
def test_each_corpus_has_a_table_of_its_own(runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    """One pair spoils no table; a run that is named twice is shown once; equal labels name their directories."""
    paths = [str(run.path) for run in (*runs.values(), runs["three"])]
    assert main(["show", *paths]) == 0
    _, one, three = capsys.readouterr().out.split("\nCorpus ")
    assert "bi-pmd model_1" in one and "tau=1," not in one
    labels = ["tau=1, " + name for name in (str(runs["three"].path), "three, seed 2", str(runs["twin"].path))]
    assert all(three.count(f"\n{label} ") == 1 for label in labels) and "bi-pmd" not in three


@pytest.mark.slow
def test_runs_of_other_texts_are_refused_in_one_table_or_figure(runs: dict[str, Run]) -> None:
    mixed = [runs["one"], runs["three"]]
    assert [len(group) for group in by_corpus([*mixed, runs["twin"]])] == [1, 2]
    for refused in (lambda: score_table(mixed, "bleu"), lambda: frontier_of(mixed), lambda: dev_loss_of(mixed),
                    lambda: score_table([], "bleu")):  # fmt: skip
        with pytest.raises(UserError, match="one table or figure shows runs of one corpus"):
            refused()


def test_pairs_keep_their_columns_when_a_corpus_lists_them_in_another_order(
    runs: dict[str, Run], three_pairs: Corpus, tmp_path: Path
) -> None:
    turned = trained(three_pairs.only(three_pairs.pairs[::-1]), tmp_path / "r")
    scores = {pair: float(i) for i, pair in enumerate(turned.pairs)}
    turned.measured = lambda metric, student=0: scores  # type: ignore[method-assign, misc]
    table = score_table([runs["three"], turned], "bleu")
    assert [table.rows[1][table.columns.index(pair)] for pair in turned.pairs] == [0, 1, 2]


def test_curves_of_other_steps_are_not_drawn_on_one_axis(runs: dict[str, Run], tmp_path: Path) -> None:
    shutil.copytree(runs["three"].path, tmp_path / "r")
    log = tmp_path / "r" / "metrics.jsonl"
    log.write_text(log.read_text().replace('"step": 1,', '"step": 5,'))
    run = RunDir(tmp_path / "r")
    run.finish(read_json(run.path / "finished.json"))
    with pytest.raises(UserError, match="was evaluated at other steps than"):
        dev_loss_of([runs["three"], Run(tmp_path / "r")])


def test_too_many_pairs_for_a_figure_are_said_and_cost_nothing(
    runs: dict[str, Run], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmd_lite.figures.style.MOST_PANELS", 2)
    assert main(["show", str(runs["three"].path), "--figures"]) == 0
    assert "no dev_loss of" in (said := capsys.readouterr().out) and "At most 2 panels fit into one figure" in said
    assert "frontier.png" in said


@pytest.mark.slow
def test_a_hundred_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    languages = [a + b for a in "abcdefghij" for b in "klmnopqrst"]
    texts = {
        f"{code}-zz": {split: [(f"{code} {split[:2]}", split[:2])] for split in ("train", "valid", "test")}
        for code in languages
    }  # fmt: skip
    corpus = Corpus.from_texts("hundred", texts, allow_leakage=True)
    run = trained(corpus, tmp_path / "r", "bi-pmd", vocab_size=400, max_len=8)
    assert len(run.table().columns) == 104
    assert main(["show", str(run.path), "--figures"]) == 0
    said = capsys.readouterr().out
    assert "At most 60 panels" in said and "At most 28 series" in said and "frontier.png" in said


# ---------------------------------------------------------------- compare


@pytest.fixture(scope="module")
def comparison(one_pair: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison on one pair, without the processes of `compare`."""
    from pmd_corpora.writing import write_corpus

    place = tmp_path_factory.mktemp("compared")
    write_corpus(one_pair, place / "corpus")
    for method in ("tau=1", "bi-pmd"):
        trained(one_pair, place / "runs" / f"{method}-seed1", method)
    asked(place)
    return place


def asked(place: Path, **more: Any) -> None:
    write_json(place / "runs.json", {
        "corpus": str(place / "corpus"), "corpus_options": {}, "preset": "toy", "overrides": {}, "failed": {},
        "methods": ["tau=1", "bi-pmd"], "seeds": [1], **more,
    })  # fmt: skip


@pytest.mark.slow
def test_a_comparison_on_one_pair_has_tables_and_says_why_there_is_no_frontier(comparison: Path) -> None:
    found = Comparison(comparison)
    files = found.save()
    table = found.table()
    assert [row[table.columns.index("LRL")] for row in table.rows] == [None] * 3
    assert [row[table.columns.index("LRL loss")] for row in table.rows] == ["-"] * 3
    assert "nan" not in table.to_text() + found.cost_table().to_text()
    assert not any("frontier" in file.name for file in files) and any("costs.png" in file.name for file in files)
    assert "no figure of frontier: its axes" in (comparison / "table.md").read_text()
    again = Comparison.load(comparison / "summary.json")
    assert again.table().to_text() == table.to_text() and again.notes == found.notes


def test_a_refused_run_does_not_leave_the_scores_of_another_one_in_the_table(comparison: Path) -> None:
    """compare with other settings in the same directory: a run is refused, but its directory holds scores."""
    assert len(finished_systems(comparison)) == 3
    asked(comparison, failed={"bi-pmd-seed1": "holds another run: train.steps differ"})
    assert [system.label for system in finished_systems(comparison)] == ["tau=1"]
    asked(comparison)


def test_a_comparison_is_not_tested_against_other_texts(comparison: Path) -> None:
    file = comparison / "corpus" / "test.deu-eng.tsv"
    whole = file.read_bytes()
    (comparison / "corpus" / "corpus.json").unlink()
    file.write_bytes(whole.replace(b"\t", b"\tnot ", 1))
    with pytest.raises(UserError, match=r"was trained on another corpus than .* or a file has changed since"):
        Comparison(comparison)
    file.write_bytes(whole)
    assert Comparison(comparison).sizes
