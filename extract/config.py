"""How an ``Extractor`` is set up. Frozen and serialisable: it travels to worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from certloop.extract.engine.ocr import OcrConfig
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import IngestLimits

ENGINES = ("ocr", "ocr-stock")


@dataclass(frozen=True, slots=True)
class ExtractConfig:
    """``engine`` is ``ocr`` (the embedded engine) or ``ocr-stock`` (rapidocr with its default settings, for comparison).

    ``template_path`` are further folders of document types. ``second_reads`` bounds the tool calls that the reader may spend on a
    document after its first pass (0: none). ``release`` names the release in every document.
    """

    engine: str = "ocr"
    ocr: OcrConfig = field(default_factory=OcrConfig)
    limits: IngestLimits = field(default_factory=IngestLimits)
    template_path: tuple[str, ...] = ()
    guidance: Guidance = field(default_factory=Guidance)
    second_reads: int = 16
    release: str = "embedded"
