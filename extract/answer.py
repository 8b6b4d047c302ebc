"""From readings to the result contract: values normalised and validated, boxes in the user's pixels, honest statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from certloop.extract.classify import UNKNOWN
from certloop.extract.confidence import confidence_of
from certloop.extract.episode import DocumentReading
from certloop.extract.ingest import Page
from certloop.extract.marks.qr import codes_in_payload
from certloop.extract.result import Document, FieldResult, FieldStatus, Polygon, QrCode, Seal
from certloop.extract.surroundings import Surroundings
from certloop.templates import DocumentType, FieldSpec
from certloop.validators import check_document, normalise, validate


def answer_documents(page: Page, readings: Sequence[DocumentReading], around: Surroundings) -> list[Document]:
    """One ``Document`` per reading of the page; seals and QR codes go to the document on whose ground they stand."""
    return [_answer(page, reading, around, index, len(readings)) for index, reading in enumerate(readings)]


def _answer(page: Page, reading: DocumentReading, around: Surroundings, index: int, count: int) -> Document:
    area = None if count == 1 else _extent([line.quad for line in reading.lines])
    seals = tuple(_to_user_seal(s, page) for s in around.seals if _inside(s.box, area))
    codes = [q for q in around.qr if _inside(q.box, area)]
    box = None if area is None else to_user(_corners(area), page)
    if reading.doc_type is None or reading.layout is None:
        return Document(
            UNKNOWN, reading.found.confidence, pages=(page.index,), box=box, rotation=reading.upright.degrees, seals=seals,
            qr=tuple(_to_user_qr(q, page, None) for q in codes), quality=around.quality, steps=_steps(reading),
        )  # fmt: skip
    doc_type = reading.doc_type
    fields = {spec.id: _field(spec, reading, page) for spec in doc_type.fields.values()}
    values = {key: f.value for key, f in fields.items()}
    verdicts = check_document(doc_type.id, values, [q.payload for q in codes])
    mark = fields.get("copy")
    return Document(
        doc_type.id,
        reading.found.confidence,
        fields,
        title=reading.found.title.text if reading.found.title else None,
        type_version=doc_type.version,
        pages=(page.index,),
        box=box,
        rotation=reading.upright.degrees,
        copy=mark.value if mark else None,
        quality=around.quality,
        seals=seals,
        qr=tuple(_to_user_qr(q, page, qr_agrees(q, values)) for q in codes),
        validations=verdicts,
        missing=missing_fields(doc_type, fields),
        steps=_steps(reading),
        seen=tuple(reading.upright.lines(reading.lines)),
    )


def missing_fields(doc_type: DocumentType, fields: Mapping[str, FieldResult]) -> tuple[str, ...]:
    """Required fields without a value; of a group of which one is enough, the first, when all are without."""
    groups = [(name,) for name in doc_type.required] + list(doc_type.one_of)
    return tuple(group[0] for group in groups if all(fields[name].value is None for name in group))


def _field(spec: FieldSpec, reading: DocumentReading, page: Page) -> FieldResult:
    layout = reading.layout
    assert layout is not None
    draft = layout.drafts.get(spec.id)
    if draft is None:
        return _without_value(spec, reading, page)
    where = to_user(reading.upright.back(draft.quad), page) if draft.quad is not None else None
    if draft.masked:
        return FieldResult(spec.label, None, status=FieldStatus.UNREADABLE, box=where, page=page.index)
    verdicts = tuple(v for kind in spec.validator_kinds for v in validate(kind, draft.text))
    return FieldResult(
        spec.label,
        draft.text,
        normalised=normalise(_kind_for_normalising(spec), draft.text),
        status=FieldStatus.READ,
        confidence=confidence_of(draft, verdicts, spec),
        box=where,
        page=page.index,
        validations=verdicts,
        suggestion=next((v.suggestion for v in verdicts if v.suggestion), None),
    )


def _kind_for_normalising(spec: FieldSpec) -> str:
    return spec.validator_kinds[0]


def _without_value(spec: FieldSpec, reading: DocumentReading, page: Page) -> FieldResult:
    """A printed label without a value is blank; neither label nor value is absent."""
    layout = reading.layout
    cell = layout.cells.get(spec.id) if layout else None
    if cell is None:
        return FieldResult(spec.label, None, status=FieldStatus.ABSENT)
    status = FieldStatus.UNREADABLE if spec.id in reading.covered else FieldStatus.BLANK
    label = cell.label
    quad = np.array(
        [
            [label.left, label.y - label.em],
            [label.right, label.y - label.em],
            [label.right, label.y + label.em],
            [label.left, label.y + label.em],
        ]
    )
    return FieldResult(spec.label, None, status=status, box=to_user(reading.upright.back(quad), page), page=page.index)


def qr_agrees(code: QrCode, values: Mapping[str, str | None]) -> bool | None:
    """Whether the numbers in a QR code's payload are those printed; None where there is nothing to compare."""
    inside = codes_in_payload(code.payload)
    number, printed = inside.get("credit_code"), values.get("credit_code")
    return None if not number or not printed else number.upper() == printed.upper().replace(" ", "")


def _steps(reading: DocumentReading) -> tuple[Mapping[str, object], ...]:
    return tuple(step.to_json() for step in reading.steps)


def to_user(points: NDArray[np.floating], page: Page) -> Polygon:
    return tuple((float(x) / page.scale, float(y) / page.scale) for x, y in points)


def _to_user_seal(seal: Seal, page: Page) -> Seal:
    return replace(seal, box=to_user(np.asarray(seal.box), page), page=page.index)


def _to_user_qr(code: QrCode, page: Page, agrees: bool | None) -> QrCode:
    return replace(code, box=to_user(np.asarray(code.box), page), agrees=agrees, page=page.index)


def _extent(quads: Sequence[NDArray[np.float32]]) -> tuple[float, float, float, float]:
    points = np.concatenate(list(quads))
    left, top = points.min(axis=0)
    right, bottom = points.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def _corners(area: tuple[float, float, float, float]) -> NDArray[np.float32]:
    left, top, right, bottom = area
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def _inside(polygon: Polygon, area: tuple[float, float, float, float] | None) -> bool:
    if area is None:
        return True
    x, y = np.asarray(polygon).mean(axis=0)
    return bool(area[0] <= x <= area[2] and area[1] <= y <= area[3])
