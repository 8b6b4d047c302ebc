"""Where print was covered: marker blobs, plain bars and mosaics, so that a reader says "unreadable" instead of inventing a value.

All covers share one thing that print lacks: patches of one flat tone, unlike the paper, that are wide compared with the strokes
of the page's text. What else is flat and wide (title strokes, emblem, the dark table around the paper) is told apart by shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import cv2
import numpy as np

from certloop.extract.marks.pixels import Gray, Image, Ink, Mask, scaled, spread, to_gray
from certloop.extract.result import Polygon

WORK_EM_PX = 14.0
MIN_COVERAGE = 0.12
COLUMN_SHARE = 0.2  # a column of a strip counts as covered from this share of its height
FLAT = 14  # tones within a window that count as one
MIN_TILE_EM = 0.5
MIN_TILES = 3


class CoverKind(StrEnum):
    """``blob``: marker, any outline; ``bar``: a plain rectangle; ``mosaic``: squares of different tones."""

    BLOB = "blob"
    BAR = "bar"
    MOSAIC = "mosaic"


@dataclass(frozen=True, slots=True)
class Cover:
    """One covered place: ``left, top, right, bottom`` in page pixels."""

    left: float
    top: float
    right: float
    bottom: float
    kind: CoverKind


@dataclass(frozen=True, slots=True, eq=False)
class MaskedRegions:
    """Covered places of a page. ``mask`` is (h, w) at ``scale`` of the page; ``covers`` are their boxes in page pixels."""

    mask: Mask
    scale: float
    covers: tuple[Cover, ...]

    def coverage(self, box: Polygon) -> float:
        """Share of the columns of ``box``'s upright hull in which a cover stands (0 for a box off the page or without area)."""
        points = np.asarray(box, np.float64) * self.scale
        left, top = np.maximum(np.floor(points.min(axis=0)).astype(int), 0)
        right, bottom = np.ceil(points.max(axis=0)).astype(int)
        part = self.mask[top:bottom, left:right]
        return 0.0 if part.size == 0 else float((part.mean(axis=0) >= COLUMN_SHARE).mean())

    def is_masked(self, box: Polygon, min_coverage: float = MIN_COVERAGE) -> bool:
        """Whether the strip ``box`` is covered so much, or holds a whole cover, that its text must not be trusted."""
        if self.coverage(box) >= min_coverage:
            return True
        points = np.asarray(box, np.float64)
        (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
        return any(
            left <= (c.left + c.right) / 2 <= right
            and top <= (c.top + c.bottom) / 2 <= bottom
            and c.bottom - c.top >= COLUMN_SHARE * (bottom - top)
            for c in self.covers
        )


def masked_regions(image: Image, em_px: float, ignore: Sequence[Polygon] = ()) -> MaskedRegions:
    """Covered places on an (H, W, 3) RGB page whose body text is ``em_px`` high; QR codes and seals go into ``ignore``."""
    scale = float(min(1.0, WORK_EM_PX / max(em_px, 1.0)))
    small = scaled(image, scale)
    gray = to_gray(small)
    em = max(6.0, em_px * scale)
    mask = np.zeros(gray.shape, np.bool_)
    if min(gray.shape) < 3 * em:
        return MaskedRegions(mask, scale, ())
    wanted = np.ones(gray.shape, np.uint8)
    for polygon in ignore:
        cv2.fillPoly(wanted, [np.round(np.asarray(polygon) * scale).astype(np.int32)], (0,))
    paper = _paper(gray, em)
    flat = (spread(gray, max(3, round(em / 3)) | 1) <= FLAT) & (wanted > 0)
    patches = _real_mosaics(_patches(gray, flat, paper - gray > 22, em), em)
    patches += [patch for patch in _patches(gray, flat, gray - paper > 14, em) if patch.kind is CoverKind.BAR]
    for patch in patches:
        mask[patch.y : patch.y + patch.h, patch.x : patch.x + patch.w] |= patch.shape
    covers = tuple(patch.cover(scale) for patch in patches)
    return MaskedRegions(mask, scale, covers)


@dataclass(frozen=True, slots=True, eq=False)
class _Patch:
    """A connected flat patch at work scale; ``kind`` None is a lone tile, a cover only among others."""

    x: int
    y: int
    w: int
    h: int
    shape: Mask
    kind: CoverKind | None

    def cover(self, scale: float) -> Cover:
        x, y = self.x / scale, self.y / scale
        return Cover(x, y, x + self.w / scale, y + self.h / scale, self.kind or CoverKind.MOSAIC)


def _real_mosaics(patches: list[_Patch], em: float) -> list[_Patch]:
    """Without squares that stand alone: one may be a bullet or a blot, three of one height (or a long row) are a mosaic."""
    tiles = [patch for patch in patches if patch.kind in (CoverKind.MOSAIC, None)]
    heights = np.array([patch.h for patch in tiles])
    kept = []
    for patch in patches:
        alike = int((np.abs(heights - patch.h) <= max(1.0, 0.15 * patch.h)).sum())
        if patch not in tiles or alike >= MIN_TILES or (patch.kind is CoverKind.MOSAIC and patch.w >= 3 * em):
            kept.append(patch)
    return kept


def _paper(gray: Gray, em: float) -> Ink:
    """The paper's tone around each pixel: a high quantile of large tiles, interpolated."""
    tile = max(8, round(12 * em))
    rows, columns = max(1, round(gray.shape[0] / tile)), max(1, round(gray.shape[1] / tile))
    tiles = np.empty((rows, columns), np.float32)
    for r, strip in enumerate(np.array_split(gray, rows, axis=0)):
        for c, part in enumerate(np.array_split(strip, columns, axis=1)):
            tiles[r, c] = np.percentile(part[::2, ::2], 70)
    return np.asarray(cv2.resize(tiles, (gray.shape[1], gray.shape[0]), interpolation=cv2.INTER_LINEAR), np.float32)


def _patches(gray: Gray, flat: Mask, unlike: Mask, em: float) -> list[_Patch]:
    side = max(3, round(em / 3)) | 1
    core = (flat & unlike).astype(np.uint8)
    grown = cv2.dilate(core, np.ones((side, side), np.uint8))
    joined = cv2.morphologyEx(grown, cv2.MORPH_CLOSE, np.ones((1, 2 * max(1, round(0.5 * em)) + 1), np.uint8))
    edges = spread(gray, 5)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    found = []
    height, width = gray.shape
    for label in range(1, count):
        x, y, w, h = (int(v) for v in stats[label][:4])
        if x <= 1 or y <= 1 or x + w >= width - 1 or y + h >= height - 1 or min(w, h) < MIN_TILE_EM * em or h > 9 * em:
            continue
        shape = (labels[y : y + h, x : x + w] == label) & (grown[y : y + h, x : x + w] > 0)
        tones = gray[y : y + h, x : x + w][(core[y : y + h, x : x + w] > 0) & shape]
        known, kind = _kind(tones, shape, em)
        if known and _alone(unlike, edges, (x, y, w, h), shape, em):
            found.append(_Patch(x, y, w, h, shape, kind))
    return found


def _kind(tones: Gray, shape: Mask, em: float) -> tuple[bool, CoverKind | None]:
    """Whether the patch has the form of a cover, and of which kind (None: a lone tile)."""
    height, width = shape.shape
    filled = float(shape.mean())
    thickness = 2 * float(cv2.distanceTransform(np.pad(shape, 1).astype(np.uint8), cv2.DIST_L2, 3).max())
    darkest, lightest = np.percentile(tones, (10, 90)) if len(tones) else (0.0, 255.0)
    if thickness >= em and width >= 1.2 * em and lightest - darkest < 40:
        if filled > 0.9:
            return True, CoverKind.BAR
        return _solidity(shape) > 0.68, CoverKind.BLOB  # a title's character is far from convex
    if thickness < MIN_TILE_EM * em or height > 3.2 * em:
        return False, None
    if filled > (0.35 if height < 1.6 * em else 0.6) and lightest - darkest >= 18 and width >= 1.2 * em:
        return True, CoverKind.MOSAIC
    return filled > 0.8 and 0.7 < width / height < 1.45 and height < 1.6 * em, None


def _solidity(shape: Mask) -> float:
    hull = cv2.convexHull(cv2.findNonZero(shape.astype(np.uint8)))
    return float(shape.sum()) / max(1.0, float(cv2.contourArea(hull)))


def _alone(unlike: Mask, edges: Gray, box: tuple[int, int, int, int], shape: Mask, em: float) -> bool:
    """A thing of its own with a sharp outline, not the thick part of a larger drawing (title, emblem), not a shadow."""
    x, y, w, h = box
    margin = max(2, round(0.35 * em))
    top, left = max(0, y - margin), max(0, x - margin)
    window = (slice(top, y + h + margin), slice(left, x + w + margin))
    grown = np.zeros(unlike[window].shape, np.uint8)
    grown[y - top : y - top + h, x - left : x - left + w] = shape
    rim = cv2.dilate(grown, np.ones((3, 3), np.uint8)) > 0
    ring = (cv2.dilate(grown, np.ones((2 * margin + 1, 2 * margin + 1), np.uint8)) > 0) & ~rim
    rim &= cv2.erode(grown, np.ones((3, 3), np.uint8)) == 0
    if not ring.any():
        return False
    sharp = float((edges[window][rim] > 18).mean())
    return float(unlike[window][ring].mean()) < 0.4 and sharp > 0.8
