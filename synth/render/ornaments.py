"""What forms carry besides text: borders, guilloche bands, watermarks, portraits. Drawn once per size and cached with the base
page."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw

from certloop.synth.errors import LayoutError
from certloop.synth.render.fonts import open_font
from certloop.synth.render.text import Pen

Pixels = NDArray[np.uint8]
Box = tuple[float, float, float, float]
Colour = tuple[int, ...]
# along, across, radius (bands), turn (radians) of each spiral of a corner
_SCROLLS = (
    (0.5, 0.5, 0.55, 2.4),
    (1.15, 0.42, 0.42, 3.4),
    (1.72, 0.34, 0.34, 3.9),
    (2.2, 0.24, 0.26, 4.2),
    (1.35, 0.95, 0.3, 0.6),
)


def draw_border(canvas: Pixels, pattern: str, box_px: Box, colour: str, scale: float) -> None:
    """Draw a frame of ``pattern`` (guilloche, meander, lace, double, ornate, plain) in place on an RGB page."""
    try:
        painter = _PATTERNS[pattern]
    except KeyError:
        raise LayoutError(f"unknown border pattern {pattern!r}; known: {', '.join(_PATTERNS)}") from None
    painter(canvas, box_px, ImageColor.getrgb(colour)[:3], scale)


def _guilloche(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    """The band of the 2019 licence: woven sine lines on a tinted band, a row of scallops along its inner edge."""
    band = 24 * scale
    tint = np.zeros(canvas.shape[:2], np.uint8)
    for inset, fill in ((0.0, 255), (band, 0)):
        cv2.rectangle(tint, *_corner_points(box, inset), (fill,), -1)
    canvas[tint > 0] = (canvas[tint > 0] * 0.55 + np.array(_mix(rgb, 0.6)) * 0.45).astype(np.uint8)
    for k in range(11):
        _sine_frame(canvas, box, band / 2, band * 0.44 * math.cos(k * 0.29), 26 * scale, k * 0.63, _mix(rgb, 0.1 + 0.05 * k))
    _scallops(canvas, box, band, 10.5 * scale, rgb)
    _rect(canvas, box, 0, rgb, max(1, round(2.2 * scale)))
    _rect(canvas, box, band * 0.16, _mix(rgb, 0.35), 1)


def _scallops(canvas: Pixels, box: Box, inset: float, radius: float, rgb: Colour) -> None:
    """Half discs that stand on the inner edge of a band."""
    for (ox, oy), (dx, dy), length in _sides(box, inset):
        n = max(2, round(length / (radius * 2.6)))
        start = math.degrees(math.atan2(dy, dx))
        for i in range(n):
            t = (i + 0.5) * length / n
            centre = (round(ox + dx * t), round(oy + dy * t))
            axes = (round(length / n / 2), round(radius * 0.62))
            cv2.ellipse(canvas, centre, axes, start, 0, 180, _mix(rgb, 0.55), -1, cv2.LINE_AA)
            for share, tone in ((1.0, 0.15), (0.72, 0.4), (0.44, 0.3)):
                size = (max(1, round(axes[0] * share)), max(1, round(axes[1] * share)))
                cv2.ellipse(canvas, centre, size, start, 0, 180, _mix(rgb, tone), 1, cv2.LINE_AA)


def _meander(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    """The key pattern of the 2014 forms."""
    unit = 3.2 * scale
    _rect(canvas, box, 0, rgb, 1)
    _rect(canvas, box, unit * 7, rgb, 1)
    light = _mix(rgb, 0.1)
    key = np.array([(0, 5), (0, 1), (5, 1), (5, 4), (2, 4), (2, 3), (4, 3), (4, 2), (1, 2), (1, 5), (6, 5), (6, 1)], np.float32)
    for (ox, oy), (dx, dy), length in _sides(box, unit * 0.5):
        n = max(1, round(length / (unit * 7.5)))
        for i in range(n):
            t = i * length / n
            points = [(ox + dx * (t + p * unit) - dy * q * unit, oy + dy * (t + p * unit) + dx * q * unit) for p, q in key]
            _polyline(canvas, points, light, 1)


def _lace(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    """The saturated lace of the medical permits: rosettes on a dark band."""
    band = 17 * scale
    x0, y0, x1, y1 = box
    for inset, tone in ((0, rgb), (band * 0.16, _mix(rgb, 0.72)), (band * 0.22, rgb)):
        cv2.rectangle(
            canvas,
            (int(x0 + inset), int(y0 + inset)),
            (int(x1 - inset), int(y1 - inset)),
            tone,
            max(1, int(band * 0.06)),
            cv2.LINE_AA,
        )
    for (ox, oy), (dx, dy), length in _sides(box, band * 0.5):
        n = max(4, round(length / (band * 0.72)))
        for i in range(n + 1):
            x, y = ox + dx * length * i / n, oy + dy * length * i / n
            cv2.circle(canvas, (int(x), int(y)), int(band * 0.33), rgb, max(1, int(scale)), cv2.LINE_AA)
            cv2.circle(canvas, (int(x), int(y)), int(band * 0.14), rgb, -1, cv2.LINE_AA)
            cv2.line(canvas, (int(x - band * 0.3), int(y)), (int(x + band * 0.3), int(y)), rgb, 1, cv2.LINE_AA)
    _rect(canvas, box, band, rgb, max(1, round(1.6 * scale)))
    _rect(canvas, box, band * 1.25, _mix(rgb, 0.3), 1)


def _ornate(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    """The bank permit's broad band: a row of oval medallions, a net along the inner edge, leaf scrolls in the corners."""
    band = 44 * scale
    tint = np.zeros(canvas.shape[:2], np.uint8)
    for inset, fill in ((0.0, 255), (band, 0)):
        cv2.rectangle(tint, *_corner_points(box, inset), (fill,), -1)
    canvas[tint > 0] = (canvas[tint > 0] * 0.35 + np.array(_mix(rgb, 0.3)) * 0.65).astype(np.uint8)
    for k in range(6):
        _sine_frame(canvas, box, band * 1.08, band * 0.2 * math.cos(k * 0.5), 75 * scale, k * 1.05, _mix(rgb, 0.25 + 0.06 * k))
        _sine_frame(canvas, box, band * 0.5, band * 0.4 * math.cos(k * 0.5), 26 * scale, k * 0.9, _mix(rgb, 0.6))
    for inset, width in ((0.0, 1.6), (band * 0.12, 0.8), (band * 0.17, 0.8)):
        _rect(canvas, box, inset, rgb, max(1, round(width * scale)))
    for (ox, oy), (dx, dy), length in _sides(box, band * 0.57):
        n = max(1, round(length / (75 * scale)))
        for i in range(n):
            t = (i + 0.5) * length / n
            long, short = length / n * 0.46, band * 0.36
            _medallion(canvas, (ox + dx * t, oy + dy * t), (long, short) if dx else (short, long), rgb, scale)
    x0, y0, x1, y1 = box
    for cx, sx in ((x0, 1), (x1, -1)):
        for cy, sy in ((y0, 1), (y1, -1)):
            _corner_scroll(canvas, (cx, cy), (sx, sy), band, rgb, scale)


