"""What the reader may do when a first look was not enough: read a line again, look closer at a region.

A tool returns *observations* (better or additional lines); it never touches a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.lines import Quad, TextLine, map_points
from certloop.extract.engine.ocr import Image, OcrEngine, crop
from certloop.extract.marks.red_ink import without_red

SURE_WITHOUT_INK = 0.93
PER_CHARACTER = 0.06  # a strip's reading that holds one character more is believed at so much less certainty
LOOK_AGAIN = 1.15  # enlargement of the second detection over the first: other boxes merge and split
BETTER = 0.015  # a second read replaces the first when its score is higher by this much


@dataclass(frozen=True, slots=True)
class Observation:
    """Lines after a tool call, and whether anything changed."""

    lines: tuple[TextLine, ...]
    changed: bool


def reread(
    image: Image, lines: Sequence[TextLine], indices: Sequence[int], engine: OcrEngine, *, inked: bool = False
) -> Observation:
    """Read single lines again, a little wider and, where red ink lies on them, without it; keep the most certain reading of each.

    With ``inked`` (a seal is known to lie there) a sure reading without the ink is believed even when the first was as sure: it
    had read the seal's own characters among the print.
    """
    result = list(lines)
    changed = False
    for index in indices:
        line = lines[index]
        wide = _grown(line.quad, 0.12, 0.12)
        patch = crop(image, wide)
        candidates = [(engine.recognise_crop(patch, wide), 0.85)]
        if _red_share(patch) > 0.01:
            candidates.append((engine.recognise_crop(without_red(patch), wide), 0.4))
        best = line
        for again, least in candidates:
            if len(again.text) < least * len(line.text) - 1:
                continue
            lost = PER_CHARACTER * max(0, len(best.text) - len(again.text)) * (least > 0.5)
            if again.score > best.score + BETTER + lost or (inked and least < 0.5 and again.score > SURE_WITHOUT_INK):
                best = again
        if best is not line:
            result[index], changed = _on_quad(best, line.quad), True
    return Observation(tuple(result), changed)


def _on_quad(line: TextLine, quad: Quad) -> TextLine:
    """A line read on a widened quad, with its characters' places along the original one."""
    length = max(1e-6, float(np.linalg.norm(quad[1] - quad[0])))
    before = (line.length - length) / 2
    places = tuple(min(1.0, max(0.0, (place * line.length - before) / length)) for place in line.char_x)
    return TextLine(quad, line.text, line.score, places, line.char_scores)


def _red_share(patch: Image) -> float:
    """Share of clearly red pixels."""
    wide = patch.astype(np.int16)
    return float((wide[:, :, 0] - np.maximum(wide[:, :, 1], wide[:, :, 2]) > 40).mean())


def read_strip(image: Image, lines: Sequence[TextLine], strip: Quad, engine: OcrEngine, wanted: re.Pattern[str]) -> Observation:
    """Read a whole strip of the page as one line, with and without red ink: a date whose pieces stand far apart under a seal.

    Only a reading in which ``wanted`` is found counts; it replaces the pieces it covers.
    """
    patch = crop(image, strip)
    best: TextLine | None = None
    worth = 0.0
    for variant in (without_red(patch), patch):
        line = engine.recognise_crop(variant, strip)
        found = wanted.search(line.text.replace(" ", ""))
        if found and (best is None or line.score + PER_CHARACTER * len(found.group()) > worth):
            best, worth = line, line.score + PER_CHARACTER * len(found.group())
    if best is None:
        return Observation(tuple(lines), False)
    kept = [rest for line in lines if (rest := _before(line, strip)) is not None]
    return Observation((*kept, best), True)


def _before(line: TextLine, strip: Quad) -> TextLine | None:
    """The line if the strip leaves it alone, what of it stands before the strip, or None where the strip covers it."""
    if _overlap(line.quad, strip) < 0.3:
        return line
    direction = (strip[1] - strip[0]) / max(1e-6, float(np.linalg.norm(strip[1] - strip[0])))
    start, end = line.quad[0], line.quad[1]
    count = sum(1 for place in line.char_x if float((start + (end - start) * place - strip[0]) @ direction) < 0)
    if count < 2:
        return None
    share = (line.char_x[count - 1] + (line.char_x[count] if count < len(line.char_x) else 1.0)) / 2
    quad = np.array(
        [line.quad[0], start + (end - start) * share, line.quad[3] + (line.quad[2] - line.quad[3]) * share, line.quad[3]],
        np.float32,
    )
    places = tuple(p / share for p in line.char_x[:count])
    scores = line.char_scores[:count]
    return TextLine(quad, line.text[:count], float(np.mean(scores)), places, scores)


