"""Reads back what ``certloop extract --format jsonl`` printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from certloop.extract.evaluation.errors import ResultsError
from certloop.extract.evaluation.jsonlines import read_objects
from certloop.extract.result import Document, FieldResult, FieldStatus, FileStatus, Polygon, Result
from certloop.validators.outcome import Outcome, Severity, Verdict


def read_results(path: Path | str) -> tuple[Result, ...]:
    """Read one Result a line: fields, boxes, confidences and verdicts of each document (seals and QR codes are left out).

    Raises ResultsError (code results_invalid) naming the line that is wrong.
    """
    results = []
    for where, data in read_objects(path, ResultsError):
        try:
            results.append(_result(data))
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            # Only the key is named: the text of a ValueError could hold what was read from a document.
            what = f"key {cause} is missing" if isinstance(cause, KeyError) else f"{type(cause).__name__} in a value"
            raise ResultsError(f"{where}: not a line of certloop extract --format jsonl ({what})") from None
    return tuple(results)


def _result(data: Mapping[str, Any]) -> Result:
    return Result(
        file=_str(data["file"]),
        status=FileStatus(data["status"]),
        documents=tuple(_document(d) for d in data["documents"]),
        error=data.get("error"),
        warnings=tuple(data.get("warnings") or ()),
    )


def _document(data: Mapping[str, Any]) -> Document:
    return Document(
        doc_type=_str(data.get("doc_type") or "unknown"),
        type_confidence=_unit(data.get("type_confidence", 0.0)),
        fields={key: _field(key, value) for key, value in (data.get("fields") or {}).items() if value is not None},
        title=data.get("title"),
        type_version=data.get("type_version"),
        pages=tuple(int(p) for p in data.get("pages") or (0,)),
        box=_polygon(data.get("box")),
        rotation=float(data.get("rotation") or 0.0),
        copy=data.get("copy"),
        quality={k: float(v) for k, v in (data.get("quality") or {}).items()},
        validations=tuple(_verdict(v) for v in data.get("validations") or ()),
        release=_str(data.get("release") or "embedded"),
        trajectory_id=data.get("trajectory_id"),
    )


def _field(field_id: str, data: Mapping[str, Any]) -> FieldResult:
    value = data.get("value")
    default = FieldStatus.ABSENT if value is None else FieldStatus.READ
    return FieldResult(
        label=_str(data.get("label") or field_id),
        value=None if value is None else _str(value),
        normalised=data.get("normalised"),
        status=FieldStatus(data.get("status") or default),
        confidence=_unit(data.get("confidence") or 0.0),
        box=_polygon(data.get("box")),
        page=None if data.get("page") is None else int(data["page"]),
        validations=tuple(_verdict(v) for v in data.get("validations") or ()),
        suggestion=data.get("suggestion"),
    )


def _verdict(data: Mapping[str, Any]) -> Verdict:
    return Verdict(
        rule=_str(data["rule"]),
        severity=Severity(data["severity"]),
        outcome=Outcome(data["outcome"]),
        message_zh=_str(data["message_zh"]),
        message_en=_str(data["message_en"]),
        suggestion=data.get("suggestion"),
        fields=tuple(data.get("fields") or ()),
    )


def _polygon(data: Any) -> Polygon | None:
    return None if data is None else tuple((float(x), float(y)) for x, y in data)


def _unit(value: Any) -> float:
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError("a confidence must lie in [0, 1]")
    return number


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value
