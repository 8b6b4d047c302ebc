"""The label of a finished image: what is printed, what is still readable, where it stands, what was done, which tools it asks
for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from certloop.synth.golden import golden_path
from certloop.synth.layout import other_ids
from certloop.synth.perturb import Profile, Treated, treat
from certloop.synth.perturb.state import Pixels, Points
from certloop.synth.render import Page
from certloop.synth.sample import Document, Recipe, draw_document
from certloop.synth.seeds import stream_seed
from certloop.templates import load_types

SEALED_SHARE = 0.15  # a seal that covers more of a line's box than this makes the field a sealed one
_NO_TRAPS = ("jpeg", "tone", "noise", "blur", "place", "turn", "uneven_light")
Polygon = list[list[float]]
Polygons = Mapping[str, list[Polygon]]


@dataclass(slots=True)
class Sample:
    """A finished image (RGB) and its label; ``encoded`` gives the bytes of the file."""

    image: Pixels
    label: dict[str, Any]
    image_format: str
    jpeg_quality: int | None

    @property
    def suffix(self) -> str:
        return "png" if self.image_format == "png" else "jpg"

    def encoded(self) -> bytes:
        """The file's bytes (PNG, or JPEG of the treatment's quality)."""
        bgr = cv2.cvtColor(self.image, cv2.COLOR_RGB2BGR)
        if self.image_format == "png":
            done, data = cv2.imencode(".png", bgr, [cv2.IMWRITE_PNG_COMPRESSION, 4])
        else:
            done, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, self.jpeg_quality or 90])
        assert done
        return data.tobytes()


def make_sample(recipe: Recipe, profile: Profile, *, document: Document | None = None) -> Sample:
    """Draw a page, treat it, label it. Everything follows from the recipe's seed."""
    document = document or draw_document(recipe)
    quads, keys = _tracked(document.page)
    treated = treat(np.asarray(document.page.image), quads, keys, profile, stream_seed(recipe.seed, "treat"))
    polygons: dict[str, list[Polygon]] = {}
    for key, quad in zip(keys, treated.quads, strict=True):
        polygons.setdefault(key.split("|")[0], []).append([[round(float(x), 1), round(float(y), 1)] for x, y in quad])
    label = (
        _truth(recipe, document, treated, polygons)
        | _marks(document.page, polygons)
        | _history(recipe, profile, document, treated)
    )
    return Sample(treated.image, label, profile.image_format, treated.jpeg_quality)


def _tracked(page: Page) -> tuple[Points, list[str]]:
    """Corners of every printed line: values under their field id, everything else under ``-role:``; the page comes first."""
    w, h = page.image.size
    quads, keys = [_corners((0, 0, w, h))], ["-page"]
    for item in page.items:
        key = item.field if item.role == "value" else f"-{item.role}:{item.field}"
        for line, box in enumerate(item.boxes):
            quads.append(_corners(box))
            keys.append(f"{key}|{line}")
    return np.array(quads, np.float64), keys


def _corners(box: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    x0, y0, x1, y1 = box
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def _truth(recipe: Recipe, document: Document, treated: Treated, polygons: Polygons) -> dict[str, Any]:
    """Type and fields, in the format of a labels file, with a box for each value."""
    page, layout = document.page, document.page.layout
    if layout.type_id in other_ids():
        return {
            "file": "",
            "doc_type": layout.title,
            "type_id": "",
            "title": layout.title,
            "fields": {},
            "uncertain": [],
            "absent_fields": [],
            "boxes": {},
            "labels": {},
            "unreadable": [],
            "misprinted": [],
            "sealed": [],
        }
    doc_type = load_types(recipe.search_path).get(layout.type_id)
    canonical = {f.id: f.label for f in doc_type.fields.values()}
    sealed = _sealed_fields(page)
    fields: dict[str, str | None] = {}
    boxes: dict[str, dict[str, Any]] = {}
    for field_id, value in page.values.items():
        readable = treated.readable.get(field_id, "readable") if value is not None else "blank"
        fields[canonical[field_id]] = None if readable == "unreadable" else value
        if field_id in polygons:
            boxes[canonical[field_id]] = {
                "field": field_id,
                "lines": polygons[field_id],
                "label": page.wordings.get(field_id, ""),
                "region": page.regions[field_id],
                "readable": readable,
                "sealed": field_id in sealed,
            }
    return {
        "file": "",
        "doc_type": doc_type.title,
        "type_id": doc_type.id,
        "title": layout.title,
        "fields": fields,
        "uncertain": [],
        "absent_fields": [label for field_id, label in canonical.items() if field_id not in page.values],
        "boxes": boxes,
        "labels": {canonical[k.removeprefix("-label:")]: v for k, v in polygons.items() if k.startswith("-label:")},
        "unreadable": sorted(canonical[f] for f in page.values if treated.readable.get(f) == "unreadable"),
        "misprinted": [canonical[f] for f in document.misprinted if f in page.values],
        "sealed": sorted(canonical[f] for f in sealed),
    }


def _marks(page: Page, polygons: Polygons) -> dict[str, Any]:
    """Where the page, its title, seals, signatures and QR code stand."""
    seals = [item.text for item in page.items if item.role == "seal"]
    return {
        "page_polygon": polygons["-page"][0],
        "title_polygon": polygons.get("-title:", []),
        "seals": [{"polygon": p, "text": t} for p, t in zip(polygons.get("-seal:", []), seals, strict=True)],
        "signatures": polygons.get("-signature:", []),
        "qr": [{"polygon": polygons["-qr:"][0], "payload": page.qr_payload}] if "-qr:" in polygons else [],
    }


def _history(recipe: Recipe, profile: Profile, document: Document, treated: Treated) -> dict[str, Any]:
    """How the image came to be, what makes it hard, and the tools a careful reader would use."""
    page = document.page
    traps = {*page.traps, *(step["step"] for step in treated.done if step["step"] not in _NO_TRAPS)}
    if treated.rotate_cw:
        traps.add("rotated")
    if page.regions.get("authority") == "seal":
        traps.add("seal_only_authority")
    if document.misprinted:
        traps.add("misprinted_code")
    turned = bool(treated.rotate_cw)
    hard = any(verdict == "hard" for key, verdict in treated.readable.items() if not key.startswith("-"))
    return {
        "traps": sorted(traps),
        "rotate_cw_after_exif": treated.rotate_cw,
        "layout": page.layout.id,
        "profile": profile.name,
        "seed": recipe.seed,
        "image_size": [treated.image.shape[1], treated.image.shape[0]],
        "perturbations": treated.done,
        "writer_fallback": document.writer_fallback,
        "golden_path": golden_path(sealed=bool(_sealed_fields(page)), qr=bool(page.qr_payload), turned=turned, hard=hard),
    }


def _sealed_fields(page: Page) -> set[str]:
    """Fields of which a seal covers a share of a line."""
    seals = [box for item in page.items if item.role == "seal" for box in item.boxes]
    values = [(item.field, box) for item in page.items if item.role == "value" and item.region != "seal" for box in item.boxes]
    return {field_id for field_id, box in values if any(_shared(box, seal) > SEALED_SHARE for seal in seals)}


def _shared(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> float:
    """The share of ``box`` that lies in ``other``."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(0.0, width) * max(0.0, height) / max(1.0, (box[2] - box[0]) * (box[3] - box[1]))
