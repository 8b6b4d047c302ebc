"""What ingest takes and gives: limits, pages, warnings. Loads no image library (the decoding child imports it at start)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """How much one file may cost. A file that would pass a limit gets the error in brackets.

    ``max_bytes``         size of the file                                          [file_too_large]
    ``max_pixels``        pixels of one page as the user gave it                     [image_too_many_pixels]
    ``max_total_pixels``  pixels of all ``Page.image`` of a file together, that is a
                          third of the bytes the caller will hold                    [image_too_many_pixels]
    ``max_pages``         pages of a TIFF or PDF                                     [too_many_pages]
    ``min_side_px``       shorter side of a page                                     [image_too_small]
    ``max_long_edge_px``  longer side of ``Page.image``; larger pages are scaled down, see ``Page.scale``
    ``pdf_dpi``           resolution of a PDF page, unless one picture fills it: that one is taken at its own resolution
    ``timeout_s``         wall clock and CPU seconds of one file                     [decode_timeout]
    ``memory_bytes``      address space of the decoding process                      [decode_memory, decode_crashed]
    """

    max_bytes: int = 64 * MIB
    max_pixels: int = 80_000_000
    max_total_pixels: int = 500_000_000
    max_pages: int = 50
    min_side_px: int = 16
    max_long_edge_px: int = 4096
    pdf_dpi: int = 200
    timeout_s: float = 30.0
    memory_bytes: int = 1536 * MIB

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) <= 0:
                raise ValueError(f"IngestLimits.{item.name} must be greater than 0")


@dataclass(frozen=True, slots=True)
class TextRun:
    """A piece of a PDF's text layer. ``box`` is (left, top, right, bottom) in pixels of the page as the user gave it.

    The layer is what the file says, not what the page shows (it may be hidden or wrong): check it against the picture.
    """

    text: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One upright page.

    ``image``       (H, W, 3) uint8 RGB, contiguous, longer side at most ``max_long_edge_px``
    ``index``       position in the file, from 0; pages that failed leave a gap
    ``width``, ``height``  pixels of the page as the user gave it: after the EXIF orientation or /Rotate, before scaling down
    ``scale``       image pixels per user pixel (1.0 unless scaled down): ``user_xy = image_xy / scale``
    ``format``      "jpeg", "png", "gif", "bmp", "webp", "tiff", "heic" or "pdf"
    ``dpi``         pixels of the user's page per inch, where the file says so
    ``text``        a PDF's text layer; empty for pictures and for scans inside a PDF
    ``grayscale``   the page holds no colour: no pixel's channels differ by more than 8
    """

    image: NDArray[np.uint8]
    index: int
    width: int
    height: int
    scale: float
    format: str
    dpi: float | None = None
    text: tuple[TextRun, ...] = ()
    grayscale: bool = False


@dataclass(frozen=True, slots=True)
class IngestWarning:
    """A page that failed while others of its file were read (``page`` set), or a damaged file whose pages could still be read."""

    code: str
    message: str
    page: int | None = None

    def to_json(self) -> dict[str, str | int]:
        out: dict[str, str | int] = {"code": self.code, "message": self.message}
        if self.page is not None:
            out["page"] = self.page
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """All pages of a file that could be read (at least one), in order, and what went wrong with the others."""

    pages: tuple[Page, ...]
    warnings: tuple[IngestWarning, ...] = ()
