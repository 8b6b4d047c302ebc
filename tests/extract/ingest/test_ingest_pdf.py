"""PDF pages: their turning, their resolution, their text, their passwords and their damage."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from certloop.extract.ingest import IngestError, IngestLimits, ingest

R, G, B, W = (200, 30, 30), (30, 160, 30), (30, 30, 200), (255, 255, 255)


def read(data, decoder, **limits):
    return ingest(data, IngestLimits(**limits), decoder=decoder)


def ink(image: np.ndarray) -> tuple[int, int, int, int]:
    """The box around everything dark: left, top, right, bottom."""
    ys, xs = np.nonzero(image.min(axis=2) < 128)
    return int(xs.min()), int(ys.min()), int(xs.max()), int(ys.max())


def test_a_text_page_at_200_dpi_with_its_words(samples, decoder):
    (page,) = read(samples.pdf(samples.text_page("HELLO")), decoder).pages
    assert (page.width, page.height, page.scale, page.dpi) == (833, 556, 1.0, 200.0)  # 300 x 200 points at 200/72
    assert page.grayscale and page.format == "pdf"
    (run,) = page.text
    assert run.text == "HELLO"
    left, top, right, bottom = ink(page.image)
    assert left >= run.box[0] - 2 and top >= run.box[1] - 2 and right <= run.box[2] + 2 and bottom <= run.box[3] + 2


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_rotate_turns_page_and_words(rotate, samples, decoder):
    upright = read(samples.pdf(samples.text_page("HELLO")), decoder).pages[0].image
    (page,) = read(samples.pdf(samples.text_page("HELLO", rotate=rotate)), decoder).pages
    assert (page.width, page.height) == ((833, 556) if rotate == 180 else (556, 833))
    expected = ink(np.rot90(upright, -rotate // 90))  # /Rotate is clockwise
    assert np.abs(np.subtract(ink(page.image), expected)).max() <= 2
    box = page.text[0].box
    assert box[0] - 2 <= expected[0] and box[1] - 2 <= expected[1] and box[2] + 2 >= expected[2] and box[3] + 2 >= expected[3]


def test_a_scan_page_is_taken_at_the_resolution_of_its_picture(samples, decoder):
    data = samples.pdf(samples.scan_page(samples.jpeg(900, 600), (900, 600)))
    (page,) = read(data, decoder).pages
    assert (page.width, page.height, page.dpi) == (900, 600, 216.0)  # 900 px over 300 points
    assert samples.close(samples.corners(page.image), (R, G, B, W))


def test_a_turned_scan_page(samples, decoder):
    (page,) = read(samples.pdf(samples.scan_page(samples.jpeg(900, 600), (900, 600), rotate=90)), decoder).pages
    assert (page.width, page.height) == (600, 900)
    assert samples.close(samples.corners(page.image), (B, R, W, G))


def test_a_hidden_ocr_layer_is_not_taken_for_print(samples, decoder):
    hidden = b"BT /F1 24 Tf 3 Tr 30 150 Td (HIDDEN) Tj ET"
    (page,) = read(samples.pdf(samples.scan_page(samples.jpeg(900, 600), (900, 600), over=hidden)), decoder).pages
    assert page.text == () and (page.width, page.height) == (900, 600)


def test_print_over_a_coarse_scan_is_still_drawn_at_200_dpi(samples, decoder):
    shown = b"BT /F1 24 Tf 30 150 Td (SHOWN) Tj ET"
    (page,) = read(samples.pdf(samples.scan_page(samples.jpeg(300, 200), (300, 200), over=shown)), decoder).pages
    assert (page.width, page.height) == (833, 556) and [run.text for run in page.text] == ["SHOWN"]


def test_a_photo_app_that_makes_a_point_of_each_pixel(samples, decoder):
    (page,) = read(samples.pdf(samples.scan_page(samples.jpeg(4800, 3600), (4800, 3600), size=(4800, 3600))), decoder).pages
    assert (page.width, page.height) == (4800, 3600)
    assert page.image.shape == (3072, 4096, 3) and page.scale == pytest.approx(4096 / 4800)


def test_pages_of_absurd_size_and_pictures_of_absurd_size(samples, decoder):
    huge_page = samples.pdf(samples.text_page(size=(14400, 14400)))
    huge_picture = samples.pdf(samples.scan_page(samples.jpeg(), (60000, 60000)))
    for data in (huge_page, huge_picture):
        with pytest.raises(IngestError) as caught:
            read(data, decoder)
        assert caught.value.code == "image_too_many_pixels"
    result = read(samples.pdf(samples.text_page(), samples.text_page(size=(14400, 14400))), decoder)
    assert [page.index for page in result.pages] == [0]
    assert [(w.code, w.page) for w in result.warnings] == [("image_too_many_pixels", 1)]


def test_encryption(samples, decoder):
    with pytest.raises(IngestError) as caught:
        read(samples.pdf(samples.text_page(), user=b"secret"), decoder)
    assert caught.value.code == "pdf_encrypted"
    (page,) = read(samples.pdf(samples.text_page("HELLO"), user=b""), decoder).pages  # only an owner password: opens without one
    assert page.text[0].text == "HELLO"


def test_a_password_error_does_not_stick_to_the_next_file(samples, decoder):
    """PDFium keeps its last error; a PDF without pages sets none."""
    for data, code in ((samples.pdf(samples.text_page(), user=b"secret"), "pdf_encrypted"), (samples.pdf(), "pdf_corrupt")):
        with pytest.raises(IngestError) as caught:
            read(data, decoder)
        assert caught.value.code == code


def test_damaged(samples, decoder):
    for data in (b"%PDF-1.4\n", b"%PDF-1.7" + bytes(3000), samples.pdf(samples.text_page())[:200]):
        with pytest.raises(IngestError) as caught:
            read(data, decoder)
        assert caught.value.code == "pdf_corrupt"


def test_a_cut_pdf_whose_pages_survive_carries_a_warning(samples, decoder):
    data = samples.pdf(samples.text_page("HELLO"))
    result = read(data[: data.index(b"startxref")], decoder)
    assert result.pages[0].text[0].text == "HELLO"
    assert [(w.code, w.page) for w in result.warnings] == [("pdf_corrupt", None)]
    assert set(result.warnings[0].to_json()) == {"code", "message"}


def test_a_scan_whose_picture_is_damaged_is_not_a_white_page(samples, decoder):
    good, bad = samples.text_page(), samples.scan_page(samples.jpeg(900, 600)[:200], (900, 600))
    result = read(samples.pdf(good, bad, good), decoder)
    assert [page.index for page in result.pages] == [0, 2]
    assert [(w.code, w.page) for w in result.warnings] == [("pdf_corrupt", 1)]


def test_a_blank_scan_is_a_page(samples, decoder):
    blank = samples.encoded(samples.quarters(600, 400).point(lambda _: 255), "JPEG")
    (page,) = read(samples.pdf(samples.scan_page(blank, (600, 400))), decoder).pages
    assert page.image.min() == 255


def test_a_filled_form_field_is_drawn(samples, decoder):
    """Values of form fields are drawn by PDFium's form module, not by the page."""
    appearance = b"0 0 0 rg 0 0 100 40 re f"
    extra = b"/Annots [<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (x) /F 4 /Rect [50 50 150 90] /AP << /N 6 0 R >> >>]"
    data = samples.pdf(samples.page(b"", extra=extra), samples.page(appearance))
    data = data.replace(b"/Type /Catalog", b"/Type /Catalog /AcroForm << /Fields [] >>")
    form = b"6 0 obj\n<< /Type /XObject /Subtype /Form /BBox [0 0 100 40] /Length %d >>\nstream\n%s\nendstream\nendobj\n"
    data = data.replace(b"xref\n", form % (len(appearance), appearance) + b"xref\n", 1)
    result = read(data[: data.rindex(b"startxref")] + b"%%EOF", decoder, max_pages=5)
    assert ink(result.pages[0].image)[0] == pytest.approx(50 * 200 / 72, abs=2)


def test_a_content_stream_bomb_ends_with_a_typed_error_or_a_page(samples, decoder):
    """200 MB of spaces in 200 kB."""
    packer = zlib.compressobj(9)
    content = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(200)) + packer.flush()
    data = samples.pdf(samples.page(content)).replace(
        b"/Length %d" % len(content), b"/Filter /FlateDecode /Length %d" % len(content)
    )
    try:
        assert len(read(data, decoder, timeout_s=10).pages) == 1
    except IngestError as error:
        assert error.code in {"decode_memory", "decode_crashed", "decode_timeout", "pdf_corrupt"}
