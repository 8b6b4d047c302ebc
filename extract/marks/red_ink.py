"""Pictures for a second read: the page without its red ink, and several views of one line."""

from __future__ import annotations

import cv2
import numpy as np

from certloop.extract.marks.pixels import Gray, Image, scaled, to_gray, to_rgb


def without_red(image: Image) -> Image:
    """The (H, W, 3) RGB page through its red channel, where red ink is as light as paper, with contrast spread to 0..255."""
    return to_rgb(_spread(np.ascontiguousarray(image[:, :, 0])))


def variants(patch: Image) -> list[tuple[str, Image]]:
    """Views of an (h, w, 3) RGB line or region for a second read, ``plain`` first. ``double`` has twice the size."""
    gray = to_gray(patch)
    blurred = cv2.GaussianBlur(patch, (0, 0), 1.2)
    clahe = cv2.createCLAHE(clipLimit=2.0, tileGridSize=(1, 4) if patch.shape[1] > 2 * patch.shape[0] else (2, 2))
    return [
        ("plain", patch),
        ("red_channel", without_red(patch)),
        ("contrast", to_rgb(_spread(gray))),
        ("clahe", to_rgb(np.asarray(clahe.apply(gray), np.uint8))),
        ("double", scaled(patch, 2)),
        ("sharpened", np.asarray(cv2.addWeighted(patch, 1.8, blurred, -0.8, 0), np.uint8)),
    ]


def _spread(gray: Gray) -> Gray:
    step = max(1, min(gray.shape) // 200)
    low, high = (float(v) for v in np.percentile(gray[::step, ::step], (1, 95)))
    gain = 255 / max(32.0, high - low)
    table = np.clip((np.arange(256) - high) * gain + 255, 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(gray, table), np.uint8)
