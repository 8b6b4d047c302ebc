"""Everything on a page that is drawn rather than written: ground, borders, emblem, QR, seals, signatures, portrait."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageColor, ImageDraw

from certloop.synth.errors import LayoutError
from certloop.synth.fields import Fact
from certloop.synth.layout import Layout, Line, Mark
from certloop.synth.render.emblem import draw_emblem
from certloop.synth.render.fonts import open_font
from certloop.synth.render.ornaments import draw_border, draw_portrait, draw_watermark
from certloop.synth.render.qr import draw_qr, licence_payload
from certloop.synth.render.seal import INKS, draw_seal, seal_spec, stamp
from certloop.synth.render.text import Pen

if TYPE_CHECKING:
    from certloop.synth.render.page import Page

_GROUND_KINDS = ("watermark", "border", "emblem")


def draw_ground(pen: Pen, layout: Layout, variant: int) -> None:
    """Draw what is printed on every copy of the form."""
    frame = next((m.box for m in layout.marks if m.kind == "border" and m.box), None)
    bare = pen.canvas.copy()
    for mark in (m for m in layout.marks if m.kind == "watermark"):
        draw_watermark(pen, mark.pattern, mark.text, mark.colour or "#ececec")
    if frame:
        _keep_inside(pen.canvas, bare, _scaled(frame, pen.scale))
    pixels = np.array(pen.canvas)
    for mark in (m for m in layout.marks if m.kind == "border" and m.box):
        draw_border(pixels, mark.pattern, _scaled(mark.box, pen.scale), mark.colour or "#8a8a70", pen.scale)
    for line in layout.lines:
        _draw_rule(pixels, line, pen.scale)
    pen.canvas.paste(Image.fromarray(pixels))
    for mark in (m for m in layout.marks if m.kind == "emblem"):
        tints = (mark.pattern.split("|") if mark.pattern else [""]) * 3
        image = draw_emblem(round(mark.size * pen.scale), tints[variant])
        pen.canvas.paste(
            image, (round(mark.at[0] * pen.scale - image.width / 2), round(mark.at[1] * pen.scale - image.height / 2)), image
        )


def _keep_inside(canvas: Image.Image, bare: Image.Image, frame: tuple[float, float, float, float]) -> None:
    """Take back what was drawn outside ``frame``."""
    x0, y0, x1, y1 = (round(v) for v in frame)
    inside = canvas.crop((x0, y0, x1, y1))
    canvas.paste(bare)
    canvas.paste(inside, (x0, y0))


def draw_marks(pen: Pen, page: Page, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    """Draw what differs from copy to copy: QR, portrait, signatures, then seals over everything."""
    painters = {
        "qr": _draw_qr,
        "portrait": _draw_portrait,
        "signature": _draw_signature,
        "seal": _draw_seal,
        "note_stamp": _draw_note,
    }
    for mark in sorted(page.layout.marks, key=lambda m: m.kind in ("seal", "note_stamp")):
        if mark.kind in _GROUND_KINDS:
            continue
        if mark.kind not in painters:
            raise LayoutError(f"unknown mark {mark.kind!r}; known: {', '.join([*painters, *_GROUND_KINDS])}")
        drawn = rng.random() < mark.chance
        if drawn:
            painters[mark.kind](pen, page, mark, facts, rng, noise)
        if mark.field == "has_seal":
            page.print_value("has_seal", "有" if drawn else "无", ())
        if mark.field == "has_signature":
            page.print_value("has_signature", "present" if drawn else "absent", ())


def _draw_qr(pen: Pen, page: Page, mark: Mark, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    from certloop.synth.render.page import Item

    code = str(facts.get("credit_code") or facts.get("permit_no") or "")
    name = str(facts.get("name") or facts.get("operator") or facts.get("producer") or "")
    page.qr_payload = licence_payload(rng, name, code)
    image = draw_qr(page.qr_payload, round(mark.size * pen.scale))
    x, y = round(mark.at[0] * pen.scale - image.width / 2), round(mark.at[1] * pen.scale - image.height / 2)
    pen.canvas.paste(image.convert("RGB"), (x, y))
    page.add(Item("qr", page.qr_payload, ((x, y, x + image.width, y + image.height),)))


def _draw_portrait(pen: Pen, page: Page, mark: Mark, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    assert mark.box is not None
    x0, y0, x1, y1 = (round(v) for v in _scaled(mark.box, pen.scale))
    pen.canvas.paste(draw_portrait((x1 - x0, y1 - y0), noise), (x0, y0))


def _draw_signature(pen: Pen, page: Page, mark: Mark, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    from certloop.synth.render.page import Item

    text = _filled(mark.text, facts)
    size = round(mark.size * pen.scale * rng.uniform(0.9, 1.2))
    role = rng.choice(["hand", "hand_running", "hand_bold"])
    tile = Image.new("L", (int(size * (len(text) + 1.2)), size * 2), 0)
    draw, x = ImageDraw.Draw(tile), size * 0.3
    for char in text:
        font = open_font(pen.faces.face_for(role, char), round(size * rng.uniform(0.92, 1.1)))
        draw.text((x, size + rng.uniform(-0.05, 0.05) * size), char, font=font, fill=255, anchor="lm")
        x += font.getlength(char) * rng.uniform(0.8, 0.98)
    tile = tile.rotate(rng.uniform(-3, 7), resample=Image.Resampling.BICUBIC)
    x0, y0 = round(mark.at[0] * pen.scale), round(mark.at[1] * pen.scale - size)
    pen.canvas.paste(rng.choice([(28, 28, 34), (24, 34, 110), (40, 40, 44)]), (x0, y0), tile)
    box = (x0 + size * 0.2, y0 + size * 0.4, x0 + x, y0 + size * 1.6)
    if mark.field and mark.field != "has_signature":
        page.print_value(mark.field, text, (box,), region="hand")
    page.add(Item("signature", text, (box,), region="hand"))


def _draw_seal(pen: Pen, page: Page, mark: Mark, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    from certloop.synth.render.page import Item

    ring = _filled(mark.text, facts)
    shape, _, middle = (mark.pattern or "round").partition(":")
    ink = rng.choice(mark.colour.split("|")) if mark.colour else rng.choice(["red", "red", "red", "dark_red", "pink"])
    image = draw_seal(seal_spec(rng, ring, shape=shape, middle=middle, ink=ink), round(mark.size * pen.scale), pen.faces, noise)
    shift = mark.shift * pen.scale
    x = round(mark.at[0] * pen.scale - image.width / 2 + rng.uniform(-1, 1) * shift)
    y = round(mark.at[1] * pen.scale - image.height / 2 + rng.uniform(-1, 1) * shift * 0.6)
    stamp(pen.canvas, image, x, y, ink, rng.uniform(0.65, 0.95))
    box = (float(x), float(y), float(x + image.width), float(y + image.height))
    page.add(Item("seal", ring, (box,), region="seal"))
    if mark.field and mark.field != "has_seal" and mark.field not in page.values:
        page.print_value(mark.field, ring, (box,), region="seal")


def _draw_note(pen: Pen, page: Page, mark: Mark, facts: Mapping[str, Fact], rng: Random, noise: np.random.Generator) -> None:
    """A rubber stamp with words in a frame (每年一月份进行年报公示, 此复印件仅用于…)."""
    from certloop.synth.render.page import Item

    words = rng.choice(mark.text.split("|"))
    size = round(mark.size * pen.scale)
    font = open_font(pen.faces.face_for("hei", words[0]), size)
    width = int(font.getlength(words) + size * 0.9)
    tile = Image.new("L", (width, int(size * 1.9)), 0)
    draw = ImageDraw.Draw(tile)
    draw.rectangle((1, 1, width - 2, tile.height - 2), outline=255, width=max(2, size // 9))
    draw.text((size * 0.45, tile.height / 2), words, font=font, fill=255, anchor="lm")
    tile = tile.rotate(rng.uniform(-5, 5), resample=Image.Resampling.BICUBIC, expand=True)
    x, y = round(mark.at[0] * pen.scale), round(mark.at[1] * pen.scale)
    stamp(pen.canvas, tile, x, y, "red" if rng.random() < 0.8 else "blue", 0.8)
    page.add(Item("note", words, ((x, y, x + tile.width, y + tile.height),), region="seal"))


def _draw_rule(pixels: np.ndarray, line: Line, scale: float) -> None:
    rgb = ImageColor.getrgb(line.colour)[:3]
    thick = max(1, round(line.thick * scale))
    x0, y0, x1, y1 = (round(v) for v in _scaled(line.box, scale))
    if line.kind == "line":
        segments = [((x0, y0), (x1, y1))]
    else:
        segments = [((x0, y0), (x1, y0)), ((x1, y0), (x1, y1)), ((x1, y1), (x0, y1)), ((x0, y1), (x0, y0))]
    if line.kind == "grid":
        segments += [
            ((x0, round(y0 + (y1 - y0) * i / line.rows)), (x1, round(y0 + (y1 - y0) * i / line.rows)))
            for i in range(1, line.rows)
        ]
        segments += [
            ((round(x0 + (x1 - x0) * i / line.columns), y0), (round(x0 + (x1 - x0) * i / line.columns), y1))
            for i in range(1, line.columns)
        ]
    for start, end in segments:
        if not line.dash:
            cv2.line(pixels, start, end, rgb, thick, cv2.LINE_AA)
            continue
        length = max(1.0, float(np.hypot(end[0] - start[0], end[1] - start[1])))
        step = line.dash * scale
        for i in range(int(length / (2 * step)) + 1):
            a, b = min(1.0, 2 * i * step / length), min(1.0, (2 * i + 1) * step / length)
            p, q = ((round(start[0] + (end[0] - start[0]) * t), round(start[1] + (end[1] - start[1]) * t)) for t in (a, b))
            cv2.line(pixels, p, q, rgb, thick, cv2.LINE_AA)


def _filled(text: str, facts: Mapping[str, Fact]) -> str:
    return text.format(**{k: str(v) for k, v in facts.items()})


def _scaled(box: tuple[float, float, float, float] | None, scale: float) -> tuple[float, float, float, float]:
    assert box is not None
    return (box[0] * scale, box[1] * scale, box[2] * scale, box[3] * scale)


__all__ = ["INKS", "draw_ground", "draw_marks"]
