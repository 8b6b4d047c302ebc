"""Whatever bytes come in: pages within the limits or an IngestError, within the time, and the child keeps its memory limit."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from certloop.extract.ingest import Decoder, IngestError, IngestLimits, Pages, ingest, sniff
from certloop.extract.ingest.formats import DESCRIPTIONS, READABLE

LIMITS = IngestLimits(max_bytes=1 << 20, max_pixels=2_000_000, max_pages=4, timeout_s=5, memory_bytes=512 << 20)
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PDF")


def _seed(fmt: str) -> bytes:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (40, 48, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    options = {"TIFF": {"save_all": True, "append_images": [noise], "compression": "tiff_lzw"}, "PDF": {"resolution": 100}}
    noise.save(buffer, fmt, **options.get(fmt, {}))
    return buffer.getvalue()


SEEDS = {fmt: _seed(fmt) for fmt in FORMATS}


@st.composite
def damaged(draw: st.DrawFn, fmt: str) -> bytes:
    """A good file changed behind its magic number: bytes (often in the head, where sizes stand), pieces cut, doubled or added."""
    data = bytearray(SEEDS[fmt])
    for _ in range(draw(st.integers(1, 6))):
        head = draw(st.booleans())
        at = draw(st.integers(8, max(8, min(len(data), 256 if head else len(data)) - 1)))
        kind = draw(st.sampled_from(("byte", "ones", "cut", "drop", "repeat", "insert")))
        if kind == "byte":
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == "ones":
            data[at : at + 4] = b"\xff" * 4
        elif kind == "cut":
            del data[at + len(data) // 4 :]
        elif kind == "drop":
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        else:
            data[at:at] = draw(st.binary(max_size=16))
    if fmt == "PNG" and draw(st.booleans()):
        _repair_checksums(data)
    return bytes(data)


def _repair_checksums(data: bytearray) -> None:
    """Without this nearly every changed PNG fails at its first checksum and nothing behind it is reached."""
    at = 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if end + 4 > len(data):
            return
        data[end : end + 4] = zlib.crc32(data[at + 4 : end]).to_bytes(4, "big")
        at = end + 4


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    with Decoder() as one:
        yield one


def check(data: bytes, decoder: Decoder) -> None:
    try:
        result = ingest(data, LIMITS, decoder=decoder)
    except IngestError as error:
        assert error.code not in {"ingest_error", "decode_timeout"}
        assert error.message
        return
    assert isinstance(result, Pages) and 1 <= len(result.pages) <= LIMITS.max_pages
    for page in result.pages:
        assert page.image.shape[2] == 3 and page.width * page.height <= LIMITS.max_pixels
        assert max(page.image.shape) <= LIMITS.max_long_edge_px and min(page.width, page.height) >= LIMITS.min_side_px


@pytest.mark.parametrize("fmt", FORMATS)
def test_damaged_files_give_pages_or_a_typed_error(fmt: str, decoder: Decoder) -> None:
    @settings(max_examples=500, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(damaged(fmt))
    def run(data: bytes) -> None:
        check(data, decoder)

    run()
    assert len(ingest(SEEDS[fmt], LIMITS, decoder=decoder).pages) >= 1


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=300), st.sampled_from([b"", *(SEEDS[fmt][:16] for fmt in FORMATS)]))
def test_any_bytes_are_sniffed_and_answered(tail: bytes, head: bytes) -> None:
    data = head + tail
    assert sniff(data) in {*READABLE, *DESCRIPTIONS}
    try:
        ingest(data, LIMITS, decoder=SHARED)
    except IngestError as error:
        assert error.code in {
            "file_empty", "format_unsupported", "image_truncated", "image_corrupt", "image_too_many_pixels", "image_too_small",
            "pdf_corrupt", "pdf_encrypted", "decode_memory",
        }  # fmt: skip


SHARED = Decoder()


@pytest.fixture(scope="module", autouse=True)
def _close_shared() -> Iterator[None]:
    yield
    SHARED.close()
