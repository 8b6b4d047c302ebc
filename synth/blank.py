"""From one real scan to a reusable blank form: the reader finds the values, they are erased, their places become a layout.

What comes out is a draft for a person: ``<name>.png`` (the form without its values) and ``<name>.toml`` (where values go). Put
both into
``<folder>/<type>/layouts/`` of a template search path and ``make`` renders into them. The scan should be flat and complete; a
page photographed in perspective stays in perspective.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.synth.errors import SynthError
from certloop.synth.perturb.state import Pixels
from certloop.templates import DocumentType, FieldKind, load_types

if TYPE_CHECKING:
    from certloop.extract import ExtractConfig
    from certloop.extract.result import Document

_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
Points = NDArray[np.float64]


class BlankError(SynthError, ValueError):
    """A scan that cannot become a blank: not readable as that type, or no value found on it."""

    code = "blank_failed"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stood: left end, middle of the first line, width, line height (pixels) and the number of lines."""

    field: str
    x: float
    y: float
    width: float
    height: float
    lines: int


@dataclass(frozen=True, slots=True)
class Blank:
    """The written draft. ``places`` are the erased values, ``missing`` the required fields that the reader did not find."""

    image: Path
    layout: Path
    places: tuple[Place, ...]
    missing: tuple[str, ...]


def make_blank(scan: Path, type_id: str, out: Path, *, name: str = "", config: ExtractConfig | None = None) -> Blank:
    """Turn ``scan`` into a blank of ``type_id`` in folder ``out``.

    Raises UnknownTypeError, and BlankError (code blank_failed) when the scan cannot be read or holds no value.
    """
    from certloop.extract import Extractor
    from certloop.extract.config import ExtractConfig as Config
    from certloop.extract.ingest import ingest

    config = config or Config()
    registry = load_types(config.template_path)
    doc_type = registry.get(type_id)
    with Extractor(config) as extractor:
        result = extractor.read(scan, doc_type=type_id)
    document = next(iter(result.documents), None)
    if document is None:
        detail = (result.error or {}).get("message", "nothing was read")
        raise BlankError(f"{scan.name} cannot be read as {type_id}: {detail}")
    page = ingest(scan, config.limits).pages[document.pages[0]]
    places_px = {k: np.array(f.box, np.float64) for k, f in document.fields.items() if f.box and f.value}
    if not places_px:
        raise BlankError(f"no value was found on {scan.name}; is it a filled {type_id}?")
    image, polygons, seals = _upright(_as_given(page.image), places_px, document)
    places = tuple(_place(key, polygon, str(document.fields[key].value)) for key, polygon in sorted(polygons.items()))
    stem = name or f"blank_{scan.stem}"
    out.mkdir(parents=True, exist_ok=True)
    picture, layout = out / f"{stem}.png", out / f"{stem}.toml"
    cv2.imwrite(str(picture), cv2.cvtColor(erase(image, [*polygons.values()], seals), cv2.COLOR_RGB2BGR))
    layout.write_text(_layout_text(doc_type, picture.name, (image.shape[1], image.shape[0]), places, seals), encoding="utf-8")
    return Blank(picture, layout, places, tuple(f for f in doc_type.required if f not in polygons))


def erase(image: Pixels, values: list[Points], seals: list[Points]) -> Pixels:
    """Remove the ink inside ``values`` and the red or dark ink of ``seals``; paper, watermark and border stay."""
    mask = np.zeros(image.shape[:2], np.uint8)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    for polygon in values:
        mask |= _ink(grey, polygon, grow=0.25)
    red = np.asarray(image[..., 0], np.int16) - np.maximum(image[..., 1], image[..., 2])
    for polygon in seals:
        area = _filled(image.shape[:2], polygon, 0.08)
        mask |= np.where((red > 28) & (area > 0), 255, 0).astype(np.uint8)
    mask = np.asarray(cv2.dilate(mask, np.ones((5, 5), np.uint8)), np.uint8)
    return np.asarray(cv2.inpaint(image, mask, 4, cv2.INPAINT_TELEA), np.uint8)


def _ink(grey: NDArray[np.generic], polygon: Points, grow: float) -> Pixels:
    """Pixels of ``polygon`` that are darker than its paper."""
    area = _filled(grey.shape[:2], polygon, grow)
    inside = np.asarray(grey)[area > 0]
    if inside.size == 0:
        return area
    paper = float(np.percentile(inside, 80))
    return np.where((area > 0) & (np.asarray(grey) < paper - 14), 255, 0).astype(np.uint8)


