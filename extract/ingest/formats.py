"""Which format a file is, by its content. The file's name is never asked."""

from __future__ import annotations

import re
import struct

READABLE = ("jpeg", "png", "gif", "bmp", "webp", "tiff", "heic", "pdf")

DESCRIPTIONS = {
    "text": "a text file",
    "html": "an HTML page",
    "svg": "an SVG drawing",
    "xml": "an XML file",
    "rtf": "an RTF document",
    "office": "an Office document (docx, xlsx, pptx)",
    "ole": "an old Office document (doc, xls, ppt)",
    "ofd": "an OFD document",
    "zip": "a ZIP archive",
    "archive": "an archive (rar, 7z, gz, bz2 or xz)",
    "exe": "a program",
    "avif": "an AVIF image",
    "jpeg2000": "a JPEG 2000 image",
    "psd": "a Photoshop image",
    "icon": "an icon",
    "video": "a video or audio file",
    "postscript": "a PostScript file",
    "empty": "an empty file",
    "unknown": "a format that is not known",
}

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
)
_OTHER_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"MZ", "exe"),
    (b"\x7fELF", "exe"),
    (b"\xcf\xfa\xed\xfe", "exe"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"Rar!\x1a\x07", "archive"),
    (b"7z\xbc\xaf\x27\x1c", "archive"),
    (b"\x1f\x8b", "archive"),
    (b"BZh", "archive"),
    (b"\xfd7zXZ\x00", "archive"),
    (b"\x00\x00\x00\x0cjP  ", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
    (b"8BPS", "psd"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"{\\rtf", "rtf"),
    (b"%!PS", "postscript"),
    (b"RIFF", "video"),
    (b"\x1aE\xdf\xa3", "video"),
    (b"ID3", "video"),
)
_HEIC_BRANDS = frozenset((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"))
_AVIF_BRANDS = frozenset((b"avif", b"avis"))
_BMP_HEADER_SIZES = frozenset((12, 16, 40, 52, 56, 64, 108, 124))
_PDF_HEADER = re.compile(rb"%PDF-[0-9]")
_PDF_HEADER_WITHIN = 1024
_TEXT_SAMPLE = 4096


def sniff(data: bytes) -> str:
    """The format of ``data``: one of ``READABLE``, or a name from ``DESCRIPTIONS`` for what is not read.

    What stands at byte 0 decides, so a JPEG that is also a ZIP or holds a PDF header is a JPEG. ``%PDF-`` may stand anywhere in
    the first 1024 bytes (mail gateways prepend lines) when no image starts at 0.
    """
    if not data:
        return "empty"
    return (
        _image(data)
        or ("pdf" if _PDF_HEADER.search(data, 0, _PDF_HEADER_WITHIN) else None)
        or _zip(data)
        or next((name for magic, name in _OTHER_MAGIC if data.startswith(magic)), None)
        or _text(data)
        or "unknown"
    )


def describe(name: str) -> str:
    """What to call a format in a message."""
    return DESCRIPTIONS.get(name, name)


def _image(data: bytes) -> str | None:
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data.startswith(b"BM") and len(data) >= 18 and int.from_bytes(data[14:18], "little") in _BMP_HEADER_SIZES:
        return "bmp"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp":
        return _iso_media(data)
    return None


def _iso_media(data: bytes) -> str:
    """HEIC, AVIF and MP4 share one container: the brands tell them apart."""
    end = min(max(int.from_bytes(data[:4], "big"), 16), 256, len(data))
    brands = {data[8:12]} | {data[i : i + 4] for i in range(16, end - 3, 4)}
    if brands & _AVIF_BRANDS:
        return "avif"
    return "heic" if brands & _HEIC_BRANDS else "video"


def _zip(data: bytes) -> str | None:
    if not data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return None
    names = data[:65536] + data[-65536:]  # local headers and the central directory hold member names in the clear
    if b"OFD.xml" in names:
        return "ofd"
    return "office" if b"[Content_Types].xml" in names else "zip"


def _text(data: bytes) -> str | None:
    sample = data[:_TEXT_SAMPLE]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    if b"\x00" in sample or sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample) > len(sample) // 20:
        return None
    head = sample.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")) or b"<html" in head[:1024]:
        return "html"
    if head.startswith((b"<svg", b"<?xml", b"<!")):
        return "svg" if b"<svg" in head else "xml"
    return "text" if _decodes(sample) else None


def _decodes(sample: bytes) -> bool:
    """Whether the bytes are text in an encoding people here use; a character cut by the end of the sample is fine."""
    for encoding in ("utf-8", "gb18030"):
        try:
            sample.decode(encoding)
        except UnicodeDecodeError as error:
            if error.start < len(sample) - 4:
                continue
        return True
    return False


def webp_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) of a WebP canvas from its header: the decoder allocates the whole canvas before it tells the size."""
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:
        return None
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + ((bits >> 14) & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None


def is_cut_short(data: bytes, fmt: str) -> bool:
    """Whether the file's structure says that its end is missing. Asked after decoding failed, to choose between two errors."""
    if fmt == "jpeg":
        return data.rfind(b"\xff\xd9") < max(data.rfind(b"\xff\xda"), 1)
    if fmt == "png":
        return b"IEND" not in data[-64:] and data.rfind(b"IEND") < 0
    if fmt == "gif":
        return not data.rstrip(b"\x00").endswith(b";")
    if fmt == "bmp":
        return len(data) < max(int.from_bytes(data[2:6], "little"), 54)
    if fmt == "webp":
        return len(data) < 8 + int.from_bytes(data[4:8], "little")
    if fmt == "tiff":
        order = "little" if data[:2] == b"II" else "big"
        big = data[2:4] in (b"+\x00", b"\x00+")
        offset = int.from_bytes(data[8:16] if big else data[4:8], order)  # type: ignore[arg-type]
        return len(data) < 16 or offset + 2 > len(data)
    if fmt == "heic":
        return _boxes_end(data) > len(data)
    return False


def _boxes_end(data: bytes) -> int:
    """Where the last top-level box of an ISO media file says it ends."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1 and at + 16 <= len(data):
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size == 0:
            return len(data)
        if size < 8:
            return at
        at += size
    return at if at >= len(data) else len(data) + 1
