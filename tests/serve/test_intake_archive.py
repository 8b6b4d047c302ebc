"""ZIP archives as hostile as they come: names are labels, sizes are counted, nothing unbounded is unpacked."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from dataclasses import replace

import pytest

from certloop.serve.config import IntakeLimits
from certloop.serve.errors import ArchiveError, ArchiveTooLargeError, ArchiveUnsafeError
from certloop.serve.intake.archive import is_archive, is_office, members

LIMITS = IntakeLimits(file_bytes=1 << 20, batch_bytes=3 << 20, archive_entries=100, archive_ratio=200.0)


def packed(*files: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    out.seek(0)
    return out


def names(file: io.BytesIO, limits: IntakeLimits = LIMITS) -> list[str]:
    return [member.name for member in members(file, limits, limits.batch_bytes)]


def test_files_come_in_their_order_without_folders_and_litter() -> None:
    file = packed(
        ("a/", b""),
        ("a/two.jpg", b"2"),
        ("a/one.jpg", b"1"),
        ("__MACOSX/a/._one.jpg", b"x"),
        ("a/Thumbs.db", b"x"),
        (".DS_Store", b"x"),
    )
    assert [(m.name, m.content) for m in members(file, LIMITS, LIMITS.batch_bytes)] == [("two.jpg", b"2"), ("one.jpg", b"1")]


@pytest.mark.parametrize(("encoding", "flag"), [("gbk", 0), ("utf-8", 0), ("utf-8", 0x800)])
def test_chinese_names_are_read_whoever_packed_them(encoding: str, flag: int) -> None:
    """Windows writes GBK without saying so, macOS UTF-8 without saying so, others say UTF-8 (flag bit 11)."""
    plain = packed(("XXXXXXXXXXXX.jpg", b"1")).getvalue()
    raw = "营业执照".encode(encoding)
    name = raw + b"X" * (12 - len(raw)) + b".jpg"
    data = bytearray(plain.replace(b"XXXXXXXXXXXX.jpg", name))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature) + offset
        data[at : at + 2] = struct.pack("<H", flag)
    assert names(io.BytesIO(bytes(data))) == [name.decode(encoding)]


@pytest.mark.parametrize("name", ["../evil.jpg", "a/../../evil.jpg", "/etc/passwd", "C:\\evil.jpg", "a\\..\\..\\evil.jpg"])
def test_names_that_leave_the_archive_are_refused(name: str) -> None:
    with pytest.raises(ArchiveUnsafeError):
        names(packed(("ok.jpg", b"1"), (name, b"2")))


def test_links_are_refused() -> None:
    link = zipfile.ZipInfo("link.jpg")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ArchiveUnsafeError):
        names(packed((link, b"/etc/passwd")))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    """1 MiB of zeros packs to about 1 KB: a ratio of 1,000."""
    limits = replace(LIMITS, file_bytes=8 << 20, batch_bytes=1 << 30)
    with pytest.raises(ArchiveTooLargeError, match="200 times"):
        names(packed(("zeros.jpg", b"\0" * (4 << 20))), limits)


def test_a_bomb_that_lies_about_its_size_is_stopped() -> None:
    data = bytearray(packed(("zeros.jpg", b"\0" * (2 << 20))).getvalue())
    claimed = struct.pack("<I", 1000)
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(signature) + offset
        data[at : at + 4] = claimed
    with pytest.raises((ArchiveTooLargeError, ArchiveError)):
        names(io.BytesIO(bytes(data)))


def test_what_is_unpacked_together_is_bounded() -> None:
    import os

    files = [(f"{n}.jpg", os.urandom(900_000)) for n in range(4)]  # 3.6 MB in a budget of 3 MiB
    with pytest.raises(ArchiveTooLargeError):
        names(packed(*files))


def test_too_many_entries_are_refused_by_the_end_of_the_archive_alone() -> None:
    file = packed(*[(f"{n}.jpg", b"1") for n in range(101)])
    data = bytearray(file.getvalue())
    directory = data.index(b"PK\x01\x02")
    data[directory : directory + 40] = b"\xff" * 40  # nobody looks at the directory any more
    with pytest.raises(ArchiveTooLargeError, match="100 entries"):
        names(io.BytesIO(bytes(data)))


def test_ten_thousand_entries_are_refused_with_the_usual_limits() -> None:
    file = packed(*[(f"{n}.jpg", b"") for n in range(10_000)], method=zipfile.ZIP_STORED)
    with pytest.raises(ArchiveTooLargeError, match="5000 entries"):
        names(file, IntakeLimits())


def test_locked_and_unusual_archives_are_refused_in_words() -> None:
    data = bytearray(packed(("a.jpg", b"1")).getvalue())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    with pytest.raises(ArchiveError, match="password"):
        names(io.BytesIO(bytes(data)))
    with pytest.raises(ArchiveError, match="method"):
        names(packed(("a.jpg", b"1" * 100), method=zipfile.ZIP_LZMA))
    with pytest.raises(ArchiveError, match="no file"):
        names(packed(("folder/", b"")))


@pytest.mark.parametrize("cut", [4, 30, 100, 200])
def test_a_damaged_archive_is_one_typed_error(cut: int) -> None:
    data = packed(("a.jpg", b"abc" * 100), ("b.jpg", b"def" * 100)).getvalue()
    with pytest.raises(ArchiveError):
        names(io.BytesIO(data[:cut]))
    with pytest.raises(ArchiveError):
        names(io.BytesIO(data[:cut] + b"\0" * 30 + data[cut + 30 :]))


def test_an_archive_is_known_by_its_first_bytes_and_an_office_document_is_none() -> None:
    plain, office = packed(("a.jpg", b"1")), packed(("[Content_Types].xml", b"<x/>"), ("word/document.xml", b"<x/>"))
    assert is_archive(plain.getvalue())
    assert not is_archive(b"\x89PNG")
    assert is_office(office)
    assert not is_office(plain)
    assert not is_office(io.BytesIO(b"PK\x03\x04 nothing"))
