"""The agent of this vertical: any file in, checked fields out.

    ingest/      files to upright RGB pages, in a sandboxed child
    engine/      pages to text lines (rapidocr's models)
    reading/     text lines to fields: labels, values, layout; our own work
    marks/       seals, QR codes, quality, covered print
    tools.py     second looks: read a line again, zoom, look through red ink
    planning.py  what to look at again, and why
    environment.py, reader.py, episode.py: observe, think, act, until nothing promises more, in the loop of ``agentrl.env``
    answer.py    readings to the result contract: normalised, validated, with boxes in the user's pixels
    extractor.py the verb; batch.py many files; evaluation/ how good it is

Names are loaded on first use: importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certloop.extract.config import ExtractConfig
    from certloop.extract.extractor import Extractor
    from certloop.extract.guidance import Guidance
    from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Result

__all__ = ["Document", "ExtractConfig", "Extractor", "FieldResult", "FieldStatus", "FileStatus", "Guidance", "Result"]

_HOME = {"ExtractConfig": "config", "Extractor": "extractor", "Guidance": "guidance"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'result')}"), name)
