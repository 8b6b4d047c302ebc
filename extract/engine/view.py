"""The page as a model sees it: upright, and of a size that fits the context. The same for training pages and served ones.

A vision tower sees patches of ``factor`` pixels, one token each. A page is resized once, here, to multiples of ``factor`` within
the pixel bounds; a processor with the same or wider bounds then changes nothing more, whoever runs it (transformers, TRL, vLLM).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.errors import CertloopError

Image = NDArray[np.uint8]
MAX_ASPECT = 200


class ViewError(CertloopError, ValueError):
    """A page that no model can be shown: a strip, or bounds that contradict each other."""

    code = "page_view_invalid"


@dataclass(frozen=True, slots=True)
class View:
    """Bounds of a page in pixels (area), and the side of the square that becomes one token (patch size times merge size)."""

    min_pixels: int = 65_536
    max_pixels: int = 2_097_152
    factor: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.factor**2 <= self.min_pixels <= self.max_pixels:
            raise ViewError("a view needs factor * factor <= min_pixels <= max_pixels")

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) at which a page is shown (Qwen's ``smart_resize``). Raises ViewError for a strip."""
        if max(height, width) > MAX_ASPECT * min(height, width):
            raise ViewError(f"a page of {width} x {height} pixels is a strip: its sides may differ {MAX_ASPECT} times at most")
        rows, columns = (round(side / self.factor) for side in (height, width))
        if rows * columns * self.factor**2 > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            rows, columns = (max(1, math.floor(side / shrink / self.factor)) for side in (height, width))
        elif rows * columns * self.factor**2 < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / self.factor) for side in (height, width))
        return rows * self.factor, columns * self.factor

    def tokens_of(self, height: int, width: int) -> int:
        """How many image tokens a page costs."""
        rows, columns = self.size_of(height, width)
        return rows * columns // self.factor**2


def page_view(image: Image, view: View, *, quarter_turns: int = 0) -> Image:
    """Turn an (H, W, 3) RGB page clockwise by quarters and resize it to what ``view`` allows.

    A page that fits already comes back pixel for pixel. Raises ViewError for a strip.
    """
    from PIL import Image as Pictures

    turned = np.ascontiguousarray(np.rot90(image, -quarter_turns % 4))
    height, width = view.size_of(*turned.shape[:2])
    if (height, width) == turned.shape[:2]:
        return turned
    picture = Pictures.fromarray(turned).resize((width, height), Pictures.Resampling.BICUBIC)
    return np.array(picture, np.uint8)


def png_bytes(image: Image) -> bytes:
    """The pixels as PNG, exactly: what is packed for training and what is sent to a server."""
    import io

    from PIL import Image as Pictures

    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
