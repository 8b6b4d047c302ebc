"""From one real scan to a reusable blank form: the reader finds the values, they are erased, their places become a layout.

What comes out is a draft for a person: ``<name>.png`` (the form without its values) and ``<name>.toml`` (where values go). Put
both into ``<folder>/<type>/layouts/`` of a template search path and ``make`` renders into them. A page photographed in
perspective is flattened first where its four corners stand out from the ground; curled paper stays curled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from certloop.synth.errors import SynthError
from certloop.synth.files import write_file
from certloop.synth.perturb.state import Pixels
from certloop.synth.rectify import flatten
from certloop.templates import DocumentType, FieldKind, load_types

if TYPE_CHECKING:
    from certloop.extract import ExtractConfig
    from certloop.extract.engine.lines import TextLine
    from certloop.extract.result import FieldResult

_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
Points = NDArray[np.float64]
_FORM_WORDS = frozenset({"盖章", "公章"})
_NAME = re.compile(r"\w[\w.-]{0,63}")


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
    """The written draft. ``places`` are the erased values, ``missing`` the required fields that the reader did not find,
    ``flattened`` says whether perspective was taken out, ``seals`` how many seals were erased."""

    image: Path
    layout: Path
    places: tuple[Place, ...]
    missing: tuple[str, ...]
    flattened: bool = False
    seals: int = 0


def make_blank(
    scan: Path, type_id: str, out: Path, *, name: str = "", config: ExtractConfig | None = None, force: bool = False
) -> Blank:
    """Turn ``scan`` into a blank of ``type_id`` in folder ``out``. ``force`` takes the scan for that type whatever it looks like.

    Raises UnknownTypeError, BlankError (code blank_failed) when the scan cannot be read, is recognised as another type or holds
    no value, or ``name`` is no plain file name, and OutputError (code output_failed).
    """
    from certloop.extract.config import ExtractConfig as Config

    if name and not _NAME.fullmatch(name):
        raise BlankError("the name of a blank has up to 64 letters, digits, '-', '_' and '.', and begins with a letter or digit")
    config = config or Config()
    doc_type = load_types(config.template_path).get(type_id)
    read = _read(scan, doc_type, config, force=force)
    filled = {k: f for k, f in read.fields.items() if f.box and f.value and doc_type.fields[k].kind is not FieldKind.ENUM}
    if not filled:
        raise BlankError(f"no value was found on {scan.name}; is it a filled {type_id}?")
    found = {"value": [np.array(f.box, np.float64) for f in filled.values()], **read.marks}
    image, found = _upright(read.image, found, read.turn)
    every = [_place(k, polygon, str(f.value)) for (k, f), polygon in zip(filled.items(), found["value"], strict=True)]
    usual = float(np.median([place.height for place in every]))
    places = tuple(
        replace(p, height=usual) if 0.7 * usual < p.height < 1.4 * usual else p for p in every if p.height < 2.5 * usual
    )
    found["value"] = [polygon for place, polygon in zip(every, found["value"], strict=True) if place.height < 2.5 * usual]
    stem = name or re.sub(r"[^\w.-]+", "_", f"blank_{scan.stem}")[:64]
    picture, layout = out / f"{stem}.png", out / f"{stem}.toml"
    write_file(picture, bytes(cv2.imencode(".png", cv2.cvtColor(erase(image, found), cv2.COLOR_RGB2BGR))[1]))
    text = _layout_text(doc_type, picture.name, (image.shape[1], image.shape[0]), places, found)
    write_file(layout, text.encode())
    missing = tuple(f for f in doc_type.required if f not in filled)
    seals = len(found["seal"]) + len(found["black_seal"])
    return Blank(picture, layout, places, missing, read.flattened, seals)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The flattened page as it was read: ``marks`` are polygons by kind, ``turn`` the degrees clockwise that make it upright."""

    image: Pixels
    fields: Mapping[str, FieldResult]
    marks: dict[str, list[Points]]
    turn: int
    flattened: bool


