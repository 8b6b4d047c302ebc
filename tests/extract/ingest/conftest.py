"""Sample files, made here byte by byte or with Pillow. Nothing comes from the code under test."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from certloop.extract.ingest import Decoder

RED, GREEN, BLUE, WHITE = (200, 30, 30), (30, 160, 30), (30, 30, 200), (255, 255, 255)
QUARTERS = (RED, GREEN, BLUE, WHITE)
PASSWORD_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")


class Samples:
    """How to make files. ``quarters``: an upright picture with red, green / blue, white quarters."""

    data = Path(__file__).parent / "data"

    @staticmethod
    def quarters(width: int = 64, height: int = 48) -> Image.Image:
        image = Image.new("RGB", (width, height), WHITE)
        image.paste(RED, (0, 0, width // 2, height // 2))
        image.paste(GREEN, (width // 2, 0, width, height // 2))
        image.paste(BLUE, (0, height // 2, width // 2, height))
        return image

    @staticmethod
    def encoded(image: Image.Image, fmt: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, fmt, **options)
        return buffer.getvalue()

    @classmethod
    def jpeg(cls, width: int = 64, height: int = 48, **options: Any) -> bytes:
        return cls.encoded(cls.quarters(width, height), "JPEG", quality=95, subsampling=0, **options)

    @classmethod
    def noisy_jpeg(cls, width: int = 640, height: int = 480) -> bytes:
        noise = np.random.default_rng(7).integers(0, 255, (height, width, 3), dtype=np.uint8)
        return cls.encoded(Image.fromarray(noise), "JPEG", quality=90)

    @staticmethod
    def corners(image: np.ndarray, inset: int = 6) -> tuple[tuple[int, ...], ...]:
        """The colours near the four corners: top left, top right, bottom left, bottom right."""
        height, width = image.shape[:2]
        points = ((inset, inset), (width - inset, inset), (inset, height - inset), (width - inset, height - inset))
        return tuple(tuple(int(v) for v in image[y, x]) for x, y in points)

    @staticmethod
    def close(found: Any, expected: Any, tolerance: int = 6) -> bool:
        return bool(np.abs(np.asarray(found, dtype=int) - np.asarray(expected, dtype=int)).max() <= tolerance)

    @staticmethod
    def png_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
        body = b"".join(
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
            for kind, content in chunks
        )
        return b"\x89PNG\r\n\x1a\n" + body

    @classmethod
    def png_of_zeros(cls, width: int, height: int, *, bits: int = 8, rows: int | None = None) -> bytes:
        """A grey PNG whose size is only declared (``rows`` 0) or really there, compressed about a thousandfold."""
        packer = zlib.compressobj(1)
        row = bytes(1 + width * bits // 8)
        parts = [packer.compress(row) for _ in range(height if rows is None else rows)]
        content = b"".join(parts) + packer.flush()
        header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
        return cls.png_chunks((b"IHDR", header), (b"IDAT", content), (b"IEND", b""))

    @classmethod
    def pdf(cls, *pages: bytes, **options: Any) -> bytes:
        """A PDF of pages made by ``text_page``, ``scan_page`` or ``page``: each is the page's own objects, see ``_pdf``."""
        return _pdf(list(pages), **options)

    @staticmethod
    def page(content: bytes, size: tuple[float, float] = (300, 200), extra: bytes = b"", resources: bytes = b"") -> Any:
        return content, size, extra, resources, None

    @classmethod
    def text_page(cls, text: str = "HELLO", size: tuple[float, float] = (300, 200), rotate: int = 0, mode: int = 0) -> Any:
        content = f"BT /F1 24 Tf {mode} Tr 30 150 Td ({text}) Tj ET".encode()
        return (
            content,
            size,
            f"/Rotate {rotate}".encode(),
            b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>",
            None,
        )

    @classmethod
    def scan_page(
        cls, jpeg: bytes, px: tuple[int, int], size: tuple[float, float] = (300, 200), rotate: int = 0, over: bytes = b""
    ) -> Any:
        """One JPEG that fills the page; ``over`` is content drawn after it."""
        content = f"q {size[0]} 0 0 {size[1]} 0 0 cm /Im Do Q ".encode() + over
        font = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
        return content, size, f"/Rotate {rotate}".encode(), font, (jpeg, px)


