"""Archives, sound and hostile, and the text in them."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_corpora import archives
from pmd_corpora.archives import members, open_member, text_lines
from pmd_lite.errors import UserError

FILES = {"training/a.fr": b"un\ndeux\n", "training/a.en": b"one\ntwo\n", "README": "é\n".encode() * 1000}
KINDS = ["a.zip", "a.tar", "a.tgz", "a.tar.gz", "a.tar.bz2"]
TAR_MODES = {"a.tar": "w", "a.tgz": "w:gz", "a.tar.gz": "w:gz", "a.tar.bz2": "w:bz2"}


def make_zip(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data, zipfile.ZIP_DEFLATED)
    return path


def make_tar(path: Path, *entries: tuple[tarfile.TarInfo | str, bytes]) -> Path:
    with tarfile.open(path, TAR_MODES[path.name]) as archive:
        for name, data in entries:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def make(path: Path, *entries: tuple[str, bytes]) -> Path:
    return make_zip(path, *entries) if path.suffix == ".zip" else make_tar(path, *entries)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (mode | 0o644) << 16
    return info


def use(archive: Path, name: str) -> list[Callable[[], object]]:
    """The two ways into an archive."""
    return [
        lambda: members(archive),
        lambda: open_member(archive, name),
    ]


def assert_refused(archive: Path, tmp_path: Path, message: str, name: str = "good") -> None:
    for way in use(archive, name):
        with pytest.raises(UserError, match=message) as caught:
            way()
        assert str(archive) in str(caught.value) and "\n" not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != archive], "nothing was written"


# --- sound archives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_listed_and_streamed(tmp_path: Path, kind: str) -> None:
    archive = make(tmp_path / kind, *FILES.items())
    assert members(archive) == list(FILES)
    with open_member(archive, "training/a.en") as stream:
        assert stream.read(5) == b"one\nt" and stream.read() == b"wo\n"


@pytest.mark.parametrize("kind", ["a.zip", "a.tgz"])
def test_two_members_of_one_archive_are_read_side_by_side(tmp_path: Path, kind: str) -> None:
    archive = make(tmp_path / kind, *FILES.items())
    with open_member(archive, "training/a.fr") as left, open_member(archive, "training/a.en") as right:
        assert list(zip(text_lines(left, "l"), text_lines(right, "r"), strict=True)) == [("un", "one"), ("deux", "two")]


@pytest.mark.parametrize("kind", ["a.zip", "a.tar"])
def test_folders_are_no_members_and_a_leading_dot_does_not_matter(tmp_path: Path, kind: str) -> None:
    if kind == "a.zip":
        archive = make_zip(tmp_path / kind, ("./d/", b""), ("./d/a", b"x"))
    else:
        archive = make_tar(tmp_path / kind, (special("./d", tarfile.DIRTYPE), b""), ("./d/a", b"x"))
    assert members(archive) == ["d/a"]
    assert open_member(archive, "./d/a").read() == b"x"


def test_a_name_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    archive = make(tmp_path / "a.zip", *FILES.items())
    for way in use(archive, "training/a.fra")[1:]:
        with pytest.raises(UserError, match=r"has no member 'training/a\.fra'; it has 3, such as \['training/a\.fr'"):
            way()


# --- hostile archives -------------------------------------------------------------------------------------------------

BAD_NAMES = [
    ("../evil", "leads out"),
    ("a/../../evil", "leads out"),
    ("..", "leads out"),
    ("/etc/evil", "absolute"),
    ("C:/evil", "Windows path"),
    ("c:evil", "Windows path"),
    ("a\\..\\evil", "Windows path"),
    ("\\\\host\\evil", "Windows path"),
    ("a\nb", "control characters"),
]


@pytest.mark.parametrize("kind", ["a.zip", "a.tgz"])
@pytest.mark.parametrize(("name", "fault"), BAD_NAMES)
def test_a_name_that_leads_elsewhere_condemns_the_archive(tmp_path: Path, kind: str, name: str, fault: str) -> None:
    archive = make(tmp_path / kind, ("good", b"x"), (name, b"evil"))
    assert_refused(archive, tmp_path, f"the member .* {fault}")
    with pytest.raises(UserError) as caught:
        members(archive)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        (special("evil", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
        (special("evil", tarfile.LNKTYPE, "good"), "is a link"),
        (special("evil", tarfile.CHRTYPE), "is a device"),
        (special("evil", tarfile.BLKTYPE), "is a device"),
        (special("evil", tarfile.FIFOTYPE), "is a device"),
    ],
    ids=["symlink", "hard link", "character device", "block device", "pipe"],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, info: tarfile.TarInfo, fault: str) -> None:
    assert_refused(make_tar(tmp_path / "a.tar", ("good", b"x"), (info, b"")), tmp_path, f"'evil' {fault}")


@pytest.mark.parametrize(("mode", "fault"), [(stat.S_IFLNK, "is a link"), (stat.S_IFCHR, "is a device")])
def test_links_and_devices_in_a_zip_are_refused(tmp_path: Path, mode: int, fault: str) -> None:
    archive = make_zip(tmp_path / "a.zip", ("good", b"x"), (zip_special("evil", mode), b"/etc/passwd"))
    assert_refused(archive, tmp_path, f"'evil' {fault}")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize("second", ["good", "./good"])
def test_a_second_member_of_the_same_name_is_refused(tmp_path: Path, kind: str, second: str) -> None:
    archive = make(tmp_path / kind, ("good", b"x"), (second, b"y"))
    assert_refused(archive, tmp_path, f"'{second}' is there twice")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", ("good", b"x"))
    data = bytearray(archive.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # the encryption bit of the flags
    archive.write_bytes(data)
    assert_refused(archive, tmp_path, "'good' is encrypted")


@pytest.mark.parametrize("kind", ["a.zip", "a.tgz", "a.tar.bz2"])
def test_what_grows_out_of_proportion_is_refused_before_it_is_unpacked(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make(tmp_path / kind, ("good", b"x"), ("bomb", bytes(3_000_000)))
    assert members(archive) == ["good", "bomb"], "below a gibibyte any ratio may be right"
    monkeypatch.setattr(archives, "FLOOR", 100_000)
    assert_refused(archive, tmp_path, "'bomb' .*bytes, which no text does")


def test_many_members_that_grow_together_out_of_proportion_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make(tmp_path / "a.zip", ("good", b"x"), *((f"m{i}", bytes(90_000)) for i in range(9)))
    monkeypatch.setattr(archives, "FLOOR", 100_000)
    assert_refused(archive, tmp_path, "the member 'm[1-8]' takes the unpacked size over")


def test_text_of_an_ordinary_ratio_passes_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FLOOR", 1)
    text = "".join(f"line {i * i} of many\n" for i in range(9000)).encode()
    for kind in ("a.zip", "a.tgz"):
        with open_member(make(tmp_path / kind, ("text", text)), "text") as stream:
            assert stream.read() == text


@pytest.mark.parametrize("declared", [5, 50_000])
def test_a_member_that_is_not_as_long_as_declared_is_refused(tmp_path: Path, declared: int) -> None:
    archive = make_zip(tmp_path / "a.zip", ("good", b"x" * 20_000))
    data = bytearray(archive.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(mark) + offset
        data[at : at + 4] = declared.to_bytes(4, "little")
    archive.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.zip: the member 'good' (is damaged|does not have the size)"):
        open_member(archive, "good").read()


# --- damaged archives -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_archive_is_refused_wherever_it_ends(tmp_path: Path, kind: str, share: float) -> None:
    noise = b"".join(bytes([i * i % 251, i % 256]) for i in range(9000))
    data = make(tmp_path / kind, ("good", noise), ("more", noise)).read_bytes()
    if kind == "a.tar":
        data = data[: data.rindex(noise) + len(noise)]  # without the unused padding at its end
    (tmp_path / kind).write_bytes(data[: int(len(data) * share)])
    assert_refused(tmp_path / kind, tmp_path, "cannot be read as an archive|is damaged|stops before the end mark")


def test_a_tar_cut_between_two_members_is_not_taken_for_whole(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar", ("good", b"x" * 512), ("more", b"y" * 512))
    archive.write_bytes(archive.read_bytes()[:1024])
    assert_refused(archive, tmp_path, "stops before the end mark of a tar archive")


def test_a_damaged_header_in_a_tar_is_not_taken_for_its_end(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar", ("good", b"x" * 512), ("more", b"y" * 512))
    data = bytearray(archive.read_bytes())
    data[1024] ^= 1
    archive.write_bytes(data)
    assert_refused(archive, tmp_path, "stops before the end mark of a tar archive|is damaged")


@pytest.mark.parametrize("kind", ["a.zip", "a.tgz", "a.tar.bz2"])
def test_a_changed_byte_in_packed_data_is_noticed(tmp_path: Path, kind: str) -> None:
    noise = b"".join(bytes([i * i % 251, i % 256]) for i in range(9000))
    archive = make(tmp_path / kind, ("good", noise))
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(UserError, match=r"damaged|stops before"):
        open_member(archive, "good").read()


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_under_the_name_of_an_archive_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind).write_bytes(b"<html>not found</html>")
    assert_refused(tmp_path / kind, tmp_path, "cannot be read as an archive")


def test_an_archive_that_is_not_there_is_a_user_error(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none.zip", tmp_path, "does not exist")
    assert_refused(tmp_path / "none.tgz", tmp_path, "does not exist")


# --- lines ------------------------------------------------------------------------------------------------------------


def lines(data: bytes, where: str = "text") -> list[str]:
    return list(text_lines(io.BytesIO(data), where))


def test_lines_end_at_lf_or_crlf_and_nowhere_else() -> None:
    text = "\ufeffun\u2028a\u2029b\x85c\x0bd\x0ce\x1cf\r\n\r\nx\ry\n\ufefflast"
    assert lines(text.encode()) == ["un\u2028a\u2029b\x85c\x0bd\x0ce\x1cf", "", "x\ry", "\ufefflast"]
    assert lines(b"") == [] and lines(b"\n") == [""] and lines("\ufeff".encode()) == [""]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))), st.booleans())
def test_lines_come_back_as_they_were(expected: list[str], crlf: bool) -> None:
    end = "\r\n" if crlf else "\n"
    data = ("\ufeff" + "".join(line + end for line in expected)).encode()
    assert lines(data) == (expected or [""])
    assert lines(gzip.compress(data), "text.gz") == (expected or [""])


def test_bytes_that_are_no_utf8_are_named_by_line_after_the_good_ones() -> None:
    stream = text_lines(io.BytesIO(b"un\nd\xe9j\xe0\n"), "a.zip: a.fr")
    assert next(stream) == "un"
    with pytest.raises(UserError, match=r"a\.zip: a\.fr:2: byte 2 of the line, 0xe9, is not UTF-8"):
        next(stream)


@pytest.mark.parametrize("cut", [1, 9, 12, 200, -9, -8, -1])
def test_truncated_gzip_data_is_a_user_error(cut: int) -> None:
    data = gzip.compress(b"".join(b"line %d\n" % (i * i) for i in range(5000)))
    with pytest.raises(UserError, match=r"a\.gz:\d+: damaged from here on"):
        lines(data[:cut], "a.gz")


def test_a_changed_or_a_missing_gzip_wrapping_is_a_user_error() -> None:
    data = bytearray(gzip.compress(b"un\ndeux\n"))
    data[-6] ^= 1  # its checksum
    for wrong in (bytes(data), b"un\ndeux\n", bz2.compress(b"un")):
        with pytest.raises(UserError, match=r"a\.gz:\d+: damaged"):
            lines(wrong, "a.gz")


def test_an_endless_line_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LONGEST_LINE", 10)
    assert lines(b"123456789\n1234567890") == ["123456789", "1234567890"]
    with pytest.raises(UserError, match="text:2: over 10 bytes without a line end"):
        lines(b"un\n12345678901\n")


@pytest.mark.parametrize("kind", ["a.zip", "a.tar"])
def test_lines_of_a_packed_member_of_an_archive(tmp_path: Path, kind: str) -> None:
    archive = make(tmp_path / kind, ("a.fr.gz", gzip.compress("un\ndéjà\n".encode())))
    with open_member(archive, "a.fr.gz") as stream:
        assert list(text_lines(stream, f"{archive}: a.fr.gz")) == ["un", "déjà"]


def test_damage_inside_a_member_is_told_by_its_lines_too(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", ("a.fr", b"un\n" * 9))
    data = bytearray(archive.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        data[data.index(mark) + offset] ^= 1  # the checksum
    archive.write_bytes(data)
    with open_member(archive, "a.fr") as stream, pytest.raises(UserError, match=r"zip: the member 'a\.fr' is damaged"):
        list(text_lines(stream, "a.fr"))