def _read(scan: Path, doc_type: DocumentType, config: ExtractConfig, *, force: bool) -> _Reading:
    """Flatten and read ``scan``. Raises BlankError when it holds no document of the type, or (unless ``force``) of another."""
    from certloop.extract import Extractor
    from certloop.extract.ingest import IngestError, ingest

    try:
        pages = ingest(scan, config.limits).pages
    except IngestError as error:
        raise BlankError(f"{scan.name} cannot be read as {doc_type.id}: {error.message}") from None
    image, flattened = flatten(np.ascontiguousarray(pages[0].image))
    with Extractor(config) as extractor:
        result = extractor.read(_png(image), name=scan.name, doc_type=doc_type.id)
        document = next(iter(result.documents), None)
        if document is None:
            detail = (result.error or {}).get("message", "nothing was read")
            raise BlankError(f"{scan.name} cannot be read as {doc_type.id}: {detail}")
    if not force and (other := _other_type(document.seen, doc_type, config)):
        raise BlankError(
            f"{scan.name} looks like {other.id} ({other.title}), not like {doc_type.id}: as a blank of that it would keep what "
            f"the reader does not look for, a name or a portrait; say --type {other.id}, or --force if you know better"
        )
    marks = {
        "seal": [np.array(s.box, np.float64) for s in document.seals if s.color == "red"],
        "black_seal": [np.array(s.box, np.float64) for s in document.seals if s.color != "red"],
        "kept": _printed_words(image, doc_type) if document.seals else [],
        "qr": [np.array(code.box, np.float64) for code in document.qr],
    }
    return _Reading(image, document.fields, marks, round(document.rotation / 90) * 90 % 360, flattened)


def _other_type(lines: Sequence[TextLine], doc_type: DocumentType, config: ExtractConfig) -> DocumentType | None:
    """The known type that the page is recognised as, if that is another than ``doc_type``, with no title in common."""
    from certloop.extract.classify import classify
    from certloop.extract.reading.glyphs import rows_of, runs_of

    registry = load_types(config.template_path)
    other = registry.types.get(classify(rows_of(runs_of(lines)), registry).type_id)
    if other is None or other.id == doc_type.id or set(other.titles) & set(doc_type.titles):
        return None
    return other


def _printed_words(image: Pixels, doc_type: DocumentType) -> list[Points]:
    """Where the form's own words stand: labels and titles, which a seal over them must not take with it."""
    from certloop.extract.engine.ocr import OcrEngine

    words = {w for f in doc_type.fields.values() for w in f.labels} | {*doc_type.titles, *_FORM_WORDS}
    pattern = re.compile("|".join(r"\s*".join(map(re.escape, w)) for w in sorted(words, key=len, reverse=True) if len(w) > 1))
    places = []
    for line in OcrEngine().read(image):
        if len(line.char_x) != len(line.text):
            continue
        places += [line_part(line.quad, line.char_x, m.start(), m.end()) for m in pattern.finditer(line.text)]
    return places


def line_part(quad: NDArray[np.floating], char_x: tuple[float, ...], start: int, end: int) -> Points:
    """The stretch of a line's box that holds the characters ``start`` to ``end``; ``char_x`` are their centres in [0, 1]."""
    half = 0.5 / max(1, len(char_x))
    if end - start > 1:
        half = 0.5 * (char_x[end - 1] - char_x[start]) / (end - start - 1)
    low, high = max(0.0, char_x[start] - half), min(1.0, char_x[end - 1] + half)
    a, b, c, d = np.asarray(quad, np.float64)
    return np.array([a + (b - a) * low, a + (b - a) * high, d + (c - d) * high, d + (c - d) * low])


def _png(image: Pixels) -> bytes:
    return bytes(cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1])


def erase(image: Pixels, found: Mapping[str, list[Points]]) -> Pixels:
    """Remove the ink inside ``value`` polygons, QR codes, the red ink of ``seal`` polygons and all ink of ``black_seal`` ones;
    of the form's own words (``kept``) only what is plainly red goes. Paper and border stay."""
    shape = image.shape[:2]
    mask, kept = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    for polygon in found.get("kept", ()):
        cv2.fillPoly(kept, [polygon.astype(np.int32)], (255,))
    for polygon in found["value"]:
        mask |= _ink(grey, polygon, grow=0.25)
    for polygon in found.get("black_seal", ()):
        mask |= _ink(grey, polygon, grow=0.1, round_=True)
    mask[kept > 0] = 0
    red = np.asarray(image[..., 0], np.int16) - np.maximum(image[..., 1], image[..., 2])
    for polygon in found["seal"]:
        area = _filled(shape, polygon, 0.08)
        mask |= np.where((red > np.where(kept > 0, 45, 12)) & (area > 0), 255, 0).astype(np.uint8)
    mask = np.where(kept > 0, mask, cv2.dilate(mask, np.ones((5, 5), np.uint8))).astype(np.uint8)
    clean = np.asarray(cv2.inpaint(image, mask, 4, cv2.INPAINT_TELEA), np.uint8)
    for polygon in found["qr"]:
        inside = _filled(shape, polygon, 0.06)
        around = cv2.dilate(inside, np.ones((31, 31), np.uint8)) > inside
        clean[inside > 0] = np.percentile(clean[around], 60, axis=0).astype(np.uint8)
    return clean


