"""Flattens a photographed page: finds its four corners against the ground and takes the perspective out."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.synth.perturb.state import Pixels

Corners = NDArray[np.float64]
_WORK_EDGE_PX = 900
_SMALLEST_SHARE, _LARGEST_SHARE = 0.3, 0.985
_LEAST_GROUND, _PAPER_LIKE, _PAPER_OUTSIDE = 0.012, 40, 0.3  # share of the picture, grey levels, share of the ground
_FITS = (
    0.965  # intersection over union of the outline and its quadrilateral: a page that is cut off or curled has no four corners
)
_STRAIGHT = 0.004  # corners nearer to a rectangle than this share of the longer side: nothing to take out


def find_page(image: Pixels) -> Corners | None:
    """Corners (4, 2) of the page in pixels, clockwise from the upper left; None where no page stands out from its ground."""
    scale = min(1.0, _WORK_EDGE_PX / max(image.shape[:2]))
    small = np.asarray(cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)
    found = [quad for mask in _masks(small) if (quad := _largest_quad(mask)) is not None and _stands_out(small, quad)]
    if not found:
        return None
    return _ordered(max(found, key=lambda quad: abs(float(cv2.contourArea(quad.astype(np.float32))))) / scale)


def flatten(image: Pixels) -> tuple[Pixels, bool]:
    """The page of ``image`` as seen from straight above, and whether anything was taken out (False: ``image`` as it is)."""
    corners = find_page(image)
    if corners is None or _is_upright_rectangle(corners):
        return image, False
    (a, b, c, d) = corners
    width = round(float(np.linalg.norm(b - a) + np.linalg.norm(c - d)) / 2)
    height = round(float(np.linalg.norm(d - a) + np.linalg.norm(c - b)) / 2)
    target = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), target)
    flat = cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(flat, np.uint8), True


def _masks(small: Pixels) -> Iterator[NDArray[np.uint8]]:
    """Where the paper may be: brighter than its ground, less colourful than it, or inside closed edges."""
    blurred = cv2.GaussianBlur(small, (0, 0), 3)
    grey = np.asarray(cv2.cvtColor(blurred, cv2.COLOR_RGB2GRAY), np.uint8)
    saturation = np.asarray(cv2.cvtColor(blurred, cv2.COLOR_RGB2HSV)[..., 1], np.uint8)
    close = np.ones((9, 9), np.uint8)
    for channel, mode in ((grey, cv2.THRESH_BINARY), (saturation, cv2.THRESH_BINARY_INV)):
        _, mask = cv2.threshold(channel, 0, 255, mode + cv2.THRESH_OTSU)
        yield np.asarray(cv2.morphologyEx(mask, cv2.MORPH_CLOSE, close), np.uint8)
    edges = cv2.Canny(grey, 30, 90)
    yield np.asarray(cv2.dilate(edges, np.ones((5, 5), np.uint8)), np.uint8)


def _largest_quad(mask: NDArray[np.uint8]) -> Corners | None:
    """The largest convex quadrilateral among the mask's outlines, if it is large enough and has the angles of a page."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    area = mask.shape[0] * mask.shape[1]
    for contour in sorted(contours, key=cv2.contourArea, reverse=True)[:3]:
        hull = cv2.convexHull(contour)
        for tolerance in (0.01, 0.02, 0.035, 0.05):
            polygon = cv2.approxPolyDP(hull, tolerance * cv2.arcLength(hull, True), True)
            if len(polygon) != 4:
                continue
            quad = polygon.reshape(4, 2).astype(np.float64)
            share = float(cv2.contourArea(polygon)) / area
            fits = _overlap(mask.shape, contour, polygon) > _FITS
            if _SMALLEST_SHARE < share < _LARGEST_SHARE and fits and _page_angles(quad):
                return quad
    return None


def _overlap(shape: tuple[int, ...], contour: object, polygon: object) -> float:
    """Intersection over union of an outline and the quadrilateral that stands for it."""
    filled = []
    for points in (contour, polygon):
        area = np.zeros(shape[:2], np.uint8)
        cv2.fillPoly(area, [np.asarray(points, np.int32)], (255,))
        filled.append(area > 0)
    return float((filled[0] & filled[1]).sum()) / max(1, int((filled[0] | filled[1]).sum()))


def _stands_out(small: Pixels, quad: Corners) -> bool:
    """Whether what lies outside is another thing than the page: a frame printed on a scan has paper on both sides."""
    h, w = small.shape[:2]
    inside = np.zeros((h, w), np.uint8)
    cv2.fillPoly(inside, [quad.astype(np.int32)], (255,))
    paper = np.percentile(small[inside > 0].reshape(-1, 3), 70, axis=0)
    inside = np.asarray(cv2.dilate(inside, np.ones((9, 9), np.uint8)), np.uint8)
    outside = small[inside == 0].astype(np.float64)
    if len(outside) < _LEAST_GROUND * h * w:
        return False
    return float((np.abs(outside - paper).max(axis=1) < _PAPER_LIKE).mean()) < _PAPER_OUTSIDE


def _page_angles(quad: Corners) -> bool:
    sides = np.roll(quad, -1, axis=0) - quad
    before = -np.roll(sides, 1, axis=0)
    cosines = (sides * before).sum(axis=1) / np.maximum(1e-6, np.linalg.norm(sides, axis=1) * np.linalg.norm(before, axis=1))
    return bool(np.abs(cosines).max() < 0.5)


def _ordered(quad: Corners) -> Corners:
    """Clockwise on the picture, beginning with the corner nearest to the upper left."""
    centre = quad.mean(axis=0)
    angles = np.arctan2(quad[:, 1] - centre[1], quad[:, 0] - centre[0])
    quad = quad[np.argsort(angles)]
    return np.roll(quad, -int(np.argmin(quad.sum(axis=1))), axis=0)


def _is_upright_rectangle(corners: Corners) -> bool:
    low, high = corners.min(axis=0), corners.max(axis=0)
    box = np.array([low, (high[0], low[1]), high, (low[0], high[1])])
    return float(np.abs(corners - box).max()) < _STRAIGHT * float((high - low).max())
