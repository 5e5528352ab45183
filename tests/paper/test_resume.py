"""Interrupt a run anywhere: every file stays whole, and the resumed run ends in the same bits."""

from __future__ import annotations

import dataclasses
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from pmd_lite import disk as disk_module
from pmd_lite.api import train
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.processes import one_rank
from pmd_lite.training import rundir as rundir_module
from pmd_lite.training import weights as weights_module
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import ASKING, Trainer
from tests.conftest import SHORT, MakeTrainer, stopped_at, trainers

WORLD: dict[str, Any] = {
    "head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1,
    "pairs": ["fra-eng", "deu-eng", "zho-eng"],
}  # fmt: skip
SETTINGS = {**SHORT, "steps": 12, "eval_every": 2, "update_every": 4, "accumulate": 2}


def outcome(path: Path) -> dict[str, Any]:
    """All that a run leaves, without times."""
    models, state = RunDir(path).load_checkpoint() or ([], {})
    state.pop("seconds", None)
    state.pop("metrics_size", None)
    metrics = [{k: v for k, v in event.items() if k != "seconds"} for event in RunDir(path).metrics()]
    best = [RunDir(path).load_weights(i) for i in range(len(models))]
    return {"models": models, "best": best, "state": state, "metrics": metrics}


def assert_same(a: Path, b: Path) -> None:
    found = list(differences(outcome(a), outcome(b)))
    assert found == []


