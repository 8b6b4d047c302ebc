"""Bytes to pages. Runs inside the decoding child; nothing here knows about processes or pipes.

Only Pillow, pi_heif and pypdfium2 are imported, each when the first file needs it: the child must start fast and stay small.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from certloop.extract.ingest.errors import (
    DecodeMemoryError,
    FormatUnsupportedError,
    ImageTooManyPixelsError,
    ImageTooSmallError,
    IngestError,
    TooManyPagesError,
)
from certloop.extract.ingest.formats import READABLE, describe
from certloop.extract.ingest.model import IngestLimits, IngestWarning, TextRun


@dataclass(frozen=True, slots=True)
class RawPage:
    """A ``Page`` before numpy: ``rgb`` is image_height x image_width x 3 bytes, row by row."""

    rgb: bytes
    image_width: int
    image_height: int
    index: int
    width: int
    height: int
    scale: float
    format: str
    dpi: float | None = None
    text: tuple[TextRun, ...] = ()
    grayscale: bool = False


Emit = Callable[[RawPage], None]


def decode(data: bytes, fmt: str, limits: IngestLimits, emit: Emit) -> tuple[IngestWarning, ...]:
    """Hand each page of ``data`` to ``emit``, in order; return what went wrong with single pages.

    Raises an ``IngestError`` when no page could be read or a limit of the whole file was passed.
    """
    sink = PageSink(limits, emit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn about odd but readable files; a caller's -W error must not reject them
        try:
            if fmt == "pdf":
                from certloop.extract.ingest.pdf import decode_pdf

                decode_pdf(data, limits, sink)
            else:
                from certloop.extract.ingest.raster import decode_image

                decode_image(data, fmt, limits, sink)
        except IngestError:
            raise
        except MemoryError:
            raise out_of_memory() from None
        except ImportError as error:
            if "map segment" in str(error) or "allocate" in str(error):
                raise out_of_memory() from None
            raise
    return sink.finish()


@dataclass(slots=True)
class PageSink:
    """Collects the pages of one file: keeps the limit on all together, makes a failed page among good ones a warning."""

    limits: IngestLimits
    emit: Emit
    pixels: int = 0
    read: int = 0
    failures: list[tuple[int, IngestError]] = field(default_factory=list)
    notes: list[IngestWarning] = field(default_factory=list)

    def add(self, page: RawPage) -> None:
        self.pixels += page.image_width * page.image_height
        if self.pixels > self.limits.max_total_pixels:
            raise ImageTooManyPixelsError(
                f"the pages of this file have more than {self.limits.max_total_pixels:,} pixels together: split the file"
            )
        self.emit(page)
        self.read += 1

    def fail(self, index: int, error: IngestError) -> None:
        """Note that page ``index`` cannot be read. An error of the whole process is raised at once."""
        if isinstance(error, DecodeMemoryError):
            raise error
        self.failures.append((index, error))

    def finish(self) -> tuple[IngestWarning, ...]:
        if not self.read:
            raise self.failures[0][1]
        return (*self.notes, *(IngestWarning(error.code, error.message, index) for index, error in self.failures))


def require_readable(fmt: str) -> None:
    if fmt not in READABLE:
        raise FormatUnsupportedError(
            f"this appears to be {describe(fmt)}: give a JPEG, PNG, GIF, BMP, WebP, TIFF or HEIC image, or a PDF"
        )


def check_size(width: int, height: int, limits: IngestLimits) -> None:
    """Raise unless a page of this many pixels may be decoded and is large enough to read."""
    check_pixels(width, height, limits)
    if min(width, height, *image_size(width, height, limits)) < limits.min_side_px:
        raise ImageTooSmallError(f"a page of {width} x {height} pixels is too small or too narrow: scan the whole page again")


def check_pixels(width: int, height: int, limits: IngestLimits) -> None:
    if width * height > limits.max_pixels:
        raise ImageTooManyPixelsError(
            f"a page of {width} x {height} pixels is over the limit of {limits.max_pixels:,}: scan it at a lower resolution"
        )


def image_size(width: int, height: int, limits: IngestLimits) -> tuple[int, int]:
    """Pixels of ``Page.image`` for a page of ``width`` x ``height``."""
    longer = max(width, height)
    if longer <= limits.max_long_edge_px:
        return width, height
    factor = limits.max_long_edge_px / longer
    return max(1, round(width * factor)), max(1, round(height * factor))


def scale_of(width: int, height: int, limits: IngestLimits) -> float:
    return min(1.0, limits.max_long_edge_px / max(width, height))


def too_many_pages(limits: IngestLimits) -> TooManyPagesError:
    return TooManyPagesError(f"this file has more than {limits.max_pages} pages: split it")


def out_of_memory() -> DecodeMemoryError:
    return DecodeMemoryError("decoding this file needs more memory than the limit allows: save it again at a lower resolution")
