"""A run is one thing: resuming refuses every file of another run, student, seed or step, and says which file it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pmd_lite.api import train
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from pmd_lite.training.weights import save_weights
from tests.conftest import SHORT, stopped_at

WORDS: dict[str, Any] = {**SHORT, "steps": 8, "eval_every": 2, "show": "off", "score": False, "device": "cpu"}


def go_on(corpus: Corpus, path: Path) -> Run:
    return train(corpus, "bi-pmd", "toy", out=path, **WORDS)


@pytest.fixture(scope="module")
def kinds(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`run` and other runs, all stopped; `other_step` is `run`, two updates earlier."""
    place = tmp_path_factory.mktemp("kinds")
    words: dict[str, dict[str, Any]] = {
        "run": {}, "other_seed": {"seed": 2}, "other_method": {"method": "uni-pmd"}, "other_rate": {"lr": 4e-3},
    }  # fmt: skip
    for name, changed in words.items():
        with stopped_at(5):
            train(three_pairs, out=place / name, **{"method": "bi-pmd", "preset_name": "toy", **WORDS, **changed})
    with stopped_at(3):
        train(three_pairs, "bi-pmd", "toy", out=place / "other_step", **WORDS)
    return place


@pytest.fixture
def run(kinds: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kinds / "run", tmp_path / "r"))


def newest(path: Path) -> Path:
    return path / "checkpoint" / (path / "checkpoint" / "LATEST").read_text()


FILES: dict[str, Callable[[Path], Path]] = {
    "state.pt": lambda run: newest(run) / "state.pt",
    "model_1": lambda run: newest(run) / "model_1.safetensors",
    "best_1": lambda run: run / "checkpoint" / "best" / "model_1.safetensors",
    "metrics.jsonl": lambda run: run / "metrics.jsonl",
    "folder": newest,
}


