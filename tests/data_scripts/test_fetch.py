"""Downloads from a server on this machine that breaks off, sends false headers, changes its files and fails."""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora import fetch as fetching
from pmd_corpora import multi30k, tatoeba6, ted_sources, transfer
from pmd_corpora.fetch import Offline, Remote, fetch, verify
from pmd_lite.errors import UserError
from tests.local_server import Page, serve

BODY = bytes(range(256)) * 20  # 5,120 bytes
OTHER = BODY[::-1]  # as many, but others
SHA = hashlib.sha256(BODY).hexdigest()
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that fetch would have waited between attempts; requests to other machines fail."""
    seconds: list[float] = []
    monkeypatch.setattr(fetching, "time", SimpleNamespace(sleep=seconds.append))
    monkeypatch.delenv("PMD_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    real = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".invalid"):  # a resolver may take its time for this answer
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return seconds


def one(url: str, name: str = "a.gz", **known: Any) -> Remote:
    return Remote((f"{url}/{name}",), name, **known)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def half_fetched(url: str, folder: Path, page: Page, have: int = 1000) -> None:
    """Make name.part with the first `have` bytes; afterwards the server works."""
    page.cut = have
    with pytest.raises(UserError, match=f"cut off after {have:,} of 5,120 bytes.*first {have:,} bytes are kept"):
        fetch(one(url), folder, retries=0)
    assert (folder / "a.gz.part").read_bytes() == page.body[:have]
    page.cut = None


# --- whole files ------------------------------------------------------------------------------------------------------


def test_a_file_comes_whole_with_a_record_and_is_not_asked_for_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with serve({"a.gz": BODY}) as url:
        remote = one(url)
        assert fetch(remote, folder) == folder / "a.gz"
        assert [request.path for request in url.requests] == ["/a.gz"] and "Range" not in url.requests[0].headers
    assert (folder / "a.gz").read_bytes() == BODY and left(folder) == ["a.gz", "a.gz.sha256.json"]
    record = json.loads((folder / "a.gz.sha256.json").read_text())
    assert record.pop("date").endswith("+00:00")
    assert record == {"url": remote.urls[0], "size": 5120, "sha256": SHA}
    assert fetch(remote, folder) == folder / "a.gz", "the server is gone, and is not needed"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_any_length_arrives(tmp_path: Path, body: bytes, chunked: bool) -> None:
    with serve({"a.gz": Page(body, chunked=chunked)}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == body


def test_a_file_changed_on_disk_is_noticed_without_network(tmp_path: Path) -> None:
    with serve({"a.gz": BODY}) as url:
        remote = one(url)
        fetch(remote, tmp_path)
    (tmp_path / "a.gz").write_bytes(OTHER)
    other = hashlib.sha256(OTHER).hexdigest()
    with pytest.raises(UserError, match=f"a.gz: expected sha256 {SHA}, found {other}.*Delete a.gz and run"):
        fetch(remote, tmp_path)
    (tmp_path / "a.gz").write_bytes(BODY[:-1])
    with pytest.raises(UserError, match="expected 5,120 bytes, found 5,119"):
        verify(tmp_path / "a.gz", remote)
    assert (tmp_path / "a.gz").exists(), "no file of the user is deleted"


def test_a_file_put_there_by_hand_is_checked_and_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(BODY)
    with pytest.raises(UserError, match="expected 7 bytes, found 5,120"):
        fetch(Remote((), "a.gz", size=7), tmp_path)
    assert fetch(Remote((), "a.gz", sha256=SHA.upper()), tmp_path) == tmp_path / "a.gz"
    assert json.loads((tmp_path / "a.gz.sha256.json").read_text())["url"] == ""
    with pytest.raises(UserError, match=r"b\.gz is not here, and no address is known"):
        fetch(Remote((), "b.gz"), tmp_path)


def test_another_content_than_on_the_first_fetch_is_refused_until_the_record_is_deleted(tmp_path: Path) -> None:
    with serve({"a.gz": BODY}) as url:
        fetch(one(url), tmp_path).unlink()
        url.pages["a.gz"].body = OTHER
        with pytest.raises(UserError, match=rf"expected sha256 {SHA}, found .*delete a\.gz\.sha256\.json"):
            fetch(one(url), tmp_path)
        assert left(tmp_path) == ["a.gz.sha256.json"]
        (tmp_path / "a.gz.sha256.json").unlink()
        assert fetch(one(url), tmp_path).read_bytes() == OTHER


def test_what_the_script_knows_goes_before_an_old_record(tmp_path: Path) -> None:
    with serve({"a.gz": BODY}) as url:
        fetch(one(url), tmp_path).unlink()
        url.pages["a.gz"].body = OTHER + b"!"
        assert fetch(one(url, size=5121), tmp_path).read_bytes() == OTHER + b"!"
        assert json.loads((tmp_path / "a.gz.sha256.json").read_text())["size"] == 5121


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_a_cut_connection_is_resumed_in_the_same_call(tmp_path: Path, waits: list[float]) -> None:
    with serve({"a.gz": Page(BODY, cut=1000, cuts=2)}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert [request.headers.get("Range") for request in url.requests] == [None, "bytes=1000-", "bytes=2000-"]
        assert url.requests[1].headers["If-Range"] == url.pages["a.gz"].tag()
    assert waits == [1.0, 2.0] and left(tmp_path) == ["a.gz", "a.gz.sha256.json"]


def test_a_second_call_goes_on_where_the_first_was_cut(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY)}) as url:
        half_fetched(url, tmp_path, url.pages["a.gz"])
        assert left(tmp_path) == ["a.gz.part", "a.gz.part.json"], "nothing under the final name"
        url.requests.clear()
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert [request.headers.get("Range") for request in url.requests] == ["bytes=1000-"]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=4))
def test_wherever_it_is_cut_the_bytes_are_those_of_the_file(
    cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    with serve({"a.gz": Page(BODY)}) as url:
        for cut in cuts:
            url.pages["a.gz"].cut = cut
            try:
                fetch(one(url), folder, retries=0)
            except UserError:
                assert (folder / "a.gz.part").read_bytes() == BODY[: (folder / "a.gz.part").stat().st_size]
        url.pages["a.gz"].cut = None
        assert fetch(one(url), folder).read_bytes() == BODY


def test_ctrl_c_leaves_the_part_and_the_next_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = transfer._receive, 0

    def receive(response: Any, most: int, whole: bool = False) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return real(response, 700, True)

    with serve({"a.gz": BODY}) as url:
        with monkeypatch.context() as patch:
            patch.setattr(transfer, "_receive", receive)
            with pytest.raises(KeyboardInterrupt):
                fetch(one(url), tmp_path)
        assert (tmp_path / "a.gz.part").read_bytes() == BODY[:1400]
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert url.requests[-1].headers["Range"] == "bytes=1400-"


def test_interrupted_before_the_rename_it_ends_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with serve({"a.gz": BODY}) as url:
        with monkeypatch.context() as patch:
            patch.setattr(fetching, "_record", interrupt)
            with pytest.raises(KeyboardInterrupt):
                fetch(one(url), tmp_path)
        assert left(tmp_path) == ["a.gz.part", "a.gz.part.json"]
        assert fetch(one(url), tmp_path).read_bytes() == BODY and len(url.requests) == 1


def test_a_server_without_range_is_asked_for_all_of_it_again(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY, ranges=False, cut=1000, cuts=1)}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert url.requests[1].headers["Range"] == "bytes=1000-"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),  # a strong ETag: If-Range
        ({"ETag": "", "Last-Modified": DATE}, {"Last-Modified": DATE.replace("21", "22")}),  # If-Range by date
        ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),  # may not stand in If-Range: the 206 is compared
        ({"ETag": ""}, {"ETag": ""}),  # nothing tells: begin anew
    ],
    ids=["etag", "date", "weak etag", "no sign"],
)
def test_a_changed_file_is_not_glued_onto_an_old_beginning(
    tmp_path: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    with serve({"a.gz": Page(BODY, headers=before)}) as url:
        page = url.pages["a.gz"]
        half_fetched(url, tmp_path, page)
        page.body, page.headers = OTHER, {**before, **after}
        assert fetch(one(url), tmp_path).read_bytes() == OTHER


@pytest.mark.parametrize("body", [OTHER + b"!", OTHER[:500]], ids=["longer", "shorter than the part"])
def test_a_file_of_another_length_is_begun_anew(tmp_path: Path, body: bytes) -> None:
    with serve({"a.gz": Page(BODY, headers={"ETag": 'W/"same"'})}) as url:
        half_fetched(url, tmp_path, url.pages["a.gz"])
        url.pages["a.gz"].body = body
        assert fetch(one(url), tmp_path).read_bytes() == body


@pytest.mark.parametrize("span", ["bytes 0-5119/5120", "bytes 900-5119/5120", "nonsense"])
def test_a_server_that_answers_with_another_range_is_asked_for_all(tmp_path: Path, span: str) -> None:
    with serve({"a.gz": Page(BODY)}) as url:
        half_fetched(url, tmp_path, url.pages["a.gz"])
        url.pages["a.gz"].headers = {"Content-Range": span}
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert [request.headers.get("Range") for request in url.requests] == [None, "bytes=1000-", None]


@pytest.mark.parametrize("known", [None, "{}", "no json", "other address"])
def test_a_part_of_unknown_origin_is_not_gone_on_with(tmp_path: Path, known: str | None) -> None:
    with serve({"a.gz": BODY}) as url:
        (tmp_path / "a.gz.part").write_bytes(b"?" * 10)
        if known == "other address":
            known = json.dumps({"url": f"{url}/b", "size": 5120, "etag": url.pages["a.gz"].tag(), "modified": ""})
        if known is not None:
            (tmp_path / "a.gz.part.json").write_text(known)
        assert fetch(one(url), tmp_path).read_bytes() == BODY and "Range" not in url.requests[0].headers


def test_retries_are_counted_anew_when_much_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"a.gz": Page(BODY, cut=500)}) as url:
        with pytest.raises(UserError, match="cut off after 1,000 of"):
            fetch(one(url), tmp_path, retries=1)
        monkeypatch.setattr(fetching, "PROGRESS", 500)
        assert fetch(one(url), tmp_path, retries=1).read_bytes() == BODY


def test_a_full_disk_is_named_and_the_part_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            if self.tell() >= 512:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    def opening(path: Path, mode: str) -> Any:
        return Full(path, mode) if str(path).endswith(".part") else builtins.open(path, mode)

    with serve({"a.gz": BODY}) as url:
        with monkeypatch.context() as patch:
            patch.setattr(transfer, "open", opening, raising=False)
            with pytest.raises(UserError, match=r"is full, 4,608 of 5,120 bytes .* missing.*512 bytes .* a\.gz\.part"):
                fetch(one(url), tmp_path)
        assert (tmp_path / "a.gz.part").read_bytes() == BODY[:512]
        assert fetch(one(url), tmp_path).read_bytes() == BODY and url.requests[-1].headers["Range"] == "bytes=512-"


def test_a_folder_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with serve({"a.gz": BODY}) as url, pytest.raises(UserError, match="cannot be read or written"):
        fetch(one(url), tmp_path / "file" / "folder")


def test_two_processes_do_not_write_one_part_and_a_killed_one_blocks_nobody(tmp_path: Path) -> None:
    code = "import sys, filelock as f; lock = f.FileLock(sys.argv[1]); lock.acquire(); print('held'); sys.stdin.read()"
    command = [sys.executable, "-u", "-c", code, str(tmp_path / "a.gz.lock")]
    with serve({"a.gz": BODY}) as url:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout and other.stdout.readline() == "held\n"
            try:
                with pytest.raises(UserError, match=r"a\.gz is being fetched by another process"):
                    fetch(one(url), tmp_path)
            finally:
                other.kill()
        assert not url.requests and fetch(one(url), tmp_path).read_bytes() == BODY


# --- wrong files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "fault"),
    [
        ({"size": 5000}, "expected 5,000 bytes, the server has 5,120"),
        ({"sha256": "0" * 64}, f"expected sha256 {'0' * 64}, found {SHA}"),
    ],
)
def test_another_size_or_checksum_leaves_nothing_and_names_both(
    tmp_path: Path, known: dict[str, Any], fault: str
) -> None:
    with serve({"a.gz": BODY}) as url:
        with pytest.raises(UserError, match=fault) as caught:
            fetch(one(url, **known), tmp_path)
        assert not isinstance(caught.value, Offline) and url in str(caught.value) and len(url.requests) == 1
    assert left(tmp_path) == []


def test_a_chunked_file_of_another_size_is_refused(tmp_path: Path) -> None:
    page = Page(BODY, chunked=True)
    with (
        serve({"a.gz": page}) as url,
        pytest.raises(UserError, match="expected 5,000 bytes at most, and the"),
    ):
        fetch(one(url, size=5000), tmp_path)
    assert left(tmp_path) == []


class _Endless(BaseHTTPRequestHandler):
    """Sends a body without an end, or one byte after the other with pauses between them."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.close_connection = True
        kind = self.path.strip("/")
        with suppress(OSError):  # the client goes
            if kind == "slow-headers":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Filler: ")
            else:
                self.send_response(200)
                length = {"endless": ("Transfer-Encoding", "chunked"), "huge": ("Content-Length", str(1 << 50))}
                self.send_header(*length.get(kind, ("Content-Length", "5120")))
                self.end_headers()
            for _ in range(200):
                self.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n" if kind == "endless" else b"x")
                if kind != "endless":
                    time.sleep(0.02)


