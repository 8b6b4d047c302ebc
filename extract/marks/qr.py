"""Decode QR codes and find the codes and names in their payloads."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import parse_qsl, unquote, urlsplit

import cv2
import numpy as np
import zxingcpp

from certloop.extract.marks.pixels import Gray, Image, scaled, spread, to_gray
from certloop.extract.result import Polygon, QrCode

FAST_EDGE_PX = 1600
SMALL_EDGE_PX = 1000
MAX_PAYLOAD = 4096


def read_qr(image: Image) -> list[QrCode]:
    """QR codes on an (H, W, 3) RGB page, polygons in its pixels, clockwise from the code's own top left.

    A reduced page first; the full one, or a small one enlarged, only when that finds nothing but something looks like a code.
    """
    height, width = image.shape[:2]
    if min(height, width) < 16:
        return []
    gray = to_gray(image)
    scale = min(1.0, FAST_EDGE_PX / max(height, width))
    found = _decode(scaled(gray, scale), scale)
    if found:
        return found
    for left, top, right, bottom in code_like_regions(gray):
        region = gray[top:bottom, left:right]
        for factor in (2.0, 1.0, 3.0):
            if factor * max(region.shape) > 1500:
                continue
            hits = _decode(scaled(region, factor), factor, (left, top))
            found += [hit for hit in hits if hit.payload not in {other.payload for other in found}]
            if hits:
                break
    return found


def code_like_regions(gray: Gray, limit: int = 3) -> list[tuple[int, int, int, int]]:
    """``(left, top, right, bottom)`` of square areas of dense black and white change, most dense first."""
    height, width = gray.shape
    scale = min(1.0, 700 / max(height, width))
    small = scaled(gray, scale)
    edges = spread(small, 3)
    side = max(7, round(max(small.shape) * 0.03)) | 1
    dense = (cv2.blur((edges > 60).astype(np.float32), (side, side)) > 0.62).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(dense)
    found: list[tuple[float, tuple[int, int, int, int]]] = []
    for x, y, w, h, area in stats[1:count]:
        if not (0.6 < w / h < 1.7 and min(w, h) >= side * 0.6 and area > 0.5 * w * h):
            continue
        margin = side
        box = (x - margin, y - margin, x + w + margin, y + h + margin)
        left, top, right, bottom = (round(v / scale) for v in box)
        found.append((area, (max(0, left), max(0, top), min(width, right), min(height, bottom))))
    return [box for _, box in sorted(found, reverse=True)[:limit]]


def _decode(gray: Gray, scale: float, origin: tuple[int, int] = (0, 0)) -> list[QrCode]:
    hits = zxingcpp.read_barcodes(
        gray, formats=zxingcpp.BarcodeFormats(zxingcpp.BarcodeFormat.QRCode), try_downscale=min(gray.shape) > 500
    )
    found = []
    for hit in hits:
        payload = hit.text[:MAX_PAYLOAD]
        if not hit.valid or not payload:
            continue
        p = hit.position
        corners = (p.top_left, p.top_right, p.bottom_right, p.bottom_left)
        box: Polygon = tuple(((c.x + 0.5) / scale - 0.5 + origin[0], (c.y + 0.5) / scale - 0.5 + origin[1]) for c in corners)
        found.append(QrCode(payload=payload, box=box))
    return found


# --- payloads -------------------------------------------------------------------------------------------------------------------

_CREDIT_CODE = re.compile(r"(?<![0-9A-Z])[1-9A-HJ-NPQRTUWXY][1-9A-Z][0-9]{6}[0-9A-HJ-NPQRTUWXY]{10}(?![0-9A-Z])")
_REGNO = re.compile(r"(?<![0-9A-Z])[1-9][0-9]{14}(?![0-9A-Z])")
_PERMIT = re.compile(r"(?<![0-9A-Z])(?:JY|SC)[0-9]{14}(?![0-9A-Z])")
_NAME_KEYS = frozenset(
    {"name", "entname", "qymc", "companyname", "企业名称", "名称", "经营者名称", "单位名称", "主体名称", "生产者名称"}
)
_LABELLED = re.compile(r"(企业名称|经营者名称|单位名称|主体名称|生产者名称|名称)\s*[:：]\s*([^\n\r;；,，&|]{2,80})")


def codes_in_payload(payload: str) -> dict[str, str]:
    """What a payload says: ``credit_code``, ``registration_no``, ``permit_no``, ``name``; only what is there.

    Looks into plain text, labelled lines and URLs (path and query, percent-encoding undone). Values are NFKC, as found.
    """
    text = unicodedata.normalize("NFKC", unquote(payload[:MAX_PAYLOAD]))
    found: dict[str, str] = {}
    for key, pattern in (("credit_code", _CREDIT_CODE), ("permit_no", _PERMIT), ("registration_no", _REGNO)):
        match = pattern.search(text.upper())
        if match:
            found[key] = match.group()
    name = _name_in_query(payload) or next((m.group(2).strip() for m in _LABELLED.finditer(text)), None)
    if name:
        found["name"] = name
    return found


def _name_in_query(payload: str) -> str | None:
    try:
        query = urlsplit(payload.strip()).query
    except ValueError:
        return None
    for key, value in parse_qsl(query, max_num_fields=None):
        if key.lower() in _NAME_KEYS and value.strip():
            return unicodedata.normalize("NFKC", value.strip())
    return None
