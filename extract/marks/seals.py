"""Find seals: red ones on colour pages, black or grey ones on photocopies.

A round seal is found by its ring: edge pixels vote for the centre they point to (gradient Hough), the best centres are refined
to an ellipse (a photographed ring is one) and judged by how much of the ellipse is really drawn. Ovals and square stamps come
from connected red ink. The national emblem is told apart by being filled: a seal is mostly paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.extract.marks.pixels import Floats, Image, Ink, reduced, scaled, to_gray, to_rgb
from certloop.extract.result import Seal

WORK_EDGE_PX = 1000
ANGLES = 144
SURE = 0.75
OVAL_SQUEEZE = 0.72  # invoice and tax seals are about 4 : 3; squeezed to this width they are round


@dataclass(frozen=True, slots=True)
class _Limits:
    """What a ring must show to be a seal: shares of its directions, ink of its middle, axes. Text gives black rings by chance."""

    coverage: float
    clear: float
    filled: float
    ratio: float


_RED = _Limits(coverage=0.55, clear=0.53, filled=0.5, ratio=1.6)
_OVAL = _Limits(coverage=0.7, clear=0.53, filled=0.5, ratio=1.25)
_BLACK = _Limits(coverage=0.85, clear=0.62, filled=0.45, ratio=1.2)


@dataclass(frozen=True, slots=True)
class Ellipse:
    """Centre, half axes and the direction of the first half axis (radians, y down), in pixels."""

    x: float
    y: float
    a: float
    b: float
    angle: float = 0.0

    @property
    def radius(self) -> float:
        return math.sqrt(self.a * self.b)

    def scaled(self, factor: float) -> Ellipse:
        """The same ellipse on an image enlarged by ``factor`` (pixel centres stay pixel centres)."""
        shift = (factor - 1) / 2
        return Ellipse(self.x * factor + shift, self.y * factor + shift, self.a * factor, self.b * factor, self.angle)

    def points(self, theta: Floats, rho: float | Floats = 1.0) -> NDArray[np.float64]:
        """(N, 2) points at page direction ``theta`` (0 right, pi/2 down) and relative radius ``rho``."""
        local = theta - self.angle
        # The point of the ellipse seen from the centre in direction theta.
        radius = rho * self.a * self.b / np.hypot(self.b * np.cos(local), self.a * np.sin(local))
        return np.stack([self.x + radius * np.cos(theta), self.y + radius * np.sin(theta)], axis=-1)

    def box(self) -> tuple[tuple[float, float], ...]:
        """Corners of the enclosing rectangle: turned along the axes for a clear oval, upright for a circle."""
        turn = self.angle if max(self.a, self.b) > 1.02 * min(self.a, self.b) else 0.0
        turn = (turn + math.pi / 4) % (math.pi / 2) - math.pi / 4
        swap = abs(math.sin(self.angle - turn)) > 0.5
        half_w, half_h = (self.b, self.a) if swap else (self.a, self.b)
        cos, sin = math.cos(turn), math.sin(turn)
        corners = ((-half_w, -half_h), (half_w, -half_h), (half_w, half_h), (-half_w, half_h))
        return tuple((self.x + u * cos - v * sin, self.y + u * sin + v * cos) for u, v in corners)


def ellipse_of(seal: Seal) -> Ellipse:
    """The ellipse inscribed in a seal's box."""
    box = np.asarray(seal.box, np.float64)
    centre = box.mean(axis=0)
    across, down = box[1] - box[0], box[3] - box[0]
    half_axes = float(np.hypot(*across)) / 2, float(np.hypot(*down)) / 2
    return Ellipse(float(centre[0]), float(centre[1]), *half_axes, math.atan2(across[1], across[0]))


