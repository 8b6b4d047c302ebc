"""Every kind of bad file has its error code, and none of them stops a batch."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

import certloop.extract.ingest as package
from certloop.agentrl.errors import CertloopError
from certloop.extract.ingest import IngestError, IngestLimits, ingest, sniff
from certloop.extract.ingest.errors import BY_CODE

CODES = {
    "file_not_found": FileNotFoundError,
    "file_unreadable": OSError,
    "file_empty": ValueError,
    "file_too_large": ValueError,
    "format_unsupported": ValueError,
    "image_truncated": ValueError,
    "image_corrupt": ValueError,
    "image_too_many_pixels": ValueError,
    "image_too_small": ValueError,
    "too_many_pages": ValueError,
    "pdf_encrypted": ValueError,
    "pdf_corrupt": ValueError,
    "decode_timeout": TimeoutError,
    "decode_memory": MemoryError,
    "decode_crashed": RuntimeError,
}


def error_of(source, decoder, **limits) -> IngestError:
    with pytest.raises(IngestError) as caught:
        ingest(source, IngestLimits(**limits), decoder=decoder)
    return caught.value


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return buffer.getvalue()


def test_the_public_names():
    assert set(package.__all__) == {
        "Decoder", "IngestLimits", "IngestWarning", "Page", "Pages", "Source", "TextRun", "ingest", "sniff", "IngestError",
        *(cls.__name__ for cls in BY_CODE.values()),
    }  # fmt: skip
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_a_class_that_refines_a_builtin_and_can_be_pickled(code):
    assert set(BY_CODE) == set(CODES)
    error = BY_CODE[code]("what to do")
    assert isinstance(error, (IngestError, CertloopError)) and isinstance(error, CODES[code])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.to_json() == {"code": code, "message": "what to do"} and str(copy) == "what to do"


def test_missing_file(tmp_path, decoder):
    for path in (tmp_path / "张三的身份证.jpg", tmp_path / "x" / "y", "a\0b"):
        error = error_of(path, decoder)
        assert error.code == "file_not_found"
        assert "张三" not in error.message


def test_folder_and_device_and_pipe_are_unreadable_and_never_block(tmp_path, decoder):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, "/dev/zero", tmp_path / "pipe"):
        assert error_of(path, decoder).code == "file_unreadable"


def test_a_file_without_permission(tmp_path, decoder, samples, monkeypatch):
    path = tmp_path / "a.jpg"
    path.write_bytes(samples.jpeg())

    def denied(*_args: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("certloop.extract.ingest.source.os.open", denied)  # the suite may run as root, who is never denied
    error = error_of(path, decoder)
    assert error.code == "file_unreadable" and str(path) not in error.message


def test_empty_file(tmp_path, decoder):
    (tmp_path / "a.pdf").touch()
    assert error_of(tmp_path / "a.pdf", decoder).code == "file_empty"
    assert error_of(b"", decoder).code == "file_empty"


def test_too_many_bytes(tmp_path, decoder, samples):
    data = samples.noisy_jpeg()
    (tmp_path / "a.jpg").write_bytes(data)
    for source in (data, tmp_path / "a.jpg"):
        assert error_of(source, decoder, max_bytes=len(data) - 1).code == "file_too_large"
    assert len(ingest(tmp_path / "a.jpg", IngestLimits(max_bytes=len(data)), decoder=decoder).pages) == 1


UNSUPPORTED = {
    "a text file": ("统一社会信用代码 91350211M000100Y43\n" * 9).encode(),
    "a text file ": ("营业执照\n" * 9).encode("gbk"),
    "a text file  ": "营业执照".encode("utf-16"),
    "an HTML page": b"<!DOCTYPE html><html><body>x</body></html>",
    "an HTML page ": b"\xef\xbb\xbf\n<html><body>x</body></html>",
    "an SVG drawing": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "an XML file": b'<?xml version="1.0"?><a/>',
    "a ZIP archive": zipped("a.txt"),
    "an Office document": zipped("[Content_Types].xml", "word/document.xml"),
    "an OFD document": zipped("OFD.xml", "Doc_0/Document.xml"),
    "an old Office document": bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600),
    "a program": b"MZ\x90\x00" + bytes(200),
    "a program ": b"\x7fELF\x02\x01\x01" + bytes(200),
    "an archive": b"\x1f\x8b\x08" + bytes(200),
    "an AVIF image": b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00mif1avifmiaf" + bytes(99),
    "a video": b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp41" + bytes(99),
    "a format that is not known": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_other_formats_are_named(what, decoder):
    error = error_of(UNSUPPORTED[what], decoder)
    assert error.code == "format_unsupported"
    assert what.strip() in error.message
    assert "91350211" not in error.message


def test_jpeg_truncated_anywhere_is_never_read(samples, decoder):
    data = samples.noisy_jpeg(320, 240)
    for cut in [3, 20, 150, 400, *range(1000, len(data) - 2, len(data) // 12), len(data) - 200]:
        assert error_of(data[:cut], decoder).code == "image_truncated", cut


@pytest.mark.parametrize("fmt", ["PNG", "GIF", "BMP", "WEBP", "TIFF"])
def test_other_pictures_truncated(fmt, samples, decoder):
    noise = np.random.default_rng(3).integers(0, 255, (100, 120, 3), dtype=np.uint8)
    data = samples.encoded(Image.fromarray(noise), fmt)
    for cut in (len(data) // 4, len(data) // 2, len(data) * 3 // 4, len(data) - 40):
        assert error_of(data[:cut], decoder).code == "image_truncated", cut


def test_heic_truncated(samples, decoder):
    data = (samples.data / "small.heic").read_bytes()
    for cut in range(40, len(data), 80):
        assert error_of(data[:cut], decoder).code == "image_truncated", cut


def test_damaged_pictures(samples, decoder):
    png = samples.encoded(samples.quarters(), "PNG")
    at = png.index(b"IDAT") + 4
    assert error_of(png[:at] + bytes(20) + png[at + 20 :], decoder).code == "image_corrupt"
    jpeg = samples.jpeg()
    at = jpeg.index(b"\xff\xc0")
    assert error_of(jpeg[: at + 4] + b"\xff" * 12 + jpeg[at + 16 :], decoder).code in {"image_corrupt", "format_unsupported"}
    assert error_of(b"BM" + bytes(12) + (40).to_bytes(4, "little") + bytes(99), decoder).code == "format_unsupported"  # 0 bits


def test_a_float_picture_of_no_numbers(samples, decoder):
    data = samples.encoded(Image.fromarray(np.full((32, 32), np.inf, dtype=np.float32)), "TIFF")
    assert error_of(data, decoder).code == "image_corrupt"


def test_bombs(samples, decoder):
    """Declared size only; really compressed a thousandfold (20000 x 20000 in 1.7 MB); canvases of GIF and WebP."""
    gif = b"GIF89a" + (60000).to_bytes(2, "little") * 2 + bytes(3) + samples.encoded(samples.quarters(), "GIF")[13:]
    webp_head = b"WEBPVP8X" + (10).to_bytes(4, "little") + bytes(4) + (16382).to_bytes(3, "little") * 2
    for data in (
        samples.png_of_zeros(50000, 50000, rows=0),
        samples.png_of_zeros(20000, 20000),
        gif,
        b"RIFF" + (len(webp_head) + 100).to_bytes(4, "little") + webp_head + bytes(100),
    ):
        assert error_of(data, decoder).code == "image_too_many_pixels"


def test_pixel_limit_is_exact(samples, decoder):
    data = samples.jpeg(100, 80)
    assert len(ingest(data, IngestLimits(max_pixels=8000), decoder=decoder).pages) == 1
    assert error_of(data, decoder, max_pixels=7999).code == "image_too_many_pixels"


def test_pixels_of_all_pages_together(samples, decoder):
    page = samples.quarters(100, 100)
    data = samples.encoded(page, "TIFF", save_all=True, append_images=[page, page])
    assert len(ingest(data, IngestLimits(max_total_pixels=30000), decoder=decoder).pages) == 3
    assert error_of(data, decoder, max_total_pixels=29999).code == "image_too_many_pixels"


def test_too_small(samples, decoder):
    assert error_of(samples.jpeg(15, 200), decoder).code == "image_too_small"
    assert (
        error_of(samples.encoded(Image.new("L", (9000, 20)), "PNG"), decoder).code == "image_too_small"
    )  # 9 px once scaled down
    assert len(ingest(samples.jpeg(16, 16), decoder=decoder).pages) == 1


def test_too_many_pages(samples, decoder):
    page = samples.quarters()
    data = samples.encoded(page, "TIFF", save_all=True, append_images=[page] * 3)
    assert error_of(data, decoder, max_pages=3).code == "too_many_pages"
    assert len(ingest(data, IngestLimits(max_pages=4), decoder=decoder).pages) == 4
    assert error_of(samples.pdf(*[samples.text_page()] * 4), decoder, max_pages=3).code == "too_many_pages"


def test_a_damaged_tiff_page_among_good_ones_is_a_warning(samples, decoder):
    noise = [Image.fromarray(np.random.default_rng(i).integers(0, 255, (64, 64, 3), dtype=np.uint8)) for i in range(3)]
    data = bytearray(samples.encoded(noise[0], "TIFF", save_all=True, append_images=noise[1:], compression="tiff_adobe_deflate"))
    middle = len(data) // 2
    data[middle - 200 : middle + 200] = bytes(400)
    result = ingest(bytes(data), decoder=decoder)
    assert [page.index for page in result.pages] == [0, 2]
    (warning,) = result.warnings
    assert warning.page == 1 and warning.code in {"image_corrupt", "image_truncated"}
    assert set(warning.to_json()) == {"code", "message", "page"}


def test_a_bad_file_never_concerns_the_next_one(samples, decoder):
    good = samples.jpeg()
    encrypted = samples.pdf(samples.text_page(), user=b"secret")
    batch = [
        good,
        b"",
        good,
        good[:300],
        encrypted,
        good,
        b"plain text",
        samples.png_of_zeros(50000, 50000, rows=0),
        samples.pdf(),
        good,
    ]
    outcome = []
    for data in batch:
        try:
            outcome.append(ingest(data, decoder=decoder).pages[0].format)
        except IngestError as error:
            outcome.append(error.code)
    assert outcome == [
        "jpeg", "file_empty", "jpeg", "image_truncated", "pdf_encrypted", "jpeg", "format_unsupported", "image_too_many_pixels",
        "pdf_corrupt", "jpeg",
    ]  # fmt: skip


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="max_pages"):
        IngestLimits(max_pages=0)


def test_sniff_needs_no_whole_file(samples):
    assert (
        sniff(samples.jpeg()[:4]) == "jpeg" and sniff(b"%PDF-1.7") == "pdf" and sniff(b"") == "empty" and sniff(b"BM") == "text"
    )
