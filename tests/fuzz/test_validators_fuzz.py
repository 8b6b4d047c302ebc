"""Whatever a page or an attacker prints, a rule answers with verdicts: it neither raises nor takes long."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certloop.validators import (
    KINDS,
    Verdict,
    check_document,
    check_dossier,
    find_dates,
    normalise,
    parse_date,
    parse_date_range,
    parse_money,
    passes,
    validate,
)

# characters that the parsers look at, so that random text reaches deep into them
TRICKY = (
    "0123456789OIZSXJYC〇零○一二三四五六七八九十廿卅元年月日号至到止起自-—~./,:()（）¥$万亿千百拾壹贰叁整正角分美"
    "人民币长期永久*★ \u3000\n\t\u200b①²½١"
)
texts = st.one_of(
    st.none(),
    st.text(max_size=60),
    st.text(TRICKY, max_size=60),
    st.text(TRICKY + "药监械经营许食京沪粤交运管许可字军第", max_size=30),
    st.from_regex(r"[0-9]{4}年[0-9]{1,2}月[0-9]{1,2}日?[至-][0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2}", fullmatch=True),
    st.sampled_from(
        ["军字第1234567号", "50至2062年", "9999年12月31日", "****", "无", "\ud800", "\x00", "é" * 5000, "١٢٣٤", "ﷺ" * 4096]
    ),
)
DOC_TYPES = [
    "business_licence", "food_operation_permit", "food_production_permit", "drug_operation_permit", "device_operation_permit",
    "device_production_permit", "bank_account_permit", "road_transport_operation_permit", "road_transport_certificate",
    "id_card", "authorisation_letter", "unknown",
]  # fmt: skip
FIELDS = [
    "credit_code", "registration_no", "name", "operator", "producer", "principal", "principal_code", "person", "established_on",
    "issued_on", "valid_from", "valid_until", "term", "birth", "sex", "id_number", "address", "premises", "residence",
    "registered_address", "permit_no", "approval_no", "mode", "business_form", "agent", "agent_id_number", "signed_on",
]  # fmt: skip
values = st.dictionaries(st.sampled_from(FIELDS), texts, max_size=8)
documents = st.tuples(st.sampled_from(DOC_TYPES), values)


def are_verdicts(verdicts: object) -> bool:
    return isinstance(verdicts, tuple) and all(isinstance(verdict, Verdict) and verdict.to_json() for verdict in verdicts)


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(value=texts)
def test_any_text_gets_verdicts_and_a_normal_form(kind: str, value: str | None) -> None:
    verdicts = validate(kind, value)
    assert are_verdicts(verdicts)
    passes(verdicts)
    normal = normalise(kind, value)
    json.dumps(normal)
    if isinstance(normal, str):  # normalising is idempotent
        assert normalise(kind, normal) in (normal, None)


@given(st.text(TRICKY, max_size=80))
def test_parsers_return_or_decline(text: str) -> None:
    parse_date(text)
    parse_date_range(text)
    parse_money(text)
    for date in find_dates(text):
        assert parse_date(date.iso()) in (date, None if date.precision == "year" else date)


@given(st.sampled_from(DOC_TYPES), values, st.lists(st.one_of(st.text(max_size=80), st.text(TRICKY, max_size=80)), max_size=3))
def test_any_document_gets_verdicts(doc_type: str, document: dict[str, str | None], payloads: list[str]) -> None:
    assert are_verdicts(check_document(doc_type, document, payloads))


@settings(max_examples=50)
@given(st.lists(documents, max_size=4))
def test_any_dossier_gets_verdicts(dossier: list[tuple[str, dict[str, str | None]]]) -> None:
    assert are_verdicts(check_dossier(dossier))


@pytest.mark.parametrize(
    "unit", ["1", "2015-", "2015年 ", "年", "一", "一百", "1,", "万", "(", "至", "*1", "\u0301\u0316", "A字第1"]
)
@pytest.mark.parametrize("size", [4096, 1_000_000])
def test_long_repetitions_are_answered_everywhere(unit: str, size: int) -> None:
    value = (unit * (size // len(unit) + 1))[:size]
    for kind in KINDS:
        assert are_verdicts(validate(kind, value))
        normalise(kind, value)
    parse_date(value)
    parse_date_range(value)
    parse_money(value)
    find_dates(value)
    document = dict.fromkeys(FIELDS, value)
    for doc_type in DOC_TYPES:
        assert are_verdicts(check_document(doc_type, document, [value]))
    assert are_verdicts(
        check_dossier([("business_licence", document), ("authorisation_letter", document), ("id_card", document)])
    )
