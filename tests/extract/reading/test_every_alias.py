"""Re-worded within its aliases, a form reads equally well: every label of every type, on a plain form of that type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from layout_lines import EM, at, read_page, width_of

from certloop.extract.engine.lines import TextLine
from certloop.templates import DocumentType, FieldKind, FieldSpec, load_types

BY_KIND = {
    FieldKind.TEXT: "示例样本",
    FieldKind.LONG_TEXT: "日用百货销售、办公用品销售",
    FieldKind.USCC: "91350100M000100Y43",
    FieldKind.REGNO15: "350100100000001",
    FieldKind.ID_NUMBER: "350102199001011234",
    FieldKind.DATE: "2019年03月05日",
    FieldKind.DATE_RANGE: "2019年03月05日至2039年03月04日",
    FieldKind.MONEY: "壹佰万元整",
    FieldKind.LICENCE_NO: "示A20190305001",
    FieldKind.DIGITS: "350100010000",
}
BY_FIELD = {
    "authority": "示例市市场监督管理局",
    "name": "示例市样本贸易有限公司",
    "operator": "示例市样本贸易有限公司",
    "principal": "示例市样本贸易有限公司",
    "person": "王小明",
    "agent": "李小红",
}
SHAPED = {  # fields whose type says what the value looks like
    ("road_transport_certificate", "certificate_no"): "示交运管货字350100000001号",
    ("road_transport_operation_permit", "permit_no"): "示交运管许可货字350100000001号",
}


def value_of(doc_type: DocumentType, spec: FieldSpec) -> str:
    if spec.kind is FieldKind.ENUM:
        return spec.values[0]
    return SHAPED.get((doc_type.id, spec.id)) or BY_FIELD.get(spec.id) or BY_KIND[spec.kind]


def page_of(doc_type: DocumentType, field: str, label: str, arrangement: str, *, misread: str = "") -> list[TextLine]:
    """The title, the field in question under ``label``, and three others under their usual labels, so that it is a form.

    Values stand behind a colon, in a column behind the longest label (labels as they are, or spread to its width), or below.
    """
    others = [s for s in doc_type.fields.values() if s.id != field and s.kind is not FieldKind.ENUM and _apart(s, label)]
    usual = [(spec, spec.label) for spec in sorted(others, key=lambda s: not s.required)[:3]]
    entries = [*usual[:2], (doc_type.fields[field], misread or label), *usual[2:]]
    widest = max(width_of(printed) for _, printed in entries)
    pitch = 150 if arrangement == "below" else 70
    page = [at(400, 90, doc_type.title, 66)]
    for number, (spec, printed) in enumerate(entries):
        y, value = 200 + pitch * number, value_of(doc_type, spec)
        if arrangement == "colon":
            page.append(at(100, y, f"{printed}：{value}"))
        elif arrangement == "below":
            page += [at(100, y, printed), at(110, y + 50, value)]
        else:
            spacing = (widest - width_of(printed)) / EM / max(1, len(printed) - 1) if arrangement == "spread" else 0.0
            page += [at(100, y, printed, spacing=spacing), at(100 + widest + 2 * EM, y, value)]
    return page


def _apart(spec: FieldSpec, label: str) -> bool:
    """Two fields that one printed label may name do not stand on one form; neither do a range's two halves."""
    return label not in spec.labels and spec.range_of is None


def every_label() -> Iterator[Any]:
    for doc_type in load_types():
        for spec in doc_type.fields.values():
            for label in () if spec.id == "copy" else spec.labels:
                yield pytest.param(doc_type, spec, label, id=f"{doc_type.id}-{spec.id}-{label}")


@pytest.mark.parametrize("arrangement", ["colon", "column", "spread", "below"])
@pytest.mark.parametrize(("doc_type", "spec", "label"), list(every_label()))
def test_a_label_in_any_wording(doc_type: DocumentType, spec: FieldSpec, label: str, arrangement: str) -> None:
    arrangement = arrangement if doc_type.form else "colon"  # in a letter only a colon makes a label
    found = read_page(page_of(doc_type, spec.id, label, arrangement), doc_type.id)
    assert found.get(spec.id) == value_of(doc_type, spec)


@pytest.mark.parametrize("doc_type", [t for t in load_types() if t.form], ids=lambda t: t.id)
def test_a_label_with_a_misread_character_inside(doc_type: DocumentType) -> None:
    lost = []
    for spec in doc_type.fields.values():
        for label in spec.labels if spec.id != "copy" else ():
            middle = len(label) // 2
            page = page_of(doc_type, spec.id, label, "column", misread=f"{label[:middle]}囗{label[middle + 1 :]}")
            if len(label) >= 4 and read_page(page, doc_type.id).get(spec.id) != value_of(doc_type, spec):
                lost.append(label)
    assert lost == []
