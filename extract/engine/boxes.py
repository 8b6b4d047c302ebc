"""From a text probability map to line boxes: the post-processing of DBNet (Liao et al., 2020), as PP-OCR does it.

rapidocr has the same step, but importing it costs a second of CPU per process (it pulls its whole configuration machinery), and
a rotated rectangle needs no polygon clipper to be widened.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

MAP_THRESHOLD = 0.3
UNCLIP = 1.6  # widening of the shrunk text kernel: distance = area * UNCLIP / perimeter
MIN_SIDE = 3.0
MAX_BOXES = 1000


def text_boxes(probability: NDArray[np.float32], size: tuple[int, int], *, threshold: float) -> list[NDArray[np.float32]]:
    """Boxes of an (h, w) probability map, in pixels of the page of ``size`` (height, width).

    Each is (4, 2) float32, clockwise from the top left. Boxes whose mean probability is below ``threshold`` are dropped.
    """
    kernel = np.ones((2, 2), np.uint8)
    bitmap = cv2.dilate((probability > MAP_THRESHOLD).astype(np.uint8), kernel)
    contours, _ = cv2.findContours(bitmap, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale = np.array([size[1] / probability.shape[1], size[0] / probability.shape[0]], np.float32)
    limits = np.array([size[1], size[0]], np.float32)
    boxes = []
    for contour in contours[:MAX_BOXES]:
        (x, y), (width, height), angle = cv2.minAreaRect(contour)
        if min(width, height) < MIN_SIDE:
            continue
        corners = np.asarray(cv2.boxPoints(((x, y), (width, height), angle)), np.float32)
        if _mean_inside(probability, corners) < threshold:
            continue
        grow = 2 * width * height * UNCLIP / (2 * (width + height))
        if min(width, height) + grow < MIN_SIDE + 2:
            continue
        wide = np.asarray(cv2.boxPoints(((x, y), (width + grow, height + grow), angle)), np.float32)
        boxes.append(np.clip(_clockwise(wide) * scale, 0, limits).astype(np.float32))
    return boxes


def _mean_inside(probability: NDArray[np.float32], corners: NDArray[np.float32]) -> float:
    height, width = probability.shape
    left, top = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, (width - 1, height - 1))
    right, bottom = np.clip(np.ceil(corners.max(axis=0)).astype(int), 0, (width - 1, height - 1))
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(corners - (left, top)).astype(np.int32)], (1,))
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


def _clockwise(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Order (4, 2) corners: top left, top right, bottom right, bottom left."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1], kind="stable")]
    top_right, bottom_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.array([top_left, top_right, bottom_right, bottom_left], np.float32)
