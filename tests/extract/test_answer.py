"""From a reading to the answer: printed values stay printed, rules judge them, and statuses say what was there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from layout_lines import at, form, layout_of, rows

from certloop.extract.answer import answer_documents
from certloop.extract.classify import classify
from certloop.extract.engine.lines import TextLine
from certloop.extract.episode import DocumentReading
from certloop.extract.ingest import Page
from certloop.extract.reading.orient import find_upright
from certloop.extract.result import Document, FieldStatus, QrCode
from certloop.extract.surroundings import Surroundings
from certloop.templates import load_types

GOOD_CODE = "91350100M000100Y43"  # GB 32100-2015, the standard's own example
BASICS = (("名    称", "示例市样本贸易有限公司"), ("类    型", "有限责任公司"), ("法定代表人", "王小明"))


def answer(lines: Sequence[TextLine], type_id: str = "business_licence", *, scale: float = 1.0, payload: str = "") -> Document:
    """The document that an upright 1600 x 1200 page gives."""
    registry = load_types()
    found = classify(rows(lines), registry, doc_type=type_id)
    upright = find_upright(lines, 1600, 1200)
    reading = DocumentReading(registry.get(type_id), found, layout_of(lines, type_id), upright, list(lines))
    page = Page(np.full((1200, 1600, 3), 255, np.uint8), 0, round(1600 / scale), round(1200 / scale), scale, "png")
    codes = (QrCode(payload, ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))),) if payload else ()
    (document,) = answer_documents(page, [reading], Surroundings((), codes, {}, None))
    return document


def test_a_code_that_holds() -> None:
    field = answer(form(("统一社会信用代码", GOOD_CODE), *BASICS)).fields["credit_code"]
    assert (field.value, field.normalised, field.status) == (GOOD_CODE, GOOD_CODE, FieldStatus.READ)
    assert field.validations
    assert all(v.passed for v in field.validations if v.severity == "hard")
    assert field.confidence >= 0.97


@pytest.mark.parametrize("code", [GOOD_CODE[:17], GOOD_CODE[:17] + "4", GOOD_CODE.replace("0", "O")])
def test_a_code_that_fails_stays_as_printed(code: str) -> None:
    field = answer(form(("统一社会信用代码", code), *BASICS)).fields["credit_code"]
    assert field.value == code
    assert any(v.failed and v.severity == "hard" for v in field.validations)
    assert field.confidence <= 0.5


def test_a_value_is_normalised_beside_the_print() -> None:
    page = form(*BASICS, ("注册资本", "壹佰万元整"), ("成立日期", "二〇一九年三月五日"))
    fields = answer(page).fields
    assert (fields["established_on"].value, fields["established_on"].normalised) == ("二〇一九年三月五日", "2019-03-05")
    assert fields["registered_capital"].value == "壹佰万元整"
    assert "1000000" in str(fields["registered_capital"].normalised)


def test_statuses() -> None:
    page = form(*BASICS, ("注册资本", ""), ("统一社会信用代码", "XXXXXXXXXXXXXXXXXX"))
    fields = answer(page).fields
    assert fields["name"].status is FieldStatus.READ
    assert fields["registered_capital"].status is FieldStatus.BLANK, "printed label, nothing beside it"
    assert fields["scope"].status is FieldStatus.ABSENT, "this form has no such field"
    assert (fields["credit_code"].status, fields["credit_code"].value) == (FieldStatus.UNREADABLE, None), "masked"
    for field in ("registered_capital", "credit_code"):
        assert fields[field].box is not None
        assert fields[field].page == 0
    assert fields["scope"].box is None


def test_boxes_are_in_pixels_of_the_page_as_it_was_given() -> None:
    """The page was read at half its size."""
    field = answer([at(100, 200, "名称："), at(300, 200, "示例市样本贸易有限公司")], scale=0.5).fields["name"]
    box = np.asarray(field.box)
    assert box[:, 0].min() == pytest.approx(600, abs=10)
    assert box[:, 0].max() == pytest.approx(600 + 11 * 60, abs=10)
    assert box[:, 1].mean() == pytest.approx(400, abs=5)


@pytest.mark.parametrize(("printed", "agrees"), [(GOOD_CODE, True), (GOOD_CODE[:17] + "4", False)])
def test_a_qr_code_is_compared_with_the_print(printed: str, agrees: bool) -> None:
    page = form(("统一社会信用代码", printed), *BASICS)
    document = answer(page, payload=f"http://www.example.cn/info?uniscid={GOOD_CODE}")
    assert [q.agrees for q in document.qr] == [agrees]
    assert document.fields["credit_code"].value == printed


def test_a_qr_code_that_names_no_code_says_nothing() -> None:
    document = answer(form(("统一社会信用代码", GOOD_CODE), *BASICS), payload="hello")
    assert [q.agrees for q in document.qr] == [None]


def test_an_unsure_reading_is_less_confident() -> None:
    sure = answer([at(100, 200, "名称："), at(300, 200, "示例市样本贸易有限公司", score=0.99)])
    unsure = answer([at(100, 200, "名称："), at(300, 200, "示例市样本贸易有限公司", score=0.6)])
    assert unsure.fields["name"].confidence < sure.fields["name"].confidence