def _pdf(pages: list[Any], *, user: bytes | None = None, owner: bytes = b"owner", version: bytes = b"1.4") -> bytes:
    """Objects: 1 catalogue, 2 page tree, then three a page (page, content, picture)."""
    objects: dict[int, bytes] = {1: b"<< /Type /Catalog /Pages 2 0 R >>"}
    crypt = _Rc4Crypt(user, owner) if user is not None else None
    kids = b" ".join(b"%d 0 R" % (3 + 3 * i) for i in range(len(pages)))
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    for i, (content, (width, height), extra, resources, picture) in enumerate(pages):
        at = 3 + 3 * i
        xobject = b"/XObject << /Im %d 0 R >>" % (at + 2) if picture else b""
        objects[at] = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %g %g] %s /Contents %d 0 R /Resources << %s %s >> >>" % (
            width, height, extra, at + 1, resources, xobject,
        )  # fmt: skip
        objects[at + 1] = _stream(b"", content, at + 1, crypt)
        if picture:
            jpeg, (columns, rows) = picture
            keys = b"/Subtype /Image /Width %d /Height %d /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode"
            objects[at + 2] = _stream(keys % (columns, rows), jpeg, at + 2, crypt)
        else:
            objects[at + 2] = b"null"
    return _write_pdf(objects, crypt, version)


def _write_pdf(objects: dict[int, bytes], crypt: _Rc4Crypt | None, version: bytes) -> bytes:
    out = bytearray(b"%PDF-" + version + b"\n")
    offsets = {}
    for number in sorted(objects):
        offsets[number] = len(out)
        out += b"%d 0 obj\n" % number + objects[number] + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offsets[number] for number in sorted(objects))
    encrypt = crypt.dictionary() if crypt else b""
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, encrypt, start)
    return bytes(out)


def _stream(keys: bytes, content: bytes, number: int, crypt: _Rc4Crypt | None) -> bytes:
    content = crypt.encrypt(content, number) if crypt else content
    return b"<< %s /Length %d >>\nstream\n" % (keys, len(content)) + content + b"\nendstream"


class _Rc4Crypt:
    """PDF 1.4 standard security handler, revision 2 (40-bit RC4): PDF reference 1.7, algorithms 1 to 4."""

    permissions, file_id = -4, b"0123456789abcdef"

    def __init__(self, user: bytes, owner: bytes) -> None:
        padded = (user + PASSWORD_PAD)[:32]
        self.o = _rc4(hashlib.md5((owner + PASSWORD_PAD)[:32]).digest()[:5], padded)
        self.key = hashlib.md5(padded + self.o + struct.pack("<i", self.permissions) + self.file_id).digest()[:5]
        self.u = _rc4(self.key, PASSWORD_PAD)

    def encrypt(self, content: bytes, number: int) -> bytes:
        return _rc4(hashlib.md5(self.key + struct.pack("<I", number)[:3] + b"\0\0").digest()[:10], content)

    def dictionary(self) -> bytes:
        o, u, file_id = (value.hex().encode() for value in (self.o, self.u, self.file_id))
        keys = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P %d >> /ID [<%s> <%s>]"
        return keys % (o, u, self.permissions, file_id, file_id)


def _rc4(key: bytes, content: bytes) -> bytes:
    state, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) & 255
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in content:
        i = (i + 1) & 255
        j = (j + state[i]) & 255
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) & 255])
    return bytes(out)


@pytest.fixture(scope="session")
def samples() -> type[Samples]:
    return Samples


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    with Decoder() as one:
        yield one
