"""Files written whole or not at all, and in words what the file system refuses: what, where, what to do about it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pmd_lite.errors import UserError

_ROOM, _ELSEWHERE = "Make room", "Choose another directory"
_RIGHTS = "Make the directory writable, or choose another one"
_ADVICE = {
    errno.ENOSPC: _ROOM, errno.EDQUOT: _ROOM, errno.EFBIG: "Allow larger files (ulimit -f)",
    errno.EROFS: _RIGHTS, errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS,
    errno.ENOTDIR: _ELSEWHERE, errno.EISDIR: _ELSEWHERE, errno.ENAMETOOLONG: "Choose a shorter path",
    errno.ENOENT: "It was removed or renamed meanwhile; put it back",
    errno.EIO: "The disk reports a fault; move the directory to another one",
    errno.ENOLCK: _ELSEWHERE, errno.ENOTSUP: _ELSEWHERE,
}  # fmt: skip
"""What to do, by error number. Others are no fault of a directory (a closed pipe, a network) and pass as they are."""


_KEPT = "give the same command again: what was saved before is whole, and it goes on from there"


@contextmanager
def explained(where: Path, then: str = _KEPT) -> Iterator[None]:
    """Raises UserError for what the file system refuses inside the block; all other errors pass.

    then: what is left to do after the cause is gone.
    """
    try:
        yield
    except Exception as error:
        number = _number(error)
        if number not in _ADVICE:
            raise
        named = str(getattr(error, "filename", None) or where)
        place = where if named.startswith(str(where)) else named  # a temporary name says less than the real one
        raise UserError(f"{place}: {os.strerror(number)}. {_ADVICE[number]}, then {then}") from None


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """A directory to be filled in the block, which then appears as `out`, whole; after an error nothing is left of it.

    Raises UserError when `out` exists, or for what the file system refuses.
    """
    if out.exists():
        raise UserError(f"{out} exists; this writes a new directory, so choose another one or remove it")
    part = out.with_name(f"{out.name}.{uuid.uuid4().hex[:8]}.part")  # a name that nobody else uses
    try:
        with explained(out, "give the same command again: nothing was left behind"):
            part.mkdir(parents=True)
            yield part
            part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _number(error: Exception) -> int:
    """The system's error number, also where torch and safetensors hide it; 0 when there is none."""
    if isinstance(error, UserError):
        return 0
    if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):  # torch.save on an open file
        error = error.__context__
    if isinstance(error, OSError):
        return error.errno or 0
    said = re.search(r"\(os error (\d+)\)", str(error))  # safetensors, which is written in Rust
    return int(said[1]) if said else 0


def sync(path: Path) -> None:
    """Flush a file or directory to disk. Raises OSError when a file's bytes do not get there.

    Directories cannot be opened on Windows, where rename is durable enough, and some file systems cannot flush them.
    """
    folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not folder and error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # no flushing here at all
            raise


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary file that then replaces `path` in one step. Raises UserError if the disk refuses it."""
    temporary = path.with_name(path.name + ".tmp")
    with explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            sync(temporary)
            os.replace(temporary, path)
        except Exception:
            remove(temporary)  # half a file would take up room on a full disk
            raise
    sync(path.parent)


def remove(path: Path) -> None:
    """Delete a file or directory as far as the system lets us."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def write_json(path: Path, data: Any) -> None:
    """Atomic, readable JSON."""
    write_atomic(path, lambda p: p.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Raises UserError when the file is absent or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is absent or damaged ({error}); is this a run directory?") from None
