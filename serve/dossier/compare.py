"""Audit mode: what the supplier declared against what is printed, field by field, with the place to look at."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from certloop.extract.evaluation.normalise import same_value
from certloop.extract.result import Document, FieldResult, FieldStatus, Polygon, polygon_to_json
from certloop.serve.errors import RequestError
from certloop.templates import DocumentType, FieldKind, FieldSpec
from certloop.validators import normalise

MAX_DECLARED_CHARS = 16384


class Match(StrEnum):
    MATCH = "match"
    DIFFERS = "differs"
    NOT_READABLE = "not_readable"


class Cause(StrEnum):
    """Why the answer is what it is."""

    SAME_PRINT = "same_print"
    SAME_MEANING = "same_meaning"
    OTHER_VALUE = "other_value"
    PRINTED_BLANK = "printed_blank"
    NOT_ON_FORM = "not_on_form"
    UNREADABLE = "unreadable"
    MISSING_PAGE = "missing_page"


SENTENCES: Mapping[Cause, tuple[str, str]] = {
    Cause.SAME_PRINT: ("与印刷内容一致。", "As printed."),
    Cause.SAME_MEANING: ("写法不同，含义一致。", "Written differently, the same value."),
    Cause.OTHER_VALUE: ("印刷的是另一个值。", "Another value is printed."),
    Cause.PRINTED_BLANK: ("证照上该项为空。", "The certificate leaves this field blank."),
    Cause.NOT_ON_FORM: ("未在证照上找到该项。", "This field was not found on the certificate."),
    Cause.UNREADABLE: ("该项被遮挡或无法辨认。", "This field is covered or cannot be read."),
    Cause.MISSING_PAGE: ("缺少载有该项的页面。", "The page that holds this field is missing."),
}
_WITHOUT_VALUE = {
    FieldStatus.BLANK: (Match.DIFFERS, Cause.PRINTED_BLANK),
    FieldStatus.ABSENT: (Match.NOT_READABLE, Cause.NOT_ON_FORM),
    FieldStatus.UNREADABLE: (Match.NOT_READABLE, Cause.UNREADABLE),
    FieldStatus.MISSING_PAGE: (Match.NOT_READABLE, Cause.MISSING_PAGE),
    FieldStatus.READ: (Match.NOT_READABLE, Cause.UNREADABLE),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One declared field against the print. ``printed`` and ``declared`` are personal data: never log them."""

    field: str
    label: str
    match: Match
    cause: Cause
    declared: str
    printed: str | None
    box: Polygon | None
    page: int | None
    confidence: float

    def to_json(self) -> dict[str, Any]:
        zh, en = SENTENCES[self.cause]
        return {
            "field": self.field,
            "label": self.label,
            "match": self.match.value,
            "reason": self.cause.value,
            "declared": self.declared,
            "printed": self.printed,
            "box": polygon_to_json(self.box),
            "page": self.page,
            "confidence": round(self.confidence, 4),
            "message_zh": zh,
            "message_en": en,
        }


def compare(expected: Mapping[str, str], certificate: Document, doc_type: DocumentType | None) -> tuple[Comparison, ...]:
    """Compare declared values (by field id or any printed label of the field) with one certificate, in the order of the form.

    A certificate of unknown type answers not_readable for everything. Raises RequestError for a field that the type does not have
    (check with :func:`check_expected` before accepting a job), or one declared twice.
    """
    if doc_type is None:
        return tuple(
            Comparison(name, name, Match.NOT_READABLE, Cause.NOT_ON_FORM, value, None, None, None, 0.0)
            for name, value in expected.items()
        )
    declared = check_expected(expected, doc_type)
    empty = FieldResult("", None)
    return tuple(
        _compare(spec, declared[spec.id], certificate.fields.get(spec.id, empty))
        for spec in doc_type.fields.values()
        if spec.id in declared
    )


def check_expected(expected: Mapping[str, Any], doc_type: DocumentType) -> dict[str, str]:
    """Declared values by field id. Raises RequestError that names what is wrong, never a value."""
    by_label = doc_type.canonical_labels()
    by_canonical = {spec.label: spec.id for spec in doc_type.fields.values()}
    out: dict[str, str] = {}
    for name, value in expected.items():
        key = name if name in doc_type.fields else by_canonical.get(by_label.get(_squashed(name), ""))
        if key is None:
            known = ", ".join(doc_type.fields)
            raise RequestError(f"{doc_type.id} has no field of that name; declare some of: {known}", [_at(name, "unknown field")])
        if not isinstance(value, str) or not value.strip() or len(value) > MAX_DECLARED_CHARS:
            raise RequestError("a declared value must be a text that is not empty", [_at(key, "not a text, empty or too long")])
        if any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in value):
            raise RequestError("a declared value holds printable characters only", [_at(key, "a control character")])
        if key in out:
            raise RequestError("a field is declared twice", [_at(key, "declared twice")])
        out[key] = value
    return out


def same(spec: FieldSpec, declared: str, printed: str) -> Cause:
    """SAME_PRINT, SAME_MEANING (equal after normalising: another form of a date or amount, width or case of a code) or
    OTHER_VALUE."""
    if same_value(spec.label, declared, printed, kind=spec.kind.value):
        return Cause.SAME_PRINT
    if spec.kind in (FieldKind.TEXT, FieldKind.LONG_TEXT, FieldKind.ENUM):
        return Cause.OTHER_VALUE
    kind = spec.validator_kinds[0]
    a, b = normalise(kind, declared), normalise(kind, printed)
    return Cause.SAME_MEANING if a is not None and a == b else Cause.OTHER_VALUE


def _compare(spec: FieldSpec, declared: str, read: FieldResult) -> Comparison:
    if read.value is None:
        match, cause = _WITHOUT_VALUE[read.status]
    else:
        cause = same(spec, declared, read.value)
        match = Match.DIFFERS if cause is Cause.OTHER_VALUE else Match.MATCH
    return Comparison(spec.id, spec.label, match, cause, declared, read.value, read.box, read.page, read.confidence)


def _squashed(name: str) -> str:
    from certloop.templates import squash

    return squash(name)


def _at(name: str, message: str) -> dict[str, Any]:
    return {"loc": ["expected", name[:64]], "message": message}
