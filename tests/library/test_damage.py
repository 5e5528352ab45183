"""A damaged or hostile file in a run directory is named and refused, or its content is read unchanged."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pmd_lite.api import train
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from tests.conftest import TINY

SETTINGS = {**TINY, "steps": 4, "eval_every": 2}


@pytest.fixture(scope="module")
def original(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of two students."""
    out = tmp_path_factory.mktemp("damage") / "r"
    return train(tiny_corpus, "bi-pmd", preset("toy", **SETTINGS), out=out, show="off", score=False).path


@pytest.fixture
def run(original: Path, tmp_path: Path) -> RunDir:
    """A copy of it, to be damaged."""
    shutil.copytree(original, tmp_path / "r")
    return RunDir(tmp_path / "r")


def checkpoint_file(run: RunDir, name: str) -> Path:
    return run.checkpoints / (run.checkpoints / "LATEST").read_text() / name


def everything(run: RunDir) -> dict[str, Any]:
    return {"checkpoint": run.load_checkpoint(), "best": [run.load_weights(i) for i in range(2)]}


FILES: dict[str, Callable[[RunDir], Path]] = {
    "state": lambda run: checkpoint_file(run, "state.pt"),
    "weights": lambda run: checkpoint_file(run, "model_2.safetensors"),
    "best": lambda run: run.checkpoints / "best" / "model_2.safetensors",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_no_flipped_bit_goes_unnoticed(file: str, run: RunDir) -> None:
    """At 40 random places: refused with the file's name, or (in a zip's padding) without any effect."""
    path, before, chance = FILES[file](run), everything(run), random.Random(3)
    data, refused = path.read_bytes(), 0
    for _ in range(40):
        place = chance.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :])
        try:
            found = everything(run)
        except UserError as error:
            assert str(path) in str(error) and "damaged" in str(error)
            refused += 1
        else:
            assert list(differences(found, before)) == [], f"byte {place}"
    assert refused > 20
    path.write_bytes(data)
    assert list(differences(everything(run), before)) == []


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.999])
def test_no_cut_goes_unnoticed(file: str, kept: float, run: RunDir) -> None:
    path = FILES[file](run)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    with pytest.raises(UserError, match=rf"{path}: th.* damaged .*Copy .* back from a backup"):
        everything(run)


class _Bomb:
    """A pickle that makes a directory if it is loaded without protection."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("wrapped", ["pickle", "torch", "legacy"])
def test_a_bomb_does_not_go_off(file: str, wrapped: str, run: RunDir, tmp_path: Path) -> None:
    """As a bare pickle, and in both formats of torch.save; test_resume has the trainer's own refusal."""
    path, mark = FILES[file](run), tmp_path / "exploded"
    if wrapped == "pickle":
        path.write_bytes(pickle.dumps(_Bomb(mark)))
    else:
        torch.save({"n_students": _Bomb(mark)}, path, _use_new_zipfile_serialization=wrapped == "torch")
    with pytest.raises(UserError, match="damaged"):
        everything(run)
    assert not mark.exists()
    if wrapped == "torch":  # the bomb is a real one
        shutil.copy(path, tmp_path / "bomb.pt")
        torch.load(tmp_path / "bomb.pt", weights_only=False)
        assert mark.exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"../../elsewhere", b"step-"])
def test_a_damaged_pointer_is_named(content: bytes, run: RunDir) -> None:
    (run.checkpoints / "LATEST").write_bytes(content)
    with pytest.raises(UserError, match=r"LATEST: this file is damaged"):
        run.load_checkpoint()


def test_a_pointer_to_nothing_is_named(run: RunDir) -> None:
    (run.checkpoints / "LATEST").write_text("step-00000099")
    with pytest.raises(UserError, match=r"step-00000099.*damaged.*train anew"):
        run.load_checkpoint()


def test_damaged_and_missing_metrics_are_named(run: RunDir, tiny_corpus: Corpus) -> None:
    path = run.path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{" + lines[1])
    with pytest.raises(UserError, match=r"metrics\.jsonl:2: this line is damaged"):
        run.metrics()
    path.write_bytes(lines[0])
    (run.path / "finished.json").unlink()
    with pytest.raises(UserError, match=r"metrics\.jsonl: lines are missing .*LATEST to train anew"):
        train(tiny_corpus, "bi-pmd", preset("toy", **SETTINGS), out=run.path, show="off", score=False)


def test_weights_that_say_nothing_of_themselves_are_refused(run: RunDir) -> None:
    path = FILES["best"](run)
    save_file(load_file(path), path)
    with pytest.raises(UserError, match=r"model_2\.safetensors: these weights are damaged"):
        run.load_weights(1)


def test_a_changed_number_of_a_finished_run_is_noticed(run: RunDir) -> None:
    """The lines are sound JSON, and only a checksum tells that they are not those of the end."""
    log, end = run.path / "metrics.jsonl", run.path / "finished.json"
    text, about = log.read_text(encoding="utf-8"), end.read_text(encoding="utf-8")
    assert run.metrics() and run.summary()["step"] == 4
    for file, old, new in ((log, text, text.replace('"step": 4', '"step": 3')), (log, text, ""),
                           (log, text, text + text.splitlines(keepends=True)[-1]),
                           (end, about, about.replace('"step": 4', '"step": 3')), (end, about, "{}")):  # fmt: skip
        assert new != old
        file.write_text(new, encoding="utf-8")
        with pytest.raises(UserError, match=r"finished\.json or metrics\.jsonl is not as this run left it. Copy both"):
            run.metrics()
        file.write_text(old, encoding="utf-8")
    assert run.metrics()


@pytest.mark.slow
def test_scores_of_another_run_and_changed_scores_are_refused(
    original: Path, tiny_corpus: Corpus, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "r")
    run = Run(tmp_path / "r")
    run.evaluate(tiny_corpus)
    file = run.path / "scores.json"
    scored = json.loads(file.read_text(encoding="utf-8"))
    assert run.bleu() and run.rescore(tiny_corpus) == scored["scores"]
    first = scored["scores"]["model_1"][run.pairs[0]]
    first["bleu"] += 1
    file.write_text(json.dumps(scored), encoding="utf-8")
    with pytest.raises(UserError, match=r"scores\.json: these are not the scores of this run"):
        run.bleu()
    del scored["sum"]
    file.write_text(json.dumps(scored), encoding="utf-8")
    with pytest.raises(UserError, match=r"scores\.json: these are not the scores of this run"):
        run.bleu()
    write_json(file, run.dir.sealed(scored))
    assert run.bleu()[run.pairs[0]] == first["bleu"]
    run.rescore(tiny_corpus)
    about = run.path / "config.json"  # the same pairs, another run
    about.write_text(about.read_text(encoding="utf-8").replace('"seed": 1', '"seed": 2'), encoding="utf-8")
    with pytest.raises(UserError, match=r"scores\.json: these are not the scores of this run"):
        Run(run.path).bleu()


def test_a_tokenizer_of_another_run_does_not_translate(original: Path, tiny_corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "r")
    run = Run(tmp_path / "r")
    assert run.translate(["a"], run.pairs[0])
    other = train_tokenizer(tiny_corpus, replace(run.config.tokenizer, vocab_size=run.tokenizer.vocab_size - 20))
    shutil.rmtree(run.path / "tokenizer")
    other.save(run.path / "tokenizer")
    with pytest.raises(UserError, match=r"this is not the tokenizer that config\.json names"):
        Run(run.path).translate(["a"], run.pairs[0])
