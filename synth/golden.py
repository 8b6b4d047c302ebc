"""The golden tool path of an image (METHODS.md section 1.3): which tools a careful reader would use, known because we made the
image."""

from __future__ import annotations


def golden_path(*, sealed: bool, qr: bool, turned: bool = False, hard: bool = False) -> list[str]:
    """Tools in order: a clean image needs ocr, validate, emit_json; a seal over a value or a hard value adds a zoom and a
    second ocr; a QR code adds qr_decode; a turned page is rotated first."""
    path = ["rotate"] if turned else []
    path.append("ocr")
    if sealed or hard:
        path += ["zoom", "ocr"]
    if qr:
        path.append("qr_decode")
    return [*path, "validate", "emit_json"]
