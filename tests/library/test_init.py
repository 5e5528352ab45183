"""train, compare and estimate with init=: students that start from an imported checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pmd_lite.api import load_corpus, train
from pmd_lite.cli import arguments
from pmd_lite.comparing.compare import compare
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.errors import UserError
from pmd_lite.exchange.marian import Imported, import_marian
from pmd_lite.planning.estimate import estimate
from pmd_lite.processes import launch
from pmd_lite.run import Run
from tests.conftest import stopped_at
from tests.marian_files import checkpoint

WORLD: dict[str, Any] = {
    "head": 40, "minimum": 10, "held": 2, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1,
    "pairs": ["fra-eng", "deu-eng", "zho-eng"],
}  # fmt: skip
"""Fewer sentences of the three pairs, for processes that load their corpus by name."""
QUICK: dict[str, Any] = {"steps": 4, "tokens": 300, "eval_every": 2, "lr": 1e-9, "beam": 1, "max_len": 80}


@pytest.fixture(scope="module")
def corpus(three_pairs: Corpus) -> Corpus:
    return three_pairs


def test_students_start_from_the_checkpoint(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    """At a learning rate of almost nothing they stay what they were."""
    run = train(corpus, "auto-pmd", "toy", out=tmp_path / "run", init=imported.path, show="off", score=False, **QUICK)
    assert run.tokenizer.fingerprint == imported.tokenizer.fingerprint
    assert (run.config.model.activation, run.config.model.norm, run.config.model.d_model) == ("swish", "post", 24)
    assert run.config.tokenizer == imported.tokenizer.config
    start = imported.model().state_dict()
    for student in (0, 1):
        for name, tensor in run.model(student, "latest").state_dict().items():
            torch.testing.assert_close(tensor, start[name], atol=1e-7, rtol=0)
    assert len(run.translate(["a b", "c"], corpus.pairs[0])) == 2


@pytest.mark.slow
def test_an_interrupted_run_goes_on_from_its_checkpoint_and_not_from_the_start(
    imported: Imported, corpus: Corpus, tmp_path: Path
) -> None:
    words: dict[str, Any] = {"init": imported.path, "show": "off", "score": False, **QUICK, "lr": 1e-3}
    whole = train(corpus, "bi-pmd", "toy", out=tmp_path / "whole", **words)
    with stopped_at(3):
        train(corpus, "bi-pmd", "toy", out=tmp_path / "cut", **words)
    moved = tmp_path / "elsewhere"
    shutil.copytree(imported.path, moved)
    cut = train(corpus, "bi-pmd", "toy", out=tmp_path / "cut", **{**words, "init": moved})
    for student in (0, 1):
        one, other = (run.model(student, "latest").state_dict() for run in (whole, cut))
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_start_is_another_run(imported: Imported, corpus: Corpus, one_target: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, "out": tmp_path / "run", **QUICK}
    train(corpus, "tau=1", "toy", init=imported.path, **words)
    other = checkpoint(tmp_path / "opus", corpus, bias=False)
    different = import_marian(other, tmp_path / "out", corpus.pairs)
    with pytest.raises(UserError, match=r"holds another run: init\.sha256 differ"):
        train(corpus, "tau=1", "toy", init=different.path, **words)
    with pytest.raises(UserError, match="holds another run"):
        train(corpus, "tau=1", "toy", **words)
    with pytest.raises(UserError, match=r"holds another run: .*init differ"):
        shape = {name: value for name, value in json.loads(
            (imported.path / "imported.json").read_text(encoding="utf-8"))["model"].items()
            if name not in ("dropout", "attention_dropout", "max_len")}  # fmt: skip
        train(corpus, "tau=1", "toy", tokenizer=imported.path / "tokenizer", **{**words, **shape})


@pytest.mark.slow
def test_every_process_starts_from_it(forked: None, imported: Imported, tmp_path: Path) -> None:
    """Equal up to rounding; two kinds of process cannot agree better, since threads, libraries and addresses differ.

    Hence the large eps. The gradient of a key bias is nothing but rounding (softmax does not see it), and Adam with a
    small eps would turn it into whole steps, in another direction wherever a product is rounded differently.
    """
    corpus = load_corpus("toy", **WORLD)
    config = preset("toy", **{**QUICK, "accumulate": 2, "lr": 1e-3, "eps": 1e-3})
    words: dict[str, Any] = {"init": imported.path, "show": "off", "score": False}
    two = launch("toy", "bi-pmd", config, processes=2, corpus_options=WORLD, out=tmp_path / "two", **words)
    one = train(corpus, "bi-pmd", config, out=tmp_path / "one", **words)
    for student in (0, 1):
        weights = one.model(student, "latest").state_dict()
        for name, x in two.model(student, "latest").state_dict().items():
            torch.testing.assert_close(x, weights[name], atol=1e-5, rtol=1e-4)


def test_an_estimate_is_of_the_imported_network(imported: Imported, corpus: Corpus) -> None:
    found = estimate(corpus, "bi-pmd", "toy", init=imported.path, tokens_per_second=1000.0)
    model = imported.model()
    assert found.config.model.d_model == 24
    assert found.disk["best weights"] == 2 * 4 * model.parameter_count()
    with pytest.raises(UserError, match="give a corpus instead of sizes"):
        estimate(init=imported.path, sizes={"fr-en": 1000})


@pytest.mark.slow
def test_a_comparison_starts_all_its_runs_from_it(
    forked: None, imported: Imported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plot_frontier", "plot_probabilities", "plot_costs"):  # to draw takes longer than the runs
        monkeypatch.setattr(Comparison, name, lambda self: None)
    corpus = load_corpus("toy", **WORLD)
    words: dict[str, Any] = {"out": tmp_path / "out", "init": imported.path, "show": False, "corpus_options": WORLD}
    settings = {**QUICK, "steps": 12, "eval_every": 12, "max_len": 50}
    compare("toy", ["tau=1", "chi-ibr"], [1], "toy", workers=1, **words, **settings)
    start, runs = imported.model().state_dict(), sorted((tmp_path / "out" / "runs").iterdir())
    assert len(runs) == 2
    for run in map(Run, runs):
        assert run.scores
        for name, x in run.model(0, "latest").state_dict().items():
            torch.testing.assert_close(x, start[name], atol=1e-7, rtol=0)
    with pytest.raises(UserError, match="d_model: the checkpoint of init"):
        compare("toy", ["tau=1 d_model=32"], [1], "toy", **words)
    with pytest.raises(UserError, match="d_model, heads: the checkpoint of init"):
        train(corpus, "tau=1", "toy", out=tmp_path / "run", init=imported.path, heads=2, d_model=16)


def test_runs_that_a_method_needs_start_from_it_too(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    run = train(corpus, "chi-ibr", "toy", out=tmp_path / "run", init=imported.path, show="off", score=False,
                **{**QUICK, "steps": 12})  # fmt: skip
    (plain,) = run.auxiliary
    start = imported.model().state_dict()
    assert all(torch.allclose(x, start[name], atol=1e-7) for name, x in plain.model(0, "latest").state_dict().items())


def test_an_import_that_does_not_fit_is_refused(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, **QUICK}
    with pytest.raises(UserError, match="has no imported model"):
        train(corpus, "tau=1", "toy", out=tmp_path / "a", init=tmp_path, **words)
    few = replaced(imported, tmp_path / "few", corpus.pairs[1:])
    with pytest.raises(UserError, match=f"was imported for .*, not for {corpus.pairs[0]}"):
        train(corpus, "tau=1", "toy", out=tmp_path / "b", init=few, **words)
    assert not (tmp_path / "b").exists(), "a correct one may follow"
    plain = train(corpus, "tau=1", "toy", out=tmp_path / "c", vocab_size=90, **words)
    with pytest.raises(UserError, match=r"leave out tokenizer="):
        train(corpus, "tau=1", "toy", out=tmp_path / "d", init=imported.path, tokenizer=plain.path / "tokenizer",
              **words)  # fmt: skip
    damaged = tmp_path / "damaged"
    shutil.copytree(imported.path, damaged)
    data = bytearray((damaged / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (damaged / "model.safetensors").write_bytes(bytes(data))
    with pytest.raises(UserError, match="weights are missing or damaged"):
        train(corpus, "tau=1", "toy", out=tmp_path / "e", init=damaged, **words)
    (damaged / "imported.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"imported\.json is damaged"):
        Imported(damaged)
    with pytest.raises(UserError, match=r"tokenizer\.tags, vocab_size: the checkpoint"):
        train(corpus, "tau=1", "toy", out=tmp_path / "f", init=imported.path, vocab_size=90,
              **{"tokenizer.tags": "paper"})  # fmt: skip
    with pytest.raises(UserError, match=r"cannot be used here.*from the same start"):
        train(corpus, "chi-ibr", "toy", out=tmp_path / "g", init=imported.path, use=[plain.path], **words)


def replaced(imported: Imported, out: Path, pairs: Any) -> Path:
    """The same import with a tokenizer for other pairs."""
    shutil.copytree(imported.path, out)
    shutil.rmtree(out / "tokenizer")
    one = imported.tokenizer
    Tokenizer(one.config, pairs, one.models, one.origin).save(out / "tokenizer")
    return out


@pytest.mark.slow
def test_the_command_line_imports_and_trains(
    one_target: Path, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    words = ["import", str(one_target), "--out", str(out), "--pairs", *corpus.pairs]
    assert arguments.main(words) == 0
    assert "Train from it" in capsys.readouterr().out
    assert arguments.main(words) == 2
    assert "exists" in capsys.readouterr().err
    asked: dict[str, Any] = {}
    monkeypatch.setattr("pmd_lite.api.train", lambda *args, **kwargs: asked.update(kwargs) or stop())
    assert arguments.main(["train", "--init", str(out), "--dropout", "0.3"]) == 2
    assert asked["init"] == out
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert arguments.main(["train", "--init", str(out), "--d-model", "32"]) == 2
    assert "model.d_model: the checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def stop() -> None:
    raise UserError("far enough")
