"""Typed doors to the OpenCV calls that every mark needs (its stubs promise no dtype)."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # (H, W, 3) RGB
Gray = NDArray[np.uint8]  # (H, W)
Ink = NDArray[np.float32]  # (H, W), 0 paper .. 1 full ink
Mask = NDArray[np.bool_]  # (H, W)
Floats = NDArray[np.floating[Any]]

Picture = TypeVar("Picture", NDArray[np.uint8], NDArray[np.float32])


def to_gray(image: Image) -> Gray:
    gray: Any = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    return gray  # type: ignore[no-any-return]


def to_rgb(gray: Gray) -> Image:
    image: Any = cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB)
    return image  # type: ignore[no-any-return]


def scaled(picture: Picture, across: float, down: float | None = None) -> Picture:
    """Resize by factors (``down`` as ``across`` unless given); reduced by area, enlarged by cubic interpolation."""
    down = across if down is None else down
    if math.isclose(across, 1.0) and math.isclose(down, 1.0):
        return picture
    method = cv2.INTER_AREA if across <= 1 and down <= 1 else cv2.INTER_CUBIC
    result: Any = cv2.resize(picture, None, fx=across, fy=down, interpolation=method)
    return result  # type: ignore[no-any-return]


def reduced(image: Image, edge_px: int) -> tuple[Image, float]:
    """The image with its longer edge at most ``edge_px``, and the factor by which it was reduced."""
    factor = min(1.0, edge_px / max(image.shape[:2]))
    return scaled(image, factor), factor


def spread(gray: Gray, side: int) -> Gray:
    """Lightest minus darkest tone in the square window of ``side`` around each pixel."""
    kernel = np.ones((side, side), np.uint8)
    result: Any = cv2.subtract(cv2.dilate(gray, kernel), cv2.erode(gray, kernel))
    return result  # type: ignore[no-any-return]