def _filled(shape: tuple[int, ...], polygon: Points, grow: float) -> Pixels:
    x0, y0 = polygon.min(axis=0)
    x1, y1 = polygon.max(axis=0)
    pad = grow * min(x1 - x0, y1 - y0, 60)
    area = np.zeros(shape[:2], np.uint8)
    cv2.rectangle(area, (int(x0 - pad), int(y0 - pad)), (int(x1 + pad), int(y1 + pad)), (255,), -1)
    return area


def _as_given(image: NDArray[np.uint8]) -> Pixels:
    return np.ascontiguousarray(image)


def _upright(image: Pixels, polygons: dict[str, Points], document: Document) -> tuple[Pixels, dict[str, Points], list[Points]]:
    """Turn by the quarter turns that the reader found."""
    seals = [np.array(s.box, np.float64) for s in document.seals]
    degrees = round(document.rotation / 90) * 90 % 360
    if not degrees:
        return image, polygons, seals
    h, w = image.shape[:2]

    def moved(points: Points) -> Points:
        x, y = points[:, 0], points[:, 1]
        return np.stack({90: (h - y, x), 180: (w - x, h - y), 270: (y, w - x)}[degrees], axis=-1)

    return (
        np.asarray(cv2.rotate(image, _TURNS[degrees]), np.uint8),
        {k: moved(p) for k, p in polygons.items()},
        [moved(s) for s in seals],
    )


def _place(field_id: str, polygon: Points, value: str) -> Place:
    """Guess line height and count from the box and the number of characters (an em a character, half for Latin)."""
    x0, y0 = polygon.min(axis=0)
    x1, y1 = polygon.max(axis=0)
    ems = sum(1.0 if ord(c) > 0x2E7F else 0.55 for c in value)
    lines = 1
    while lines < 20 and ems / lines * ((y1 - y0) / lines / 1.25) > (x1 - x0) * 1.15:
        lines += 1
    pitch = (y1 - y0) / lines
    return Place(field_id, float(x0), float(y0 + pitch / 2), float(x1 - x0), float(pitch), lines)


def _layout_text(
    doc_type: DocumentType, picture: str, width: int, height: int, places: tuple[Place, ...], seals: list[Points]
) -> str:
    unit = 1000 / width
    longest = 120
    rows, styles = [], ['label = { font = "hei", size = 16 }']
    for place in places:
        line_height = place.height * unit
        size = line_height * 0.81
        name = f"value_{place.field}"
        styles.append(f'{name} = {{ font = "song", size = {size:.1f}, weight = 0.012, leading = {line_height / size:.2f} }}')
        room = min(max(place.width * unit * 1.15, size * 8 if place.lines == 1 else 0), 985 - place.x * unit)
        lines = place.lines + 1
        if doc_type.fields[place.field].kind is FieldKind.LONG_TEXT:
            lines = place.lines + 3
            longest = max(40, int(room / size * lines * 0.8))
        at = f"[{place.x * unit:.0f}, {place.y * unit:.0f}]"
        rows.append(
            f'  {{ field = "{place.field}", at = {at}, value = {at}, labels = [""], width = {room:.0f}, '
            f'lines = {lines}, value_style = "{name}" }},'
        )
    marks = []
    for seal in seals:
        x, y = seal.mean(axis=0) * unit
        across = np.ptp(seal[:, 0]) * unit
        marks.append(f'  {{ kind = "seal", at = [{x:.0f}, {y:.0f}], size = {across:.0f}, text = "{{authority}}", shift = 8 }},')
    head = f"""\
# A draft made from a scan by `certloop synth blank`. Check every row against the picture: places, widths, lines, firms, years.
# A date whose 年 月 日 are printed on the form belongs into `dates`, not into `rows`.
title = "{doc_type.title}"
height = {height * unit:.0f}
background = "{picture}"
value_fonts = ["song", "kai"]
longest_scope = {longest}
jitter = 1.0"""
    return "\n".join([head, "rows = [", *rows, "]", *(["marks = [", *marks, "]"] if marks else []), "[styles]", *styles, ""])
