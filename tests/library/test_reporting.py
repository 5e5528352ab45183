"""What other tools take from a run: TER, CSV, data frames, text files, events; what notebooks show by themselves."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import sacrebleu

import pmd_lite as pmd
from pmd_corpora.writing import write_corpus
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import ter_only
from pmd_lite.evaluation.tables import Table, mean_spread
from pmd_lite.run import Run
from pmd_lite.training.progress import Progress, by_pair
from tests.conftest import SHORT, stopped_at

FAQ = Path(__file__).resolve().parents[2] / "docs" / "faq.md"


@pytest.fixture
def corpus(tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """Two pairs, also for the command line."""
    two = tiny_corpus.only(tiny_corpus.pairs[:2])
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: two)
    return two


def train(corpus: Corpus, out: Path, **words: Any) -> Run:
    return pmd.train(corpus, "tau=1", preset("toy", **SHORT), out=out, show="off", **words)


@pytest.fixture(scope="module")
def scored(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the two pairs. Whoever writes to it takes a copy."""
    return train(tiny_corpus.only(tiny_corpus.pairs[:2]), tmp_path_factory.mktemp("scored") / "run, one")


def test_ter_counts_edits_in_a_hundred_words() -> None:
    """One of four words replaced, then a block moved: one edit of four each."""
    assert ter_only(["a b c x"], ["a b c d"])[0] == ter_only(["c d a b"], ["a b c d"])[0] == 25
    assert ter_only(["a b c d"], ["a b c d"])[0] == 0
    with pytest.raises(UserError, match="Nothing to score"):
        ter_only([], [])


