"""Nano's pages: a light and fast renderer (about a millisecond a page) over the data engine's values, faces and seeds.

A page is 384 x 256 pixels with glyphs of 20 to 22 pixels, tilted by at most a degree, a little blurred and noisy. Its answer is
the printed values by canonical label, in the order of the document type; a field that is not printed is not in the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from certloop.synth.render.fonts import default_faces, open_font
from certloop.synth.seeds import pixels_rng, values_rng
from certloop.train.nano.form import HEIGHT_PX, WIDTH_PX, Glyph, Placed, form_ids, forms, place
from certloop.train.nano.values import draw_values
from certloop.train.nano.vocabulary import nano_type

ABSENT = 0.12
"""Share of pages on which one field besides code and name is not printed."""
_OPTIONAL = ("type", "person", "date", "address")


@dataclass(frozen=True, slots=True)
class NanoPage:
    """One page with its truth.

    ``pixels`` uint8 (height, width, 3); ``fields`` canonical label to printed value in answer order; ``printed`` canonical label
    to the label on the page; ``boxes`` canonical label to the value's (left, top, right, bottom) in pixels; ``centres`` float32
    (glyphs, 2) x, y of every glyph of ``chars``; ``worn`` the canonical label whose value is printed badly, if any.
    """

    pixels: NDArray[np.uint8]
    fields: Mapping[str, str]
    printed: Mapping[str, str]
    boxes: Mapping[str, tuple[float, float, float, float]]
    chars: str
    centres: NDArray[np.float32]
    layout: str
    seed: int
    index: int
    worn: str | None = None

    @property
    def image(self) -> Image.Image:
        return Image.fromarray(self.pixels)

    @property
    def answer(self) -> str:
        """The JSON object a model should write, byte for byte."""
        return answer_text(self.fields)


def answer_text(fields: Mapping[str, str]) -> str:
    """The answer's JSON: canonical labels in the order of the document type, ``json.dumps`` with its own separators."""
    order = {spec.label: n for n, spec in enumerate(nano_type().fields.values())}
    return json.dumps({k: fields[k] for k in sorted(fields, key=lambda k: order.get(k, len(order)))}, ensure_ascii=False)


def nano_pages(
    seed: int, n: int, *, layouts: str | Sequence[str] = "seen", worn: float = 0.0, start: int = 0, clean: bool = False
) -> list[NanoPage]:
    """``n`` pages; page number i depends on ``seed`` and i only.

    ``layouts`` is seen, unseen, all, or ids; ``worn`` the share of pages of which one value is blurred and faint; ``clean``
    leaves tilt, blur and noise out. Raises TrainConfigError for an unknown layout.
    """
    return list(iter_pages(seed, n, layouts=layouts, worn=worn, start=start, clean=clean))


def iter_pages(
    seed: int, n: int, *, layouts: str | Sequence[str] = "seen", worn: float = 0.0, start: int = 0, clean: bool = False
) -> Iterator[NanoPage]:
    """The same as :func:`nano_pages`, one at a time."""
    ids = form_ids(layouts)
    for index in range(start, start + n):
        yield draw_page(seed, index, ids, worn=worn, clean=clean)


def draw_page(
    seed: int,
    index: int,
    ids: Sequence[str],
    *,
    worn: float = 0.0,
    clean: bool = False,
    keep: int = 6,
    height_px: int = HEIGHT_PX,
    wear: str | None = None,
) -> NanoPage:
    """Page number ``index`` of ``seed``, of one of the forms ``ids``.

    ``keep`` limits the fields, for short pages of ``height_px``; ``wear`` names a canonical label whose value is printed badly
    if it is there.
    """
    rng = values_rng(seed, "nano", index)
    form = forms()[rng.choice(list(ids))]
    values = draw_values(rng, trader=rng.random() < (0.8 if form.id in ("trader", "notice") else 0.3))
    if rng.random() < ABSENT:
        del values[rng.choice(_OPTIONAL)]
    if keep < len(values):
        chosen = rng.sample(list(values), keep)
        values = {name: value for name, value in values.items() if name in chosen}
    placed = place(form, values, rng, height_px=height_px)
    bad = rng.choice(list(values)) if rng.random() < worn else None
    bad = next((name for name in values if nano_type().fields[name].label == wear), None) if wear else bad
    pixels, centres = _draw(
        placed, placed.values.get(bad) if bad else None, pixels_rng(seed, "nano", index), height_px, clean=clean
    )
    specs = [spec for spec in nano_type().fields.values() if spec.id in values]
    return NanoPage(
        pixels=pixels,
        fields={spec.label: values[spec.id] for spec in specs},
        printed={spec.label: placed.printed[spec.id] for spec in specs},
        boxes={spec.label: _box(placed, centres, spec.id) for spec in specs},
        chars="".join(g.char for g in placed.glyphs),
        centres=centres,
        layout=form.id,
        seed=seed,
        index=index,
        worn=nano_type().fields[bad].label if bad else None,
    )


