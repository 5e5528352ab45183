"""Files and directories that appear whole or not at all, and messages about what the file system refuses.

Every other room of pmd_lite writes through this file. One thing needs more: a log that grows line by line
(training/rundir.py).
"""

import errno
import json
import math
import os
import re
import shutil
import typing
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import Any

from pmd_lite.errors import UserError

_ROOM, _ELSEWHERE = "Make room", "Choose another directory"
_RIGHTS = "Make the directory writable, or choose another one"
_ADVICE = {
    errno.ENOSPC: _ROOM, errno.EDQUOT: _ROOM, errno.EFBIG: "Allow larger files (ulimit -f)",
    errno.EROFS: _RIGHTS, errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS,
    errno.ENOTDIR: _ELSEWHERE, errno.EEXIST: _ELSEWHERE, errno.EISDIR: _ELSEWHERE,
    errno.ENAMETOOLONG: "Choose a shorter path",
    errno.ENOENT: "It was removed or renamed meanwhile; put it back",
    errno.EIO: "The disk reports a fault; move the directory to another one",
    errno.ENOLCK: _ELSEWHERE, errno.ENOTSUP: _ELSEWHERE,
}  # fmt: skip
"""What to do, by error number. Other errors are not about a directory (a closed pipe, a network), so they pass."""
_KEPT = "give the same command again: what was saved before is whole, and the command continues from there"
_NOTHING_LEFT = "give the same command again: nothing was left behind"


@contextmanager
def explained(where: Path, then: str = _KEPT) -> Iterator[None]:
    """Turn what the file system refuses in the block into UserError, with the advice `then`; other errors pass."""
    try:
        yield
    except Exception as error:
        number = _number(error)
        if number not in _ADVICE:
            raise
        named = str(getattr(error, "filename", None) or where)
        place = where if named.startswith(str(where)) else named  # the final name tells more than a temporary one
        raise UserError(f"{place}: {os.strerror(number)}. {_ADVICE[number]}, then {then}") from None


@contextmanager
def new_directory(out: Path, *, replace: bool = False, then: str = _NOTHING_LEFT) -> Iterator[Path]:
    """Give a directory to fill in the block. It then appears as `out`, whole; after an error nothing is left of it.

    Args:
        replace: an existing `out` is moved away first, and deleted when the new one is in its place.
        then: what to do after the cause of an error is gone.
    Raises UserError when `out` exists and `replace` is false, or for what the file system refuses.
    """
    if os.path.exists(out) and not replace:
        raise UserError(f"{out} exists, but a new directory is to be written: choose another one, or remove this one")
    part, old = (out.with_name(f"{out.name}.{uuid.uuid4().hex[:8]}.{kind}") for kind in ("part", "old"))
    try:
        with explained(out, then):
            part.mkdir(parents=True)
            yield part
            for path in (*part.rglob("*"), part):  # the name must not reach the disk before the content
                if path.is_file():  # safetensors and others let only the owner read, whatever the umask
                    path.chmod(part.stat().st_mode & 0o666)
                sync(path)
            if replace and out.exists():
                out.rename(old)
            part.rename(out)
        sync(out.parent)
    finally:
        if old.exists() and not out.exists():  # the new one did not get there
            old.rename(out)
        remove(old)
        remove(part)


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
    """Flush to disk; OSError if a file's bytes do not get there. Directories: where the system can flush them."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not path.is_dir() and error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary file, which then replaces `path` in one step. UserError if the disk refuses it."""
    temporary = path.with_name(path.name + ".tmp")
    with explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            sync(temporary)
            os.replace(temporary, path)
        except Exception:
            remove(temporary)  # half a file would fill a full disk further
            raise
    sync(path.parent)


def remove(path: Path) -> None:
    """Delete a file or directory if it exists and the system allows it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def place(path: str | Path) -> Path:
    """A path that a user gives, with ~ expanded. Raises UserError for the home of an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{path}: this machine has no user with this name. Write the directory in full") from None


def opened(path: Path) -> BufferedReader:
    """A file, open for reading. Raises OSError, also for what is not a file: a pipe can keep a reader waiting."""
    if path.exists() and not path.is_file():
        raise OSError(errno.ENOTSUP, "it is a directory, a pipe or a device, not a file", str(path))
    return path.open("rb")