def _medallion(canvas: Pixels, at: tuple[float, float], axes: tuple[float, float], rgb: Colour, scale: float) -> None:
    centre = (round(at[0]), round(at[1]))

    def ring(share: float) -> tuple[int, int]:
        return max(1, round(axes[0] * share)), max(1, round(axes[1] * share))

    cv2.ellipse(canvas, centre, ring(1.0), 0, 0, 360, _mix(rgb, 0.08), -1, cv2.LINE_AA)
    for k in range(30):
        a = math.tau * k / 30
        ends = [(round(at[0] + axes[0] * r * math.cos(a)), round(at[1] + axes[1] * r * math.sin(a))) for r in (0.6, 0.95)]
        cv2.line(canvas, ends[0], ends[1], _mix(rgb, 0.62), 1, cv2.LINE_AA)
    for share in (1.0, 0.8, 0.6, 0.3):
        cv2.ellipse(canvas, centre, ring(share), 0, 0, 360, _mix(rgb, 0.75), 1, cv2.LINE_AA)
    cv2.ellipse(canvas, centre, ring(0.3), 0, 0, 360, _mix(rgb, 0.0), -1, cv2.LINE_AA)
    cv2.ellipse(canvas, centre, ring(0.08), 0, 0, 360, _mix(rgb, 0.9), -1, cv2.LINE_AA)


