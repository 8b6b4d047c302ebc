"""The root of every error this product raises on purpose.

    CertloopError
    ├── IngestError        (extract.ingest)      a file that cannot become pages
    ├── TemplateError      (templates)           a document type that is not well formed or not known
    ├── UnknownKindError   (validators)          a validator kind nobody registered
    └── UsageError         (certloop)            a command or setting that makes no sense

Each class has a stable ``code`` that callers may test for; the message says what was wrong, with what, and what to do.
Messages never hold a value read from a document: they end up in logs.
"""

from __future__ import annotations

from typing import ClassVar


class CertloopError(Exception):
    """Base of all typed errors. ``code`` is stable across releases, the message is for people."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}