@pytest.mark.parametrize("known", [{"size": 5000}, {}], ids=["known size", "unknown size"])
def test_a_body_without_an_end_is_cut(
    tmp_path: Path, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(transfer, "LARGEST", 9000)
    with serve(_Endless) as url, pytest.raises(UserError, match=r"expected (5|9),000 bytes at most, and the server"):
        fetch(one(url, "endless", **known), tmp_path)
    assert left(tmp_path) == [] and waits == []


def test_an_announced_size_beyond_all_reason_is_refused(tmp_path: Path) -> None:
    with serve(_Endless) as url, pytest.raises(UserError, match="announces 1,125,899,906,842,624 bytes"):
        fetch(one(url, "huge"), tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize("kind", ["slow-headers", "slow-body"])
@pytest.mark.parametrize("known", [{"size": 5120, "sha256": SHA}, {}], ids=["pinned", "unpinned"])
def test_a_server_that_drips_is_given_up_with_one_error(
    tmp_path: Path, kind: str, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(transfer, "PATIENCE", 0.1)
    started = time.monotonic()
    with serve(_Endless) as url, pytest.raises(UserError, match=r"slower than 1,000 bytes a second for 0\.1 seconds"):
        fetch(one(url, kind, **known), tmp_path)
    assert time.monotonic() - started < 2 and waits == []


def test_a_mirror_replaces_a_server_that_drips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PATIENCE", 1.0)  # on a busy machine the mirror, too, may answer late
    with serve(_Endless) as slow, serve({"a.gz": BODY}) as good:
        remote = Remote((f"{slow}/slow-body", f"{good}/a.gz"), "a.gz", size=5120, sha256=SHA)
        assert fetch(remote, tmp_path).read_bytes() == BODY


def test_every_source_is_pinned_or_says_why_not() -> None:
    remotes = [ted_sources.ARCHIVE, *ted_sources.PARQUET, *multi30k.REMOTES]
    assert all(bool(remote.sha256) != bool(remote.unpinned) for remote in remotes)
    source = Path(tatoeba6.__file__).read_text(encoding="utf-8")
    assert tatoeba6.UNPINNED and source.count("Remote(") == source.count("unpinned=UNPINNED") == 1


@pytest.mark.parametrize(
    "bad",
    [Page(BODY, status=404), Page(BODY, status=403), Page(OTHER), Page(BODY[:9]),
     Page(BODY, headers={"Content-Type": "text/html; charset=utf-8"}), Page(b"<HTML><body>moved")],
    ids=["404", "403", "wrong bytes", "wrong size", "html type", "html body"],
)  # fmt: skip
def test_the_next_mirror_is_asked_at_once(tmp_path: Path, bad: Page, waits: list[float]) -> None:
    with serve({"bad": bad, "good": BODY}) as url:
        path = fetch(Remote((f"{url}/bad", f"{url}/good"), "a.gz", size=5120, sha256=SHA), tmp_path)
        assert path.read_bytes() == BODY and waits == []
        assert [request.path for request in url.requests] == ["/bad", "/good"]
    assert json.loads((tmp_path / "a.gz.sha256.json").read_text())["url"] == f"{url}/good"


@pytest.mark.parametrize(
    "page",
    [Page(b"Please log in", headers={"Content-Type": "text/html"}), Page(b"\xef\xbb\xbf\n <!DOCTYPE html><p>"),
     Page(b"<!doctype HTML>"), Page(b"<html lang='en'>")],
)  # fmt: skip
def test_a_web_page_instead_of_the_file_is_called_so(tmp_path: Path, page: Page) -> None:
    with serve({"a.gz": page, "a.html": page}) as url:
        with pytest.raises(UserError, match=r"a web page \(HTML\) came instead of the file"):
            fetch(one(url), tmp_path)
        assert left(tmp_path) == []
        assert fetch(one(url, "a.html"), tmp_path).read_bytes() == page.body, "here one is wanted"


def test_a_web_page_does_not_cost_the_part_that_is_there(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY)}) as url:
        page = url.pages["a.gz"]
        half_fetched(url, tmp_path, page)
        page.body, page.ranges = b"<html>down for repair", False
        with pytest.raises(UserError, match="web page"):
            fetch(one(url), tmp_path)
        page.body, page.ranges = BODY, True
        assert fetch(one(url), tmp_path).read_bytes() == BODY and url.requests[-1].headers["Range"] == "bytes=1000-"


def test_a_length_that_is_too_long_never_makes_a_file(tmp_path: Path, waits: list[float]) -> None:
    page = Page(BODY, length=6000)
    with serve({"a.gz": page}) as url, pytest.raises(UserError, match="cut off after 5,120 of 6,000"):
        fetch(one(url), tmp_path, retries=2)
    assert waits == [1.0, 2.0] and not (tmp_path / "a.gz").exists()


def test_a_chunked_answer_that_is_cut_never_makes_a_file(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY, chunked=True, cut=1000)}) as url:
        with pytest.raises(UserError, match="IncompleteRead"):
            fetch(one(url), tmp_path)
        assert not (tmp_path / "a.gz").exists()
        url.pages["a.gz"].cut = None
        assert fetch(one(url), tmp_path).read_bytes() == BODY


