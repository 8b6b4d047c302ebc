"""Documents that belong together: the two sides of one card, on two pages or twice on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from certloop.extract.answer import missing_fields
from certloop.extract.result import Document, FieldResult, FieldStatus
from certloop.templates import DocumentType, Registry
from certloop.validators import check_document


def join_parts(documents: Sequence[Document], registry: Registry) -> list[Document]:
    """Join neighbouring documents of a type with parts (front, back) that show different parts, then mark missing parts."""
    joined: list[Document] = []
    for document in documents:
        doc_type = registry.types.get(document.doc_type)
        if joined and doc_type and joined[-1].doc_type == document.doc_type and _complementary(joined[-1], document, doc_type):
            joined[-1] = _merge(joined[-1], document)
        else:
            joined.append(document)
    return [_mark_missing(d, registry) for d in joined]


def _parts(document: Document, doc_type: DocumentType) -> set[str]:
    return {
        spec.part for spec in doc_type.fields.values() if spec.part and document.fields[spec.id].status is not FieldStatus.ABSENT
    }


def _complementary(a: Document, b: Document, doc_type: DocumentType) -> bool:
    first, second = _parts(a, doc_type), _parts(b, doc_type)
    return bool(first) and bool(second) and not first & second


def _merge(a: Document, b: Document) -> Document:
    fields = {k: v if v.status is not FieldStatus.ABSENT else b.fields[k] for k, v in a.fields.items()}
    codes = [q.payload for q in (*a.qr, *b.qr)]
    return replace(
        a,
        fields=fields,
        validations=check_document(a.doc_type, {k: v.value for k, v in fields.items()}, codes),
        pages=tuple(sorted({*a.pages, *b.pages})),
        type_confidence=max(a.type_confidence, b.type_confidence),
        seals=(*a.seals, *b.seals),
        qr=(*a.qr, *b.qr),
        quality={k: max(a.quality.get(k, 0.0), b.quality.get(k, 0.0)) for k in {*a.quality, *b.quality}},
        steps=(*a.steps, *b.steps),
        generations=(*a.generations, *b.generations),
    )


def _mark_missing(document: Document, registry: Registry) -> Document:
    """Fields of a part that no page shows are missing_page, not absent."""
    doc_type = registry.types.get(document.doc_type)
    if doc_type is None or not any(spec.part for spec in doc_type.fields.values()):
        return document
    shown = _parts(document, doc_type)
    fields: dict[str, FieldResult] = {}
    for key, value in document.fields.items():
        part = doc_type.fields[key].part
        missing = part is not None and part not in shown and value.status is FieldStatus.ABSENT
        fields[key] = replace(value, status=FieldStatus.MISSING_PAGE) if missing else value
    return replace(document, fields=fields, missing=missing_fields(doc_type, fields))
