"""Variables of an earlier torchrun in the environment are named; a process that waits says for whom."""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pmd_lite import errors
from pmd_lite.api import train
from pmd_lite.cli import commands
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.errors import UserError, waiting
from pmd_lite.training import distributed
from pmd_lite.training.distributed import ALONE, joined, place_among_ranks
from tests.conftest import TINY

COMPLETE = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29511"}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in COMPLETE:
        monkeypatch.delenv(name, raising=False)


def test_without_torchrun_and_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_among_ranks() == (0, 1, 0)
    monkeypatch.setenv("MASTER_ADDR", "host")  # container images set it; alone it means nothing
    assert place_among_ranks() == (0, 1, 0)
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "1")
    assert place_among_ranks() == (1, 2, 0)
    monkeypatch.delenv("LOCAL_RANK")
    assert place_among_ranks() == (1, 2, 0)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
@pytest.mark.parametrize("value", ["", "-1", "two", "2.0", "99999999", None])
def test_a_set_that_does_not_fit_together_is_named(
    name: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "MASTER_ADDR" and value:
        pytest.skip("any word may name a machine")
    for other, usual in COMPLETE.items():
        monkeypatch.setenv(other, usual)
    if name == "WORLD_SIZE" and value == "99999999":
        monkeypatch.setenv("RANK", "99999999")
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="If torchrun did not start this process: unset ") as error:
        place_among_ranks()
    assert value is None or f"{name}={value}" in str(error.value)


@pytest.mark.slow
def test_the_command_names_them_before_it_writes_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(["train", "-c", "toy", "--out", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pmd_lite: error: the environment has RANK=1, which does not") and said.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_one_process_of_a_left_over_pair_says_for_whom_it_waits_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "PATIENCE", 0.05)
    monkeypatch.setattr(distributed, "_TO_MEET", distributed.timedelta(seconds=0.3))
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        free = probe.getsockname()[1]
    for name, value in {**COMPLETE, "MASTER_PORT": str(free)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="the 2 processes of this run cannot connect to each other"), joined("cpu"):
        pass
    said = capsys.readouterr().err
    assert "waiting for the other 1 of 2 processes (WORLD_SIZE=2, RANK=0). If torchrun did not start this" in said
    assert distributed.current() is ALONE


def test_who_waits_says_so_once_and_who_does_not_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "PATIENCE", 0.05)
    with waiting("the bus"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "pmd_lite: waiting for the bus\n"
    with pytest.raises(KeyError), waiting("nothing"):
        raise KeyError
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_second_writer_of_a_cache_says_for_whom_it_waits(
    tiny_corpus: Corpus, tiny_encoded: EncodedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(errors, "PATIENCE", 0.05)
    encode_corpus(tiny_corpus, tiny_encoded.tokenizer, TINY["max_len"], tmp_path / "another")
    (made,) = (tmp_path / "another").glob("encoded-*")
    cache = tmp_path / made.name
    held = threading.Event()

    def write() -> None:
        with FileLock(tmp_path / f".{cache.name}.lock"):
            held.set()
            time.sleep(0.4)

    writer = threading.Thread(target=write)
    writer.start()
    assert held.wait(10)
    encode_corpus(tiny_corpus, tiny_encoded.tokenizer, 64, tmp_path)
    writer.join()
    assert f"waiting for the process that writes {cache}" in capsys.readouterr().err


def test_translate_says_that_it_waits_for_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_corpus: Corpus
) -> None:
    class Slow(io.BytesIO):
        def read1(self, *args: object) -> bytes:  # type: ignore[override]
            time.sleep(0.3)
            return b""

    words: dict[str, Any] = {"out": tmp_path / "r", "show": "off", "score": False}
    run = train(tiny_corpus, "tau=1", preset("toy", **{**TINY, "steps": 1}), **words)
    monkeypatch.setattr(errors, "PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slow()))
    assert main(["translate", str(run.path), "--pair", run.pairs[0]]) == 0
    assert "waiting for sentences from standard input" in capsys.readouterr().err


@pytest.mark.slow
def test_a_rank_left_over_does_not_silence_the_launcher(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_corpus: Corpus
) -> None:
    """--processes starts ranks of its own, and the process that started them prints the table."""
    run = train(tiny_corpus, "tau=1", preset("toy", **{**TINY, "steps": 2}), out=tmp_path / "r", show="off")
    monkeypatch.setattr("pmd_lite.processes.launch", lambda *args, **words: run)
    monkeypatch.setattr(commands, "draw", lambda *runs: None)
    monkeypatch.setenv("RANK", "1")
    assert main(["train", "-c", "toy", "-m", "tau=1", "--processes", "2", "--out", str(run.path)]) == 0
    assert "Test BLEU" in capsys.readouterr().out