def find_seals(image: Image) -> list[Seal]:
    """Seals on an (H, W, 3) RGB page, most certain first; boxes in its pixels. A page without seals gives an empty list."""
    if min(image.shape[:2]) < 24:
        return []
    small, scale = reduced(image, WORK_EDGE_PX)
    color = red_ink(small)
    red = _sharp_red(small, color)
    found = [(ellipse, "red", shape, confidence) for ellipse, shape, confidence in _red_seals(red, color)]
    for ellipse, confidence in _rings(black_ink(small, red), _BLACK):
        filled = ring_evidence(red, ellipse).filled
        if filled < 0.25 and not any(_same(ellipse, other) for other, _, _, _ in found):
            found.append((ellipse, _ring_color(small, ellipse), _shape(ellipse), confidence))
    found.sort(key=lambda item: -item[3])
    return [Seal(e.scaled(1 / scale).box(), color, shape, round(confidence, 4)) for e, color, shape, confidence in found]


def red_ink(image: Image, paper_part: int = 16) -> Ink:
    """How much red ink stands at each pixel: red above green and blue, relative to the paper's brightness and own tint.

    The paper is looked at in windows of the longer edge over ``paper_part`` (smaller for a cut-out of one seal).
    """
    r, g, b = cv2.split(_white_balanced(image))
    redness = cv2.subtract(r, cv2.max(g, b)).astype(np.float32)
    paper = max(60.0, float(np.percentile(r[::4, ::4], 90)))
    side = max(9, max(image.shape[:2]) // paper_part) | 1
    tint = np.minimum(cv2.blur(redness, (side, side)), np.float32(np.median(redness[::4, ::4]) + 12))
    ink = (redness - tint) * np.float32(255 / paper / 70)
    return np.asarray(np.clip(ink, 0, 1), np.float32)


def _sharp_red(image: Image, red: Ink) -> Ink:
    """Red ink with the outlines of the green channel: JPEG keeps colour at half the resolution, dim light loses it."""
    green = np.ascontiguousarray(image[:, :, 1])
    dark = black_ink(to_rgb(green))
    near = cv2.blur(cv2.dilate(red, np.ones((5, 5), np.uint8)), (3, 3))
    return np.asarray(np.maximum(red, np.minimum(dark, 4 * near - 0.2)), np.float32)


def _white_balanced(image: Image) -> Image:
    """Channels scaled so that bright paper is neutral (at most by half: a wholly coloured picture stays coloured)."""
    sample = image[::6, ::6].reshape(-1, 3).astype(np.float32)
    light = sample.sum(axis=1)
    paper = np.median(sample[light >= np.quantile(light, 0.6)], axis=0) + 1
    gain = np.clip(paper.max() / paper, 1, 1.5)
    if gain.max() < 1.02:
        return image
    return cv2.merge([cv2.convertScaleAbs(channel, alpha=float(g)) for channel, g in zip(cv2.split(image), gain, strict=True)])  # type: ignore[return-value]


def black_ink(image: Image, red: Ink | None = None, paper_part: int = 24) -> Ink:
    """How much black or grey ink stands at each pixel, against the local paper; coloured ink does not count."""
    gray = to_gray(image)
    side = max(9, max(image.shape[:2]) // paper_part) | 1
    paper = cv2.blur(cv2.dilate(gray, np.ones((5, 5), np.uint8)), (side, side)).astype(np.float32)
    ink = (paper - gray) / np.maximum(paper, 40) * 2 - 0.1
    if red is not None:
        ink -= red
    return np.asarray(np.clip(ink, 0, 1), np.float32)


def _shape(ellipse: Ellipse) -> str:
    return "oval" if max(ellipse.a, ellipse.b) > 1.28 * min(ellipse.a, ellipse.b) else "round"


def _same(one: Ellipse, other: Ellipse) -> bool:
    return math.hypot(one.x - other.x, one.y - other.y) < 0.7 * max(one.radius, other.radius)


def _red_seals(red: Ink, color: Ink) -> list[tuple[Ellipse, str, float]]:
    """Rings first, then square stamps and ovals in the ink that no ring explains; ``color`` is the red ink before sharpening."""
    found = [(ellipse, _shape(ellipse), confidence) for ellipse, confidence in _rings(red, _RED) if _hollow(color, ellipse)]
    doubtful = [hit for hit in found if hit[2] < SURE]  # may be an oval mistaken for a circle
    found = [hit for hit in found if hit[2] >= SURE]
    rest = _without(red, [ellipse for ellipse, _, _ in found])
    if cv2.countNonZero((rest > 0.3).astype(np.uint8)) < 60:
        return found + doubtful
    found += _squares(_without(color, [ellipse for ellipse, _, _ in found]))
    rest = _without(rest, [ellipse for ellipse, shape, _ in found if shape == "square"])
    squeezed = scaled(rest, OVAL_SQUEEZE, 1.0)
    ovals = [(_unsqueezed(ellipse), "oval", confidence) for ellipse, confidence in _rings(squeezed, _OVAL)]
    ovals = [hit for hit in ovals if _hollow(color, hit[0])]
    for hit in sorted(ovals + doubtful, key=lambda hit: -hit[2]):
        if not any(_same(hit[0], other) for other, _, _ in found):
            found.append(hit)
    return found


def _hollow(color: Ink, ellipse: Ellipse) -> bool:
    """Whether the ring is red and paper shows between star and text: a face in a portrait is red too, but all over."""
    theta = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    ring = float(_sample(color, ellipse, theta, np.linspace(0.96, 1.03, 5)).max(axis=1).mean())
    between = float(np.median(_sample(color, ellipse, theta, np.linspace(0.42, 0.52, 4))))
    return ring > 0.1 and between < 0.6 * ring + 0.05


def _without(ink: Ink, ellipses: list[Ellipse]) -> Ink:
    rest = ink.copy()
    for e in ellipses:
        cv2.fillPoly(rest, [np.round(Ellipse(e.x, e.y, 1.1 * e.a, 1.1 * e.b, e.angle).box()).astype(np.int32)], (0.0,))
    return rest


def _unsqueezed(ellipse: Ellipse) -> Ellipse:
    points = ellipse.points(np.linspace(0, 2 * math.pi, 60, endpoint=False)) / (OVAL_SQUEEZE, 1.0)
    (x, y), (d1, d2), degrees = cv2.fitEllipseDirect(points.astype(np.float32))
    return Ellipse(x, y, d1 / 2, d2 / 2, math.radians(degrees))


def _ring_color(image: Image, ellipse: Ellipse) -> str:
    """Whether a faint ring is redder than the paper around it."""
    theta = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    redness = cv2.split(image)[0].astype(np.float32) - to_gray(image)
    on = _sample(redness, ellipse, theta, np.linspace(0.96, 1.02, 5)).max(axis=1)
    around = _sample(redness, ellipse, theta, np.linspace(1.1, 1.2, 5)).max(axis=1)
    return "red" if float(np.median(on) - np.median(around)) > 7 else "black"


# --- rings ---------------------------------------------------------------------------------------------------------------------


def _rings(ink: Ink, limits: _Limits) -> list[tuple[Ellipse, float]]:
    """Ellipses drawn in ``ink`` with their confidence (mean of ``coverage`` and ``clear``), largest and surest first."""
    judged = []
    for x, y, radius in _centres(ink):
        ellipse = fit_ring(ink, Ellipse(x, y, radius, radius))
        if ellipse is None or max(ellipse.a, ellipse.b) > limits.ratio * min(ellipse.a, ellipse.b):
            continue
        seen = ring_evidence(ink, ellipse)
        filled = seen.filled > limits.filled * max(0.3, seen.ring) + 0.1  # a disc, such as the emblem
        if not filled and seen.coverage >= limits.coverage and seen.clear >= limits.clear:
            judged.append((ellipse, (seen.coverage + seen.clear) / 2))
    judged.sort(key=lambda item: -item[1] * item[0].radius ** 0.5)
    kept: list[tuple[Ellipse, float]] = []
    for ellipse, confidence in judged:
        if not any(_same(ellipse, other) for other, _ in kept):
            kept.append((ellipse, confidence))
    return kept


def _centres(ink: Ink, limit: int = 14) -> list[tuple[float, float, float]]:
    """Gradient Hough: ``(x, y, radius)`` candidates. Accumulators have a third of the resolution: votes of a bent ring meet."""
    height, width = ink.shape
    edge = max(height, width)
    smooth = cv2.GaussianBlur(ink, (0, 0), max(0.8, edge / 900))
    gx, gy = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    strength = cv2.magnitude(gx, gy)
    ys, xs = np.nonzero(strength > 0.35)
    if len(xs) < 40:
        return []
    if len(xs) > 40000:
        ys, xs = ys[:: len(xs) // 40000 + 1], xs[:: len(xs) // 40000 + 1]
    ux, uy = gx[ys, xs] / strength[ys, xs], gy[ys, xs] / strength[ys, xs]
    cell = 3
    rows, columns = height // cell + 1, width // cell + 1
    radii = np.geomspace(max(8.0, edge * 0.028), min(edge * 0.17, min(height, width) / 2), 26)
    found: list[tuple[float, float, float, float]] = []
    for radius in radii:
        votes = np.zeros(rows * columns, np.float32)
        for sign in (1.0, -1.0):
            cx = ((xs + sign * radius * ux) / cell).astype(np.int32)
            cy = ((ys + sign * radius * uy) / cell).astype(np.int32)
            inside = (cx >= 0) & (cx < columns) & (cy >= 0) & (cy < rows)
            votes += np.bincount(cy[inside] * columns + cx[inside], minlength=rows * columns)
        field = cv2.blur(votes.reshape(rows, columns), (3, 3)) / np.float32(radius)
        for _ in range(5):
            _, best, _, (px, py) = cv2.minMaxLoc(field)
            if best <= 0.05:
                break
            found.append((best, px * cell + 1.0, py * cell + 1.0, float(radius)))
            reach = max(2, int(radius / cell / 2))
            field[max(0, py - reach) : py + reach + 1, max(0, px - reach) : px + reach + 1] = 0
    found.sort(reverse=True)
    kept: list[tuple[float, float, float]] = []
    for _, x, y, radius in found:
        if not any(math.hypot(x - kx, y - ky) < 0.25 * radius and 0.85 < radius / kr < 1.18 for kx, ky, kr in kept):
            kept.append((x, y, radius))
        if len(kept) == limit:
            break
    return kept


def fit_ring(ink: Ink, start: Ellipse, reach: float = 0.2) -> Ellipse | None:
    """Fit the outer ring near ``start``: per direction the strongest thin line, then an ellipse by trimmed least squares."""
    theta = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    current = start
    for width in (reach, reach / 2, reach / 4):
        rho = np.linspace(1 - width, 1 + width, max(9, 2 * round(width * current.radius) | 1))
        profile = _sample(ink, current, theta, rho)
        weight = profile * (1 - 0.35 * np.abs(rho - 1) / width)
        index = weight.argmax(axis=1)
        strength = profile[np.arange(ANGLES), index]
        good = strength > 0.2
        if good.sum() < ANGLES * 0.35:
            return None
        points = current.points(theta[good], rho[index[good]])
        fitted = _trimmed_ellipse(points, current)
        if fitted is None:
            return None
        current = fitted
    return current


def _trimmed_ellipse(points: NDArray[np.float64], start: Ellipse) -> Ellipse | None:
    keep = np.ones(len(points), bool)
    fitted: Ellipse | None = None
    for _ in range(4):
        if keep.sum() < 12:
            return None
        (x, y), (d1, d2), degrees = cv2.fitEllipseDirect(points[keep].astype(np.float32))
        if not (d1 > 4 and d2 > 4 and max(d1, d2) < 1.7 * min(d1, d2)):
            return None
        fitted = Ellipse(x, y, d1 / 2, d2 / 2, math.radians(degrees))
        if math.hypot(x - start.x, y - start.y) > 0.3 * start.radius or not 0.7 < fitted.radius / start.radius < 1.4:
            return None
        error = np.abs(_relative_radius(points, fitted) - 1)
        keep = error <= max(0.015, float(np.quantile(error, 0.7)))
    return fitted


def _relative_radius(points: NDArray[np.float64], ellipse: Ellipse) -> NDArray[np.float64]:
    dx, dy = points[:, 0] - ellipse.x, points[:, 1] - ellipse.y
    cos, sin = math.cos(ellipse.angle), math.sin(ellipse.angle)
    return np.hypot((dx * cos + dy * sin) / ellipse.a, (-dx * sin + dy * cos) / ellipse.b)


def _sample(ink: Ink, ellipse: Ellipse, theta: Floats, rho: Floats) -> NDArray[np.float32]:
    """(len(theta), len(rho)) ink values along rays; outside the page there is none."""
    unit = ellipse.points(theta) - (ellipse.x, ellipse.y)
    x = (ellipse.x + unit[:, :1] * rho).astype(np.float32)
    y = (ellipse.y + unit[:, 1:] * rho).astype(np.float32)
    return cv2.remap(ink, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class RingEvidence:
    """What is drawn where a seal's parts should be, each in [0, 1]."""

    coverage: float  # share of directions in which the ring is drawn
    clear: float  # share of directions in which the ring is drawn and paper lies outside it
    filled: float  # mean ink within 0.6 of the radius
    ring: float  # mean ink on the ring


def ring_evidence(ink: Ink, ellipse: Ellipse) -> RingEvidence:
    theta = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    slack = max(0.02, 1.0 / ellipse.radius)
    on = _sample(ink, ellipse, theta, np.linspace(1 - 1.5 * slack, 1 + 1.5 * slack, 7)).max(axis=1)
    out = _sample(ink, ellipse, theta, np.linspace(1.07 + slack, 1.2 + slack, 5)).max(axis=1)
    core = _sample(ink, ellipse, theta, np.linspace(0.1, 0.6, 8))
    drawn = on > 0.22
    return RingEvidence(float(drawn.mean()), float((drawn & (out < 0.5 * on)).mean()), float(core.mean()), float(on.mean()))


# --- square stamps --------------------------------------------------------------------------------------------------------------


def _squares(red: Ink) -> list[tuple[Ellipse, str, float]]:
    """Connected red ink that is framed by a rectangle."""
    edge = max(red.shape)
    reach = max(3, edge // 110) | 1
    mask = (red > 0.25).astype(np.uint8)
    closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((reach, reach), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    found = []
    for x, y, width, height, area in stats[1:count]:
        short, long = min(width, height), max(width, height)
        if short < edge * 0.03 or long > edge * 0.4 or long > 4.5 * short:
            continue
        points = cv2.findNonZero(mask[y : y + height, x : x + width])
        if area < 0.06 * width * height or points is None or len(points) < 40:
            continue
        hull = cv2.convexHull(points + np.array([x, y], np.int32)).reshape(-1, 2)
        hit = _framed(red, hull)
        if hit is not None:
            found.append((hit[0], "square", hit[1]))
    return found


def _framed(red: Ink, hull: NDArray[np.integer[Any] | np.floating[Any]]) -> tuple[Ellipse, float] | None:
    """Four drawn sides with writing between them; returned as the ellipse inscribed in the frame."""
    (x, y), (width, height), degrees = cv2.minAreaRect(hull)
    # A single large character (国, 日) is framed too, but smaller than a stamp.
    if min(width, height) < (14 if max(width, height) > 1.6 * min(width, height) else 0.06 * max(red.shape)):
        return None
    corners = cv2.boxPoints(((x, y), (width, height), degrees))
    matrix = cv2.getAffineTransform(corners[[1, 2, 0]], np.array([[4, 4], [width + 4, 4], [4, height + 4]], np.float32))
    flat = cv2.warpAffine(red, matrix, (round(width) + 8, round(height) + 8))
    depth = 4 + max(3, round(0.08 * min(width, height)))
    strips = ((flat[:depth], 0), (flat[-depth:], 0), (flat[:, :depth], 1), (flat[:, -depth:], 1))
    sides = [float((strip.max(axis=axis) > 0.25).mean()) for strip, axis in strips]
    if min(flat.shape) <= 2 * depth + 2:
        return None
    writing = float((flat[depth:-depth, depth:-depth] > 0.25).mean())
    second = sorted(sides)[1]
    if not 0.06 < writing < 0.55 or second < 0.7 or (min(sides) < 0.4 and second < 0.8):
        return None
    return Ellipse(x, y, width / 2, height / 2, math.radians(degrees)), float(np.clip(np.mean(sides) - 0.1, 0, 1))
