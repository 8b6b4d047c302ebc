"""What stands on a page beside its fields: seals, QR codes, quality flags, covered print. Looked at once per page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import Image, OcrEngine
from certloop.extract.marks.qr import read_qr
from certloop.extract.marks.quality import quality_flags
from certloop.extract.marks.ring_text import read_ring_text
from certloop.extract.marks.seals import find_seals
from certloop.extract.result import QrCode, Seal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Polygons are in page-image pixels."""

    seals: tuple[Seal, ...]
    qr: tuple[QrCode, ...]
    quality: Mapping[str, float]


def look_around(image: Image, lines: Sequence[TextLine], engine: OcrEngine) -> Surroundings:
    """Find everything on an (H, W, 3) RGB page; ring texts are read with ``engine``."""
    seals = tuple(_with_text(image, seal, engine) for seal in find_seals(image))
    return Surroundings(seals, tuple(read_qr(image)), quality_flags(image, lines))


def _with_text(image: Image, seal: Seal, engine: OcrEngine) -> Seal:
    found = read_ring_text(image, seal, engine) if seal.shape in ("round", "oval") else None
    return seal if found is None else replace(seal, text=found[0])