def _corner_scroll(
    canvas: Pixels, corner: tuple[float, float], inward: tuple[int, int], band: float, rgb: Colour, scale: float
) -> None:
    """Leaf scrolls: spirals that grow smaller along both sides, dark with a light vein, around a tilted oval."""
    (cx, cy), (sx, sy) = corner, inward
    dark, light = max(2, round(5.0 * scale)), max(1, round(1.9 * scale))
    for pass_width, tone in ((dark, _mix(rgb, 0.05)), (light, _mix(rgb, 0.8))):
        for along, across, radius, turn in _SCROLLS:
            for swap in (False, True):
                u, v = (across, along) if swap else (along, across)
                t = np.linspace(0, 1.5 * math.tau, 60)
                r = radius * band * (1 - t / (1.7 * math.tau))
                du, dv = r * np.cos(t + turn), r * np.sin(t + turn)
                if swap:
                    du, dv = dv, du
                points = np.stack([cx + sx * (u * band + du), cy + sy * (v * band + dv)], 1)
                _polyline(canvas, points, tone, pass_width)
    oval = (round(cx + sx * band * 0.55), round(cy + sy * band * 0.55))
    for share, tone in ((1.0, _mix(rgb, 0.9)), (0.82, _mix(rgb, 0.05)), (0.5, _mix(rgb, 0.35))):
        axes = (max(1, round(band * 0.36 * share)), max(1, round(band * 0.22 * share)))
        cv2.ellipse(canvas, oval, axes, 45 * sx * sy, 0, 360, tone, -1, cv2.LINE_AA)


