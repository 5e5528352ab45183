"""Files from the network: whole or not at all, resumed where they broke off, checked, remembered by their sha256.

On its way a file is `name.part`, beside `name.part.json`, which says to what remote file the bytes belong. A finished
one has `name.sha256.json` beside it: address, size, sha256 and date of the first fetch. Checksums of most public
corpora are not published; so what came first is trusted, and any later change is noticed. `name.lock` stays empty.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout  # torch needs it, so it is there; the lock of a killed process is free again

from pmd_corpora.transfer import Broken, Failed, Remote, beside, discard, known_values, transfer, unsafe
from pmd_lite.disk import sync, write_json
from pmd_lite.errors import UserError

__all__ = ["Offline", "Remote", "fetch", "verify"]

WAIT = 1.0  # seconds before the first retry; each further one waits twice as long
LONGEST_WAIT = 60.0  # seconds, whatever a server asks for
PROGRESS = 1 << 20  # bytes: a connection that brings this many more is no failure, and the retries are counted anew
_RECORD = ".sha256.json"
_INSTEAD = (
    "Without network there are: `python -m pmd_lite data catalogs6` (sentences in installed packages), "
    "`python -m pmd_lite data local` (your own files) and the toy worlds toy, longtail, hard."
)


class Offline(UserError):
    """No address answers, or PMD_OFFLINE is set; the message names what works without network."""


def fetch(remote: Remote, folder: Path, *, show: bool = True, retries: int = 3, timeout: float = 30.0) -> Path:
    """folder/name, fetched unless it is there, whole and checked against `remote` and against its first fetch.

    Interrupt it at will: the next call goes on from name.part. `show`: a progress bar, on a terminal. `retries`: in a
    row and per address, after network errors and from busy servers. `timeout`: seconds without any byte.
    Raises Offline when no address answers, UserError for anything else that keeps the file away.
    """
    if not re.fullmatch(r"[^/\\\x00-\x1f:]+", remote.name) or remote.name in (".", ".."):
        raise UserError(f"{remote.name!r} is no plain file name: give the folder apart from it.")
    path = folder / remote.name
    try:
        if path.exists():
            return _present(path, remote)
        _check_addresses(remote)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(beside(path, ".lock"), timeout=0):
            return _present(path, remote) if path.exists() else _download(remote, path, show, retries, timeout)
    except Timeout as error:
        raise UserError(f"{path} is being fetched by another process. Wait for it, then run this again.") from error
    except OSError as error:
        raise UserError(_say_disk(path, error)) from error


def verify(path: Path, remote: Remote) -> None:
    """Raises UserError unless the file has the size and sha256 of `remote`, and those of its first fetch."""
    if fault := _fault(path, path, remote):
        raise UserError(f"{path}: {fault}. Delete {path.name} and run the command again.")


def _present(path: Path, remote: Remote) -> Path:
    verify(path, remote)
    if not beside(path, _RECORD).exists():
        _record(path, path, "")
    return path


def _check_addresses(remote: Remote) -> None:
    if os.environ.get("PMD_OFFLINE", "0") not in ("", "0"):
        raise Offline(f"{remote.name} is not here, and PMD_OFFLINE forbids to fetch it. {_INSTEAD}")
    if not remote.urls:
        raise UserError(f"{remote.name} is not here, and no address is known. Put it there by hand.")
    for url in remote.urls:
        if fault := unsafe(url, remote):
            raise UserError(f"{url}: {fault}.")


def _download(remote: Remote, path: Path, show: bool, retries: int, timeout: float) -> Path:
    failures = []
    for url in remote.urls:
        try:
            _from_address(url, remote, path, show, retries, timeout)
            return path
        except Failed as error:
            failures.append((url, error))
    listed = "; ".join(f"{url}: {error}" for url, error in failures)
    if all(error.unreachable for _, error in failures):
        raise Offline(f"{remote.name} cannot be fetched, no address answers ({listed}). {_INSTEAD}")
    size = _size(beside(path, ".part"))
    kept = f" Its first {size:,} bytes are kept: run this again to go on." if size else ""
    raise UserError(f"{remote.name} cannot be fetched. {listed}.{kept}")


def _from_address(url: str, remote: Remote, path: Path, show: bool, retries: int, timeout: float) -> None:
    """The file from one address, in however many connections; Failed when it does not give it."""
    part, expected = beside(path, ".part"), _expected(path, remote)
    best, count, answered = _size(part), 0, False
    while True:
        try:
            transfer(url, expected, path, show, timeout)
            break
        except Broken as error:
            answered |= error.connected
            if error.stale:
                discard(path)
            if _size(part) >= best + PROGRESS:
                best, count = _size(part), 0
            if count >= retries or not answered:  # one that never answered will not in a minute: no waiting offline
                raise Failed(str(error), unreachable=not answered) from error
            time.sleep(min(LONGEST_WAIT, max(error.wait, WAIT * 2**count)))
            count += 1
    if fault := _fault(part, path, remote):
        discard(path)
        raise Failed(fault)
    sync(part)
    _record(path, part, url)  # before the rename: a file without a record counts as put there by hand
    os.replace(part, path)
    discard(path)


def _expected(path: Path, remote: Remote) -> Remote:
    """`remote` with what the first fetch recorded, where `remote` itself leaves it open."""
    record = known_values(beside(path, _RECORD))
    size, sha256 = record.get("size"), record.get("sha256")
    if remote.sha256 or type(size) is not int or not isinstance(sha256, str) or remote.size not in (None, size):
        return remote
    return replace(remote, size=size, sha256=sha256)


def _fault(file: Path, path: Path, remote: Remote) -> str:
    """What is wrong with the bytes of `file` as the content of `path`, or nothing."""
    expected = _expected(path, remote)
    source = "" if expected == remote else f" (as on its first fetch; if it may change, delete {path.name}{_RECORD})"
    if expected.size is not None and (size := _size(file)) != expected.size:
        return f"expected {expected.size:,} bytes, found {size:,}{source}"
    if expected.sha256 and (found := _sha256(file)) != expected.sha256.lower():
        return f"expected sha256 {expected.sha256}, found {found}{source}"
    return ""


def _record(path: Path, source: Path, url: str) -> None:
    """Write name.sha256.json for the bytes that lie in `source`; an empty `url`: put there by hand."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(beside(path, _RECORD), {"url": url, "size": _size(source), "sha256": _sha256(source), "date": now})


def _say_disk(path: Path, error: OSError) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} cannot be read or written ({error}). Check the folder and its permissions."
    have, total = _size(beside(path, ".part")), known_values(beside(path, ".part.json")).get("size")
    wanted = f"{total - have:,} of {total:,} bytes are still wanted" if isinstance(total, int) else "more is wanted"
    stays = f"The {have:,} bytes that came stay in {path.name}.part"
    return f"{path}: the disk is full, {wanted}. {stays}: make room and run this again to go on."


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
