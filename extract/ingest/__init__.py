"""Files to pages: ``ingest(path_or_bytes)`` gives upright 8-bit RGB pages, whatever the file is, or one typed error.

JPEG, PNG, GIF and WebP (first frame), BMP, TIFF (pages), HEIC (primary image) and PDF (pages). Content decides, not the name.

    source.py    the verb: read the bytes, sniff, decode in a child
    formats.py   which format the bytes are
    decoder.py   the child process, from the parent's side
    child.py     the child process, from its own side
    wire.py      what the two say to each other
    decode.py    bytes to pages, inside the child: limits and warnings
    raster.py    ... for pictures (Pillow, pi_heif)
    pdf.py       ... for PDF (PDFium)
    model.py     limits, pages, warnings
    errors.py    the error tree
"""

from certloop.extract.ingest.decoder import Decoder
from certloop.extract.ingest.errors import (
    DecodeCrashedError,
    DecodeMemoryError,
    DecodeTimeoutError,
    FileEmptyError,
    FileMissingError,
    FileTooLargeError,
    FileUnreadableError,
    FormatUnsupportedError,
    ImageCorruptError,
    ImageTooManyPixelsError,
    ImageTooSmallError,
    ImageTruncatedError,
    IngestError,
    PdfCorruptError,
    PdfEncryptedError,
    TooManyPagesError,
)
from certloop.extract.ingest.formats import sniff
from certloop.extract.ingest.model import IngestLimits, IngestWarning, Page, Pages, TextRun
from certloop.extract.ingest.source import Source, ingest

__all__ = [
    "DecodeCrashedError",
    "DecodeMemoryError",
    "DecodeTimeoutError",
    "Decoder",
    "FileEmptyError",
    "FileMissingError",
    "FileTooLargeError",
    "FileUnreadableError",
    "FormatUnsupportedError",
    "ImageCorruptError",
    "ImageTooManyPixelsError",
    "ImageTooSmallError",
    "ImageTruncatedError",
    "IngestError",
    "IngestLimits",
    "IngestWarning",
    "Page",
    "Pages",
    "PdfCorruptError",
    "PdfEncryptedError",
    "Source",
    "TextRun",
    "TooManyPagesError",
    "ingest",
    "sniff",
]