@pytest.mark.slow
def test_ter_is_counted_where_it_is_asked_for(
    corpus: Corpus, scored: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(shutil.copytree(scored.path, tmp_path / "run"))
    assert "ter" not in run.scores["model_1"][corpus.pairs[0]], "it takes minutes on real test sets"
    assert main(["show", str(run.path), "--metrics", "ter"]) == 0
    assert "TER was not counted: python -m pmd_lite evaluate RUN --metrics ter" in capsys.readouterr().out
    before = {p: p.stat().st_mtime_ns for p in (run.path / "translations").glob("test.model*")}
    assert main(["evaluate", str(run.path), "--metrics", "ter", "chrf"]) == 0
    said = capsys.readouterr().out
    hyps, refs = ((run.path / "translations" / f"test.{name}.{corpus.pairs[0]}.txt").read_text().splitlines()
                  for name in ("model_1", "ref"))  # fmt: skip
    expected = sacrebleu.corpus_ter(hyps, [refs]).score
    assert run.measured("ter")[corpus.pairs[0]] == expected and f"{expected:.1f}" in said
    assert "TER signature: nrefs:1|case:lc|tok:tercom" in said and "BLEU" not in said
    assert before and before == {p: p.stat().st_mtime_ns for p in before}, "scored, not translated again"
    again = train(corpus, tmp_path / "run2", metrics=["ter"])
    assert again.measured("ter") == run.measured("ter")


def test_the_files_for_other_metrics_are_parallel(corpus: Corpus, scored: Run) -> None:
    """As comet-score reads them: -s test.src.PAIR.txt -t test.model_1.PAIR.txt -r test.ref.PAIR.txt."""
    run = scored
    for pair in corpus.pairs:
        texts = {kind: (run.path / "translations" / f"test.{kind}.{pair}.txt").read_text(encoding="utf-8").split("\n")
                 for kind in ("src", "ref", "model_1")}  # fmt: skip
        assert {len(lines) for lines in texts.values()} == {len(corpus.test[pair]) + 1}
        assert list(zip(texts["src"], texts["ref"], strict=True))[:-1] == list(corpus.test[pair])


def test_show_prints_comma_separated_values_and_nothing_else(scored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored
    assert main(["show", str(run.path), "--csv", "--metrics", "chrf", "bleu"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["run"], row["model"]) for row in rows} == {(str(run.path), "tau=1")}
    for name, metric in (("chrF", "chrf"), ("BLEU", "bleu")):
        found = {row["pair"]: float(row["score"]) for row in rows if row["metric"] == name}
        assert found == run.measured(metric)  # type: ignore[arg-type]


def test_a_table_as_csv_and_as_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean and its spread are two columns; what was not measured is empty; text is quoted where it must be."""
    table = Table(["system", "BLEU", "steps"], [["a, b", mean_spread([1.0, 2.0]), 1000], ["c", None, 2]])
    assert table.to_csv() == 'system,BLEU,BLEU ±,steps\n"a, b",1.5,0.7071067811865476,1000\nc,,,2\n'
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="to_frame needs pandas: pip install pandas"):
        table.to_frame()
    pandas = SimpleNamespace(DataFrame=lambda rows, columns: (columns, rows))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    columns, rows = table.to_frame()
    assert columns == ["system", "BLEU", "BLEU ±", "steps"]
    assert rows[1] == ["c", None, None, 2] and rows[0][1] == 1.5


@pytest.mark.slow
def test_every_line_of_the_metrics_is_an_event(three_pairs: Corpus, tmp_path: Path) -> None:
    """Also across an interruption and a longer run; auxiliary runs are silent."""
    found: list[dict[str, Any]] = []
    words: dict[str, Any] = {"show": "off", "score": False, "on_event": found.append, "out": tmp_path / "r"}
    with stopped_at(6):
        pmd.train(three_pairs, "auto-pmd", preset("toy", **SHORT), **words)
    pmd.train(three_pairs, "auto-pmd", preset("toy", **SHORT), **words)
    run = pmd.train(three_pairs, "auto-pmd", preset("toy", **{**SHORT, "steps": 16}), **words)
    assert found == run.dir.metrics()
    assert {event["event"] for event in found} == {"eval", "search"}
    found.clear()
    run = pmd.train(three_pairs, "chi-ibr", preset("toy", **SHORT), **{**words, "out": tmp_path / "s"})
    assert found == run.dir.metrics() and run.auxiliary


def test_what_an_event_hook_raises_ends_the_training_and_loses_nothing(three_pairs: Corpus, tmp_path: Path) -> None:
    def offline(event: dict[str, Any]) -> None:
        raise ConnectionError

    config = preset("toy", **SHORT)
    with pytest.raises(ConnectionError):
        pmd.train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", score=False, on_event=offline)
    run = pmd.train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", score=False)
    assert [line["step"] for line in run.evaluations()] == [4, 8, 12]


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_the_lines_in_the_faq_report_every_evaluation(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With stand-ins for the two packages, whose interface is as their manuals describe it."""
    sent: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None: ...

        def add_scalars(self, tag: str, values: dict[str, float], step: int) -> None:
            sent.extend((f"{tag}/{key}", value, step) for key, value in values.items())

    class Log:
        def log(self, values: dict[str, float], step: int | None = None) -> None:
            sent.extend((key, value, int(values["step"])) for key, value in values.items())

    fakes: dict[str, Any] = {"torch.utils.tensorboard": {"SummaryWriter": SummaryWriter},
                             "wandb": {"init": lambda **words: Log()}}  # fmt: skip
    for module, names in fakes.items():
        made = ModuleType(module)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, module, made)
    blocks = re.findall(r"```python\n(.*?)```", FAQ.read_text(encoding="utf-8"), re.S)
    (code,) = (block for block in blocks if name in block)
    assert code.count("\n") <= 6
    real = pmd.train
    monkeypatch.setattr(pmd, "train", lambda given, **words: real(
        given, "tau=1", preset("toy", **SHORT), out=tmp_path / "r", show="off", score=False, **words))  # fmt: skip
    exec(code, {"pmd": pmd, "corpus": corpus})
    lines = Run(tmp_path / "r").evaluations()
    wanted = {(loss, line["step"]) for line in lines for loss in line["dev_loss"]}
    assert wanted and wanted <= {(value, step) for _, value, step in sent}


def test_a_notebook_gets_a_bar_with_the_dev_losses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal keeps the line of each evaluation; a file gets lines alone."""
    assert Progress("auto", "run", ["a"], 10).show == "lines"
    fake = ModuleType("IPython")
    fake.get_ipython = lambda: SimpleNamespace(kernel=1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", fake)
    progress = Progress("auto", "run", ["a", "b"], 10)
    assert progress.show == "bar" and progress._bar is not None
    progress.advance(1, 100)
    progress.evaluation(1, 0, [1.0, 2.0])
    progress.evaluation(1, 1, [3.0, 4.0])
    assert "dev 1.50, 3.50" in progress._bar.desc
    progress.say("a note")
    progress.close()
    assert capsys.readouterr().out == "a note\n"


def test_runs_and_corpora_show_themselves_in_a_notebook(corpus: Corpus, tmp_path: Path) -> None:
    run = train(corpus, tmp_path / "a <b>", score=False)
    assert run._repr_html_().startswith("<p>&lt;finished run tau=1") and "&lt;b&gt;" in run._repr_html_()
    run.evaluate(corpus)
    assert run.table().to_html() in run._repr_html_()
    assert repr(corpus.only(corpus.pairs[:1])).endswith(f"training pairs: {corpus.pairs[0]} {corpus.sizes[0]:,}>")
    shown = corpus._repr_html_()
    for pair in corpus.pairs:
        assert f"<td>{pair}</td><td>{len(corpus.train[pair])}</td><td>{len(corpus.valid[pair])}</td>" in shown


@pytest.mark.slow
def test_a_comparison_shows_ter_where_it_is_asked_for(
    tiny_corpus: Corpus, tmp_path: Path, forked: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of runs that are there too; the least is the best; also from the stored file."""
    write_corpus(tiny_corpus.only(tiny_corpus.pairs[:2]), tmp_path / "texts")
    out = tmp_path / "c"
    words = [
        "compare",
        "--methods",
        "tau=1",
        "-c",
        str(tmp_path / "texts"),
        "--seeds",
        "1",
        "--workers",
        "1",
        "--out",
        str(out),
    ]
    asked = [*words, "--set", *(f"{name}={value}" for name, value in SHORT.items())]
    assert main(asked) == 0
    assert "TER" not in capsys.readouterr().out
    finished = (out / "runs" / "tau=1-seed1" / "finished.json").stat().st_mtime_ns
    assert main([*asked, "--metrics", "bleu", "chrf", "ter"]) == 0
    run = Run(out / "runs" / "tau=1-seed1")
    assert (run.path / "finished.json").stat().st_mtime_ns == finished
    said = capsys.readouterr().out
    ter = run.measured("ter")
    assert "test BLEU and chrF and TER" in said and "TER signature" in said
    table = pmd.Comparison.load(out / "summary.json").table()
    assert table.rows[0][table.columns.index("TER")].mean == pytest.approx(sum(ter.values()) / len(ter), abs=1e-4)


def test_a_hundred_pairs_are_one_short_line() -> None:
    pairs = [f"l{i}-en" for i in range(100)]
    assert by_pair(pairs[:2], [1.234, 5], ".2f") == "l0-en 1.23, l1-en 5.00"
    assert (
        by_pair(pairs, [float(i) for i in range(100)], ".1f")
        == "mean 49.5 of 100 pairs, from 0.0 (l0-en) to 99.0 (l99-en)"
    )
