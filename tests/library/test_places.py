"""Files that are not files, that may not be read, and paths with ~: one true sentence, and no process waits."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pmd_corpora.writing import write_corpus
from pmd_lite.api import load_corpus, train
from pmd_lite.cli.arguments import main
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import new_directory, place
from pmd_lite.errors import UserError
from pmd_lite.exchange.marian import Imported
from pmd_lite.exchange.start import start_from
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from tests.conftest import TINY

SETTINGS: dict[str, Any] = {**TINY, "steps": 2, "eval_every": 2, "update_every": 2, "max_len": 32}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files and no such rights")


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """A test that waits for a pipe fails after a minute."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def original(three_pairs: Corpus) -> Iterator[Path]:
    """A finished run, where users other than its owner can reach it."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        train(three_pairs, "tau=1", preset("toy", **SETTINGS), out=Path(top) / "r", show="off")
        yield Path(top) / "r"


@pytest.fixture
def run(original: Path) -> Iterator[Path]:
    """A copy of it."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        shutil.copytree(original, Path(top) / "r")
        yield Path(top) / "r"


@contextmanager
def without_rights() -> Iterator[None]:
    """What root may do in this block is what any user may."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def latest(run: Path) -> str:
    return f"checkpoint/{(run / 'checkpoint' / 'LATEST').read_text()}"


READERS: dict[str, Callable[[Path], object]] = {
    "config.json": lambda run: Run(run),
    "metrics.jsonl": lambda run: Run(run).evaluations(),
    "scores.json": lambda run: Run(run).table(),
    "finished.json": lambda run: Run(run).finished,
    "checkpoint/LATEST": lambda run: RunDir(run).load_checkpoint(),
    "state.pt": lambda run: RunDir(run).load_checkpoint(),
    "model_1.safetensors": lambda run: RunDir(run).load_checkpoint(),
    "checkpoint/best/model_1.safetensors": lambda run: Run(run).model(),
    "tokenizer/tokenizer.json": lambda run: Run(run).tokenizer,
    "tokenizer/joint.spm": lambda run: Run(run).tokenizer,
    "translations/test.model_1.fra-eng.txt": lambda run: Run(run).translations("fra-eng"),
}
"""{a file of a run: what reads it}; files without a folder here may be in the latest checkpoint."""


def file_of(run: Path, name: str) -> Path:
    return run / name if (run / name).exists() else run / latest(run) / name


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_place_of_a_file_is_named_at_once(run: Path, name: str) -> None:
    file = file_of(run, name)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UserError, match="a pipe or a device, not a file") as error:
        READERS[name](run)
    assert str(file) in str(error.value) and "damaged" not in str(error.value)


@pytest.mark.parametrize("name", READERS)
def test_a_file_without_the_right_to_read_it_is_not_called_damaged(run: Path, name: str) -> None:
    """To copy a file back from a backup would be harmful advice: the file is sound."""
    file = file_of(run, name)
    file.chmod(0)
    with without_rights(), pytest.raises(UserError, match="Permission denied") as error:
        READERS[name](run)
    said = str(error.value)
    assert str(file) in said and not any(word in said for word in ("damaged", "backup", "absent", "again"))
    file.chmod(0o644)
    READERS[name](run)


def test_a_pipe_as_lock_is_named_at_once(three_pairs: Corpus, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(UserError, match=r"\.lock"):
        train(three_pairs, "tau=1", preset("toy", **SETTINGS), out=tmp_path, show="off")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_every_file_of_a_run_has_the_rights_that_the_umask_leaves(
    three_pairs: Corpus, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        train(three_pairs, "tau=1", preset("toy", **SETTINGS), out=tmp_path / "r", show="off", score=False)
    finally:
        os.umask(before)
    files = [file for file in (tmp_path / "r").rglob("*") if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666 & ~umask}
    assert any(file.suffix == ".safetensors" for file in files)


def test_so_has_every_file_of_a_new_directory(tmp_path: Path) -> None:
    """What other libraries write into it too: an export for transformers, an imported checkpoint."""
    before = os.umask(0o027)
    try:
        with new_directory(tmp_path / "d") as part:
            (part / "tokenizer").mkdir()
            for file in (part / "model.safetensors", part / "tokenizer" / "joint.spm"):
                file.touch(0o600)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "d").rglob("*") if path.is_file()}
    assert modes == {0o640}


@pytest.mark.parametrize("words", [["show", "RUN", "--figures"], ["evaluate", "RUN", "--corpus", "toy"]])
def test_another_users_run_is_refused_in_one_sentence(
    run: Path, words: list[str], capsys: pytest.CaptureFixture[str], three_pairs: Corpus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: three_pairs)
    with without_rights():
        assert main([str(run) if word == "RUN" else word for word in words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pmd_lite: error: ") and "Permission denied" in said and len(said.splitlines()) == 1
    with without_rights():
        assert main(["show", str(run)]) == 0, "what may be read is shown"


# ---------------------------------------------------------------- corpora


@pytest.fixture
def corpus(three_pairs: Corpus, tmp_path: Path) -> Path:
    return write_corpus(three_pairs, tmp_path / "corpus")


PUT: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "broken link": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", PUT)
@pytest.mark.parametrize("name", ["train.fra-eng.tsv", "corpus.json"])
def test_what_is_not_a_file_is_not_called_missing(corpus: Path, name: str, kind: str) -> None:
    (corpus / name).unlink()
    PUT[kind](corpus / name)
    with pytest.raises(UserError, match=name) as error:
        load_corpus(corpus)
    assert "missing" not in str(error.value) and "Add it" not in str(error.value)


def test_a_device_is_not_called_absent() -> None:
    with pytest.raises(UserError, match="/dev/null is a pipe or a device"):
        load_corpus("/dev/null")


def test_a_text_without_the_right_to_read_it(three_pairs: Corpus) -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        corpus = write_corpus(three_pairs, Path(top) / "corpus")
        for locked in (corpus / "train.fra-eng.tsv", corpus / "corpus.json", corpus):
            before = locked.stat().st_mode
            locked.chmod(0)
            with without_rights(), pytest.raises(UserError, match="Permission denied") as error:
                load_corpus(corpus)
            locked.chmod(before)
            assert str(locked) in str(error.value) and "damaged" not in str(error.value)


# ---------------------------------------------------------------- ~


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this user; the working directory is another one."""
    for name in ("home", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home"


@pytest.mark.slow
def test_every_path_may_begin_with_a_tilde(
    home: Path, run: Path, original: Path, capsys: pytest.CaptureFixture[str], three_pairs: Corpus
) -> None:
    shutil.copytree(run, home / "a")
    assert Run("~/a").path == start_from("~/a").path == start_from("~/a:1").path == home / "a"
    new = train(write_corpus(three_pairs, "~/corpus"), "tau=1", preset("toy", **SETTINGS), out="~/b", show="off",
                tokenizer="~/a/tokenizer")  # fmt: skip
    assert new.path == home / "b" and Tokenizer.load(home / "b" / "tokenizer").pairs == Run("~/a").tokenizer.pairs
    assert load_corpus("~/corpus").path == home / "corpus"
    for read in (lambda: Imported("~/none"), lambda: Comparison("~/none"), lambda: Comparison.load("~/none")):
        with pytest.raises(UserError, match=str(home / "none")):
            read()
    assert main(["show", "~/a", "~/b"]) == 0 and str(home / "a") in capsys.readouterr().out
    (home / "text").write_text("a b\n")
    assert main(["translate", "~/a", "--pair=fra-eng", "--file=~/text"]) == 0
    assert main(["data", "show", "~/corpus", "--html=~/sheet.html"]) == 0 and (home / "sheet.html").exists()
    assert not list(Path.cwd().iterdir()), "no directory is called ~"


def test_the_home_of_an_unknown_user(home: Path) -> None:
    for use in (place, load_corpus, Run, lambda path: train("toy", out=path)):
        with pytest.raises(UserError, match="no user with this name"):
            use("~nosuchuser/r")