def _grown(quad: Quad, along: float, across: float) -> Quad:
    """Widen a quad by fractions of its thickness."""
    thickness = float(np.linalg.norm(quad[3] - quad[0]))
    u = (quad[1] - quad[0]) / max(1e-6, float(np.linalg.norm(quad[1] - quad[0])))
    v = (quad[3] - quad[0]) / max(1e-6, thickness)
    du, dv = u * along * thickness, v * across * thickness
    return np.array([quad[0] - du - dv, quad[1] + du - dv, quad[2] + du + dv, quad[3] - du + dv], np.float32)


def zoom(
    image: Image, lines: Sequence[TextLine], region: Quad, engine: OcrEngine, *, em_px: float, red_ink: bool = False
) -> Observation:
    """Detect and read again inside ``region`` ((4, 2) page pixels, upright order), enlarged so that characters are about 34 px.

    With ``red_ink`` the region is seen through the red channel first: print under a stamp comes out.
    """
    width = float(np.linalg.norm(region[1] - region[0]))
    height = float(np.linalg.norm(region[3] - region[0]))
    scale = float(np.clip(34.0 / max(4.0, em_px), 0.5, 3.0))
    scale = min(scale, 1600.0 / max(width, height, 1.0))
    size = (max(32, round(width * scale)), max(32, round(height * scale)))
    corners = np.array([[0, 0], [size[0], 0], [size[0], size[1]], [0, size[1]]], np.float32)
    matrix = cv2.getPerspectiveTransform(np.ascontiguousarray(region, np.float32), corners)
    warped = cv2.warpPerspective(image, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    patch = np.asarray(warped, np.uint8)
    if red_ink:
        patch = without_red(patch)
    inverse: NDArray[np.float64] = np.asarray(np.linalg.inv(matrix), np.float64)
    seen = [line for line in engine.recognise(patch, engine.detect(patch, enlarge=False)) if not _cut_off(line, size)]
    return merge(lines, [TextLine(map_points(s.quad, inverse), s.text, s.score, s.char_x, s.char_scores) for s in seen])


def _cut_off(line: TextLine, size: tuple[int, int]) -> bool:
    """A line that touches the region's side was cut by it: what it says is not what is printed."""
    return line.left < 3 or line.right > size[0] - 3 or line.top < 1 or line.bottom > size[1] - 1


def look_again(image: Image, lines: Sequence[TextLine], engine: OcrEngine) -> Observation:
    """Detect on the whole page a little larger and without red ink, and read only what the first pass did not see."""
    quads = engine.detect(without_red(image), zoom=LOOK_AGAIN)
    fresh = [q for q in quads if all(_overlap(q, line.quad) < 0.4 for line in lines)]
    return merge(lines, engine.recognise(image, fresh))


def merge(lines: Sequence[TextLine], seen: Sequence[TextLine]) -> Observation:
    """Put new lines in the place of the old ones they cover, where they say as much with at least as much certainty."""
    result = list(lines)
    changed = False
    for line in seen:
        covered = [old for old in result if _overlap(old.quad, line.quad) > 0.5]
        said = sum(len(old.text) for old in covered)
        sure = sum(old.score * len(old.text) for old in covered) / said if said else 0.0
        if covered and (len(line.text) < 0.85 * said or line.score < sure + BETTER or _same(covered, line)):
            continue
        gone = set(map(id, covered))
        result = [old for old in result if id(old) not in gone] + [line]
        changed = True
    return Observation(tuple(result), changed)


def _same(covered: Sequence[TextLine], line: TextLine) -> bool:
    return len(covered) == 1 and covered[0].text == line.text


def _overlap(a: Quad, b: Quad) -> float:
    """Shared area of two quads over the smaller one's area."""
    if (
        a[:, 0].max() < b[:, 0].min()
        or b[:, 0].max() < a[:, 0].min()
        or a[:, 1].max() < b[:, 1].min()
        or b[:, 1].max() < a[:, 1].min()
    ):
        return 0.0
    hull_a, hull_b = cv2.convexHull(np.asarray(a, np.float32)), cv2.convexHull(np.asarray(b, np.float32))
    shared, _ = cv2.intersectConvexConvex(hull_a, hull_b)
    return float(shared / max(1.0, min(cv2.contourArea(hull_a), cv2.contourArea(hull_b))))