def _double(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    _rect(canvas, box, 0, rgb, max(1, round(3.4 * scale)))
    _rect(canvas, box, 7 * scale, rgb, max(1, round(1 * scale)))


def _plain(canvas: Pixels, box: Box, rgb: Colour, scale: float) -> None:
    _rect(canvas, box, 0, rgb, max(1, round(2 * scale)))


_PATTERNS = {"guilloche": _guilloche, "meander": _meander, "lace": _lace, "ornate": _ornate, "double": _double, "plain": _plain}


def draw_watermark(pen: Pen, kind: str, words: str, colour: str) -> None:
    """Faint printed ground: ``tiles`` repeats ``words`` over the page, ``words`` writes them along wavy rows, ``waves`` draws
    fine wavy lines, ``rosette`` a large one."""
    width, height = pen.canvas.size
    if kind == "words":
        _wavy_words(pen, words, colour)
        return
    if kind == "tiles":
        font = open_font(pen.faces.face_for("hei", words[0]), round(26 * pen.scale))
        draw = ImageDraw.Draw(pen.canvas)
        for row in range(6):
            for column in range(6):
                x = width * (0.1 + 0.19 * column) - (row % 2) * width * 0.08
                draw.text((x, height * (0.14 + 0.155 * row)), words, font=font, fill=colour, stroke_width=0.6)
        return
    pixels = np.array(pen.canvas)
    rgb = ImageColor.getrgb(colour)[:3]
    if kind == "waves":
        xs = np.arange(0, width, 6)
        for y in range(0, height, max(5, int(9 * pen.scale))):
            line = np.stack([xs, y + 5 * pen.scale * np.sin(xs / (28 * pen.scale) + y * 0.05)], 1)
            cv2.polylines(pixels, [line.astype(np.int32)], False, rgb, 1, cv2.LINE_AA)
    else:
        for k in range(3):
            _rosette(pixels, width / 2, height / 2, height * (0.30 - 0.07 * k), rgb, pen.scale, turns=17 + 6 * k)
    pen.canvas.paste(Image.fromarray(pixels))


def _wavy_words(pen: Pen, words: str, colour: str) -> None:
    """Rows of repeated words whose lines rise and fall, as bank forms are ground-printed."""
    width, height = pen.canvas.size
    ink = Image.new("L", (width, height), 0)
    font = open_font(pen.faces.face_for("hei", words[0]), max(6, round(15 * pen.scale)))
    line = words * (int(width / max(1.0, font.getlength(words))) + 2)
    draw = ImageDraw.Draw(ink)
    for row in range(int(height / (34 * pen.scale)) + 2):
        draw.text((-(row % 3) * 30 * pen.scale, row * 34 * pen.scale), line, font=font, fill=255, anchor="lm")
    xs, ys = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    ys = ys + np.float32(12 * pen.scale) * np.sin(xs / np.float32(110 * pen.scale), dtype=np.float32)
    moved = cv2.remap(np.asarray(ink), xs, ys, cv2.INTER_LINEAR)
    pen.canvas.paste(colour, (0, 0, width, height), Image.fromarray(np.asarray(moved, np.uint8)))


def draw_portrait(size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """A faceless portrait: head and shoulders in greys, as identity cards have."""
    w, h = size
    image = Image.new("RGB", (w * 2, h * 2), (206, 214, 222))
    draw = ImageDraw.Draw(image)
    skin = tuple(int(c * rng.uniform(0.9, 1.05)) for c in (214, 182, 160))
    hair = (34, 30, 32)
    coat = tuple(int(v) for v in rng.integers(30, 90, 3))
    draw.ellipse((w * 0.1, h * 1.25, w * 1.9, h * 2.8), fill=coat)
    draw.rectangle((w * 0.82, h * 1.05, w * 1.18, h * 1.4), fill=skin)
    draw.ellipse((w * 0.52, h * 0.28, w * 1.48, h * 1.05), fill=hair)
    draw.ellipse((w * 0.58, h * 0.42, w * 1.42, h * 1.22), fill=skin)
    draw.polygon([(w * 0.82, h * 1.32), (w * 1.0, h * 1.55), (w * 1.18, h * 1.32)], fill=(235, 236, 238))
    for x in (0.82, 1.18):
        draw.ellipse((w * x - w * 0.06, h * 0.76, w * x + w * 0.06, h * 0.81), fill=(70, 56, 50))
    draw.line([(w * 0.9, h * 1.03), (w * 1.1, h * 1.03)], fill=(150, 90, 84), width=max(1, w // 24))
    return image.resize(size, Image.Resampling.LANCZOS)


def _rosette(canvas: Pixels, x: float, y: float, r: float, rgb: Colour, scale: float, turns: int = 11) -> None:
    t = np.linspace(0, math.tau, 720)
    for k in (0.55, 0.75, 1.0):
        radius = r * k * (0.62 + 0.38 * np.abs(np.sin(t * turns / 2)))
        points = np.stack([x + radius * np.cos(t), y + radius * np.sin(t)], 1)
        cv2.polylines(canvas, [points.astype(np.int32)], True, rgb, max(1, int(scale * 0.8)), cv2.LINE_AA)


def _sine_frame(
    canvas: Pixels,
    box: Box,
    inset: float,
    amplitude: float,
    period: float,
    phase: float,
    rgb: Colour,
) -> None:
    for (ox, oy), (dx, dy), length in _sides(box, inset):
        n = max(1, round(length / period))
        t = np.linspace(0, length, int(length / 3) + 2)
        offset = amplitude * np.sin(t / length * n * math.tau + phase)
        points = np.stack([ox + dx * t - dy * offset, oy + dy * t + dx * offset], 1)
        _polyline(canvas, points, rgb, 1)


def _sides(box: Box, inset: float) -> list[tuple[tuple[float, float], tuple[float, float], float]]:
    x0, y0, x1, y1 = box[0] + inset, box[1] + inset, box[2] - inset, box[3] - inset
    return [((x0, y0), (1, 0), x1 - x0), ((x1, y0), (0, 1), y1 - y0), ((x1, y1), (-1, 0), x1 - x0), ((x0, y1), (0, -1), y1 - y0)]


def _rect(canvas: Pixels, box: Box, inset: float, rgb: Colour, width: int) -> None:
    cv2.rectangle(
        canvas,
        (round(box[0] + inset), round(box[1] + inset)),
        (round(box[2] - inset), round(box[3] - inset)),
        rgb,
        width,
        cv2.LINE_AA,
    )


def _corner_points(box: Box, inset: float) -> tuple[tuple[int, int], tuple[int, int]]:
    return (round(box[0] + inset), round(box[1] + inset)), (round(box[2] - inset), round(box[3] - inset))


def _polyline(canvas: Pixels, points: object, rgb: Colour, width: int) -> None:
    fixed = (np.asarray(points, np.float32) * 16).astype(np.int32)
    cv2.polylines(canvas, [fixed], False, rgb, width, cv2.LINE_AA, shift=4)


def _mix(rgb: Colour, white: float) -> tuple[int, ...]:
    return tuple(int(c + (255 - c) * white) for c in rgb)
