"""PDF pages to upright RGB pages, with PDFium. JavaScript and XFA are never run: the build has neither."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import pypdfium2 as pdfium
from PIL import Image
from pypdfium2 import raw

from certloop.extract.ingest.decode import (
    PageSink,
    RawPage,
    check_pixels,
    check_size,
    image_size,
    out_of_memory,
    scale_of,
    too_many_pages,
)
from certloop.extract.ingest.errors import IngestError, PdfCorruptError, PdfEncryptedError
from certloop.extract.ingest.model import IngestLimits, IngestWarning, TextRun
from certloop.extract.ingest.raster import is_gray

POINTS_PER_INCH = 72
FULL_PAGE_SHARE = 0.9
MAX_OBJECTS = 5000
MAX_TEXT_RUNS = 5000
MAX_RUN_CHARS = 500
_TAIL = 2048


def decode_pdf(data: bytes, limits: IngestLimits, sink: PageSink) -> None:
    """Give ``sink`` every page of ``data``, turned by its /Rotate."""
    document = _open(data)
    try:
        count = len(document)
        if count == 0:
            raise PdfCorruptError("this PDF has no pages: export it again")
        if count > limits.max_pages:
            raise too_many_pages(limits)
        if b"%%EOF" not in data[-_TAIL:]:
            sink.notes.append(IngestWarning("pdf_corrupt", "the end of this PDF is missing, pages may lack parts: send it again"))
        for index in range(count):
            try:
                page = _page(document, index, limits)
            except Exception as error:  # noqa: BLE001 - the binding raises nearly anything on damaged input
                sink.fail(index, _typed(error))
            else:
                sink.add(page)
    finally:
        document.close()


def _open(data: bytes) -> Any:
    # PDFium does not clear its last error, and some failures set none: without this, the last file's password error would be ours
    raw.FPDF_LoadMemDocument(b"-", 1, None)
    try:
        document = pdfium.PdfDocument(data)
        document.init_forms()  # the values of filled forms are drawn by the form module
    except Exception as error:  # noqa: BLE001 - as above, for the whole file
        if getattr(error, "err_code", None) in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise PdfEncryptedError("this PDF is protected by a password: save it without one") from None
        raise _typed(error) from None
    return document


def _typed(error: Exception) -> IngestError:
    if isinstance(error, IngestError):
        return error
    if isinstance(error, MemoryError):
        return out_of_memory()
    return PdfCorruptError("this PDF, or a page of it, is damaged: export or scan it again")


def _page(document: Any, index: int, limits: IngestLimits) -> RawPage:
    page = document[index]
    try:
        layout = _Layout(page, limits)
        width, height = layout.size
        check_size(width, height, limits)
        picture = _render(document, page, *image_size(width, height, limits))
        if layout.scan is not None and picture.getextrema() == ((255, 255),) * 3:
            _require_decodable(layout.scan)
        return RawPage(
            rgb=picture.tobytes(),
            image_width=picture.width,
            image_height=picture.height,
            index=index,
            width=width,
            height=height,
            scale=scale_of(width, height, limits),
            format="pdf",
            dpi=round(layout.dpi, 2),
            text=() if layout.scan is not None else tuple(_text_runs(page, width, height)),
            grayscale=is_gray(picture),
        )
    finally:
        page.close()


class _Layout:
    """At which resolution to take a page, and whether it is a scan: one picture fills it and nothing else is visible.

    ``size`` is (width, height) in pixels; ``scan`` the picture of a scan page, else None.
    """

    def __init__(self, page: Any, limits: IngestLimits) -> None:
        width_pt, height_pt = page.get_size()
        if not (0 < width_pt < 1e6 and 0 < height_pt < 1e6):
            raise PdfCorruptError("a page of this PDF has no usable size: export it again")
        self.scan: Any = None
        self.dpi = float(limits.pdf_dpi)
        filling, alone = self._filling_picture(page, width_pt * height_pt, limits)
        if filling is not None:
            native = POINTS_PER_INCH * _pixels_per_point(filling)
            if alone:
                self.scan = filling
                self.dpi = native
            else:
                self.dpi = max(native, min(self.dpi, _dpi_at_long_edge(width_pt, height_pt, limits)))
        factor = self.dpi / POINTS_PER_INCH
        self.size = max(1, round(width_pt * factor)), max(1, round(height_pt * factor))

    @staticmethod
    def _filling_picture(page: Any, page_area: float, limits: IngestLimits) -> tuple[Any, bool]:
        """The picture that fills the page, or None; and whether nothing else is visible (an OCR layer is invisible text)."""
        filling, visible = None, 0
        for number, item in enumerate(page.get_objects()):
            if number == MAX_OBJECTS:
                return filling, False
            if item.type == raw.FPDF_PAGEOBJ_IMAGE:
                columns, rows = item.get_px_size()
                check_pixels(columns, rows, limits)
                if _area(item) >= FULL_PAGE_SHARE * page_area and min(columns, rows) >= limits.min_side_px:
                    filling = item
            if item.type == raw.FPDF_PAGEOBJ_TEXT:
                visible += raw.FPDFTextObj_GetTextRenderMode(item) != raw.FPDF_TEXTRENDERMODE_INVISIBLE
            elif item.type != raw.FPDF_PAGEOBJ_FORM:  # a form is only a box around the objects that follow
                visible += 1
        return filling, visible == 1 and not _has_annotations(page)


def _matrix(item: Any) -> Any:
    matrix = item.get_matrix()
    while item.container is not None:
        item = item.container
        matrix = matrix.multiply(item.get_matrix())
    return matrix


def _area(item: Any) -> float:
    m = _matrix(item)
    return abs(float(m.a * m.d - m.b * m.c))


def _pixels_per_point(item: Any) -> float:
    """The finer of a picture's two resolutions: faxes have half the lines, and none may be lost."""
    m = _matrix(item)
    columns, rows = item.get_px_size()
    return float(max(columns / math.hypot(m.a, m.b), rows / math.hypot(m.c, m.d)))


