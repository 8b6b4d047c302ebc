"""Pages drawn here with Pillow: what stands on them is known because we put it there."""

from __future__ import annotations

import math

import numpy as np
import pylopdf_fonts_zh_cn
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from certloop.extract.engine.ocr import OcrEngine

Pixels = NDArray[np.uint8]
RED, BLACK = (205, 30, 35), (40, 40, 40)
FONT = str(pylopdf_fonts_zh_cn.serif_path())


class Page:
    """A white (or tinted) page that things are drawn on; ``pixels`` is the (H, W, 3) RGB result."""

    def __init__(self, width: int = 1000, height: int = 700, paper: tuple[int, int, int] = (252, 252, 250)) -> None:
        self.image = Image.new("RGB", (width, height), paper)
        self.draw = ImageDraw.Draw(self.image)

    @property
    def pixels(self) -> Pixels:
        return np.asarray(self.image).copy()

    def text(self, x: int, y: int, text: str, size: int = 22, color: tuple[int, int, int] = BLACK) -> Page:
        self.draw.text((x, y), text, fill=color, font=ImageFont.truetype(FONT, size))
        return self

    def paragraph(self, x: int = 60, y: int = 80, lines: int = 12, size: int = 22) -> Page:
        for k in range(lines):
            self.text(x, y + round(k * size * 1.6), "经营范围技术开发技术咨询计算机软件销售货物进出口", size)
        return self

    def ring_seal(
        self, x: int, y: int, radius: int, text: str, color: tuple[int, int, int] = RED, turn: float = 0.0, span: float = 250.0
    ) -> Page:
        """Ring, star and text clockwise along the upper arc; ``turn`` in degrees turns it all clockwise."""
        width = max(2, radius // 25)
        self.draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=color, width=width)
        points = [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in _star(radius * 0.3, math.radians(turn))]
        self.draw.polygon(points, fill=color)
        size = round(radius * 0.3)
        font = ImageFont.truetype(FONT, size)
        for k, character in enumerate(text):
            angle = -90 - span / 2 + span * (k + 0.5) / len(text) + turn
            tile = Image.new("L", (2 * size, 2 * size), 0)
            ImageDraw.Draw(tile).text((size, size), character, fill=255, font=font, anchor="mm")
            tile = tile.rotate(-(angle + 90), resample=Image.Resampling.BICUBIC)
            centre = (x + radius * 0.74 * math.cos(math.radians(angle)), y + radius * 0.74 * math.sin(math.radians(angle)))
            self.image.paste(Image.new("RGB", tile.size, color), (round(centre[0] - size), round(centre[1] - size)), tile)
        return self


def _star(radius: float, turn: float) -> list[tuple[float, float]]:
    return [(radius if k % 2 == 0 else radius * 0.38, turn - math.pi / 2 + k * math.pi / 5) for k in range(10)]


@pytest.fixture
def page() -> type[Page]:
    return Page


@pytest.fixture(scope="session")
def engine() -> OcrEngine:
    return OcrEngine()