def test_without_any_length_a_file_is_taken_only_when_its_size_is_known(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY, headers={"Content-Length": ""})}) as url:
        with pytest.raises(UserError, match="does not say how long the file is"):
            fetch(one(url), tmp_path)
        assert fetch(one(url, size=5120), tmp_path).read_bytes() == BODY


def test_an_encoding_nobody_asked_for_is_refused_except_for_packed_files(tmp_path: Path) -> None:
    page = Page(BODY, headers={"Content-Encoding": "x-gzip"})
    with serve({"a.tsv": page, "a.tgz": page}) as url:
        with pytest.raises(UserError, match="sent in the encoding 'x-gzip'"):
            fetch(one(url, "a.tsv"), tmp_path)
        assert fetch(one(url, "a.tgz"), tmp_path).read_bytes() == BODY


# --- servers in trouble, no network -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_after_growing_waits(tmp_path: Path, status: int, waits: list[float]) -> None:
    with serve({"a.gz": Page(BODY, status=status, errors=3)}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == BODY and len(url.requests) == 4
    assert waits == [1.0, 2.0, 4.0]


def test_retries_end(tmp_path: Path, waits: list[float]) -> None:
    with serve({"a.gz": Page(BODY, status=503)}) as url:
        with pytest.raises(UserError, match="HTTP 503") as caught:
            fetch(one(url), tmp_path, retries=2)
        assert len(url.requests) == 3 and waits == [1.0, 2.0] and not isinstance(caught.value, Offline)


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("9999", 60.0), ("Fri, 31 Dec 1999 23:59:59 GMT", 1.0)])
def test_a_server_may_ask_for_a_longer_wait(tmp_path: Path, asked: str, waited: float, waits: list[float]) -> None:
    with serve({"a.gz": Page(BODY, status=429, errors=1, headers={"Retry-After": asked})}) as url:
        fetch(one(url), tmp_path)
    assert waits == [waited]


