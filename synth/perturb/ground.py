"""What lies under a photographed page: desks, cloth, tiles, a scanner's lid. Made from noise at low resolution, so it costs
little."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.synth.errors import ProfileError
from certloop.synth.perturb.state import Pixels, pixels

_BASE = {
    "white": (254, 254, 254),
    "offwhite": (236, 235, 230),
    "black": (12, 12, 14),
    "dark": (58, 48, 44),
    "grey": (150, 152, 154),
    "wood": (164, 120, 78),
    "cloth": (104, 116, 134),
    "tiles": (196, 192, 184),
}


def make_ground(kind: str, size: tuple[int, int], rng: np.random.Generator) -> Pixels:
    """An RGB ground of ``size`` (width, height). Raises ProfileError for an unknown kind."""
    if kind not in _BASE:
        raise ProfileError(f"unknown ground {kind!r}; known: {', '.join(_BASE)}")
    w, h = size
    if kind in ("white", "black"):
        return np.full((h, w, 3), _BASE[kind], np.uint8)
    small = (max(8, w // 6), max(8, h // 6))
    base = np.array(_BASE[kind], np.float32) * rng.uniform(0.75, 1.2) + rng.normal(0, 6, 3)
    field: NDArray[np.floating] = rng.normal(0, 1, (small[1], small[0])).astype(np.float32)
    if kind == "wood":
        grain = np.asarray(cv2.GaussianBlur(field, (0, 0), sigmaX=14, sigmaY=0.7), np.float32)
        field = grain / max(1e-6, float(grain.std())) * 12
    elif kind == "cloth":
        weave = np.sin(np.arange(small[0]) * 1.9)[None, :] * np.sin(np.arange(small[1]) * 1.9)[:, None]
        field = field * 4 + weave.astype(np.float32) * 9
    elif kind == "tiles":
        edge = int(rng.integers(small[1] // 3, small[1]))
        lines = ((np.arange(small[0]) % edge < 1)[None, :] | (np.arange(small[1]) % edge < 1)[:, None]).astype(np.float32)
        field = np.asarray(cv2.GaussianBlur(field, (0, 0), 2), np.float32) * 10 - lines * 60
    else:
        field = np.asarray(cv2.GaussianBlur(field, (0, 0), 3), np.float32) * 14
    image = np.clip(base[None, None, :] + field[..., None], 0, 255).astype(np.uint8)
    return pixels(cv2.resize(image, (w, h), interpolation=cv2.INTER_LINEAR))
