"""Quality flags of a page, each a confidence in [0, 1]; only those above ``MIN_CONFIDENCE`` are listed.

Every flag rests on one plain measure with a documented ramp (``_ramp``: 0 below the first number, 1 above the second):

=================  ==================================================================================  ====================
flag               measure                                                                             ramp
=================  ==================================================================================  ====================
blur               width of the letters' edges in em (median over lines; low resolution counts)         0.13 .. 0.28
glare              share of the page burnt out (>= 250) in spots, its paper being grey                   0.004 .. 0.04
border_incomplete  text lines cut by the image's edge                                                  0 .. 3 lines
copy               the page says 复印件, or has no colour at all (mean chroma)                          3.5 .. 1.5
recapture          parts of the page with an oblique fine grid (moire of a photographed screen)        0.2 .. 0.6
screenshot         plain bands above and below on a phone's aspect, a clock in the first line           counted, see code
watermark          lines that stand askew to all others, or that limit the use (仅供 .. 使用)            counted, see code
occlusion          covers found by `certloop.extract.marks.occlusion`                                   0 .. 2 covers
electronic         the page says 电子证照, or its paper has one exact tone that is not burnt white      0.45 .. 0.75
=================  ==================================================================================  ====================
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import cv2
import numpy as np

from certloop.extract.engine.lines import TextLine
from certloop.extract.engine.ocr import crop
from certloop.extract.marks.occlusion import MaskedRegions, masked_regions
from certloop.extract.marks.pixels import Image, reduced, to_gray
from certloop.extract.result import Polygon

MIN_CONFIDENCE = 0.3
WORK_EDGE_PX = 640
LINE_TO_EM = 0.78
_COPY = re.compile(r"复印件|影印件|与原件(?:一致|相符)")
_LIMITED_USE = re.compile(r"仅供.{0,30}|仅用于.{0,30}|(?:他用|再次复印|复印)无效|水印")
_ELECTRONIC = re.compile(r"电子营业执照|电子证照|电子许可证|电子证书")
_CLOCK = re.compile(r"(?<!\d)(?:[01]?\d|2[0-3])[:：][0-5]\d(?!\d)")


def quality_flags(
    image: Image, lines: Sequence[TextLine], *, masked: MaskedRegions | None = None, ignore: Sequence[Polygon] = ()
) -> dict[str, float]:
    """Flags of an (H, W, 3) RGB page with the text lines read on it. ``masked`` are its covers if they are known already;
    otherwise they are looked for, outside the seals and QR codes given as ``ignore``."""
    if min(image.shape[:2]) < 32:
        return {}
    small, _ = reduced(image, WORK_EDGE_PX)
    em = LINE_TO_EM * float(np.median([line.thickness for line in lines])) if lines else 0.0
    if masked is None and em:
        masked = masked_regions(image, em, ignore)
    text = [re.sub(r"\s+", "", line.text) for line in lines]
    flags = {
        "blur": _ramp(_edge_width(image, lines), 0.13, 0.28),
        "glare": _glare(small),
        "border_incomplete": _ramp(_cut_lines(image, lines), 0, 3),
        "copy": 0.95 if any(map(_COPY.search, text)) else _ramp(-_chroma(small), -3.5, -1.5) * 0.8,
        "recapture": _ramp(_screen_grid(image), 0.2, 0.6),
        "screenshot": _screenshot(small, lines),
        "watermark": _watermark(lines, text),
        "occlusion": _ramp(len(masked.covers), 0, 2) if masked else 0.0,
        "electronic": 0.9 if any(map(_ELECTRONIC.search, text)) else _ramp(_one_tone(image), 0.45, 0.75) * 0.7,
    }
    return {name: round(value, 4) for name, value in flags.items() if value > MIN_CONFIDENCE}


def _ramp(value: float, low: float, high: float) -> float:
    return float(np.clip((value - low) / (high - low), 0, 1))


def _edge_width(image: Image, lines: Sequence[TextLine]) -> float:
    """Width of the letters' edges in em: a sharp edge climbs its whole contrast within two pixels, a blurred one slowly."""
    upright = [line for line in lines if len(line.text) >= 4]
    widths = []
    for line in upright[:: max(1, len(upright) // 12)]:
        gray = to_gray(crop(image, line.quad)).astype(np.float32)
        low, high = np.percentile(gray, (3, 90))
        if high - low < 25 or gray.shape[1] < 8:
            continue
        steepest = np.percentile(np.abs(np.diff(gray, axis=1)), 98)
        widths.append((high - low) / max(float(steepest), 1.0) / (LINE_TO_EM * gray.shape[0]))
    return float(np.median(widths)) if len(widths) >= 3 else 0.0


def _glare(small: Image) -> float:
    gray = cv2.blur(to_gray(small), (5, 5))
    if np.percentile(gray, 60) > 232:  # a scan's white paper is no glare
        return 0.0
    _, _, stats, _ = cv2.connectedComponentsWithStats((gray >= 250).astype(np.uint8))
    height, width = gray.shape
    inside = sum(
        int(area)
        for x, y, w, h, area in stats[1:]
        if x > 0 and y > 0 and x + w < width and y + h < height and area < 0.95 * w * h  # neither a margin nor a plain rectangle
    )
    return _ramp(inside / gray.size, 0.004, 0.04)


def _cut_lines(image: Image, lines: Sequence[TextLine]) -> int:
    """Lines whose box ends at the image's edge; a box of text that is wholly inside keeps a margin."""
    height, width = image.shape[:2]
    slack = max(1.5, 0.002 * max(height, width))
    return sum(
        len(line.text.strip()) >= 2
        and (line.left <= slack or line.top <= slack or line.right >= width - slack or line.bottom >= height - slack)
        for line in lines
    )


def _chroma(small: Image) -> float:
    """Mean of the largest channel difference over the 10 % most colourful pixels."""
    spread = small.max(axis=2).astype(np.int16) - small.min(axis=2)
    return float(np.mean(np.partition(spread.ravel(), -spread.size // 10)[-(spread.size // 10) :]))


def _screen_grid(image: Image) -> float:
    """Share of five patches whose spectrum has sharp oblique peaks above a fifth of the sampling rate."""
    side = 192
    height, width = image.shape[:2]
    if min(height, width) < 2 * side:
        return 0.0
    hits = 0
    places = ((0.25, 0.25), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (0.75, 0.75))
    window = np.outer(np.hanning(side), np.hanning(side)).astype(np.float32)
    fy, fx = np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij")
    wanted = (np.hypot(fx, fy) > 0.2) & (np.abs(fx) > 0.03) & (np.abs(fy) > 0.03)
    for v, u in places:
        top, left = round(v * height - side / 2), round(u * width - side / 2)
        gray = to_gray(image[top : top + side, left : left + side]).astype(np.float32)
        power = np.abs(np.fft.rfft2((gray - gray.mean()) * window))
        level = float(np.median(power[wanted])) + 1e-3
        peak = power[wanted].max()
        hits += bool(peak > 30 * level and peak > 0.02 * power.max() and (power[wanted] > 0.3 * peak).sum() < 40)
    return hits / len(places)


def _screenshot(small: Image, lines: Sequence[TextLine]) -> float:
    """A third for plain bands above and below on a long page, two thirds for a clock among the topmost words."""
    height, width = small.shape[:2]
    gray = to_gray(small)
    plain = gray.max(axis=1).astype(int) - gray.min(axis=1) <= 6
    bands = float(plain[: height // 4].mean()) > 0.1 and float(plain[-height // 4 :].mean()) > 0.1
    top = min((line.top for line in lines), default=0.0)
    clock = any(_CLOCK.search(line.text) for line in lines if line.top < top + 2 * line.thickness)
    return 0.3 * (bands and 1.6 < height / width < 2.5) + 0.6 * (clock and height > 1.2 * width)


def _watermark(lines: Sequence[TextLine], text: Sequence[str]) -> float:
    limited = any(map(_LIMITED_USE.search, text))
    angles = [math.degrees(math.atan2(*(line.quad[1] - line.quad[0])[::-1])) for line in lines]
    long = [(angle, line) for angle, line in zip(angles, lines, strict=True) if line.length > 3 * line.thickness]
    if len(long) >= 4:
        usual = float(np.median([angle for angle, _ in long]))
        askew = sum(12 < abs((angle - usual + 90) % 180 - 90) < 78 for angle, _ in long)
    else:
        askew = 0
    return min(1.0, 0.6 * limited + 0.35 * min(askew, 2))


def _one_tone(image: Image) -> float:
    """Share of pixels with exactly the commonest tone of each channel, if that is paper and not merely burnt white."""
    sample = image[:: max(1, image.shape[0] // 400), :: max(1, image.shape[1] // 400)]
    modes = [int(np.bincount(sample[:, :, c].ravel(), minlength=256).argmax()) for c in range(3)]
    if min(modes) >= 254 or max(modes) < 150:
        return 0.0
    return float((np.abs(sample.astype(np.int16) - np.array(modes)) <= 1).all(axis=2).mean())
