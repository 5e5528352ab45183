"""Text out of downloaded archives (.zip, .tar, .tgz, .tar.gz, .tar.bz2): streamed, after a check of all members.

An archive is refused as a whole if one of its members is unsafe: a path that leads out of the folder, a link, a device,
a second member of the same name, a size out of proportion. No honest archive has such a member: it is the wrong file.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from pmd_lite.errors import UserError

FLOOR = 1 << 30  # bytes: every archive may unpack to this size
RATIO = 200  # a larger one may grow to this many times its packed size; text shrinks 3 to 10 times, gzip 1,030 at most
LONGEST_LINE = 1 << 24  # bytes; a longer line is not text, and would fill the memory
_CHUNK = 1 << 20
_AGAIN = "Delete it and run the command again: it may be cut short or damaged."
# What zipfile, tarfile and the decompressors raise for damaged bytes; RuntimeError and NotImplementedError: zipfile.
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError, ValueError, RuntimeError)

Member = zipfile.ZipInfo | tarfile.TarInfo


class _Opened:
    """An archive that is open, and its checked files by normalised name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive: zipfile.ZipFile | tarfile.TarFile
        try:
            self.archive = (zipfile.ZipFile if path.suffix.lower() == ".zip" else tarfile.open)(path)
        except FileNotFoundError as error:
            raise UserError(f"{path} does not exist. Fetch it first.") from error
        except _DAMAGE as error:
            raise UserError(f"{path} cannot be read as an archive ({_say(error)}). {_AGAIN}") from error
        try:
            self.files = self._check()
        except _DAMAGE as error:
            self.archive.close()
            raise UserError(f"{path} is damaged ({_say(error)}). {_AGAIN}") from error
        except BaseException:
            self.archive.close()
            raise

    def _check(self) -> dict[str, Member]:
        files: dict[str, Member] = {}
        total, most = 0, _most(self.path.stat().st_size)
        archive = self.archive
        infos: Sequence[zipfile.ZipInfo] | tarfile.TarFile = (
            archive.infolist() if isinstance(archive, zipfile.ZipFile) else archive
        )
        for info in infos:  # a tar file is read only here, member by member: a bomb's size is seen before its bytes
            name = info.orig_filename if isinstance(info, zipfile.ZipInfo) else info.name
            where = f"{self.path}: the member {name!r}"
            if fault := _name_fault(name) or _kind_fault(info):
                raise UserError(f"{where} {fault}. Nothing was unpacked; fetch the archive from its own site.")
            total += _size(info)
            if total > most:
                raise UserError(f"{where} takes the unpacked size over {most:,} bytes, which no text does. {_AGAIN}")
            if info.isdir() if isinstance(info, tarfile.TarInfo) else info.is_dir():
                continue
            plain = _plain(name)
            if plain in files:
                raise UserError(f"{where} is there twice, and it is not clear which one is meant. {_AGAIN}")
            files[plain] = info
        if isinstance(archive, tarfile.TarFile):
            self._check_end(archive, most)
        return files

    def _check_end(self, archive: tarfile.TarFile, most: int) -> None:
        """Refuse an archive that was cut short between two members, and read to the end so that gzip checks its sum.

        tarfile does neither: it takes such a cut for the end of the archive.
        """
        source = cast(IO[bytes], archive.fileobj)
        source.seek(archive.offset)
        block = source.read(tarfile.BLOCKSIZE)
        if block != bytes(tarfile.BLOCKSIZE):
            raise UserError(f"{self.path} stops before the end mark of a tar archive: cut short or damaged. {_AGAIN}")
        while block and source.tell() <= most:
            block = source.read(_CHUNK)

    def _find(self, name: str) -> Member:
        """The member of that name, or UserError."""
        info = self.files.get(_plain(name))
        if info is None:
            near = get_close_matches(name, self.files, 3, 0.3) or sorted(self.files)[:3]
            raise UserError(f"{self.path} has no member {name!r}; it has {len(self.files)}, such as {near}.")
        return info

    def stream(self, name: str) -> BinaryIO:
        """The bytes of that member; closing them leaves the archive open."""
        info = self._find(name)
        where = f"{self.path}: the member {name!r}"
        try:
            if isinstance(self.archive, zipfile.ZipFile):
                source: IO[bytes] | None = self.archive.open(cast(zipfile.ZipInfo, info))
            else:
                source = self.archive.extractfile(cast(tarfile.TarInfo, info))
        except (*_DAMAGE, KeyError) as error:
            raise UserError(f"{where} cannot be read ({_say(error)}). {_AGAIN}") from error
        return cast(BinaryIO, io.BufferedReader(_Guarded(cast(IO[bytes], source), where, _size(info)), _CHUNK))


