"""What stands on a page beside its fields: seals, QR codes, quality flags, covered print. Looked at once per page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import Image, OcrEngine, crop
from certloop.extract.marks.occlusion import MaskedRegions, masked_regions
from certloop.extract.marks.qr import read_qr
from certloop.extract.marks.quality import quality_flags
from certloop.extract.marks.ring_text import read_ring_text
from certloop.extract.marks.seals import find_seals
from certloop.extract.reading.glyphs import LINE_TO_EM
from certloop.extract.result import QrCode, Seal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Polygons are in page-image pixels; ``masked`` are the places where print was covered (None on a page without text)."""

    seals: tuple[Seal, ...]
    qr: tuple[QrCode, ...]
    quality: Mapping[str, float]
    masked: MaskedRegions | None


def look_around(image: Image, lines: Sequence[TextLine], engine: OcrEngine) -> Surroundings:
    """Find everything on an (H, W, 3) RGB page; ring texts are read with ``engine``."""
    seals = tuple(with_ring_text(image, seal, engine, thorough=False) for seal in find_seals(image))
    codes = tuple(read_qr(image))
    masked = None
    if lines:
        em = LINE_TO_EM * float(np.median([line.thickness for line in lines]))
        masked = masked_regions(image, em, [*(s.box for s in seals), *(q.box for q in codes)])
    return Surroundings(seals, codes, quality_flags(image, lines, masked=masked), masked)


def with_ring_text(image: Image, seal: Seal, engine: OcrEngine, *, thorough: bool) -> Seal:
    """The seal with the text of its ring, where that can be read."""
    found = read_ring_text(image, seal, engine, thorough=thorough) if seal.shape in ("round", "oval") else None
    return seal if found is None else replace(seal, text=found[0], text_confidence=found[1])


def without_seal_text(image: Image, lines: Sequence[TextLine], seals: Sequence[Seal]) -> list[TextLine]:
    """Drop lines that are the seal's own characters: they lie in a red seal's box and most of their ink is red."""
    boxes = [np.asarray(s.box, np.float32) for s in seals if s.color == "red"]
    return [line for line in lines if not (any(_within(line, box) for box in boxes) and _red_of_ink(image, line) > 0.6)]


def _within(line: TextLine, box: NDArray[np.float32]) -> bool:
    x, y = line.quad.mean(axis=0)
    return bool(box[:, 0].min() < x < box[:, 0].max() and box[:, 1].min() < y < box[:, 1].max())


def _red_of_ink(image: Image, line: TextLine) -> float:
    """Share of red among the pixels clearly darker or redder than the paper around them."""
    patch = crop(image, line.quad).astype(np.int16)
    red = patch[:, :, 0] - np.maximum(patch[:, :, 1], patch[:, :, 2])
    dark = np.percentile(patch[:, :, 0], 90) - patch[:, :, 0]
    is_red = (red > 35) & (dark < 70)
    is_black = dark >= 70
    ink = int(is_red.sum() + is_black.sum())
    return float(is_red.sum() / ink) if ink else 0.0