def test_a_silent_server_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    with serve({"a.gz": Page(BODY, delay=0.4)}) as url, pytest.raises(UserError, match="timed out"):
        fetch(one(url), tmp_path, retries=1, timeout=0.05)


def closed() -> str:
    """An address of this machine on which no server listens."""
    with serve({}) as url:
        return url


def test_offline_is_said_at_once_with_what_works_without_network(tmp_path: Path, waits: list[float]) -> None:
    urls = (f"{closed()}/a.gz", "https://no-such-host.invalid/a.gz")
    with pytest.raises(Offline, match=r"a\.gz cannot be fetched, no address answers") as caught:
        fetch(Remote(urls, "a.gz"), tmp_path)
    for words in (*urls, "python -m pmd_lite data catalogs6", "python -m pmd_lite data local", "toy worlds"):
        assert words in str(caught.value)
    assert waits == [] and "\n" not in str(caught.value)


def test_one_address_that_answers_is_not_offline(tmp_path: Path) -> None:
    with serve({}) as url, pytest.raises(UserError, match=r"Connection refused.*; .*HTTP 404") as caught:
        fetch(Remote((f"{closed()}/a.gz", f"{url}/a.gz"), "a.gz"), tmp_path)
    assert not isinstance(caught.value, Offline)


def test_a_network_that_goes_away_during_the_download_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    real, calls = transfer._open, 0

    def opening(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise transfer.Broken("no route to host", connected=False)
        return real(*arguments)

    monkeypatch.setattr(transfer, "_open", opening)
    with serve({"a.gz": Page(BODY, cut=1000, cuts=1)}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == BODY
    assert waits == [1.0, 2.0]


def test_pmd_offline_forbids_requests_but_not_files_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve({"a.gz": BODY, "b.gz": BODY}) as url:
        fetch(one(url), tmp_path)
        monkeypatch.setenv("PMD_OFFLINE", "1")
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        with pytest.raises(Offline, match=r"b\.gz is not here, and PMD_OFFLINE .* data catalogs6"):
            fetch(one(url, "b.gz"), tmp_path)
        assert len(url.requests) == 1
        monkeypatch.setenv("PMD_OFFLINE", "0")
        fetch(one(url, "b.gz"), tmp_path)


# --- addresses and names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["http://example.invalid/a", "ftp://example.invalid/a", "file:///etc/passwd", "https://example.invalid/a b"],
)
def test_an_unsafe_address_is_never_asked(tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError, match=r"only https|no spaces") as caught:
        fetch(Remote((address,), "a.gz"), tmp_path)
    assert not isinstance(caught.value, Offline)


def test_plain_http_is_used_where_the_checksum_is_known(tmp_path: Path) -> None:
    with pytest.raises(Offline):
        fetch(Remote(("http://no-such-host.invalid/a",), "a.gz", sha256=SHA), tmp_path)


def test_a_redirect_is_followed_with_its_range_but_not_to_an_unsafe_address(tmp_path: Path) -> None:
    with serve({"store": Page(BODY, cut=1000, cuts=1), "out": Page(b"", redirect="http://example.invalid/a")}) as url:
        url.pages["a.gz"] = Page(b"", redirect=f"{url}/store")
        assert fetch(one(url), tmp_path).read_bytes() == BODY
        assert url.requests[-1].path == "/store" and url.requests[-1].headers["Range"] == "bytes=1000-"
        with pytest.raises(UserError, match=r"redirected to http://example\.invalid/a: only https"):
            fetch(one(url, "out"), tmp_path)


def test_a_proxy_is_not_asked_for_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", closed())
    monkeypatch.delenv("no_proxy", raising=False)
    with serve({"a.gz": BODY}) as url:
        assert fetch(one(url), tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "C:a", "a\nb"])
def test_a_name_with_a_folder_in_it_is_refused(tmp_path: Path, name: str) -> None:
    with serve({"a.gz": BODY}) as url, pytest.raises(UserError, match="is not a plain file name"):
        fetch(Remote((f"{url}/a.gz",), name), tmp_path)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("show", [True, False])
def test_a_bar_is_drawn_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, show: bool
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    monkeypatch.setattr(sys, "stderr", screen := Screen())
    with serve({"a.gz": BODY}) as url:
        fetch(one(url), tmp_path, show=show)
    assert bool(screen.getvalue()) == (terminal and show)
    assert "a.gz" in screen.getvalue() or not (terminal and show)
