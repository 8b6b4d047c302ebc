"""Fields whose value is a mark rather than text: is there a seal, is there a signature.

A template says so with ``mark = "seal"`` or ``mark = "signature"``. A signature is looked for right of the labels that ask for
one (法定代表人签字, 签字): present when ink stands there that is no printed text, unreadable when a seal covers the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import map_points
from certloop.extract.engine.ocr import Image
from certloop.extract.reading.document import LayoutReading
from certloop.extract.reading.drafts import Draft
from certloop.extract.reading.labels import Label
from certloop.extract.reading.orient import Upright
from certloop.extract.result import Seal
from certloop.templates import DocumentType

MIN_INK = 0.012  # share of dark pixels that handwriting leaves in its field
_ASKS = ("签字", "签名", "签章")


def with_marks(
    layout: LayoutReading, doc_type: DocumentType, image: Image, seals: Sequence[Seal], upright: Upright
) -> LayoutReading:
    """Fill the fields that ask for a seal or a signature."""
    drafts = dict(layout.drafts)
    for spec in doc_type.fields.values():
        if spec.mark == "seal":
            box = map_points(np.asarray(seals[0].box, np.float32), upright.matrix) if seals else None
            drafts[spec.id] = Draft(spec.id, spec.values[0] if seals else spec.values[1], (), None, "mark", quad=box, sure=0.9)
        elif spec.mark == "signature":
            labels = [c for c in layout.labels if any(word in c.text for word in _ASKS)]
            if labels:
                drafts[spec.id] = _signature(spec.id, labels, layout, image, upright)
            else:
                drafts.pop(spec.id, None)
    return replace(layout, drafts=drafts)


def _signature(field: str, labels: Sequence[Label], layout: LayoutReading, image: Image, upright: Upright) -> Draft:
    regions = [_beside(label, layout) for label in labels]
    shares = [_dark_share(image, upright.back(region)) for region in regions]
    best = int(np.argmax(shares))
    state = "present" if shares[best] > MIN_INK else "absent"
    return Draft(field, state, (), labels[best], "mark", quad=regions[best], sure=0.75)


def _beside(label: Label, layout: LayoutReading) -> NDArray[np.float32]:
    """The place for a signature: 8 em behind its label, up to the next one."""
    em = label.em
    right = min((c.left for c in layout.labels if c.left > label.right and abs(c.y - label.y) < em), default=label.right + 8 * em)
    left, right = label.right + 0.3 * em, min(right, label.right + 8 * em)
    return np.array([[left, label.y - em], [right, label.y - em], [right, label.y + em], [left, label.y + em]], np.float32)


def _dark_share(image: Image, region: NDArray[np.float32]) -> float:
    """Share of pixels much darker than the paper around them; red ink counts as paper, an underline does not count."""
    left, top = np.maximum(region.min(axis=0).astype(int), 0)
    right, bottom = region.max(axis=0).astype(int) + 1
    patch = image[top:bottom, left:right, 0]
    if patch.size < 64:
        return 0.0
    dark = (float(np.percentile(patch, 80)) - patch.astype(np.float32) > 60).astype(np.uint8)
    rule = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((1, max(8, dark.shape[1] // 3)), np.uint8))
    return float((dark & ~rule.astype(bool)).mean())
