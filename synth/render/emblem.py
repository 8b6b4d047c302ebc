"""An emblem of our own drawing: a red disc with stars, a gate and a gold rim. It recalls the printed one and copies none."""

from __future__ import annotations

import math
from functools import lru_cache

from PIL import Image, ImageDraw

_RED, _DEEP, _GOLD, _DARK = (206, 32, 34), (176, 22, 28), (232, 186, 70), (150, 104, 26)


@lru_cache(maxsize=16)
def draw_emblem(size_px: int, tint: str = "") -> Image.Image:
    """RGBA drawing of ``size_px``; ``tint`` is "" (colour), "flat" (red and white print) or "grey"."""
    s = 4 * size_px
    image = Image.new("RGBA", (s, s), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    gold, red = ((250, 238, 226), (226, 62, 62)) if tint == "flat" else (_GOLD, _RED)
    c = s / 2
    _disc(draw, c, c * 0.98, s * 0.46, _DARK if not tint else red)
    _disc(draw, c, c * 0.98, s * 0.45, gold)
    for i in range(44):
        a = math.tau * i / 44
        _disc(
            draw,
            c + math.cos(a) * s * 0.415,
            c * 0.98 + math.sin(a) * s * 0.415,
            s * 0.032,
            red if i % 2 else gold,
            outline=_DARK,
        )
    _disc(draw, c, c * 0.98, s * 0.375, red if tint else _DEEP)
    _disc(draw, c, c * 0.98, s * 0.365, red)
    _star(draw, c, s * 0.27, s * 0.085, gold)
    for dx, dy in ((-0.155, 0.29), (-0.085, 0.375), (0.085, 0.375), (0.155, 0.29)):
        _star(draw, c + dx * s, dy * s, s * 0.036, gold)
    _gate(draw, c, s, gold)
    draw.pieslice((c - s * 0.12, s * 0.72, c + s * 0.12, s * 0.96), 180, 360, fill=gold, outline=_DARK, width=s // 160)
    draw.polygon([(s * 0.16, s * 0.76), (s * 0.84, s * 0.76), (s * 0.72, s * 0.93), (s * 0.28, s * 0.93)], fill=red)
    for x in (0.3, 0.4, 0.6, 0.7):
        draw.line([(s * x, s * 0.77), (s * (0.5 + (x - 0.5) * 0.8), s * 0.92)], fill=gold, width=s // 70)
    _disc(draw, c, s * 0.85, s * 0.06, gold, outline=_DARK)
    out = image.resize((size_px, size_px), Image.Resampling.LANCZOS)
    if tint == "grey":
        grey = out.convert("L")
        return Image.merge("RGBA", (grey, grey, grey, out.getchannel("A")))
    return out


def _gate(draw: ImageDraw.ImageDraw, c: float, s: float, gold: tuple[int, int, int]) -> None:
    draw.polygon(
        [(c - s * 0.15, s * 0.50), (c + s * 0.15, s * 0.50), (c + s * 0.19, s * 0.525), (c - s * 0.19, s * 0.525)], fill=gold
    )
    draw.rectangle((c - s * 0.13, s * 0.525, c + s * 0.13, s * 0.56), fill=gold)
    draw.polygon(
        [(c - s * 0.19, s * 0.56), (c + s * 0.19, s * 0.56), (c + s * 0.23, s * 0.585), (c - s * 0.23, s * 0.585)], fill=gold
    )
    draw.rectangle((c - s * 0.26, s * 0.60, c + s * 0.26, s * 0.68), fill=gold)
    for i in (-2, -1, 0, 1, 2):
        w = s * (0.028 if i == 0 else 0.02)
        draw.rectangle((c + i * s * 0.09 - w, s * 0.625, c + i * s * 0.09 + w, s * 0.68), fill=_DEEP)
    for x in range(9):
        left = c - s * 0.2 + x * s * 0.05
        draw.line([(left, s * 0.70), (left + s * 0.03, s * 0.70)], fill=gold, width=int(s // 90))


def _disc(
    draw: ImageDraw.ImageDraw,
    x: float,
    y: float,
    r: float,
    fill: tuple[int, int, int],
    outline: tuple[int, int, int] | None = None,
) -> None:
    draw.ellipse((x - r, y - r, x + r, y + r), fill=fill, outline=outline, width=2)


def _star(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, fill: tuple[int, int, int]) -> None:
    draw.polygon(star_points(x, y, r), fill=fill)


def star_points(x: float, y: float, r: float, turn: float = 0.0) -> list[tuple[float, float]]:
    """Corners of a five-pointed star of radius ``r``."""
    return [
        (
            x + (r if i % 2 == 0 else r * 0.382) * math.sin(math.pi * i / 5 + turn),
            y - (r if i % 2 == 0 else r * 0.382) * math.cos(math.pi * i / 5 + turn),
        )
        for i in range(10)
    ]
