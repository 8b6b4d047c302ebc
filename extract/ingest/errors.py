"""Why a file could not become pages: one class per stable code.

    IngestError (CertloopError)
    ├── FileMissingError          file_not_found         also FileNotFoundError
    ├── FileUnreadableError       file_unreadable        also OSError
    ├── FileEmptyError            file_empty             also ValueError
    ├── FileTooLargeError         file_too_large         also ValueError
    ├── FormatUnsupportedError    format_unsupported     also ValueError
    ├── ImageTruncatedError       image_truncated        also ValueError
    ├── ImageCorruptError         image_corrupt          also ValueError
    ├── ImageTooManyPixelsError   image_too_many_pixels  also ValueError
    ├── ImageTooSmallError        image_too_small        also ValueError
    ├── TooManyPagesError         too_many_pages         also ValueError
    ├── PdfEncryptedError         pdf_encrypted          also ValueError
    ├── PdfCorruptError           pdf_corrupt            also ValueError
    ├── DecodeTimeoutError        decode_timeout         also TimeoutError
    ├── DecodeMemoryError         decode_memory          also MemoryError
    └── DecodeCrashedError        decode_crashed         also RuntimeError

A message never holds a file name or anything read from the file (a decoder's own text may quote it): messages end up in logs.
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class IngestError(CertloopError):
    """A file that cannot become pages. One file's error never concerns the next file of a batch."""

    code = "ingest_error"


class FileMissingError(IngestError, FileNotFoundError):
    code = "file_not_found"


class FileUnreadableError(IngestError, OSError):
    """No permission, a folder, a device, or the disk failed."""

    code = "file_unreadable"


class FileEmptyError(IngestError, ValueError):
    code = "file_empty"


class FileTooLargeError(IngestError, ValueError):
    code = "file_too_large"


class FormatUnsupportedError(IngestError, ValueError):
    """Not one of the formats read (the message names what it appears to be), or a variant of one that no decoder knows."""

    code = "format_unsupported"


class ImageTruncatedError(IngestError, ValueError):
    code = "image_truncated"


class ImageCorruptError(IngestError, ValueError):
    code = "image_corrupt"


class ImageTooManyPixelsError(IngestError, ValueError):
    """A page, or all pages together, would decode to more pixels than the limits allow (large scans, decompression bombs)."""

    code = "image_too_many_pixels"


class ImageTooSmallError(IngestError, ValueError):
    code = "image_too_small"


class TooManyPagesError(IngestError, ValueError):
    code = "too_many_pages"


class PdfEncryptedError(IngestError, ValueError):
    code = "pdf_encrypted"


class PdfCorruptError(IngestError, ValueError):
    code = "pdf_corrupt"


class DecodeTimeoutError(IngestError, TimeoutError):
    code = "decode_timeout"


class DecodeMemoryError(IngestError, MemoryError):
    code = "decode_memory"


class DecodeCrashedError(IngestError, RuntimeError):
    code = "decode_crashed"


BY_CODE: dict[str, type[IngestError]] = {
    cls.code: cls
    for cls in (
        FileMissingError,
        FileUnreadableError,
        FileEmptyError,
        FileTooLargeError,
        FormatUnsupportedError,
        ImageTruncatedError,
        ImageCorruptError,
        ImageTooManyPixelsError,
        ImageTooSmallError,
        TooManyPagesError,
        PdfEncryptedError,
        PdfCorruptError,
        DecodeTimeoutError,
        DecodeMemoryError,
        DecodeCrashedError,
    )
}
