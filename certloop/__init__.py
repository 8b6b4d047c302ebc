"""certloop reads Chinese business certificates into checked JSON.

    import certloop
    result = certloop.read("licence.jpg")
    print(result.documents[0].fields["name"].value)

Importing this package loads no engine: the rooms (``certloop.extract``, ``certloop.validators``, ...) load what they need when
used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from certloop.agentrl.errors import CertloopError

if TYPE_CHECKING:
    from certloop.extract.result import Result

__version__ = "0.1.0"
__all__ = ["CertloopError", "__version__", "read"]


def read(source: str | Path | bytes, *, doc_type: str | None = None, name: str | None = None) -> Result:
    """Read one file (a path, or the bytes of one) and return everything found in it.

    ``doc_type`` skips classification; ``name`` is what ``Result.file`` shows (default: the path, ``-`` for bytes). A file that
    cannot be read gives a result with status ``failed`` and an error code, never an exception. Settings come from
    ``CERTLOOP_...`` variables. Each call builds an engine (about a second): for many files use
    ``certloop.extract.batch.read_many`` or keep an ``Extractor``.

    Raises UnknownTypeError when ``doc_type`` names no document type, UsageError when a setting is invalid.
    """
    from certloop.extract import Extractor
    from certloop.settings import Settings

    with Extractor(Settings.load().extract_config()) as extractor:
        return extractor.read(source, name=name, doc_type=doc_type)
