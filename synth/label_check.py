"""Checks labels by reading: on clean pages the embedded OCR engine must find the label's characters inside the label's boxes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certloop.synth.label import Sample

if TYPE_CHECKING:
    from certloop.extract.engine.ocr import OcrEngine

_ALIKE = str.maketrans("〇○０Ｏ“”‘’、，。；：—–~～·", "OOOO\"\"'',,.;:----.")


@dataclass(slots=True)
class LabelCheck:
    """Characters of the labels and how many of them were read, for printed text and, apart, for sealed or handwritten text."""

    characters: int = 0
    read: int = 0
    sealed_characters: int = 0
    sealed_read: int = 0
    worst: list[tuple[float, str, str, str, str]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.read / max(1, self.characters)

    @property
    def sealed_rate(self) -> float:
        return self.sealed_read / max(1, self.sealed_characters)


def check_labels(samples: Iterable[Sample], engine: OcrEngine, *, keep: int = 25) -> LabelCheck:
    """Read every value's boxes and count the label's characters that come back, in order."""
    from certloop.extract.engine.ocr import crop

    check = LabelCheck()
    for sample in samples:
        for name, box in sample.label["boxes"].items():
            value = sample.label["fields"].get(name)
            if not value or box["region"] == "seal" or name in ("公章", "签字"):
                continue
            quads = [_padded(np.array(quad, np.float32)) for quad in box["lines"]]
            text = _alike("".join(engine.recognise_crop(crop(sample.image, quad), quad).text for quad in quads))
            wanted = _alike(value)
            hit = sum(m.size for m in SequenceMatcher(None, wanted, text, autojunk=False).get_matching_blocks())
            if box["sealed"] or box["region"] == "hand":
                check.sealed_characters += len(wanted)
                check.sealed_read += hit
                continue
            check.characters += len(wanted)
            check.read += hit
            check.worst.append((hit / max(1, len(wanted)), sample.label["layout"], name, value, text))
        check.worst = sorted(check.worst)[:keep]
    return check


def _alike(text: str) -> str:
    """The form in which characters are compared: width, spaces, and look-alike marks unified."""
    return "".join(unicodedata.normalize("NFKC", text.translate(_ALIKE)).upper().split()).replace("O", "0")


def _padded(quad: NDArray[np.float32]) -> NDArray[np.float32]:
    """A box a little wider than its text, as a detector would give it."""
    height = float(np.linalg.norm(quad[3] - quad[0]))
    return np.asarray(quad + np.array([[-0.3, -0.1], [0.3, -0.1], [0.3, 0.1], [-0.3, 0.1]]) * height, np.float32)
