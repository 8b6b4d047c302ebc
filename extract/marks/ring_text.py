"""Read the text that runs around a seal: the ring is unrolled to a straight line and given to the recogniser.

Chinese seals read clockwise along the upper arc, with a gap at the bottom. The gap is found, not assumed: a seal may be stamped
askew and a page may lie on its side. The strip is read several times (as it is, stretched, without the black print across it, its
ink alone; three heights and widths), and the readings vote on every character. Nothing is repaired by a lexicon: what the vote
gives was read. A covered character usually leaves a double step between its neighbours, which lowers the score.

Scores, measured on real photographs: right readings 0.75 and more (most above 0.95), wrong ones mostly below 0.75; the usual
wrong one above lacks a first or last character that print covers, which no spacing betrays.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.marks.pixels import Floats, Image, Ink, to_gray, to_rgb
from certloop.extract.marks.seals import Ellipse, black_ink, ellipse_of, red_ink
from certloop.extract.result import Seal

MIN_SCORE = 0.6
SURE = 0.8  # no other cut of the ring is tried
EARLY_SCORE = 0.93  # no further way of reading this cut is tried
HOPELESS = 0.45
STRAY = 1  # so few characters beyond a gap do not belong to the ring's text (at a later cut they may, so it has no such grace)
LATER_CUT_PENALTY = 0.1  # a wrong cut that hides a covered character reads more easily than the right one
HOLE = 3.0  # a gap between characters, in median steps, that means the ring was cut in its middle
CERTAIN_LINE = 0.95
MIN_RADIUS_PX = 26  # smaller rings hold characters of less than 8 px: long to try, never right
MIN_CHARACTERS = 4
TEXT_HEIGHT_PX = 48
MARGIN_DEG = 8
OVAL_RATIO = 1.2
GAP_WEIGHT, GAP_PENALTY = 0.3, 0.7
_RHO = np.linspace(0.4, 1.0, 61)
_BEGINS, _ENDS = re.compile(r"[\u3400-\u9fff（(]"), re.compile(r"[\u3400-\u9fff）)]")
_SUFFIXES = "局厅部院会府所处站心行社店厂司校队室科章"


@dataclass(frozen=True, slots=True)
class RingReading:
    """The ring's text as printed. ``score`` in [0, 1] joins the recogniser's belief and how many cuts agree;
    ``plausible`` says whether it ends as an authority or a firm does (a hint for the caller, never a reason to change it)."""

    text: str
    score: float
    plausible: bool


@dataclass(frozen=True, slots=True)
class _Band:
    """Where the ring's text stands: relative radii of its outer and inner edge, and the arc (radians) it covers."""

    outer: float
    inner: float
    start: float
    end: float


def read_ring_text(image: Image, seal: Seal, engine: OcrEngine, *, thorough: bool = True) -> tuple[str, float] | None:
    """Text and score of a round or oval seal's ring, or None where nothing sensible can be read.

    ``thorough=False`` tries one cut of the ring at one width: enough for a clean seal, a third of the work on a bad one.
    """
    reading = read_ring(image, seal, engine, thorough=thorough)
    return None if reading is None else (reading.text, reading.score)


def read_ring(image: Image, seal: Seal, engine: OcrEngine, *, thorough: bool = True) -> RingReading | None:
    """As `read_ring_text`, with the plausibility flag. ``image`` is the (H, W, 3) RGB page on which the seal was found."""
    if seal.shape == "square":
        return None
    patch, ellipse = _cut_out(image, ellipse_of(seal))
    if ellipse.radius < MIN_RADIUS_PX:
        return None
    ink = red_ink(patch, paper_part=2) if seal.color == "red" else black_ink(patch, paper_part=3)
    pictures = _pictures(patch, ink, seal.color)
    theta = np.arange(360) * (math.pi / 180)
    polar = _polar(ink, ellipse, theta, _RHO)  # (61, 360)
    cuts = _gaps(polar[20:50].mean(axis=0))
    best: RingReading | None = None
    tried = 0
    while cuts and tried < (2 if thorough else 1):
        band = _text_band(polar, cuts.pop(0))
        reading, hole = _read_band(pictures, ellipse, band, engine, stray=0 if tried else STRAY, thorough=thorough)
        tried += 1
        if hole is not None:  # the gap lies inside this reading: cut there
            cuts = [hole]
            continue
        better = reading is not None and (
            best is None or (reading.score > best.score + LATER_CUT_PENALTY and len(reading.text) >= len(best.text))
        )
        if better:
            best = reading
        if best is not None and best.score >= SURE:
            break
    return best if best is not None and best.score >= MIN_SCORE else None


