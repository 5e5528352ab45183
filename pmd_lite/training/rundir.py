"""A run directory: config, metrics, checkpoints. Whenever the process is killed, every file here is whole.

    config.json      corpus, method and configuration; written once
    metrics.jsonl    one line per student and evaluation, one per search
    checkpoint/      step-NNNNNNNN/ (the latest), LATEST (its name), best/model_i.safetensors, last/ (see averaging.py)
    tokenizer/       so that the run translates without its corpus
    translations/, scores.json   written when the run is finished

Every file is written under a temporary name, flushed to disk and renamed. A checkpoint is valid as soon as LATEST names
it. It holds the length of metrics.jsonl; resuming cuts off later lines and writes them again.

A run is one thing: a checkpoint holds the checksums of all that belongs to it (`_ties`). Resuming refuses a file of
another run, student, seed or step.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from pmd_lite.config import Config
from pmd_lite.data.reading import checked_pair
from pmd_lite.disk import content, explained, new_directory, parse_json, read_json, refused, write_atomic, write_json
from pmd_lite.errors import UserError, reason
from pmd_lite.training.weights import SUM, read_state, read_weights, save_weights

FORMAT = 2
"""The meaning of a run's numbers; config.json and stored results hold it. 2: an epoch is a pass over the data, P(l) is
a share of sentences, weight decay is decoupled. Runs of format 1 hold no such number."""
EARLIER = ("an earlier version of pmd_lite began this run, and its files lack the checksums that this one compares. "
           "Choose another directory")  # fmt: skip

_CONFIG = {
    "format": int, "method": str, "samplers": [str], "config": {"train": dict}, "init": dict | None,
    "asked": dict | None, "tokenizer": str | None, "prolonged": dict | None,
    "corpus": {"name": str, "path": str | None, "fingerprint": str, "source": str, "pairs": [str], "sizes": [int]},
}  # fmt: skip
PER_PAIR = ("dev_loss", "dev_smoothed", "dev_tokens", "train_ce", "train_kd", "train_nll", "alpha", "p", "visits",
            "tokens")  # fmt: skip
"""Fields of an evaluation with a number for each pair."""
_EVENT = {"event": str, "step": int, "total": int, "epoch": float, "student": int, "seconds": float, "mu": float,
          "overflow_skips": int, "multiply_adds": {"*": int}, **dict.fromkeys(PER_PAIR, list)}  # fmt: skip
_END = {"reason": str, "step": int, "seconds": float, "parameters": int, "multiply_adds": {"*": int}, "sum": str}
_NOT_WEIGHTS = {"device", "precision", "compile", "beam", "length_penalty", "tokenize", "keep_last"}
"""Fields of `train` that say where a run is made, what it keeps and how it translates, not what it learns."""
LENGTH = ("steps", "epochs", "max_steps", "patience")
"""Fields of `train` that say when a run ends. Those that a run was prolonged to are "prolonged" in config.json."""


def lengthened(written: Mapping[str, Any]) -> Config:
    """The configuration in config.json, with the length that the run has by now."""
    settings, longer = written["config"], written.get("prolonged")
    return Config.from_dict({**settings, "train": {**settings["train"], **longer}} if longer else settings)


class RunDir:
    """Reads and writes one run directory.

    writes: False for all ranks but rank 0. They read; all that would lock or change the directory does nothing.
    """

    def __init__(self, path: Path, writes: bool = True):
        self.path, self.writes = path, writes
        self.checkpoints, self.log = path / "checkpoint", path / "metrics.jsonl"
        self._best: dict[int, str] = {}  # {student: checksum of its best weights}

    @property
    def config(self) -> dict[str, Any]:
        """config.json. Raises UserError when it is absent, damaged, or of another version."""
        written = read_json(path := self.path / "config.json", _CONFIG)
        if written.get("format") != FORMAT:
            raise UserError(f"{self.path} was begun by another version of pmd_lite, in which an epoch, a pair's share "
                            "of the data and weight decay meant something else. Choose another directory")  # fmt: skip
        pairs = written["corpus"]["pairs"]
        try:
            for pair in pairs:  # they become names of files
                checked_pair(pair, "corpus.pairs")
            if not pairs or len(set(pairs)) != len(pairs) or len(written["corpus"]["sizes"]) != len(pairs):
                raise UserError("corpus.pairs and corpus.sizes do not fit each other")
            lengthened(written)
        except UserError as error:
            raise UserError(f"{path} is damaged: {error}. Copy it back from a backup") from None
        return written

    @property
    def identity(self) -> str:
        """sha256 (hex) of all in config.json that decides what a run learns; "" when there is no config.json."""
        if not (self.path / "config.json").exists():
            return ""
        written = self.config
        train = {name: value for name, value in written["config"]["train"].items() if name not in _NOT_WEIGHTS}
        start, corpus = written.get("init") or {}, written["corpus"]
        whole = [{**written["config"], "train": train}, corpus["pairs"], corpus["fingerprint"], start.get("sha256"),
                 *map(written.get, ("tokenizer", "method", "samplers"))]  # fmt: skip
        return sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Reserve the directory for this process; the system releases it when the process ends for any reason.

        Raises UserError when another process is training in it, or when it cannot be written.
        """
        if not self.writes:
            yield
            return
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if (lock := self.path / ".lock").exists() and not lock.is_file():  # a pipe would wait for ever
                raise UserError(f"{lock} is not a file. Remove it")
            try:
                held = FileLock(lock, timeout=0).acquire()
            except Timeout:
                raise UserError(f"{self.path}: another process is training in this directory; wait for it, or choose "
                                "another out directory") from None  # fmt: skip
        with held:
            yield

    @property
    def finished(self) -> bool:
        """Whether training has ended."""
        return (self.path / "finished.json").exists()

    def finish(self, summary: dict[str, Any]) -> None:
        """Record that training has ended."""
        if self.writes:
            write_json(self.path / "finished.json", self.sealed(summary, self._log().hex()))

    def summary(self) -> dict[str, Any]:
        """finished.json. Raises UserError when it, metrics.jsonl or config.json is not as this run left it."""
        about: dict[str, Any] = read_json(self.path / "finished.json", _END)
        whole = {"reason", "step", "seconds"} <= about.keys()
        if whole and "sum" not in about:
            raise UserError(f"{self.path}: {EARLIER}")
        if not whole or about != self.sealed(about, self._log().hex()):
            what = "finished.json or metrics.jsonl is not as this run left it. Copy both back from a backup"
            raise UserError(f"{self.path}: {what}")
        return about

    def sealed(self, data: dict[str, Any], *more: str) -> dict[str, Any]:
        """The data with a checksum of this run, of the data and of `more` under "sum"."""
        whole = json.dumps([self.identity, {**data, "sum": None}, *more], sort_keys=True)
        return {**data, "sum": sha256(whole.encode()).hexdigest()}

    def append_metrics(self, events: list[dict[str, Any]]) -> int:
        """Append JSON lines; returns the length of the file in bytes, which the next checkpoint holds."""
        if not self.writes:
            return 0
        with explained(self.log), open(self.log, "ab") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events).encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines of metrics.jsonl (a killed run may leave half a line at the end).

        Raises UserError that names a damaged line, and when a finished run has others than at its end.
        """
        events = []
        for number, line in enumerate(self._log().split(b"\n")[:-1], 1):
            where = f"{self.log}:{number}"
            try:
                events.append(parse_json(line, _EVENT, where))
            except (ValueError, RecursionError) as error:
                what = f"{where}: this line is damaged ({error}); copy the file back from a backup"
                raise UserError(what) from None
        if self.finished:
            self.summary()
        return events

    def lines(self, event: str, pairs: int) -> list[dict[str, Any]]:
        """The metrics lines of one kind. Raises UserError when one lacks a number for some of this many pairs."""
        lines = [line for line in self.metrics() if line["event"] == event]
        for line, name in ((line, name) for line in lines for name in PER_PAIR):
            values = line.get(name, [0] * pairs)
            if len(values) != pairs or not all(isinstance(x, int | float | None) for x in values):
                raise UserError(f"{self.log}: {name} of step {line['step']} is not one number for each pair. Copy the "
                                "file back from a backup")  # fmt: skip
        return lines

    def save_best(self, student: int, model: dict[str, Tensor], step: int) -> None:
        """A student's best weights so far, those of `step`."""
        if self.writes:
            about = self.about(student, step)
            write_atomic(
                self._best_file(student), lambda p: self._best.update({student: save_weights(model, p, **about)})
            )

    def _best_file(self, student: int) -> Path:
        return self.checkpoints / "best" / f"model_{student + 1}.safetensors"

    def about(self, student: int, step: int | str) -> dict[str, str]:
        """What a file of weights says about itself."""
        return {"run": self.identity, "student": str(student + 1), "step": str(step)}

    def save_checkpoint(self, step: int, models: list[dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Write a whole checkpoint beside the old one, point LATEST at it, then remove the old one.

        Raises UserError when the disk refuses it; then the old checkpoint is still there.
        """
        if not self.writes:
            return
        name = f"step-{step:08d}"
        if self._latest() != name:  # a second save at one step would write the same
            kept = "give the same command again: the checkpoint before this one is whole"
            with new_directory(self.checkpoints / name, replace=True, then=kept) as part:
                sums = [save_weights(model, part / f"model_{i + 1}.safetensors", **self.about(i, step))
                        for i, model in enumerate(models)]  # fmt: skip
                state = {**state, "step": step}
                state["ties"] = self._ties(sums, self._best, state)
                with open(part / "state.pt", "wb") as file:  # an open file: torch.save(path) hides errors of the disk
                    torch.save(state, file)
            write_atomic(self.checkpoints / "LATEST", lambda p: p.write_bytes(name.encode()))
        for old in self.checkpoints.glob("step-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def _ties(self, models: Sequence[str], best: Mapping[int, str | None], state: dict[str, Any]) -> dict[str, Any]:
        """{file of the run: what a checkpoint remembers of it}; models, best: the checksums of the weights."""
        folder, log = f"checkpoint/step-{state['step']:08d}", self._log()[: state["metrics_size"]]
        latest = {f"{folder}/model_{i + 1}.safetensors": checksum for i, checksum in enumerate(models)}
        kept = {f"checkpoint/best/model_{i + 1}.safetensors": best.get(i) for i in range(len(models))}
        return {"config.json": self.identity, **latest, **kept, "metrics.jsonl": sha256(log).hexdigest()}

    def _log(self) -> bytes:
        return content(self.log) if self.log.exists() else b""

    def _latest(self) -> str | None:
        path = self.checkpoints / "LATEST"
        if not path.exists():
            return None
        name = content(path).decode("utf-8", errors="replace").strip()
        if not re.fullmatch(r"step-\d+", name):
            raise UserError(f"{path}: this file is damaged; it should hold the name of the folder beside it, step-...")
        return name

    def load_checkpoint(self) -> tuple[list[dict[str, Tensor]], dict[str, Any]] | None:
        """(weights of each student, other state), or None before the first save. Tensors are on the CPU.

        Raises UserError when the checkpoint is damaged, or a file of the run is not the one that belongs to it. Loading
        executes nothing from the files.
        """
        if (name := self._latest()) is None:
            return None
        path, models, read = self.checkpoints / name / "state.pt", [], []
        anew = f"back from a backup, or delete {self.checkpoints / 'LATEST'} to train anew"
        try:
            state = read_state(path)
            for i in range(state["n_students"]):
                path = path.with_name(f"model_{i + 1}.safetensors")
                weights, about = read_weights(path)
                models.append(weights)
                read.append(about[SUM])
            best = {}
            for i in range(len(models)):
                path = self._best_file(i)
                best[i] = read_weights(path)[1] if path.exists() else {}
            path = self.checkpoints / name / "state.pt"
            strange = self._strange(name, state, read, best) if "ties" in state else EARLIER
        except Exception as error:  # torch.load raises many kinds for a damaged file
            what = f"{path}: this checkpoint is damaged ({reason(error)}). Copy its folder {anew}"
            raise UserError(refused(path, error) or what) from None
        if strange:
            raise UserError(f"{self.path}: {EARLIER}" if strange == EARLIER else f"{strange}. Copy it {anew}")
        self._best = {i: about[SUM] for i, about in best.items() if about}
        state.pop("ties")
        return models, state

    def _strange(
        self, name: str, state: dict[str, Any], models: Sequence[str], best: Mapping[int, dict[str, str]]
    ) -> str:
        """The first file that does not belong to this checkpoint; "" if all do. models, best: what the files say."""
        log, size, ties = self._log(), state["metrics_size"], state["ties"]
        if len(log) < size or log[:size][-1:] not in (b"", b"\n"):
            return (f"{self.log}: lines are missing ({len(log)} bytes, the checkpoint knows of {size}, and its last "
                    "line ends there)")  # fmt: skip
        if name != f"step-{state['step']:08d}":
            return f"{self.checkpoints / name / 'state.pt'}: this is the checkpoint of step {state['step']}"
        sums = {i: about.get(SUM) for i, about in best.items()}
        for i, about in best.items():
            # A kill after save_best leaves weights newer than the checkpoint, which training then makes again.
            step = about.get("step", "0")
            if int(step) > state["step"] and about == {SUM: about[SUM], **self.about(i, step)}:
                sums[i] = ties[f"checkpoint/best/model_{i + 1}.safetensors"]
        present = self._ties(models, sums, state)
        strange = [file for file in present if present[file] != ties[file]]
        return f"{self.path / strange[0]}: this is not the file that the checkpoint knows" if strange else ""

    def truncate_metrics(self, size: int) -> None:
        """Cut metrics.jsonl to the length in the checkpoint, in bytes."""
        if self.writes and self.log.exists() and self.log.stat().st_size > size:
            with explained(self.log):
                os.truncate(self.log, size)

    def load_weights(self, student: int, which: str | Path = "best") -> dict[str, Tensor]:
        """A student's "best" or "latest" weights, or those of a file. UserError when they are absent or damaged."""
        folder = self.checkpoints / ("best" if which == "best" else self._latest() or "none")
        file = which if isinstance(which, Path) else folder / f"model_{student + 1}.safetensors"
        if not file.exists():
            raise UserError(f"{file}: no weights yet; train this run first")
        try:
            weights, about = read_weights(file)
            if "run" in about and about != {**about, **self.about(student, about.get("step", ""))}:
                raise ValueError("they belong to another run or student")
        except Exception as error:  # safetensors raises many kinds
            what = f"{file}: these weights are damaged ({reason(error)}). Copy it back from a backup, or train anew"
            raise UserError(refused(file, error) or what) from None
        if "run" not in about:
            raise UserError(f"{file}: {EARLIER}")
        return weights