def _ink(grey: Pixels, polygon: Points, grow: float, *, round_: bool = False) -> Pixels:
    """Pixels of ``polygon`` (``round_``: of the ellipse in it) that are darker than its paper."""
    area = _filled(grey.shape[:2], polygon, grow, round_=round_)
    inside = grey[area > 0]
    if inside.size == 0:
        return area
    paper = float(np.percentile(inside, 80))
    return np.where((area > 0) & (grey < paper - 14), 255, 0).astype(np.uint8)


def _filled(shape: tuple[int, ...], polygon: Points, grow: float, *, round_: bool = False) -> Pixels:
    x0, y0 = polygon.min(axis=0)
    x1, y1 = polygon.max(axis=0)
    pad = grow * min(x1 - x0, y1 - y0, 60)
    area = np.zeros(shape[:2], np.uint8)
    if round_:
        centre, axes = (int((x0 + x1) / 2), int((y0 + y1) / 2)), (int((x1 - x0) / 2 + pad), int((y1 - y0) / 2 + pad))
        cv2.ellipse(area, centre, axes, 0, 0, 360, (255,), -1)
        return area
    cv2.rectangle(area, (int(x0 - pad), int(y0 - pad)), (int(x1 + pad), int(y1 + pad)), (255,), -1)
    return area


def _upright(image: Pixels, found: dict[str, list[Points]], degrees: int) -> tuple[Pixels, dict[str, list[Points]]]:
    """Turn by quarter turns clockwise, polygons with it."""
    if not degrees:
        return image, found
    h, w = image.shape[:2]

    def moved(points: Points) -> Points:
        x, y = points[:, 0], points[:, 1]
        return np.stack({90: (h - y, x), 180: (w - x, h - y), 270: (y, w - x)}[degrees], axis=-1)

    turned = np.asarray(cv2.rotate(image, _TURNS[degrees]), np.uint8)
    return turned, {kind: [moved(p) for p in polygons] for kind, polygons in found.items()}


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
    doc_type: DocumentType, picture: str, size_px: tuple[int, int], places: tuple[Place, ...], found: dict[str, list[Points]]
) -> str:
    width, height = size_px
    unit = 1000 / width
    longest = 120
    rows, styles = [], ['label = { font = "hei", size = 16 }']
    for place in places:
        line_height = place.height * unit
        size = line_height * 0.81
        name = f"value_{place.field}"
        styles.append(f'{name} = {{ font = "song", size = {size:.1f}, weight = 0.012, leading = {line_height / size:.2f} }}')
        to_the_right = [p.x - place.x for p in places if p.x > place.x + 20 and abs(p.y - place.y) < 1.5 * place.height]
        free = min([*(gap * unit * 0.8 for gap in to_the_right), 940 - place.x * unit])
        room = max(place.width * unit * 1.1, min(free, 420.0))
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
    ring = 'text = "{authority}", field = "authority", shift = 8'
    if "authority" not in doc_type.fields:
        ring = 'text = "", shift = 8'
    kinds = (("seal", "seal", ring), ("black_seal", "seal", f'colour = "black", {ring}'), ("qr", "qr", "shift = 0"))
    for key, kind, rest in kinds:
        for polygon in found[key]:
            x, y = polygon.mean(axis=0) * unit
            marks.append(f'  {{ kind = "{kind}", at = [{x:.0f}, {y:.0f}], size = {np.ptp(polygon[:, 0]) * unit:.0f}, {rest} }},')
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