def refusal(corpus: Corpus, run: Path) -> str:
    """What resuming says; the run must not have been changed."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(UserError) as error:
        go_on(corpus, run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    return str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("other", ["other_seed", "other_method", "other_rate", "other_step"])
def test_a_file_of_another_run_is_refused(file: str, other: str, run: Path, kinds: Path, three_pairs: Corpus) -> None:
    target, source = FILES[file](run), FILES[file](kinds / other)
    if file == "folder":
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    said = refusal(three_pairs, run)
    assert str(run) in said and "back from a backup" in said
    assert said.count(". ") == 1, "one sentence what is wrong, one what to do"
    if file not in ("state.pt", "folder"):
        assert str(target) in said


def test_its_own_files_are_not_refused(run: Path, three_pairs: Corpus) -> None:
    """Else the tests above and below would show little."""
    assert go_on(three_pairs, run).dir.finished


def test_weights_of_the_other_student_are_refused(run: Path, three_pairs: Corpus) -> None:
    for folder in (newest(run), run / "checkpoint" / "best"):
        one, other = folder / "model_1.safetensors", folder / "model_2.safetensors"
        whole = one.read_bytes()
        shutil.copy(other, one)
        assert str(one) in refusal(three_pairs, run)
        if folder.name == "best":
            with pytest.raises(UserError, match=rf"{one}: these weights are damaged .*another run or student"):
                RunDir(run).load_weights(0)
        one.write_bytes(whole)
    go_on(three_pairs, run)


@pytest.mark.parametrize("file", ["model_1", "best_1"])
def test_weights_without_their_sum_are_refused(file: str, run: Path, three_pairs: Corpus) -> None:
    path = FILES[file](run)
    save_file({name: torch.zeros_like(tensor) for name, tensor in load_file(path).items()}, path)
    assert str(path) in refusal(three_pairs, run)


@pytest.mark.slow
def test_a_missing_file_is_refused(run: Path, three_pairs: Corpus) -> None:
    FILES["best_1"](run).unlink()
    assert str(FILES["best_1"](run)) in refusal(three_pairs, run)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["cut", "bit", "zeros", "longer garbage", "inside a line"])
def test_a_changed_log_is_refused(change: str, run: Path, three_pairs: Corpus) -> None:
    path = run / "metrics.jsonl"
    data = path.read_bytes()
    changed = {
        "cut": data[:-9], "bit": data.replace(b"0.", b"1.", 1), "zeros": bytes(len(data)),
        "longer garbage": b"x" * 2 * len(data), "inside a line": data[9:] + data,
    }[change]  # fmt: skip
    path.write_bytes(changed)
    assert str(path) in refusal(three_pairs, run)


def test_half_a_line_at_the_end_of_the_log_is_cut_off(run: Path, three_pairs: Corpus) -> None:
    """A kill leaves it."""
    path = run / "metrics.jsonl"
    data = path.read_bytes()
    path.write_bytes(data + b'{"event": "eval", "st')
    assert go_on(three_pairs, run).dir.metrics()
    assert path.read_bytes().startswith(data)


def test_another_tokenizer_is_refused(run: Path, three_pairs: Corpus, tmp_path: Path) -> None:
    """Also one of the same corpus and size, which the ids alone do not tell from the right one."""
    other = {**WORDS, "tokenizer.tau": 1.0}
    with stopped_at(3):
        train(three_pairs, "bi-pmd", "toy", out=tmp_path / "other", **other)
    shutil.rmtree(run / "tokenizer")
    shutil.copytree(tmp_path / "other" / "tokenizer", run / "tokenizer")
    assert str(run / "tokenizer") in refusal(three_pairs, run)


def test_a_changed_configuration_is_refused(run: Path, three_pairs: Corpus) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(UserError, match=r"config\.json: this is not the file that the checkpoint knows"):
        train(three_pairs, "bi-pmd", "toy", out=run, **{**WORDS, "seed": 2})


def test_a_run_that_an_earlier_version_began_is_refused_as_one(run: Path, three_pairs: Corpus) -> None:
    """It is not damaged: there were no such checksums when its files were written (before 2026-11-29)."""
    sentence = "an earlier version of pmd_lite began this run, and its files lack the checksums that this one compares"
    state = torch.load(newest(run) / "state.pt", weights_only=True)
    del state["ties"]
    torch.save(state, newest(run) / "state.pt")
    assert refusal(three_pairs, run) == f"{run}: {sentence}. Choose another directory"
    best = FILES["best_1"](run)
    weights = load_file(best)
    save_weights(weights, best)
    with pytest.raises(UserError, match=rf"{best}: {sentence}"):
        RunDir(run).load_weights(0)
    (run / "finished.json").write_text('{"reason": "all steps made", "step": 8, "seconds": 1.0}', encoding="utf-8")
    with pytest.raises(UserError, match=rf"{run}: {sentence}"):
        RunDir(run).summary()


@pytest.mark.slow
def test_runs_end_in_the_same_bits(run: Path, three_pairs: Corpus, tmp_path: Path) -> None:
    with stopped_at(7):
        go_on(three_pairs, run)
    again, whole = go_on(three_pairs, run), go_on(three_pairs, tmp_path / "whole")
    for student in range(2):
        for which in ("best", "latest"):
            one, other = (of.dir.load_weights(student, which) for of in (again, whole))
            assert list(differences(one, other)) == []
    assert [e["dev_loss"] for e in again.evaluations()] == [e["dev_loss"] for e in whole.evaluations()]


def test_another_number_of_threads_is_said(
    run: Path, three_pairs: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes the order of sums, so the run ends in other last digits."""
    with stopped_at(6):
        train(three_pairs, "bi-pmd", "toy", out=run, **{**WORDS, "show": "lines"})
    assert "threads" not in capsys.readouterr().out
    threads = torch.get_num_threads()
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    train(three_pairs, "bi-pmd", "toy", out=run, **{**WORDS, "show": "lines"})
    said = f"trained on cpu (threads: {threads}) so far, now on cpu (threads: {threads + 1}): the last digits"
    assert said in capsys.readouterr().out


def test_best_weights_newer_than_the_checkpoint_are_no_fault(run: Path, three_pairs: Corpus, tmp_path: Path) -> None:
    """As a kill leaves them between their own file and the checkpoint of the same evaluation."""
    later = Path(shutil.copytree(run, tmp_path / "later"))
    go_on(three_pairs, later)
    for student in (1, 2):
        name = f"checkpoint/best/model_{student}.safetensors"
        shutil.copy(later / name, run / name)
    assert list(differences(RunDir(run).load_weights(0), RunDir(later).load_weights(0))) == []
    assert json.loads((go_on(three_pairs, run).path / "finished.json").read_text())["step"] == 8