def refused(path: Path, error: BaseException) -> str:
    """What to say when the system refuses to read a file, which may be sound; "" when it is absent or damaged."""
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return f"{error.filename or path} cannot be read ({error.strerror or error}). Check its rights and its kind"
    return f"{path} is a link to a file that does not exist. Correct or remove it" if path.is_symlink() else ""


def content(path: Path) -> bytes:
    """All bytes of a file. Raises UserError when the system refuses to read it."""
    try:
        with opened(path) as file:
            return file.read()
    except OSError as error:
        raise UserError(refused(path, error) or f"{path} is absent. Copy it back from a backup") from None


def checksum(file: Path) -> str:
    """sha256 (hex) of a file. Raises OSError as `opened` does."""
    with opened(file) as stream:
        return file_digest(stream, "sha256").hexdigest()


def seal(folder: Path) -> None:
    """Write sums.json, which holds the checksum of every file of the folder."""
    write_json(folder / "sums.json", {path.name: checksum(path) for path in sorted(folder.iterdir())})


def check_seal(folder: Path) -> None:
    """Raises UserError for a file that is not as `seal` saw it."""
    cure = f"Delete {folder}; it is made again."
    sums = read_json(folder / "sums.json", {"*": str}, cure)
    for path, digest in ((folder / name, digest) for name, digest in sums.items()):
        try:
            if checksum(path) != digest:
                raise ValueError("it is not the file that was sealed")
        except (OSError, ValueError) as error:
            raise UserError(refused(path, error) or f"{path}: this file is missing or damaged. {cure}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file with `write_atomic`."""
    write_atomic(path, lambda p: p.write_bytes(data))


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON with `write_atomic`."""
    write_bytes(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


class Record(dict[str, Any]):
    """An object of a JSON file. Reading a key that it lacks raises UserError, which names the file."""

    where: Path | str = ""

    def __missing__(self, key: str) -> Any:
        raise UserError(f"{self.where} is damaged: it lacks {key!r}. Restore it from a backup")


def read_json(path: Path, shape: Any = dict, cure: str = "is this a run directory? If so, restore the file") -> Any:
    """The content of a file as `parse_json` gives it. Raises UserError when the file is absent or damaged."""
    try:
        with opened(path) as file:
            return parse_json(file.read(), shape, path)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(refused(path, error) or f"{path} is absent or damaged ({error}); {cure}") from None


def parse_json(text: bytes, shape: Any, where: Path | str) -> Any:
    """JSON whose objects are `Record`s of `where`. Raises ValueError or RecursionError unless it has the shape.

    shape: a type or a union of types (numbers are finite, and bool is not a number); [shape], a list; {key: shape}, an
    object, whose other keys have the shape of "*" if there is one. No text and no key may hold control characters.
    """
    try:
        data = json.loads(text.decode("utf-8"), object_hook=Record)
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from None
    _check(data, shape, where, "it")
    return data


CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that no name and no message may hold: they steer terminals, or are not characters."""
_KINDS = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false", dict: "an object",
          list: "a list", type(None): "null"}  # fmt: skip


def plain(text: str) -> str:
    """The text with escapes for control characters: foreign names must not steer the terminal."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def _check(data: Any, shape: Any, where: Path | str, part: str) -> None:
    kind, outer = type(data), isinstance(shape, dict | list)
    kinds = typing.get_args(shape) or (type(shape) if outer else shape,)
    if kind in (int, float):
        fits = (kind in kinds or float in kinds) and abs(data) < (2**63 if kind is int else math.inf)
    else:
        fits = kind in kinds or (dict in kinds and kind is Record)
    if not fits and object not in kinds:
        raise ValueError(f"{part[:80]} is not {' or '.join(_KINDS[kind] for kind in kinds)}")
    if kind is str and CONTROL.search(data):
        raise ValueError(f"{plain(part[:80])} holds control characters: {data[:40]!a}")
    if kind is Record:
        data.where = where
        for key, value in data.items():
            _check(key, str, where, part)
            _check(value, shape.get(key, shape.get("*", object)) if outer else object, where, f"{part}.{key}")
    elif kind is list:
        for value in data:
            _check(value, shape[0] if outer else object, where, f"an entry of {part}")
