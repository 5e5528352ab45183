"""A run directory: config, metrics, checkpoints. Kill the process at any instant and every file here is whole.

    config.json      corpus, method and configuration; written once
    metrics.jsonl    one line per student and evaluation, one per search
    checkpoint/      step-NNNNNNNN/ (the latest), LATEST (its name), best/model_i.safetensors
    tokenizer/       so that the run translates without its corpus
    translations/, scores.json   written when the run is finished

Every file is written under a temporary name, flushed to disk and renamed. A checkpoint counts from the moment LATEST
names it; metrics beyond its length are cut off on resume and written again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pmd_lite.errors import UserError


def _lock(descriptor: int) -> None:
    """Lock an open file for this process or raise OSError at once. Windows has no fcntl, the others no msvcrt."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync(path: Path) -> None:
    """Flush a file or directory to disk; directories cannot be opened on Windows, where rename is durable enough."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some file systems refuse fsync on a directory
    finally:
        os.close(descriptor)


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary file that then replaces `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    _sync(temporary)
    os.replace(temporary, path)
    _sync(path.parent)


def write_json(path: Path, data: Any) -> None:
    """Atomic, readable JSON."""
    write_atomic(path, lambda p: p.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Raises UserError when the file is absent or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is absent or damaged ({error}); is this a run directory?") from None


class RunDir:
    """Reads and writes one run directory."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = path / "checkpoint"

    @property
    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(read_json(self.path / "config.json"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one process; the system lets go when the process ends, however it ends.

        Raises UserError when another process is training in it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "a", encoding="utf-8") as file:
            try:
                _lock(file.fileno())
            except OSError:
                raise UserError(f"{self.path}: another process is training in this directory; wait for it, or choose "
                                "another out directory") from None  # fmt: skip
            yield

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return (self.path / "finished.json").exists()

    def finish(self, about: dict[str, Any]) -> None:
        """Training came to its end."""
        write_json(self.path / "finished.json", about)

    def append_metrics(self, events: list[dict[str, Any]]) -> int:
        """Append JSON lines; returns the length of the file in bytes, which the next checkpoint remembers."""
        with open(self.path / "metrics.jsonl", "ab") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events).encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines of metrics.jsonl (a run being killed may leave half a last line)."""
        path = self.path / "metrics.jsonl"
        text = path.read_bytes() if path.exists() else b""
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def save_best(self, student: int, model: dict[str, Tensor]) -> None:
        """The weights with a student's lowest mean dev loss so far."""
        target = self.checkpoints / "best" / f"model_{student + 1}.safetensors"
        write_atomic(target, lambda p: save_file(_own(model), p))

    def save_checkpoint(self, step: int, models: list[dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Write a whole checkpoint beside the old one, point LATEST at it, then remove the old one."""
        name = f"step-{step:08d}"
        building = self.checkpoints / f"{name}.tmp"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        for i, model in enumerate(models):
            save_file(_own(model), building / f"model_{i + 1}.safetensors")
        torch.save(state, building / "state.pt")
        for file in building.iterdir():
            _sync(file)
        final = self.checkpoints / name
        if self._latest() == name:  # saved twice at one step: what is there is whole and the same
            shutil.rmtree(building)
            return
        shutil.rmtree(final, ignore_errors=True)  # left by a kill between this rename and LATEST
        os.replace(building, final)
        _sync(self.checkpoints)
        write_atomic(self.checkpoints / "LATEST", lambda p: p.write_text(name, encoding="utf-8"))
        for old in self.checkpoints.glob("step-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def _latest(self) -> str | None:
        path = self.checkpoints / "LATEST"
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    def load_checkpoint(self) -> tuple[list[dict[str, Tensor]], dict[str, Any]] | None:
        """(weights of each student, other state), or None when nothing was saved yet. Tensors on the CPU.

        Raises UserError when the checkpoint is damaged. Nothing in it is ever executed.
        """
        name = self._latest()
        if name is None:
            return None
        folder = self.checkpoints / name
        try:
            state = torch.load(folder / "state.pt", weights_only=True, map_location="cpu")
            models = [load_file(folder / f"model_{i + 1}.safetensors") for i in range(state["n_students"])]
        except Exception as error:  # torch.load raises many kinds, all of them meaning the same here
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(
                f"{folder}: this checkpoint is damaged ({reason}). Delete {self.checkpoints / 'LATEST'} to train anew, "
                "or copy the folder back from a backup"
            ) from None
        return models, dict(state)

    def truncate_metrics(self, size: int) -> None:
        """Cut metrics.jsonl back to what the checkpoint knew of."""
        path = self.path / "metrics.jsonl"
        if path.exists() and path.stat().st_size > size:
            with open(path, "r+b") as file:
                file.truncate(size)

    def load_weights(self, student: int, which: str = "best") -> dict[str, Tensor]:
        """A student's "best" or "latest" weights. Raises UserError when there are none."""
        folder = self.checkpoints / ("best" if which == "best" else self._latest() or "none")
        file = folder / f"model_{student + 1}.safetensors"
        try:
            return dict(load_file(file))
        except (OSError, SafetensorError) as error:
            raise UserError(f"{file}: no readable weights ({error}); train this run first") from None


class Onlooker(RunDir):
    """The run directory as every process but one sees it: read, never written."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The writing process holds the lock."""
        yield

    def finish(self, about: dict[str, Any]) -> None:
        """Nothing."""

    def append_metrics(self, events: list[dict[str, Any]]) -> int:
        """Nothing."""
        return 0

    def save_best(self, student: int, model: dict[str, Tensor]) -> None:
        """Nothing."""

    def save_checkpoint(self, step: int, models: list[dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Nothing."""

    def truncate_metrics(self, size: int) -> None:
        """Nothing."""


def _own(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors, tied ones once: safetensors refuses shared memory, and one name of each is enough."""
    seen: set[int] = set()
    own = {}
    for name, tensor in model.items():
        if tensor.data_ptr() in seen and tensor.numel():
            continue
        seen.add(tensor.data_ptr())
        own[name] = tensor.detach().cpu().contiguous()
    return own