def _read_band(
    pictures: list[Image], ellipse: Ellipse, band: _Band, engine: OcrEngine, stray: int, *, thorough: bool
) -> tuple[RingReading | None, int | None]:
    """Read one cut of the ring in several ways; stop early when the first ways agree, or when there is nothing to read.

    The second value is the direction in degrees of a wide hole between the characters: then this cut was a wrong one.
    """
    lines: list[TextLine] = []
    reading: RingReading | None = None
    for pad, stretch in ((0.15, 1.0), (0.05, 0.85), (0.28, 1.2)) if thorough else ((0.15, 1.0),):
        for picture in pictures:
            strip = _strip(picture, ellipse, band, pad, stretch)
            lines.append(engine.recognise_crop(strip, _quad_of(strip)))
            if _agree(lines[-2:]):
                return vote(lines), None
        hole = _hole(lines, stray)
        if hole is not None:
            return None, round(math.degrees(band.start + hole * (band.end - band.start))) % 360
        reading = vote(lines)
        if reading is None or reading.score > EARLY_SCORE or reading.score < HOPELESS:
            break
    return reading, None


def _agree(lines: list[TextLine]) -> bool:
    """Two readings in a row that say the same, surely and without a hole: no more are needed."""
    if len(lines) < 2 or lines[0].text != lines[1].text or len(_clean(lines[0])) < MIN_CHARACTERS:
        return False
    return all(line.score > CERTAIN_LINE and len(_runs(line)) == 1 and not _lacks_character(line) for line in lines)


def _hole(lines: list[TextLine], stray: int) -> float | None:
    """Where, in [0, 1] of the strip, most lines leave a space of ``HOLE`` characters with more than ``stray`` beyond it."""
    places = []
    for line in lines:
        x = np.asarray(line.char_x)
        if len(x) < MIN_CHARACTERS + 1:
            continue
        runs = _runs(line)
        small = sorted(len(run) for run in runs)[-2] if len(runs) > 1 else 0
        widest = int(np.diff(x).argmax())
        places.append(float(x[widest : widest + 2].mean()) if small > stray else -1.0)
    holes = [place for place in places if place >= 0]
    return float(np.median(holes)) if len(holes) * 2 > len(places) else None


