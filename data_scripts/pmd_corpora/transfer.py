"""One connection: append the rest of a remote file to name.part, or as much of it as the server sends. See fetch.py."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tqdm import tqdm

from pmd_lite.disk import parse_json, write_json

_CHUNK = 1 << 18
_HEAD = 512  # bytes that are enough to recognise a web page
_LOCAL = ("127.0.0.1", "localhost", "::1")
_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+html|html)\b", re.IGNORECASE)
_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zip")
_BUSY = (408, 425, 429)  # beside 5xx: the same request may be granted later
LEAST_RATE = 1_000  # bytes a second; a slower server would take days
PATIENCE = 60.0  # seconds over which the rate is measured
LARGEST = 1 << 34  # bytes of a file whose size we do not know; no corpus here is near it


@dataclass(frozen=True)
class Remote:
    """One file that several addresses hold.

    If the content behind an address may change, put a revision into the address, and into `name` or the folder.
    """

    urls: tuple[str, ...]
    """Mirrors, tried in this order. https; http only if `sha256` is given, or from this machine."""
    name: str
    """Name of the file on disk, without a folder."""
    size: int | None = None
    """Bytes."""
    sha256: str | None = None
    """In hex."""
    unpinned: str = ""
    """Why there is no sha256: then that of the first download is stored, and decides about every later one."""


class Failed(Exception):
    """One address does not give the file: go to the next. `unreachable`: it did not even answer."""

    def __init__(self, why: str, unreachable: bool = False) -> None:
        super().__init__(why)
        self.unreachable = unreachable


class Broken(Exception):
    """The connection broke, and the next one may work: try again after at least `wait` seconds.

    `connected`: the server answered. `stale`: the bytes in name.part do not belong to what the server has now.
    """

    def __init__(self, why: str, wait: float = 0.0, connected: bool = True, stale: bool = False) -> None:
        super().__init__(why)
        self.wait, self.connected, self.stale = wait, connected, stale


def transfer(url: str, remote: Remote, path: Path, show: bool, timeout: float) -> None:
    """Append to name.part what it lacks; returns when it has all bytes. Raises Failed, Broken, and OSError of the disk.

    name.part is continued only if name.part.json says that its bytes came from this address, and if the server says
    that the file is still the same, by its ETag, its date and its length.
    """
    part = beside(path, ".part")
    known = known_values(beside(path, ".part.json"))
    start = part.stat().st_size if part.exists() else 0
    tellable = known.get("etag") or known.get("modified") or remote.sha256
    if known.get("url") != url or not isinstance(known.get("size"), int) or not tellable or start > known["size"]:
        start = 0
    elif start == known["size"]:
        return
    headers = {"User-Agent": "pmd_lite", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        strong = not str(known.get("etag", "")).startswith("W/") and known.get("etag")
        if validator := strong or known.get("modified"):
            headers["If-Range"] = validator  # a changed file then comes from its beginning, with status 200
    request = urllib.request.Request(url, headers=headers)
    with _Watch() as watch, _open(request, remote, timeout, watch) as response:
        more = response.status == 206
        total = _resumed_total(response, start) if more else _total(response, remote)
        tags = {key: response.headers.get(name, "") for key, name in (("etag", "ETag"), ("modified", "Last-Modified"))}
        seen = {"url": url, "size": total, **tags}
        if more and seen != known:
            raise Broken("the remote file changed during the download", stale=True)
        first = _first(response, remote)
        if not more:
            start = 0
            discard(path)  # before the new .part.json is written, which must not describe the old bytes
            write_json(beside(path, ".part.json"), seen)
        with tqdm(
            total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None if show else True
        ) as bar:  # fmt: skip  (None: on a terminal only)
            try:
                _copy(first, response, part, start, total, LARGEST if remote.size is None else remote.size, watch, bar)
            except Failed:
                discard(path)  # these bytes belong to another file
                raise


def unsafe(url: str, remote: Remote) -> str:
    """Why this address is not used, or ""."""
    parts = urlsplit(url)
    if not url.isascii() or re.search(r"[\x00-\x20]", url):
        return "an address has no spaces and no letters beyond ASCII; write them as %20 and so on"
    if parts.scheme == "https" or (parts.scheme == "http" and (parts.hostname in _LOCAL or remote.sha256)):
        return ""
    return "only https is used, or http where the sha256 is known"


class _Watch:
    """Ends a connection over which fewer than LEAST_RATE bytes a second come, and raises Failed at the end of `with`.

    A timeout counts silence only: a server that sends one byte each second would keep us for ever.
    """

    def __init__(self) -> None:
        self.came = 0  # bytes of the body
        self.socket: socket.socket | None = None
        self.slow, self._done = False, threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._done.set()
        if self.slow:
            raise Failed(f"slower than {LEAST_RATE:,} bytes a second for {PATIENCE:g} seconds") from error

    def _look(self) -> None:
        before = 0
        while not self._done.wait(PATIENCE):
            if self.came - before < LEAST_RATE * PATIENCE and self.socket:
                self.slow = True
                with suppress(OSError):
                    socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # wakes whoever waits for its bytes
            before = self.came

    def connection(self, kind: type[http.client.HTTPConnection]) -> Any:
        """The class of connections of this kind that tell the watch their socket."""
        watch = self

        class Watched(kind):  # type: ignore[misc, valid-type]
            def connect(self) -> None:
                super().connect()
                watch.socket = self.sock

        return Watched


class _Http(urllib.request.HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def http_open(self, req: Any) -> Any:
        return self.do_open(self.watch.connection(http.client.HTTPConnection), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        self.trusted = ssl.create_default_context()
        super().__init__(context=self.trusted)
        self.watch = watch

    def https_open(self, req: Any) -> Any:
        return self.do_open(self.watch.connection(http.client.HTTPSConnection), req, context=self.trusted)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to safe addresses only (a file host often answers with the address of its storage)."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if fault := unsafe(newurl, self.remote):
            raise Failed(f"redirected to {newurl}: {fault}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(request: urllib.request.Request, remote: Remote, timeout: float, watch: _Watch) -> Any:
    """The response of a server that has the file, or Failed or Broken."""
    handlers: list[urllib.request.BaseHandler] = [_Redirects(remote), _Http(watch), _Https(watch)]
    if urlsplit(request.full_url).hostname in _LOCAL:
        handlers.append(urllib.request.ProxyHandler({}))  # this machine is not behind its own proxy
    try:
        return urllib.request.build_opener(*handlers).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        why = f"HTTP {error.code} {error.reason}"
        if error.code == 416:  # the remote file is now shorter than name.part
            raise Broken(why, stale=True) from error
        if error.code in _BUSY or error.code >= 500:
            after = error.headers.get("Retry-After") or ""
            raise Broken(why, float(after) if after.isdecimal() else 0.0) from error
        raise Failed(why) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise Failed(f"no safe connection ({error.reason})") from error
        raise Broken(str(error.reason), connected=False) from error
    except (OSError, http.client.HTTPException) as error:  # connected, but no answer
        raise Broken(_why(error)) from error


def _total(response: Any, remote: Remote) -> int | None:
    """Length in bytes of the file that the server sends; None if it marks the end otherwise than by a length."""
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    if total is None and not response.chunked and remote.size is None and not remote.sha256:
        raise Failed("the server does not say how long the file is, so a file cut short would look complete")
    if total is not None and remote.size is None and total > LARGEST:
        raise Failed(f"the server announces {total:,} bytes, and no file that we know has more than {LARGEST:,}")
    if None not in (total, remote.size) and total != remote.size:
        raise Failed(f"expected {remote.size:,} bytes, the server has {total:,}")
    return total


def _resumed_total(response: Any, start: int) -> int:
    """Length in bytes of the whole file, when the server sends the part from `start` on."""
    header = response.headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", header.strip())
    if not start:
        raise Failed(f"the server sends a part of the file ({header}), but we asked for all of it")
    if not found or int(found[1]) != start:
        raise Broken(f"we asked for the bytes from {start:,} on, and the server answers {header!r}", stale=True)
    return int(found[2]) + 1 if found[3] == "*" else int(found[3])


def _first(response: Any, remote: Remote) -> bytes:
    """The first bytes, if they look like the file. Raises Failed for a web page or an unknown encoding."""
    first = _receive(response, _HEAD, whole=True)
    if not remote.name.lower().endswith((".html", ".htm")):
        looks = response.status != 206 and _HTML.match(first)
        if looks or response.headers.get_content_type() == "text/html":
            raise Failed("a web page (HTML) came instead of the file: perhaps an error, a notice or a login form")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity" and not remote.name.lower().endswith(_PACKED):  # some servers announce a .gz like this
        raise Failed(f"sent in the encoding {encoding!r}, which we did not ask for")
    return first


def _receive(response: Any, most: int, whole: bool = False) -> bytes:
    """`most` bytes if `whole` (fewer if the body ends), else those of them that have arrived; b"" after the end."""
    try:
        return response.read(most) if whole else response.read1(most)
    except (OSError, http.client.HTTPException) as error:
        raise Broken(_why(error)) from error


def _copy(
    chunk: bytes, response: Any, part: Path, start: int, total: int | None, most: int, watch: _Watch, bar: Any
) -> None:
    """Append the first bytes, and all that follow, to name.part. Raises Failed for more than `most` bytes."""
    have = start
    with open(part, "ab") as file:
        while chunk:
            have += len(chunk)
            if have > most:
                raise Failed(f"expected {most:,} bytes at most, and the server sends more")
            file.write(chunk)
            watch.came += len(chunk)
            bar.update(len(chunk))
            # Some servers do not close at the end. Without a length, one byte more tells that the server goes on.
            room = (most + 1 if total is None else total) - have
            chunk = _receive(response, min(_CHUNK, room)) if room else b""
    if total is not None and have < total:
        raise Broken(f"cut off after {have:,} of {total:,} bytes")


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def beside(path: Path, ending: str) -> Path:
    """The path of the file beside `path` that has this ending."""
    return path.with_name(path.name + ending)


def discard(path: Path) -> None:
    """Delete name.part and name.part.json."""
    beside(path, ".part").unlink(missing_ok=True)
    beside(path, ".part.json").unlink(missing_ok=True)


def known_values(path: Path) -> dict[str, Any]:
    """The numbers and texts of a JSON file that can be in a header; {} if there is no such file or it is damaged."""
    try:
        values = parse_json(path.read_bytes(), dict, path) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in values.items()
            if type(value) is int or (isinstance(value, str) and value.isascii() and "\n" not in value)}  # fmt: skip