def contents(folder: Path) -> dict[str, bytes]:
    """{name: bytes} of every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def crashes_kept(path: Path, into: Path) -> Iterator[list[Path]]:
    """Before each file operation (write, flush, rename, delete) of the run made in the block, copy the files of `path`.

    A copy is what a process leaves that is killed at this moment; the list of the copies grows while the run is made.
    Operations that change no file, such as a flush, add no copy.
    """
    copies: list[Path] = []

    def watched(real: Any) -> Any:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if path.exists() and (not copies or contents(path) != contents(copies[-1])):
                copies.append(shutil.copytree(path, into / f"{len(copies)}"))
            return real(*args, **kwargs)

        return operation

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in [
            (weights_module, "save_file"), (disk_module, "sync"), (disk_module.os, "replace"),
            (rundir_module.torch, "save"), (disk_module.shutil, "rmtree"), (RunDir, "append_metrics"), (Path, "rename"),
        ]:  # fmt: skip
            patched.setattr(owner, name, watched(getattr(owner, name)))
        yield copies


@pytest.mark.slow
def test_a_crash_before_any_file_operation_loses_nothing(make_short: MakeTrainer, tmp_path: Path) -> None:
    """Every file operation of a run in turn is the last that did not happen; after resuming, the bits are the same."""
    settings = {"steps": 2, "eval_every": 1, "update_every": 1, "tokens": 400}
    whole = tmp_path / "whole"
    with crashes_kept(whole, tmp_path / "crashes") as crashes:
        make_short("auto-pmd", path=whole, **settings).run()
    assert len(crashes) > 20
    for path in crashes:
        make_short("auto-pmd", path=path, **settings).run()
        assert_same(whole, path)


def test_what_a_kill_left_beside_a_checkpoint_is_removed_by_the_next_save(
    make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """A kill after LATEST leaves the older folder; a kill inside safetensors leaves its temporary file."""
    make_trainer("tau=1", path=tmp_path / "r", steps=4).run()
    run = RunDir(tmp_path / "r")
    older, half = run.checkpoints / "step-00000001", run.checkpoints / "best" / ".tmpabc"
    older.mkdir()
    half.touch()
    models, state = run.load_checkpoint() or ([], {})
    run.save_checkpoint(state["step"], models, state)
    assert not older.exists()
    run.save_best(0, models[0], state["step"])
    assert not half.exists()


@pytest.mark.slow
def test_kill_9_at_20_random_instants(tmp_path: Path) -> None:
    """SIGKILL at any time; resume; in the end weights, state and metrics equal those of an undisturbed run."""
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(["pmd_lite.api"])

    def begun(target: Any, *args: Any) -> Any:
        child = context.Process(target=target, args=args)
        child.start()
        return child

    def training(out: Path) -> Any:  # no function of this module: to import it would take longer than the training
        job = {"corpus": "toy", "method": "auto-pmd", "preset_name": preset("toy", **SETTINGS), "out": out,
               "show": "off", "score": False}  # fmt: skip
        return begun(one_rank, job, WORLD, 1)

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    begun(int).join()  # the fork server has imported what a child needs
    started = time.perf_counter()
    first = training(whole)
    first.join()
    duration = time.perf_counter() - started
    assert first.exitcode == 0
    chance, kills = random.Random(7), 0
    while kills < 20:
        child = training(broken)
        child.join(timeout=chance.uniform(0.02, 0.25) * duration)
        if child.exitcode == 0:  # finished between two kills: begin a new run to kill
            assert_same(whole, broken)
            broken = broken.with_name(f"{broken.name}x")
            continue
        child.kill()
        child.join()
        kills += 1
    last = training(broken)
    last.join()
    assert last.exitcode == 0
    assert_same(whole, broken)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [{"fidelity": "released", "rollback": True}, {"fidelity": "released"}])
def test_released_fidelity_resumes_to_the_same_bits(
    make_short: MakeTrainer, tmp_path: Path, overrides: dict[str, Any]
) -> None:
    """The teacher's dropout, too, is a function of seed and step, not of what ran before."""
    overrides = {**overrides, "steps": 6, "eval_every": 3, "update_every": 2}  # a search before the crash, one after
    whole = tmp_path / "whole"
    with crashes_kept(whole, tmp_path / "crashes") as crashes:
        make_short("auto-pmd", path=whole, **overrides).run()
    torch.manual_seed(99)
    broken = crashes[len(crashes) // 2]
    make_short("auto-pmd", path=broken, **overrides).run()
    assert_same(whole, broken)


def test_patience_survives_a_resume(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    """The count of evaluations without a gain survives the kill: 2 of 3 before it, so one more ends the run."""
    settings = {"path": tmp_path / "r", "steps": 100, "lr": 1e-9, "patience": 3, "eval_every": 1}
    first = make_trainer("tau=1", **settings)
    first.students[0].best = -1.0  # nothing can beat it
    first.clock = dataclasses.replace(first.clock, total=2)
    first.run()
    second = make_trainer("tau=1", **settings)
    assert second.run() == "early stop"
    assert second.clock.step == 3


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(make_short: MakeTrainer, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = {"steps": 6, "eval_every": 2, "update_every": 2}
    make_short("auto-pmd", path=whole, **settings).run()
    trainer = make_short("auto-pmd", path=stopped, **settings)
    real, handler = trainer.update, signal.getsignal(signal.SIGINT)

    def update_then_interrupt(student: Any) -> int:
        if trainer.clock.step == 3 and student.index == 0:
            signal.raise_signal(signal.SIGINT)
        return real(student)

    trainer.update = update_then_interrupt  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=r"stopped at step 3 of 6.*to continue"):
        trainer.run()
    assert signal.getsignal(signal.SIGINT) is handler
    resumed = make_short("auto-pmd", path=stopped, **settings)
    resumed.run()
    assert_same(whole, stopped)


@pytest.fixture(scope="module")
def undisturbed(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that a signal interrupts below."""
    out, config = tmp_path_factory.mktemp("undisturbed") / "r", preset("toy", **SHORT, device="cpu")
    return train(three_pairs, "tau=1", config, out=out, show="off", score=False).path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has only Ctrl-C")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGUSR1", 138)])
def test_a_signal_saves_and_the_exit_status_names_it(
    name: str, status: int, three_pairs: Corpus, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What schedulers, containers and closed terminals send; twice, as a launcher passes it on."""
    number, real, sent = getattr(signal, name), Trainer.update, []
    handlers = [signal.getsignal(one) for one in ASKING]

    def update_then_signal(self: Trainer, student: Any) -> int:
        if self.clock.step == 7 and not sent:
            sent.append(number)
            signal.raise_signal(number)
            signal.raise_signal(number)
        return real(self, student)

    monkeypatch.setattr(Trainer, "update", update_then_signal)
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: three_pairs)
    words = [f"--{'tokenizer.' if key == 'vocab_size' else ''}{key.replace('_', '-')}={value}"
             for key, value in SHORT.items()]  # fmt: skip
    command = "train -m tau=1 --no-score --show off --device cpu --out"
    words = [*command.split(), str(tmp_path / "r"), *words]
    assert main(words) == status
    assert "stopped at step 7 of 12" in capsys.readouterr().err
    assert [signal.getsignal(one) for one in ASKING] == handlers
    assert main(words) == 0
    assert_same(undisturbed, tmp_path / "r")


@pytest.mark.parametrize(("seconds", "stops"), [(0.1, Interrupted), (2.0, KeyboardInterrupt)])
def test_a_second_ctrl_c_counts_if_it_is_not_the_first_one_again(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, seconds: float, stops: type[BaseException]
) -> None:
    """A terminal and a launcher pass on the same signal, which counts once; a later signal means: stop at once."""
    trainer, clock = make_trainer("tau=1", steps=4), itertools.count(1000.0, seconds)
    monkeypatch.setattr("pmd_lite.training.trainer.time.monotonic", lambda: next(clock))
    real = trainer.update

    def interrupt_twice(student: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return real(student)

    trainer.update = interrupt_twice  # type: ignore[method-assign]
    with pytest.raises(stops):
        trainer.run()
    assert trainer.clock.step == 1
    assert (trainer.rundir.load_checkpoint() is not None) == (stops is Interrupted)


def test_training_works_outside_the_main_thread(make_trainer: MakeTrainer) -> None:
    """Notebooks and servers may call from another thread, where signal handlers cannot be set."""
    trainer, result = make_trainer("tau=1", steps=2), []
    thread = threading.Thread(target=lambda: result.append(trainer.run()))
    thread.start()
    thread.join()
    assert result == ["all steps made"]


@pytest.mark.slow
def test_finished_runs_are_returned_not_overwritten(three_pairs: Corpus, tmp_path: Path) -> None:
    config = preset("toy", **SHORT)
    train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", score=False)
    before = {p: p.read_bytes() for p in (tmp_path / "r").rglob("*") if p.is_file()}
    train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", score=False)
    assert {p: p.read_bytes() for p in (tmp_path / "r").rglob("*") if p.is_file()} == before
    with pytest.raises(UserError, match="holds a run already"):
        train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", resume="never")
    with pytest.raises(UserError, match=r"holds another run: config\.optim\.lr differ"):
        train(three_pairs, "tau=1", preset("toy", **{**SHORT, "lr": 1e-4}), out=tmp_path / "r", show="off")
    about = tmp_path / "r" / "config.json"  # as if a GPU had trained it
    text = about.read_text(encoding="utf-8").replace('"precision": "fp32"', '"precision": "fp16"')
    about.write_text(text, encoding="utf-8")
    about.write_text(about.read_text(encoding="utf-8").replace('"device": "auto"', '"device": "mps"'), encoding="utf-8")
    elsewhere = preset("toy", **{**SHORT, "precision": "fp16", "device": "mps"})
    run = train(three_pairs, "tau=1", elsewhere, out=tmp_path / "r", show="off", score=False)
    assert run.dir.finished
    assert run.translate(["a"], run.pairs[0])
    (tmp_path / "begun").mkdir()
    for left in (".lock", "config.json.tmp"):
        (tmp_path / "begun" / left).write_text("{")
    assert train(three_pairs, "tau=1", config, out=tmp_path / "begun", show="off", score=False).dir.finished
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty and does not hold a run"):
        train(three_pairs, "tau=1", config, out=tmp_path / "full", show="off")


def test_two_processes_do_not_train_in_one_directory(three_pairs: Corpus, tmp_path: Path) -> None:
    config = preset("toy", **SHORT)
    with RunDir(tmp_path / "r").locked(), pytest.raises(UserError, match="another process is training"):
        train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off")
    train(three_pairs, "tau=1", config, out=tmp_path / "r", show="off", score=False)  # free again
    assert RunDir(tmp_path / "r").finished


@pytest.fixture(scope="module")
def finished(short_encoded: EncodedCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a single model; a test that changes it takes a copy."""
    trainer = trainers(short_encoded, tmp_path_factory.mktemp("finished"), SHORT)("tau=1")
    trainer.run()
    return trainer.rundir.path


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "delete", "pickle"])
@pytest.mark.parametrize("file", ["state.pt", "model_1.safetensors"])
def test_damaged_checkpoints_are_refused_in_words(
    make_short: MakeTrainer, finished: Path, tmp_path: Path, damage: str, file: str
) -> None:
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    target = path / "checkpoint" / (path / "checkpoint" / "LATEST").read_text() / file
    data = target.read_bytes()
    if damage == "truncate":
        target.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        target.write_bytes(bytes([data[0] ^ 0xFF]) + data[1:])
    elif damage == "empty":
        target.write_bytes(b"")
    elif damage == "delete":
        target.unlink()
    else:
        torch.save(_Bomb(tmp_path / "exploded"), target)
    with pytest.raises(UserError, match="damaged"):
        make_short("tau=1", path=path).run()
    assert not (tmp_path / "exploded").exists()


class _Bomb:
    """A pickle that writes a file if it is loaded without protection."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def test_metrics_are_cut_back_to_the_checkpoint(make_short: MakeTrainer, finished: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    whole = (path / "metrics.jsonl").read_bytes()
    with open(path / "metrics.jsonl", "ab") as file:
        file.write(b'{"event": "eval", "step": 99, "stud')  # written after the checkpoint by a run that was killed
    assert len(RunDir(path).metrics()) == 3
    make_short("tau=1", path=path).run()
    assert (path / "metrics.jsonl").read_bytes() == whole
    assert [json.loads(line)["step"] for line in whole.splitlines()] == [4, 8, 12]


def test_weights_of_another_shape_are_refused(make_short: MakeTrainer, finished: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(finished, tmp_path / "r"))
    wider: Trainer = make_short("tau=1", path=path, ffn=64)
    with pytest.raises(UserError, match="another model shape"):
        wider.run()


@pytest.mark.slow
def test_the_same_texts_may_have_moved_and_be_described_in_other_words(three_pairs: Corpus, tmp_path: Path) -> None:
    """The texts of a corpus identify it (`fingerprint`); its place and its stated source may change."""
    words: dict[str, Any] = {**SHORT, "show": "off", "score": False, "device": "cpu"}
    whole = train(three_pairs, "bi-pmd", "toy", out=tmp_path / "whole", **words)
    with stopped_at(7):
        train(three_pairs, "bi-pmd", "toy", out=tmp_path / "parts", **words)
    elsewhere = dataclasses.replace(three_pairs, path=tmp_path / "elsewhere", source="the same, said differently")
    train(elsewhere, "bi-pmd", "toy", out=tmp_path / "parts", **words)
    assert_same(whole.path, tmp_path / "parts")
    with pytest.raises(UserError, match=r"corpus.fingerprint, corpus.pairs"):
        train(three_pairs.only(three_pairs.pairs[:2]), "bi-pmd", "toy", out=tmp_path / "parts", **words)
