"""Fields whose print was covered: by a marker, a bar or a mosaic. Their fragments are no values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from certloop.extract.marks.occlusion import MaskedRegions
from certloop.extract.reading.document import LayoutReading
from certloop.extract.reading.drafts import Draft
from certloop.extract.reading.labels import Label
from certloop.extract.reading.orient import Upright


def with_covers(layout: LayoutReading, masked: MaskedRegions, upright: Upright) -> tuple[LayoutReading, frozenset[str]]:
    """Mark drafts whose strip holds a cover as masked; name the fields (with or without a draft) whose strip is covered."""
    covered = {
        field
        for field, cell in layout.cells.items()
        if any(masked.is_masked(_polygon(upright.back(s))) for s in _strips(cell.label, layout, layout.drafts.get(field)))
    }
    covered |= {
        d.field
        for d in layout.drafts.values()
        if d.label is None and d.quad is not None and d.source != "seal" and masked.is_masked(_polygon(upright.back(d.quad)))
    }
    drafts = {k: replace(d, masked=True) if k in covered else d for k, d in layout.drafts.items()}
    return replace(layout, drafts=drafts), frozenset(covered)


def _strips(label: Label, layout: LayoutReading, draft: Draft | None) -> list[NDArray[np.float32]]:
    """Where the value stands or should stand: each of its lines with some room behind it, up to the next label."""
    em = label.em
    bound = min((c.left for c in layout.labels if c.left > label.right and abs(c.y - label.y) < 1.2 * em), default=np.inf)
    if draft is None or not draft.glyphs:
        right = min(bound - 0.3 * em, label.right + 10 * em)
        return [_box(label.right + 0.2 * em, label.y - 0.5 * em, right, label.y + 0.5 * em)]
    strips = []
    lines: dict[int, list[float]] = {}
    for glyph in draft.glyphs:
        key = next((k for k in lines if abs(lines[k][2] - glyph.y) < 0.6 * glyph.em), len(lines))
        left, right, y = lines.get(key, [glyph.left, glyph.right, glyph.y])
        lines[key] = [min(left, glyph.left), max(right, glyph.right), y]
    size = draft.glyphs[0].em
    for left, right, y in lines.values():
        start = min(left, label.right + 0.2 * em) if abs(y - label.y) < em and label.right < left else left
        strips.append(_box(start, y - 0.5 * size, min(right + 3 * size, max(bound - 0.3 * em, right)), y + 0.5 * size))
    return strips


def _box(left: float, top: float, right: float, bottom: float) -> NDArray[np.float32]:
    right = max(right, left + 1)
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def _polygon(points: NDArray[np.float32]) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in points)
