"""The disk is full, read-only or taken, or the clock jumps: each gives one sentence, and no saved file is lost."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pmd_lite import disk as disk_module
from pmd_lite import run as run_module
from pmd_lite.api import train
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import explained
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training import rundir as rundir_module
from pmd_lite.training import weights as weights_module
from pmd_lite.training.progress import Progress
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT, MakeTrainer
from tests.paper.test_resume import assert_same

SETTINGS: dict[str, Any] = {**SHORT, "steps": 4, "eval_every": 1, "update_every": 2, "tokens": 400}
forks = pytest.mark.skipif(sys.platform == "win32", reason="forks")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB, which only root can make."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(place: Path) -> None:
    with suppress(OSError), open(place / "ballast", "ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.fixture(scope="module")
def two_pairs(three_pairs: Corpus) -> Corpus:
    return three_pairs.only(list(three_pairs.pairs)[:2])


@pytest.fixture(scope="module")
def whole(two_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return train(two_pairs, "auto-pmd", preset("toy", **SETTINGS), out=out, show="off").path


PLACES: dict[str, tuple[Any, str]] = {
    "best": (RunDir, "save_best"), "metrics": (RunDir, "append_metrics"), "checkpoint": (RunDir, "save_checkpoint"),
    "translations": (Run, "translate"), "scores": (run_module, "write_json"),
}  # fmt: skip
"""What is about to be written when the disk turns out to be full: the function that is called just before."""


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_full_disk_says_so_and_the_run_goes_on_when_there_is_room(
    place: str, small_disk: Path, whole: Path, two_pairs: Corpus
) -> None:
    """The kernel itself refuses; afterwards the same command ends in the bits of the undisturbed run."""
    (owner, name), out, calls = PLACES[place], small_disk / "run", itertools.count(1)
    moment = 1 if place == "scores" else 3  # something is saved by then
    real = getattr(owner, name)

    def on_a_full_disk(*args: Any, **words: Any) -> Any:
        if next(calls) == moment:
            fill(small_disk)
        return real(*args, **words)

    words = {"out": out, "show": "off", "score": place in ("translations", "scores")}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UserError) as stopped:
        patch.setattr(owner, name, on_a_full_disk)
        train(two_pairs, "auto-pmd", preset("toy", **SETTINGS), **words)  # type: ignore[arg-type]
    assert "No space left on device. Make room, then give the same command again" in str(stopped.value)
    assert str(out) in str(stopped.value)
    assert not list(out.rglob("*.tmp")), "half a file takes room from those who have none"
    assert RunDir(out).load_checkpoint() is not None
    (small_disk / "ballast").unlink()
    train(two_pairs, "auto-pmd", preset("toy", **SETTINGS), **words)  # type: ignore[arg-type]
    assert_same(whole, out)
    if words["score"]:
        for file in ("scores.json", "translations/test.model_2.deu-eng.txt"):
            assert (out / file).read_bytes() == (whole / file).read_bytes()


@pytest.mark.slow
def test_any_refused_operation_is_explained_and_costs_nothing(make_short: MakeTrainer, tmp_path: Path) -> None:
    """Every fifth file operation in turn is refused, also where no small disk can be made: no room, then bad metal."""
    settings, refused = {"steps": 4, "eval_every": 2}, 0
    make_short("bi-pmd", path=tmp_path / "whole", **settings).run()
    for moment, number in zip(range(3, 40, 5), itertools.cycle((errno.ENOSPC, errno.EIO))):
        path, count = tmp_path / f"{moment}", itertools.count(1)

        def refusing(
            real: Callable[..., Any], count: Iterator[int] = count, moment: int = moment, number: int = number
        ) -> Callable[..., Any]:
            def operation(*args: Any, **words: Any) -> Any:
                if next(count) == moment:
                    raise OSError(number, os.strerror(number))
                return real(*args, **words)

            return operation

        with pytest.MonkeyPatch.context() as patch:
            for owner, name in [
                (weights_module, "save_file"), (rundir_module.torch, "save"), (disk_module.os, "fsync"),
                (disk_module.os, "replace"),
            ]:  # fmt: skip
                patch.setattr(owner, name, refusing(getattr(owner, name)))
            try:
                make_short("bi-pmd", path=path, **settings).run()
            except UserError as error:
                assert os.strerror(number) in str(error)
                refused += 1
        make_short("bi-pmd", path=path, **settings).run()
        assert_same(tmp_path / "whole", path)
    assert refused >= 3, "only the flushing of a directory may fail unnoticed"


@pytest.mark.slow
def test_a_read_only_directory_says_so(small_disk: Path, two_pairs: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    config = preset("toy", **SETTINGS)
    run = train(two_pairs, "tau=1", preset("toy", **{**SETTINGS, "steps": 2}), out=small_disk / "r", show="off")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for out in (small_disk / "r", small_disk / "new"):
        with pytest.raises(UserError, match=rf"{out}: Read-only file system\. Make the directory writable, or choose"):
            train(two_pairs, "tau=1", config, out=out, show="off")
    assert Run(run.path).scores == run.scores, "what is there can be read"
    assert main(["train", "--corpus", "toy", "--out", str(small_disk / "new")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pmd_lite: error: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "Make the directory writable"), (errno.EDQUOT, "Make room"), (errno.EFBIG, "Allow larger files"),
        (errno.EIO, "The disk reports a fault"), (errno.ENOTDIR, "Choose another directory"),
    ],
)  # fmt: skip
def test_each_refusal_comes_with_its_advice(number: int, says: str) -> None:
    with pytest.raises(UserError, match=rf"^runs: {os.strerror(number)}\. {says}.* continues"), explained(Path("runs")):
        raise OSError(number, "", "runs")


def test_the_file_that_was_refused_is_named_and_not_the_run_around_it(tmp_path: Path) -> None:
    """Training touches other files too: if an encoded corpus is removed, the error must not blame the run directory."""
    with pytest.raises(UserError, match=r"train\.bin: No such file") as error, explained(tmp_path / "run"):
        (tmp_path / "elsewhere" / "train.bin").read_bytes()
    assert str(tmp_path / "run") not in str(error.value)
    with pytest.raises(UserError, match="run: No such file"), explained(tmp_path / "run"):
        (tmp_path / "run.tmp").read_bytes()  # a temporary name says less than the real one


def test_what_is_no_fault_of_the_disk_passes() -> None:
    for error in (BrokenPipeError(errno.EPIPE, "pipe"), RuntimeError("no such operator"), UserError("as it is")):
        with pytest.raises(type(error)) as passed, explained(Path("runs")):
            raise error
        assert passed.value is error


def test_places_where_no_directory_can_be(two_pairs: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("thesis")
    for out, says in [
        (tmp_path / "file", "is a file; choose another out directory"),
        (tmp_path / "file" / "r", "Not a directory. Choose another"),
        (tmp_path / ("x" * 300), "File name too long. Choose a shorter path"),
    ]:
        with pytest.raises(UserError, match=says):
            train(two_pairs, "tau=1", preset("toy", **SHORT), out=out, show="off")
    assert (tmp_path / "file").read_text() == "thesis"


def _hold(path: Path, ready: Any) -> None:
    """In another process: take the directory and keep it."""
    with RunDir(path).locked():
        ready.set()
        time.sleep(600)


@forks
def test_the_lock_of_another_process_goes_when_it_is_killed(two_pairs: Corpus, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "r", ready))
    holder.start()
    assert ready.wait(60)
    words = {"out": tmp_path / "r", "show": "off", "score": False}
    with pytest.raises(UserError, match="another process is training in this directory; wait for it, or choose"):
        train(two_pairs, "tau=1", preset("toy", **SETTINGS), **words)  # type: ignore[arg-type]
    assert {p.name for p in (tmp_path / "r").iterdir()} == {".lock"}, "the second process has written nothing"
    holder.kill()
    holder.join()
    assert train(two_pairs, "tau=1", preset("toy", **SETTINGS), **words).dir.finished  # type: ignore[arg-type]


def test_a_file_system_without_locks_is_not_called_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(UserError, match=r"[Nn]o locks available\. Choose another"), RunDir(tmp_path).locked():
        pass


def test_a_jumping_clock_changes_no_figure(
    make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wall clock goes back a day each time it is read; no time, rate, remaining time or progress bar may change."""
    looks = itertools.count()
    monkeypatch.setattr(time, "time", lambda: 1e9 - 86_400 * next(looks))
    bar = Progress("bar", "run", ["a"], 10)
    assert bar._bar is not None
    for step in range(1, 4):
        bar.advance(step, 100)
        assert 0 <= bar._bar.format_dict["elapsed"] < 60
    assert bar.tokens_per_second > 0
    bar.close()
    trainer = make_short("auto-pmd", steps=4, eval_every=2)
    trainer.show = "lines"
    trainer.run()
    seconds = [event["seconds"] for event in trainer.rundir.metrics() if event["event"] == "eval"]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert "-" not in capsys.readouterr().out.partition("tok/s, ")[2].partition(" left")[0]