def _dpi_at_long_edge(width_pt: float, height_pt: float, limits: IngestLimits) -> float:
    """Some apps make one point of each pixel of a photo: such a huge page needs no more pixels than we keep."""
    return POINTS_PER_INCH * limits.max_long_edge_px / max(width_pt, height_pt)


def _has_annotations(page: Any) -> bool:
    return bool(raw.FPDFPage_GetAnnotCount(page) > 0)


def _render(document: Any, page: Any, width: int, height: int) -> Image.Image:
    bitmap = pdfium.PdfBitmap.new_native(width, height, format=raw.FPDFBitmap_BGR, rev_byteorder=True)
    try:
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, width, height)
        place = (bitmap, page, 0, 0, width, height, 0, raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER)
        raw.FPDF_RenderPageBitmap(*place)
        if document.formenv:
            raw.FPDF_FFLDraw(document.formenv, *place)
        return Image.frombytes("RGB", (width, height), memoryview(bitmap.buffer).cast("B"), "raw", "RGB", bitmap.stride)
    finally:
        bitmap.close()


def _require_decodable(picture: Any) -> None:
    """PDFium leaves a picture out that it cannot decode; a white page is only believed when its picture can be decoded."""
    bitmap = picture.get_bitmap()
    bitmap.close()


def _text_runs(page: Any, width: int, height: int) -> Iterator[TextRun]:
    textpage = page.get_textpage()
    try:
        for number in range(min(textpage.count_rects(), MAX_TEXT_RUNS)):
            left, bottom, right, top = textpage.get_rect(number)
            text = textpage.get_text_bounded(left, bottom, right, top).strip()[:MAX_RUN_CHARS]
            if text:
                yield TextRun(text, _box_px(page, (left, bottom, right, top), width, height))
    finally:
        textpage.close()


def _box_px(page: Any, rect: tuple[float, float, float, float], width: int, height: int) -> tuple[float, float, float, float]:
    """A box in page points (origin at the bottom left, before /Rotate) as pixels of the upright page."""
    left, bottom, right, top = rect
    corners = [_point_px(page, x, y, width, height) for x, y in ((left, bottom), (right, top))]
    xs, ys = zip(*corners, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _point_px(page: Any, x: float, y: float, width: int, height: int) -> tuple[float, float]:
    column, row = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, x, y, column, row)
    return float(column.value), float(row.value)
