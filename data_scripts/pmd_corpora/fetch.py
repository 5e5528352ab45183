"""Files from the network: whole or not at all, resumed where they broke off, checked, and recorded with their sha256.

During the download a file is called `name.part`; `name.part.json` says to which remote file its bytes belong. A
finished file has `name.sha256.json` beside it: address, size, sha256 and date of the first fetch. Most public corpora
have no published checksums; so we trust the first download, and notice any later change. `name.lock` stays empty.
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

from filelock import FileLock, Timeout  # installed with torch; the lock of a killed process is free again

from pmd_corpora.transfer import Broken, Failed, Remote, beside, discard, known_values, transfer, unsafe
from pmd_lite.disk import sync, write_json
from pmd_lite.errors import UserError

__all__ = ["Offline", "Remote", "fetch", "verify"]

WAIT = 1.0  # seconds before the first retry; each further one waits twice as long
LONGEST_WAIT = 60.0  # seconds, whatever a server asks for
PROGRESS = 1 << 20  # bytes: after a connection that brings this many more, the retries are counted from 0 again
_RECORD = ".sha256.json"
_INSTEAD = (
    "These work without network: `python -m pmd_lite data catalogs6` (sentences in installed packages), "
    "`python -m pmd_lite data local` (your own files) and the toy worlds toy, longtail, hard."
)


class Offline(UserError):
    """No address answers, or PMD_OFFLINE is set. The message names what works without network."""


def fetch(remote: Remote, folder: Path, *, show: bool = True, retries: int = 3, timeout: float = 30.0) -> Path:
    """The path folder/name, fetched if it is not there yet; checked against `remote` and against its first fetch.

    You may interrupt it: the next call continues from name.part. `show`: a progress bar, on a terminal. `retries`: in a
    row and per address, after network errors and answers of busy servers. `timeout`: seconds without any byte.
    Raises Offline if no address answers, UserError if anything else keeps the file away.
    """
    if not re.fullmatch(r"[^/\\\x00-\x1f:]+", remote.name) or remote.name in (".", ".."):
        raise UserError(f"{remote.name!r} is not a plain file name: give the folder separately.")
    path = folder / remote.name
    try:
        for file in (path, beside(path, ".part")):
            if file.exists() and not file.is_file():
                raise UserError(f"{file} is not a file. Remove it, then give the same command again.")
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
        raise Offline(f"{remote.name} is not here, and PMD_OFFLINE forbids fetching it. {_INSTEAD}")
    if not remote.urls:
        raise UserError(f"{remote.name} is not here, and no address is known. Put the file there by hand.")
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
    kept = f" Its first {size:,} bytes are kept: run this again to continue." if size else ""
    raise UserError(f"{remote.name} cannot be fetched. {listed}.{kept}")


def _from_address(url: str, remote: Remote, path: Path, show: bool, retries: int, timeout: float) -> None:
    """The file from one address, over as many connections as needed. Raises Failed if the address does not give it."""
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
            # A server that has never answered will not answer in a minute: without network, do not wait.
            if count >= retries or not answered:
                raise Failed(str(error), unreachable=not answered) from error
            time.sleep(min(LONGEST_WAIT, max(error.wait, WAIT * 2**count)))
            count += 1
    if fault := _fault(part, path, remote):
        discard(path)
        raise Failed(fault)
    sync(part)
    _record(path, part, url)  # before the rename: a file without a record counts as one that the user put there
    os.replace(part, path)
    discard(path)


def _expected(path: Path, remote: Remote) -> Remote:
    """`remote`; what it leaves open is taken from the record of the first fetch."""
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
    """Write name.sha256.json for the bytes in `source`. An empty `url` means that the user put the file there."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(beside(path, _RECORD), {"url": url, "size": _size(source), "sha256": _sha256(source), "date": now})


def _say_disk(path: Path, error: OSError) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} cannot be read or written ({error}). Check the folder and its permissions."
    have, total = _size(beside(path, ".part")), known_values(beside(path, ".part.json")).get("size")
    missing = f"{total - have:,} of {total:,} bytes are still missing" if isinstance(total, int) else "some are missing"
    stays = f"The {have:,} bytes that came stay in {path.name}.part"
    return f"{path}: the disk is full, {missing}. {stays}: make room and run this again to continue."


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
