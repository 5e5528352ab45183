"""A web server on this machine that fails in chosen ways, for tests of downloads.

with serve({"a.gz": b"...", "b.zip": Page(b"...", cut=100, cuts=1)}) as url:
    fetch(Remote((f"{url}/a.gz",), "a.gz"), folder)
url.requests[0].path, url.requests[0].headers
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Page:
    """One path: its bytes and how they are sent. You may change its fields while the server runs."""

    body: bytes
    ranges: bool = True
    """Whether Range is answered with 206."""
    cut: int | None = None
    """Close the connection after this many bytes of the body,"""
    cuts: int = -1
    """this many times; -1: always."""
    status: int = 200
    """An error (404, 500) instead of the body,"""
    errors: int = -1
    """this many times; -1: always."""
    headers: dict[str, str] = field(default_factory=dict)
    """More headers, or others: {"Content-Type": "text/html"}; an empty value leaves one out."""
    redirect: str = ""
    """Answer 302 with this address."""
    length: int | None = None
    """A Content-Length other than the true one."""
    chunked: bool = False
    """Transfer-Encoding: chunked, without Content-Length."""
    delay: float = 0.0
    """Seconds before the answer."""

    def tag(self) -> str:
        """The ETag of the bytes."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'


@dataclass(frozen=True)
class Asked:
    """One request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]


class Address(str):
    """http://127.0.0.1:PORT of a running server; `requests` are those it had, `pages` what it serves."""

    requests: list[Asked]
    pages: dict[str, Page]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: dict[str, Page]
    folder: Path | None = None
    requests: list[Asked]
    lock: threading.Lock

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.close_connection = True
        name = self.path.split("?")[0].lstrip("/")
        with self.lock:
            self.requests.append(Asked(self.command, self.path, dict(self.headers.items())))
            page = self.pages.get(name)
            error, cut = self._turn(page) if page else (0, None)
        if page is None and self.folder and (self.folder / name).is_file() and ".." not in name.split("/"):
            page = Page((self.folder / name).read_bytes())
        if page is None:
            self._send(404, {"Content-Type": "text/html"}, b"<html>not found</html>", None)
            return
        time.sleep(page.delay)
        if page.redirect:
            self._send(302, {"Location": page.redirect}, b"", None)
        elif error:
            self._send(error, {"Content-Type": "text/plain", **page.headers}, b"no", None)
        else:
            self._answer(page, cut)

    def _turn(self, page: Page) -> tuple[int, int | None]:
        """(error or 0, cut or None) of this request; counts down the faults that happen only a number of times."""
        error = page.status if page.status != 200 and page.errors else 0
        if error:
            page.errors -= 1
            return error, None
        cut = page.cut if page.cuts else None
        if cut is not None:
            page.cuts -= 1
        return 0, cut

    def _answer(self, page: Page, cut: int | None) -> None:
        headers = {"Content-Type": "application/octet-stream", "ETag": page.tag(), **page.headers}
        wanted, body, status = self.headers.get("Range"), page.body, 200
        if page.ranges:
            headers["Accept-Ranges"] = "bytes"
        valid = self.headers.get("If-Range") in (None, headers["ETag"], headers.get("Last-Modified"))
        if wanted and page.ranges and valid:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(body) - int(last)  # bytes=-8: the last eight
            end = min(len(body) - 1, int(last)) if first and last else len(body) - 1
            if start >= len(body):
                self._send(416, {"Content-Range": f"bytes */{len(body)}"}, b"", None)
                return
            status, body = 206, body[start : end + 1]
            headers.setdefault("Content-Range", f"bytes {start}-{end}/{len(page.body)}")
        if page.length is not None and status == 200:
            headers["Content-Length"] = str(page.length)
        self._send(status, headers, body, cut, page.chunked)

    def _send(
        self, status: int, headers: Mapping[str, str], body: bytes, cut: int | None, chunked: bool = False
    ) -> None:
        self.send_response(status)
        length = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
        for key, value in {**length, **headers, "Connection": "close"}.items():
            if value:
                self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = body if cut is None else body[:cut]
        try:
            if chunked and sent:
                sent = f"{len(sent):x}\r\n".encode() + sent + b"\r\n"
            self.wfile.write(sent + (b"0\r\n\r\n" if chunked and cut is None else b""))
        except OSError:
            pass  # the client went away, as some tests want


@contextmanager
def serve(
    content: Mapping[str, bytes | Page] | Path | type[BaseHTTPRequestHandler], **pages: Page
) -> Iterator[Address]:
    """Run a server while the block lasts; its address is http://127.0.0.1:PORT, without a final slash.

    content: {path without the first slash: bytes or Page}, a folder, or a handler of your own.
    """
    requests: list[Asked] = []
    table: dict[str, Page] = dict(pages)
    handler: type[BaseHTTPRequestHandler]
    if isinstance(content, type):
        handler = content
    else:
        folder = content if isinstance(content, Path) else None
        if not isinstance(content, Path):
            table |= {name: page if isinstance(page, Page) else Page(page) for name, page in content.items()}
        own = {"pages": table, "folder": folder, "requests": requests, "lock": threading.Lock()}
        handler = type("Handler", (_Handler,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    address = Address(f"http://127.0.0.1:{server.server_port}")
    address.requests, address.pages = requests, table
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
