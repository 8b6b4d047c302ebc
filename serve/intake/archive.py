"""ZIP archives: their files one after another, within limits that no archive can talk its way around. Nothing is written to disk.

Names are labels, never paths; sizes that an archive claims are checked first and counted again while it is unpacked.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from certloop.serve.errors import ArchiveError, ArchiveTooLargeError, ArchiveUnsafeError

if TYPE_CHECKING:
    from certloop.serve.config import IntakeLimits

_LOCAL, _END = b"PK\x03\x04", b"PK\x05\x06"
_END_BYTES, _MAX_COMMENT = 22, 65_535
_DIRECTORY_BYTES = 1024
"""Of one entry in the archive's directory, at most: names are shorter."""
_SMALL = 1 << 20
"""Entries that unpack to less than this are not asked for their ratio."""
_CHUNK = 1 << 18
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OFFICE = "[Content_Types].xml"
_LITTER = frozenset({"thumbs.db", "desktop.ini", ".ds_store"})
_UTF8_FLAG, _ENCRYPTED_FLAG = 0x800, 0x1


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    content: bytes


def is_archive(head: bytes) -> bool:
    """Whether a file's first bytes are those of a ZIP archive (Office documents are told apart by :func:`members`)."""
    return head[:4] in (_LOCAL, _END)


def members(file: IO[bytes], limits: IntakeLimits, budget_bytes: int) -> Iterator[Member]:
    """The archive's files in its order, folders and a system's litter left out.

    ``budget_bytes`` is what all of them may unpack to. What the directory tells is checked before the first file comes.
    Raises ArchiveError (damaged, encrypted, empty, an unusual method), ArchiveUnsafeError (names that leave the archive, links),
    ArchiveTooLargeError (entries, bytes, ratio).
    """
    _check_end(file, limits)
    try:
        with zipfile.ZipFile(file) as archive:
            wanted = _checked(archive.infolist(), limits, budget_bytes)
            for info in wanted:
                content = _unpacked(archive, info, min(limits.file_bytes, budget_bytes))
                budget_bytes -= len(content)
                yield Member(_name(info), content)
    except (zipfile.BadZipFile, EOFError, struct.error, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, ArchiveError | ArchiveTooLargeError):
            raise
        raise ArchiveError("the archive is damaged and cannot be unpacked") from None


def is_office(file: IO[bytes]) -> bool:
    """Whether a ZIP archive is really an Office document: one file, not a folder of them."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _OFFICE in archive.NameToInfo
    except (zipfile.BadZipFile, struct.error, NotImplementedError, ValueError, OSError):
        return False


def _check_end(file: IO[bytes], limits: IntakeLimits) -> None:
    """Look at the record at the archive's end before anything of the directory is taken into memory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES - _MAX_COMMENT))
    tail = file.read()
    at = tail.rfind(_END)
    file.seek(0)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise ArchiveError("the archive is damaged: its end is missing")
    count, directory = struct.unpack("<HI", tail[at + 10 : at + 16])
    if count > limits.archive_entries or directory > limits.archive_entries * _DIRECTORY_BYTES:
        raise ArchiveTooLargeError(f"an archive may hold {limits.archive_entries} entries at most")


def _checked(entries: list[zipfile.ZipInfo], limits: IntakeLimits, budget_bytes: int) -> list[zipfile.ZipInfo]:
    if len(entries) > limits.archive_entries:
        raise ArchiveTooLargeError(f"an archive may hold {limits.archive_entries} entries at most")
    wanted = []
    for info in entries:
        _check_safe(info)
        if info.is_dir() or _is_litter(_name(info)):
            continue
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise ArchiveError("the archive is locked by a password")
        if info.compress_type not in _METHODS:
            raise ArchiveError("the archive is packed by another method than store or deflate")
        if info.file_size > limits.file_bytes:
            raise ArchiveTooLargeError(f"a file of the archive has more than {limits.file_bytes} bytes")
        if info.file_size > max(_SMALL, info.compress_size * limits.archive_ratio):
            raise ArchiveTooLargeError(f"a file of the archive unpacks to more than {limits.archive_ratio:g} times its size")
        wanted.append(info)
    if not wanted:
        raise ArchiveError("the archive holds no file")
    if sum(info.file_size for info in wanted) > budget_bytes:
        raise ArchiveTooLargeError(f"the files of a batch may have {limits.batch_bytes} bytes together")
    return wanted


def _check_safe(info: zipfile.ZipInfo) -> None:
    parts = _full_name(info).replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "" or ":" in parts[0] or stat.S_ISLNK(info.external_attr >> 16):
        raise ArchiveUnsafeError("the archive has an entry that points outside of it; pack it anew")


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    out = bytearray()
    with archive.open(info) as source:
        while part := source.read(_CHUNK):
            out += part
            if len(out) > limit:
                raise ArchiveTooLargeError("a file of the archive unpacks to more than it says, or than is allowed")
    return bytes(out)


def _name(info: zipfile.ZipInfo) -> str:
    return _full_name(info).replace("\\", "/").rpartition("/")[2]


def _full_name(info: zipfile.ZipInfo) -> str:
    """Archives from Chinese Windows name their files in GBK and do not say so; those from macOS in UTF-8."""
    if info.flag_bits & _UTF8_FLAG:
        return info.filename
    raw = info.filename.encode("cp437", "replace")
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return info.filename


def _is_litter(name: str) -> bool:
    return not name or name.startswith("._") or name.lower() in _LITTER
