"""From stored JSON back to results: what ``Result.to_json`` wrote, read again. Steps and generations are the trajectory's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Polygon, QrCode, Result, Seal
from certloop.validators.outcome import Outcome, Severity, Verdict


def result_from_json(data: Mapping[str, Any]) -> Result:
    """Raises KeyError, TypeError or ValueError for JSON that is no result."""
    return Result(
        file=data["file"],
        status=FileStatus(data["status"]),
        documents=tuple(document_from_json(row) for row in data["documents"]),
        error=data.get("error"),
        warnings=tuple(data.get("warnings", ())),
    )


def document_from_json(data: Mapping[str, Any]) -> Document:
    return Document(
        doc_type=data["doc_type"],
        type_confidence=data["type_confidence"],
        fields={name: field_from_json(row) for name, row in data["fields"].items()},
        title=data["title"],
        type_version=data["type_version"],
        pages=tuple(data["pages"]),
        box=polygon_from_json(data["box"]),
        rotation=data["rotation"],
        copy=data["copy"],
        quality=data["quality"],
        seals=tuple(_seal(row) for row in data["seals"]),
        qr=tuple(_qr(row) for row in data["qr"]),
        validations=tuple(verdict_from_json(row) for row in data["validations"]),
        release=data["release"],
        trajectory_id=data["trajectory_id"],
        missing=tuple(data["missing"]),
    )


def field_from_json(data: Mapping[str, Any]) -> FieldResult:
    return FieldResult(
        label=data["label"],
        value=data["value"],
        normalised=data["normalised"],
        status=FieldStatus(data["status"]),
        confidence=data["confidence"],
        box=polygon_from_json(data["box"]),
        page=data["page"],
        validations=tuple(verdict_from_json(row) for row in data["validations"]),
        suggestion=data.get("suggestion"),
    )


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    return Verdict(
        rule=data["rule"],
        severity=Severity(data["severity"]),
        outcome=Outcome(data["outcome"]),
        message_zh=data["message_zh"],
        message_en=data["message_en"],
        suggestion=data.get("suggestion"),
        fields=tuple(data.get("fields", ())),
    )


def polygon_from_json(points: Any) -> Polygon | None:
    return None if points is None else tuple((float(x), float(y)) for x, y in points)


def _seal(data: Mapping[str, Any]) -> Seal:
    return Seal(
        box=polygon_from_json(data["box"]) or (),
        color=data["color"],
        shape=data["shape"],
        confidence=data["confidence"],
        text=data["text"],
        page=data["page"],
        text_confidence=data["text_confidence"],
    )


def _qr(data: Mapping[str, Any]) -> QrCode:
    return QrCode(data["payload"], polygon_from_json(data["box"]) or (), data["agrees"], data["page"])