def _runs(line: TextLine) -> list[range]:
    """Indices of the line's characters, split where the space between two is more than ``HOLE`` characters."""
    if len(line.char_x) < 3:
        return [range(len(line.char_x))]
    step = np.diff(np.asarray(line.char_x))
    ends = [*(int(k) + 1 for k in np.flatnonzero(step > HOLE * np.median(step))), len(line.char_x)]
    return [range(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def vote(lines: list[TextLine]) -> RingReading | None:
    """What most cuts agree on: first how many characters, then each character, weighted by the recogniser's scores."""
    lines = [line for line in lines if len(_clean(line)) >= MIN_CHARACTERS]
    if not lines:
        return None
    readings = [_clean(line) for line in lines]
    gapless = [not _lacks_character(line) for line in lines]
    weight = [
        float(np.mean([score for _, score in reading])) ** 4 * (1.0 if whole else GAP_WEIGHT) * _kept(line, reading)
        for line, reading, whole in zip(lines, readings, gapless, strict=True)
    ]
    texts = ["".join(character for character, _ in reading) for reading in readings]
    support = [sum(w * _likeness(text, other) for w, other in zip(weight, texts, strict=True)) for text in texts]
    pivot = int(np.argmax(support))
    chosen, certainty = [], []
    peers = [k for k, text in enumerate(texts) if len(text) == len(texts[pivot]) and _likeness(text, texts[pivot]) >= 0.5]
    for place in range(len(texts[pivot])):
        votes: dict[str, float] = {}
        scores: dict[str, float] = {}
        for k in peers:
            character, score = readings[k][place]
            votes[character] = votes.get(character, 0.0) + weight[k] * score
            scores[character] = max(scores.get(character, 0.0), score)
        winner = max(votes, key=lambda character: votes[character])
        chosen.append(winner)
        certainty.append(scores[winner] * votes[winner] / sum(votes.values()))
    agreement = support[pivot] / sum(weight)
    score = float(np.mean(certainty)) * (0.4 + 0.4 * min(certainty) + 0.2 * min(1.0, agreement))
    score *= max(_kept(lines[k], readings[k]) for k in peers) * (1.0 if any(gapless[k] for k in peers) else GAP_PENALTY)
    text = "".join(chosen)
    return RingReading(text, round(score, 4), text[-1] in _SUFFIXES)


def _kept(line: TextLine, reading: list[tuple[str, float]]) -> float:
    """Share of the line's Chinese characters that stayed in its reading."""
    return sum(bool(_BEGINS.match(character)) for character, _ in reading) / max(1, len(_BEGINS.findall(line.text)))


def _lacks_character(line: TextLine) -> bool:
    """Ring text is evenly spaced: a double step inside it is a character that black print or a blot has hidden."""
    run = max(_runs(line), key=len)
    step = np.diff(np.asarray(line.char_x)[run.start : run.stop])
    return len(step) >= 3 and bool(step.max() > 1.6 * np.median(step))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _clean(line: TextLine) -> list[tuple[str, float]]:
    """Characters with scores, without what is no part of a name: what stands apart, stars and digits at the ends, spaces."""
    pairs = [(line.text[k], line.char_scores[k]) for k in max(_runs(line), key=len) if not line.text[k].isspace()]
    while pairs and not _BEGINS.match(pairs[0][0]):
        pairs.pop(0)
    while pairs and not _ENDS.match(pairs[-1][0]):
        pairs.pop()
    return pairs


def _cut_out(image: Image, ellipse: Ellipse) -> tuple[Image, Ellipse]:
    """The seal with some paper around it, and its place there."""
    reach = 1.5 * max(ellipse.a, ellipse.b)
    left, top = max(0, math.floor(ellipse.x - reach)), max(0, math.floor(ellipse.y - reach))
    right, bottom = math.ceil(ellipse.x + reach) + 1, math.ceil(ellipse.y + reach) + 1
    patch = image[top:bottom, left:right]
    if patch.size == 0:
        return image[:1, :1], Ellipse(0, 0, 1, 1)
    return patch, Ellipse(ellipse.x - left, ellipse.y - top, ellipse.a, ellipse.b, ellipse.angle)


def _text_band(polar: NDArray[np.float32], cut: int) -> _Band:
    """The text's extent when the ring is cut at ``cut`` degrees; ``polar`` is the ink at (_RHO, degree)."""
    start, end = _arc(polar[20:50].mean(axis=0), cut)
    outer, inner = _radial_extent(polar[:, np.arange(start, end) % 360].mean(axis=1), _RHO)
    return _Band(outer, inner, math.radians(start), math.radians(end))


def _gaps(profile: NDArray[np.float32]) -> list[int]:
    """Degrees at which the ring may be cut: the emptiest arcs, the bottom of the page preferred when in doubt."""
    smooth = _circular_mean(profile, 45)
    degrees = np.arange(360)
    cost = smooth + 0.15 * float(smooth.max()) * (1 - np.cos(np.radians(degrees - 90))) / 2
    gaps: list[int] = []
    for _ in range(3):
        gaps.append(int(np.argmin(cost)))
        away = np.abs((degrees - gaps[-1] + 180) % 360 - 180)
        cost = np.where(away < 50, np.inf, cost)
    return gaps


def _arc(profile: NDArray[np.float32], gap: int) -> tuple[int, int]:
    """First and last degree of the text when the ring is cut at ``gap``."""
    turned = np.roll(_circular_mean(profile, 5), -gap)
    drawn = np.flatnonzero(turned > 0.25 * float(np.quantile(turned, 0.8)))
    if len(drawn) == 0:
        return gap, gap + 360
    return gap + max(0, int(drawn[0]) - MARGIN_DEG), gap + min(360, int(drawn[-1]) + 1 + MARGIN_DEG)


def _circular_mean(values: NDArray[np.float32], width: int) -> NDArray[np.float64]:
    kernel = np.ones(width) / width
    return np.convolve(np.concatenate([values[-(width // 2) :], values, values[: width // 2]]), kernel, mode="valid")


def _radial_extent(profile: NDArray[np.float32], rho: NDArray[np.float64]) -> tuple[float, float]:
    """Outer and inner edge of the text: from the middle of the band outwards until the ink ends (the ring lies beyond)."""
    middle = slice(int(np.searchsorted(rho, 0.66)), int(np.searchsorted(rho, 0.84)))
    level = 0.35 * float(np.median(profile[middle]))
    peak = middle.start + int(profile[middle].argmax())
    outer = next((k for k in range(peak, len(rho)) if profile[k] < level), None)
    if outer is None:
        outer = int(np.searchsorted(rho, 0.84)) + int(profile[int(np.searchsorted(rho, 0.84)) : -3].argmin())
    inner = next((k for k in range(peak, -1, -1) if profile[k] < level), None)
    if inner is None:
        inner = int(profile[: middle.start].argmin())
    return float(np.clip(rho[outer], 0.8, 0.97)), float(np.clip(rho[inner], 0.45, 0.7))


def _pictures(patch: Image, ink: Ink, color: str) -> list[Image]:
    """The seal in several ways: without the black print across it; as it is; by its darkest channel, stretched; its ink alone.

    Red ink is darkest in the green channel. Its colour is blurred by JPEG, so colour decides only where black print stands.
    """
    dark = patch[:, :, 1] if color == "red" else to_gray(patch)
    stretched = _stretched(dark, 2, 90)
    top = max(0.15, float(np.quantile(ink, 0.97)))
    alone = (255 - np.clip(ink / top, 0, 1) * 235).astype(np.uint8)
    if color != "red":
        return [to_rgb(stretched), patch, to_rgb(alone)]
    red = patch[:, :, 0]
    black = cv2.dilate((red < 0.6 * np.percentile(red, 75)).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    cleaned = np.where(black, np.maximum(alone, stretched), stretched)
    return [to_rgb(cleaned), patch, to_rgb(stretched), to_rgb(alone)]


def _stretched(gray: NDArray[np.uint8], low: float, high: float) -> NDArray[np.uint8]:
    dark, light = (float(v) for v in np.percentile(gray, (low, high)))
    spread: NDArray[np.uint8] = np.clip((gray.astype(np.float32) - dark) * (255 / max(20.0, light - dark)), 0, 255).astype(
        np.uint8
    )
    return spread


def _strip(picture: Image, ellipse: Ellipse, band: _Band, pad: float, stretch: float) -> Image:
    """One unrolled strip. ``pad`` is the margin above and below the text in text heights."""
    height = band.outer - band.inner
    outer, inner = min(1.02, band.outer + pad * height), band.inner - pad * height
    length = (band.end - band.start) * (band.outer + band.inner) / 2
    width = max(32, round(TEXT_HEIGHT_PX * length / (outer - inner) * stretch))
    theta = np.linspace(band.start, band.end, width)
    rho = np.linspace(outer, inner, TEXT_HEIGHT_PX)
    strip: Image = _polar(picture, ellipse, theta, rho)
    return strip


def _polar(picture: Any, ellipse: Ellipse, theta: Floats, rho: Floats) -> Any:
    """Sample (len(rho), len(theta)) along the ellipse; outside the page its border is repeated.

    A seal photographed from the side is a squeezed circle: its rays lead to the centre. In a true oval, text keeps its distance
    from the ring: its rays are normals.
    """
    edge = ellipse.points(theta)
    if max(ellipse.a, ellipse.b) > OVAL_RATIO * min(ellipse.a, ellipse.b):
        depth = (1 - rho[:, None]) * min(ellipse.a, ellipse.b)
        normal = _inward(ellipse, edge)
        x, y = edge[:, 0] + depth * normal[:, 0], edge[:, 1] + depth * normal[:, 1]
    else:
        x, y = (c + rho[:, None] * (e - c) for c, e in ((ellipse.x, edge[:, 0]), (ellipse.y, edge[:, 1])))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return cv2.remap(picture, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def _inward(ellipse: Ellipse, edge: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit normals (N, 2) pointing into the ellipse at its edge points."""
    cos, sin = math.cos(ellipse.angle), math.sin(ellipse.angle)
    dx, dy = edge[:, 0] - ellipse.x, edge[:, 1] - ellipse.y
    u, v = (dx * cos + dy * sin) / ellipse.a**2, (dy * cos - dx * sin) / ellipse.b**2
    normal = -np.stack([u * cos - v * sin, u * sin + v * cos], axis=-1)
    unit: NDArray[np.float64] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    return unit


def _quad_of(strip: Image) -> NDArray[np.float32]:
    height, width = strip.shape[:2]
    return np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