class _Guarded(io.RawIOBase):
    """The bytes of one member: damage and a length other than the declared one become UserError."""

    def __init__(self, source: IO[bytes], where: str, size: int) -> None:
        self.source, self.where, self.left = source, where, size
        self.owner: _Opened | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self.source.read(len(buffer))
        except _DAMAGE as error:
            raise UserError(f"{self.where} is damaged ({_say(error)}). {_AGAIN}") from error
        self.left -= len(data)
        if self.left < 0 or (not data and self.left and len(buffer)):
            raise UserError(f"{self.where} does not have the size that the archive declares. {_AGAIN}")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.source.close()
            if self.owner:
                self.owner.archive.close()
        super().close()


def members(archive: Path) -> list[str]:
    """The names of all files in the archive, in its order, without a leading `./`.

    Raises UserError naming archive and member when one of them is unsafe (see the top of this file), or for damage.
    """
    opened = _Opened(archive)
    opened.archive.close()
    return list(opened.files)


def open_member(archive: Path, name: str) -> BinaryIO:
    """The bytes of one file of the archive as a stream, unpacked as they are read; close it after use.

    Raises UserError as `members` does, and for a name that is not there. Reading damaged bytes raises it too.
    """
    opened = _Opened(archive)
    try:
        stream = opened.stream(name)
    except BaseException:
        opened.archive.close()
        raise
    cast(_Guarded, cast(io.BufferedReader, stream).raw).owner = opened
    return stream


def text_lines(stream: BinaryIO, where: str, first: int = 1) -> Iterator[str]:
    """The lines of UTF-8 text, without LF or CRLF and without a byte order mark; cut at LF and nowhere else.

    `where` is what messages call the text: a file or a member. If it ends in .gz, the bytes are unpacked first. `first`
    is the number of the first line. Raises UserError with where:line for bytes that are not UTF-8, for damaged or
    truncated gzip data and for endless lines.
    """
    source = cast(BinaryIO, gzip.GzipFile(fileobj=stream, mode="rb")) if where.endswith(".gz") else stream
    for number in count(first):
        try:
            line = source.readline(LONGEST_LINE + 1)
        except _DAMAGE as error:
            raise UserError(f"{where}:{number}: damaged from here on ({_say(error)}). {_AGAIN}") from error
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise UserError(f"{where}:{number}: over {LONGEST_LINE:,} bytes without a line end. Is it text?")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            what = f"byte {error.start + 1} of the line, 0x{line[error.start]:02x}, is not UTF-8"
            raise UserError(f"{where}:{number}: {what}. Convert the text to UTF-8.") from error


def _say(error: BaseException) -> str:
    return str(error).split("\n")[0] or "cut short"


def _most(packed: int) -> int:
    return max(FLOOR, RATIO * packed)


def _plain(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _size(info: Member) -> int:
    return info.file_size if isinstance(info, zipfile.ZipInfo) else info.size


def _name_fault(name: str) -> str:
    """What is wrong with the name of a member, or nothing."""
    if not name or re.search(r"[\x00-\x1f\x7f]", name):
        return "has an empty name or control characters in it"
    if name.startswith("/") or "\\" in name or re.match(r"[A-Za-z]:", name):
        return "has an absolute or a Windows path"
    if ".." in PurePosixPath(name).parts:
        return "leads out of the folder"
    return ""


def _kind_fault(info: Member) -> str:
    """What is wrong with the kind of a member, or nothing."""
    if isinstance(info, tarfile.TarInfo):
        if info.issym() or info.islnk():
            return "is a link"
        return "" if info.isfile() or info.isdir() else "is a device or another special file"
    kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the packer ran on Windows
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a device or another special file"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.file_size > _most(info.compress_size):
        return f"would grow from {info.compress_size:,} to {info.file_size:,} bytes, which no text does"
    return ""
