"""Seals: round, oval and square, with ring text, stamped over what is printed (ink multiplies, it never covers)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from certloop.synth.render.emblem import star_points
from certloop.synth.render.fonts import Faces, open_font

INKS = {
    "red": (214, 40, 44),
    "dark_red": (178, 34, 44),
    "pink": (232, 92, 100),
    "black": (52, 52, 56),
    "blue": (44, 62, 150),
    "purple": (110, 50, 110),
}


@dataclass(frozen=True, slots=True)
class SealSpec:
    """``shape`` is round, oval or square; ``ring`` runs along the rim, ``middle`` stands under the star; ``wear`` in [0,1]
    loses ink."""

    ring: str
    shape: str = "round"
    middle: str = ""
    code: str = ""
    ink: str = "red"
    wear: float = 0.25
    tilt_deg: float = 0.0
    star: bool = True


def draw_seal(spec: SealSpec, size_px: int, faces: Faces, rng: np.random.Generator) -> Image.Image:
    """Return the stamped ink as an L image (255 is full ink) of about ``size_px``."""
    s = max(48, size_px) * 2
    height = int(s * (0.7 if spec.shape == "oval" else 1.0))
    ink = Image.new("L", (s, height), 0)
    draw = ImageDraw.Draw(ink)
    rim = max(2, s // 46)
    if spec.shape == "square":
        _draw_square(draw, spec, s, rim, faces)
    else:
        draw.ellipse((2, 2, s - 3, height - 3), outline=255, width=rim)
        if spec.shape == "oval":
            draw.ellipse((rim * 2 + 4, rim * 2 + 4, s - 5 - rim * 2, height - 5 - rim * 2), outline=255, width=max(1, rim // 2))
        if spec.star:
            draw.polygon(star_points(s / 2, height / 2, s * 0.18), fill=255)
        _ring_text(ink, spec.ring, s, height, faces, 0.185 if len(spec.ring) < 14 else 0.15)
        if spec.middle:
            _line_text(draw, spec.middle, s / 2, height * 0.76, s * 0.105, s * 0.6, faces)
        if spec.code:
            _ring_text(ink, spec.code, s, height, faces, 0.05, bottom=True)
    if spec.tilt_deg:
        ink = ink.rotate(spec.tilt_deg, resample=Image.Resampling.BICUBIC, expand=True)
    return _wear(ink.resize((ink.width // 2, ink.height // 2), Image.Resampling.LANCZOS), spec.wear, rng)


def stamp(canvas: Image.Image, ink: Image.Image, x: int, y: int, colour: str, strength: float = 0.85) -> None:
    """Multiply ``ink`` in ``colour`` onto ``canvas`` with its upper left corner at ``x``, ``y`` (cut at the edges)."""
    left, top = max(0, x), max(0, y)
    right, bottom = min(canvas.width, x + ink.width), min(canvas.height, y + ink.height)
    if right <= left or bottom <= top:
        return
    alpha = np.asarray(ink.crop((left - x, top - y, right - x, bottom - y)), np.float32)[..., None] / 255 * strength
    paper = np.asarray(canvas.crop((left, top, right, bottom)), np.float32)
    tone = np.array(INKS[colour], np.float32) / 255
    canvas.paste(Image.fromarray((paper * (1 - alpha + alpha * tone)).astype(np.uint8)), (left, top))


def seal_spec(rng: Random, ring: str, *, shape: str = "round", middle: str = "", ink: str = "red") -> SealSpec:
    """A seal with a natural tilt, wear and, sometimes, a code number along its lower rim."""
    code = f"{rng.randint(10**12, 10**13 - 1)}" if rng.random() < 0.35 and shape == "round" else ""
    return SealSpec(ring, shape, middle, code, ink, wear=rng.uniform(0.05, 0.5), tilt_deg=rng.uniform(-14, 14))


def _ring_text(ink: Image.Image, text: str, s: int, height: int, faces: Faces, size: float, *, bottom: bool = False) -> None:
    if not text:
        return
    span = math.radians(min(290, 26 * len(text))) if not bottom else math.radians(min(100, 7 * len(text)))
    font_px = s * min(size, 2.0 / len(text) + 0.03)
    rx, ry = s / 2 - font_px * 0.86, height / 2 - font_px * 0.86
    for i, char in enumerate(text):
        along = -span / 2 + span * (i / (len(text) - 1) if len(text) > 1 else 0.5)
        if bottom:
            along = -along
        a = along - math.pi / 2 if not bottom else along + math.pi / 2
        tile = Image.new("L", (int(font_px * 1.6),) * 2, 0)
        font = open_font(faces.face_for("song" if not bottom else "hei", char), round(font_px))
        ImageDraw.Draw(tile).text(
            (tile.width / 2, tile.height / 2), char, font=font, fill=255, anchor="mm", stroke_width=font_px * 0.02
        )
        if not bottom:
            tile = tile.resize((int(tile.width * 0.82), tile.height))
        tile = tile.rotate(-math.degrees(along), resample=Image.Resampling.BICUBIC, expand=True)
        x, y = s / 2 + rx * math.cos(a) - tile.width / 2, height / 2 + ry * math.sin(a) - tile.height / 2
        ink.paste(255, (int(x), int(y)), tile)


def _line_text(draw: ImageDraw.ImageDraw, text: str, x: float, y: float, size: float, width: float, faces: Faces) -> None:
    size = min(size, width / len(text))
    for i, char in enumerate(text):
        font = open_font(faces.face_for("song", char), round(size))
        draw.text((x + (i - (len(text) - 1) / 2) * size, y), char, font=font, fill=255, anchor="mm", stroke_width=size * 0.03)


def _draw_square(draw: ImageDraw.ImageDraw, spec: SealSpec, s: int, rim: int, faces: Faces) -> None:
    """A personal seal: up to four characters in two columns, read from the right."""
    draw.rectangle((2, 2, s - 3, s - 3), outline=255, width=rim * 2)
    text = (spec.ring + "印" if len(spec.ring) == 3 else spec.ring + "之印" if len(spec.ring) == 2 else spec.ring)[:4]
    for i, char in enumerate(text):
        column, row = (1 - i // 2, i % 2)
        font = open_font(faces.face_for("song", char), round(s * 0.4))
        draw.text(
            (s * (0.28 + 0.44 * column), s * (0.28 + 0.44 * row)), char, font=font, fill=255, anchor="mm", stroke_width=s * 0.012
        )


def _wear(ink: Image.Image, wear: float, rng: np.random.Generator) -> Image.Image:
    """Uneven pressure and lost specks."""
    w, h = ink.size
    patches = Image.fromarray((rng.random((7, 7)) * 255).astype(np.uint8)).resize((w, h), Image.Resampling.BICUBIC)
    specks = Image.fromarray((rng.random((max(2, h // 2), max(2, w // 2))) * 255).astype(np.uint8)).resize(
        (w, h), Image.Resampling.BILINEAR
    )
    pressure = 1 - wear * (np.asarray(patches, np.float32) / 255) - wear * 0.9 * (np.asarray(specks, np.float32) / 255 > 0.72)
    out = np.asarray(ink.filter(ImageFilter.GaussianBlur(0.5)), np.float32) * np.clip(pressure, 0.05, 1)
    return Image.fromarray(out.astype(np.uint8))
