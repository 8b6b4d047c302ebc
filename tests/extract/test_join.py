"""Which pages of a file belong to one card."""

from __future__ import annotations

from collections.abc import Sequence

from certloop.extract.join import join_parts
from certloop.extract.result import Document, FieldResult, FieldStatus
from certloop.templates import Registry

FRONT = ("name", "sex", "ethnicity", "birth", "address", "id_number")
BACK = ("authority", "term")


def card(registry: Registry, page: int, shown: Sequence[str], name: str = "") -> Document:
    fields = {
        spec.id: FieldResult(spec.label, f"{spec.id}{name}", status=FieldStatus.READ, confidence=0.9, page=page)
        if spec.id in shown
        else FieldResult(spec.label, None)
        for spec in registry.get("id_card").fields.values()
    }
    return Document("id_card", 0.9, fields, pages=(page,))


def licence(registry: Registry, page: int) -> Document:
    fields = {spec.id: FieldResult(spec.label, None) for spec in registry.get("business_licence").fields.values()}
    return Document("business_licence", 0.9, fields, pages=(page,))


def statuses(document: Document, fields: Sequence[str]) -> set[FieldStatus]:
    return {document.fields[f].status for f in fields}


def test_front_and_back(registry: Registry) -> None:
    (joined,) = join_parts([card(registry, 0, FRONT), card(registry, 1, BACK)], registry)
    assert joined.pages == (0, 1)
    assert statuses(joined, (*FRONT, *BACK)) == {FieldStatus.READ}
    assert {joined.fields["name"].page, joined.fields["term"].page} == {0, 1}


def test_back_and_front(registry: Registry) -> None:
    (joined,) = join_parts([card(registry, 0, BACK), card(registry, 1, FRONT)], registry)
    assert statuses(joined, (*FRONT, *BACK)) == {FieldStatus.READ}


def test_two_persons_are_two_cards(registry: Registry) -> None:
    pages = [card(registry, n, side, who) for n, (side, who) in enumerate([(FRONT, "A"), (BACK, "A"), (FRONT, "B"), (BACK, "B")])]
    joined = join_parts(pages, registry)
    assert [d.pages for d in joined] == [(0, 1), (2, 3)]
    assert [(d.fields["name"].value, d.fields["term"].value) for d in joined] == [("nameA", "termA"), ("nameB", "termB")]


def test_two_fronts_are_two_cards_without_backs(registry: Registry) -> None:
    joined = join_parts([card(registry, 0, FRONT), card(registry, 1, FRONT)], registry)
    assert [statuses(d, BACK) for d in joined] == [{FieldStatus.MISSING_PAGE}] * 2
    assert [statuses(d, FRONT) for d in joined] == [{FieldStatus.READ}] * 2


def test_a_field_that_its_own_side_lacks_is_absent_not_missing(registry: Registry) -> None:
    (joined,) = join_parts([card(registry, 0, tuple(f for f in FRONT if f != "ethnicity"))], registry)
    assert joined.fields["ethnicity"].status is FieldStatus.ABSENT


def test_another_document_between_keeps_sides_apart(registry: Registry) -> None:
    joined = join_parts([card(registry, 0, FRONT), licence(registry, 1), card(registry, 2, BACK)], registry)
    assert [d.doc_type for d in joined] == ["id_card", "business_licence", "id_card"]


def test_types_without_sides_and_unknown_ones_are_left_alone(registry: Registry) -> None:
    documents = [licence(registry, 0), licence(registry, 1), Document("unknown", 0.8, pages=(2,))]
    assert join_parts(documents, registry) == documents
