"""The label of a finished image: what is printed, what is still readable, where it stands, what was done, which tools it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from certloop.synth.golden import golden_path
from certloop.synth.layout import other_ids
from certloop.synth.perturb import Profile, Treated, treat
from certloop.synth.perturb.state import Pixels
from certloop.synth.render import Page
from certloop.synth.sample import Document, Recipe, draw_document
from certloop.synth.seeds import stream_seed
from certloop.templates import load_types

_SEALED = 0.15


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
        return bytes(data)


def make_sample(recipe: Recipe, profile: Profile, *, document: Document | None = None) -> Sample:
    """Draw a page, treat it, label it. Everything follows from the recipe's seed."""
    document = document or draw_document(recipe)
    page = document.page
    quads, keys = _tracked(page)
    treated = treat(np.asarray(page.image), quads, keys, profile, stream_seed(recipe.seed, "treat"))
    label = _label(recipe, profile, document, treated, keys)
    return Sample(treated.image, label, profile.image_format, treated.jpeg_quality)


def _tracked(page: Page) -> tuple[np.ndarray, list[str]]:
    """Corners of every printed line: values under their field id, everything else under ``-role``; the page comes first."""
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


def _label(recipe: Recipe, profile: Profile, document: Document, treated: Treated, keys: list[str]) -> dict[str, Any]:
    page, layout = document.page, document.page.layout
    other = layout.type_id in other_ids()
    canonical = {} if other else {f.id: f.label for f in load_types(recipe.search_path).get(layout.type_id).fields.values()}
    polygons: dict[str, list[list[list[float]]]] = {}
    for key, quad in zip(keys, treated.quads_N42, strict=True):
        polygons.setdefault(key.split("|")[0], []).append([[round(float(x), 1), round(float(y), 1)] for x, y in quad])
    sealed = _sealed_fields(page)
    fields: dict[str, str | None] = {}
    boxes: dict[str, dict[str, Any]] = {}
    for field_id, value in page.values.items():
        readable = treated.readable.get(field_id, "readable") if value is not None else "blank"
        name = canonical.get(field_id, field_id)
        fields[name] = None if readable == "unreadable" else value
        if field_id in polygons:
            boxes[name] = {
                "field": field_id, "lines": polygons[field_id], "label": page.wordings.get(field_id, ""), "region": page.regions[field_id],
                "readable": readable, "sealed": field_id in sealed,
            }  # fmt: skip
    unreadable = sorted(canonical.get(f, f) for f in page.values if treated.readable.get(f) == "unreadable")
    traps = list(page.traps) + [s["step"] for s in treated.done if s["step"] not in ("jpeg", "tone", "noise", "blur")]
    traps += ["seal_only_authority"] if page.regions.get("authority") == "seal" else []
    traps += ["misprinted_code"] if document.misprinted else []
    return {
        "file": "", "doc_type": layout.title if other else load_types(recipe.search_path).get(layout.type_id).title, "type_id": "" if other else layout.type_id,
        "title": layout.title, "fields": {} if other else fields, "uncertain": [], "absent_fields": [] if other else [v for k, v in canonical.items() if k not in page.values], "traps": sorted(set(traps)),
        "rotate_cw_after_exif": treated.rotate_cw, "layout": layout.id, "seed": recipe.seed, "profile": profile.name,
        "image_size": [treated.image.shape[1], treated.image.shape[0]], "page_polygon": polygons["-page"][0], "boxes": boxes,
        "labels": {canonical.get(k.split(":")[1], k): v for k, v in polygons.items() if k.startswith("-label:")},
        "title_polygon": polygons.get("-title:", []), "seals": [
            {"polygon": p, "text": t} for p, t in zip(polygons.get("-seal:", []), [i.text for i in page.items if i.role == "seal"], strict=True)
        ],
        "qr": [{"polygon": polygons["-qr:"][0], "payload": page.qr_payload}] if "-qr:" in polygons else [],
        "perturbations": treated.done, "misprinted": [canonical.get(f, f) for f in document.misprinted], "unreadable": unreadable,
        "golden_path": golden_path(
            sealed=bool(sealed), qr=bool(page.qr_payload) and "-qr:" in polygons, turned=bool(treated.rotate_cw),
            hard=any(v == "hard" for v in treated.readable.values()),
        ),
    }  # fmt: skip


def _sealed_fields(page: Page) -> set[str]:
    """Fields of which a seal covers a share of a line."""
    seals = [box for item in page.items if item.role == "seal" for box in item.boxes]
    out = set()
    for item in page.items:
        if item.role != "value" or item.region == "seal":
            continue
        for x0, y0, x1, y1 in item.boxes:
            for sx0, sy0, sx1, sy1 in seals:
                shared = max(0.0, min(x1, sx1) - max(x0, sx0)) * max(0.0, min(y1, sy1) - max(y0, sy0))
                if shared > _SEALED * max(1.0, (x1 - x0) * (y1 - y0)):
                    out.add(item.field)
    return out