def _draw(
    placed: Placed, worn: tuple[int, int] | None, rng: np.random.Generator, height_px: int, *, clean: bool
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    ink = ink_of(placed.glyphs, WIDTH_PX, height_px)
    if worn:
        _wear(ink, placed.glyphs[slice(*worn)], rng)
    for y in placed.rules_y:
        row = round(y)
        if 0 < row < height_px:
            ink[row, 6 : WIDTH_PX - 6] = np.maximum(ink[row, 6 : WIDTH_PX - 6], 90)
    centres = glyph_centres(placed.glyphs)
    return light(ink, centres, rng, clean=clean)


def glyph_centres(glyphs: Sequence[Glyph]) -> NDArray[np.float32]:
    """Middle of every glyph, float32 (glyphs, 2)."""
    return np.array([(g.x + g.width_px / 2, g.y) for g in glyphs], np.float32).reshape(-1, 2)


def ink_of(glyphs: Sequence[Glyph], width: int, height: int) -> NDArray[np.uint8]:
    """Ink (0 none, 255 full) of glyphs on a canvas, uint8 (height, width)."""
    canvas = np.zeros((height, width), np.uint8)
    for glyph in glyphs:
        mask, dx, dy = _mask(glyph.role, glyph.size_px, glyph.char)
        left, top = round(glyph.x) + dx, round(glyph.y) + dy
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + mask.shape[1], width), min(top + mask.shape[0], height)
        if x0 < x1 and y0 < y1:
            part = canvas[y0:y1, x0:x1]
            np.maximum(part, mask[y0 - top : y1 - top, x0 - left : x1 - left], out=part)
    return canvas


def light(
    ink: NDArray[np.uint8], centres: NDArray[np.float32], rng: np.random.Generator, *, clean: bool = False, strength: float = 1.0
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """A light treatment: tilt, scale, blur, tints, noise, all times ``strength``. Returns pixels and the moved centres."""
    import cv2

    height, width = ink.shape
    if clean:
        return np.repeat((255 - ink)[:, :, None], 3, axis=2), centres
    angle, scale = rng.uniform(-1.0, 1.0) * strength, 1 + rng.uniform(-0.012, 0.008) * strength
    turn = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), angle, scale), np.float64)
    turn[:, 2] += rng.uniform(-1.5, 1.5, 2) * strength
    ink = np.asarray(cv2.warpAffine(ink, turn, (width, height), flags=cv2.INTER_LINEAR), np.uint8)
    moved = (centres @ turn[:, :2].T + turn[:, 2]).astype(np.float32)
    if (sigma := rng.uniform(0.0, 0.7) * strength) > 0.3:
        ink = np.asarray(cv2.GaussianBlur(ink, (3, 3), sigma), np.uint8)
    paper = rng.uniform(232, 255) - rng.uniform(0, 14, 3)
    dark = rng.uniform(0, 70) + rng.uniform(0, 20, 3)
    shades = paper + np.arange(256)[:, None] / 255 * (dark - paper)
    page = cv2.LUT(cv2.merge([ink] * 3), shades.astype(np.uint8)[:, None])
    grain = _grain(rng, height, width) * np.float32(rng.uniform(0, 6.0) * strength)
    noisy = cv2.add(page, cv2.merge([grain.astype(np.int16)] * 3), dtype=cv2.CV_8U)
    return np.asarray(noisy, np.uint8), moved


_POOL_SIDE = 1024


@lru_cache(maxsize=1)
def _pool() -> NDArray[np.float32]:
    return pixels_rng(0, "nano", "grain").standard_normal((_POOL_SIDE, _POOL_SIDE), np.float32)


def _grain(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    """Unit noise, the same in all channels as a scanner's mostly is: a window of one sheet, since drawing is slow."""
    top, left = int(rng.integers(_POOL_SIDE - height)), int(rng.integers(_POOL_SIDE - width))
    return _pool()[top : top + height, left : left + width]


def _wear(ink: NDArray[np.uint8], glyphs: Sequence[Glyph], rng: np.random.Generator) -> None:
    """Blur and fade one value in place."""
    import cv2

    x0, x1 = int(glyphs[0].x) - 3, int(glyphs[-1].x + glyphs[-1].width_px) + 3
    y0, y1 = int(glyphs[0].y) - 15, int(glyphs[0].y) + 15
    part = ink[max(y0, 0) : y1, max(x0, 0) : x1]
    blurred = np.asarray(cv2.GaussianBlur(part, (9, 9), rng.uniform(1.6, 2.6)), np.float32)
    part[:] = (blurred * rng.uniform(0.5, 0.8)).astype(np.uint8)


@lru_cache(maxsize=8192)
def _mask(role: str, size_px: int, char: str) -> tuple[NDArray[np.uint8], int, int]:
    """A glyph's ink and where it stands from (left end, middle of the line)."""
    font = open_font(default_faces().face_for(role, char), size_px)
    left, top, right, bottom = font.getbbox(char, anchor="lm")
    canvas = Image.new("L", (max(1, int(right - left)) + 2, max(1, int(bottom - top)) + 2), 0)
    from PIL import ImageDraw

    ImageDraw.Draw(canvas).text((1 - left, 1 - top), char, fill=255, font=font, anchor="lm")
    return np.asarray(canvas), int(left) - 1, int(top) - 1


def _box(placed: Placed, centres: NDArray[np.float32], name: str) -> tuple[float, float, float, float]:
    first, last = placed.values[name]
    half = placed.glyphs[first].size_px / 2 + 2
    part = centres[first:last]
    (x0, y0), (x1, y1) = part.min(axis=0), part.max(axis=0)
    return float(x0 - half), float(y0 - half), float(x1 + half), float(y1 + half)


def rng_for(seed: int, *names: str | int) -> Random:
    """A generator of choices for nano's own streams."""
    return values_rng(seed, "nano", *names)
