"""What the steps of a treatment share: the image, where everything is on it, and what was done to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Points = NDArray[np.float64]


def pixels(array: object) -> Pixels:
    """``array`` as 8-bit pixels (OpenCV returns arrays of a wider type)."""
    return np.asarray(array, np.uint8)


@dataclass(slots=True)
class State:
    """``image`` is RGB, ``quads`` (N, 4, 2) the corners of every tracked box in pixels (clockwise from the upper left),
    ``cover`` marks pixels that hide what is printed (0 or 255), ``done`` names the steps with their drawn parameters."""

    image: Pixels
    quads: Points
    keys: tuple[str, ...]
    cover: Pixels | None = None
    done: list[dict[str, Any]] = field(default_factory=list)
    rotate_cw: int = 0
    jpeg_quality: int | None = None
    masked: set[str] = field(default_factory=set)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]

    def hide(self, mask: Pixels) -> None:
        """Add ``mask`` (0 or 255) to what covers the print."""
        if self.cover is None:
            self.cover = np.zeros(self.image.shape[:2], np.uint8)
        np.maximum(self.cover, mask, out=self.cover)


Params = dict[str, Any]
