"""Rules between the fields of one document and between its print and its QR codes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from certloop.validators import Outcome, Severity, Verdict, check_document

P, F, NA = Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE
CODE = "91350100M000100Y43"
LICENCE: dict[str, str | None] = {
    "credit_code": CODE,
    "name": "福州某某科技有限公司",
    "established_on": "2015年06月01日",
    "term": "2015年06月01日至2035年05月31日",
    "address": "福建省福州市某路1号",
    "issued_on": "2016年01月05日",
}
FOOD: dict[str, str | None] = {
    "credit_code": "11010519491231002X",
    "premises": "北京市某区某街1号",
    "business_form": "食品销售经营者",
    "permit_no": "JY11108071215650",
    "issued_on": "2019年06月01日",
    "valid_until": "2024年05月31日",
}
ID_CARD: dict[str, str | None] = {
    "id_number": "11010519491231002X",
    "sex": "女",
    "birth": "1949年12月31日",
    "term": "2015.06.01-长期",
}


def outcome(doc_type: str, values: dict[str, str | None], rule: str, qr: Sequence[str] = ()) -> Outcome:
    """The rule's outcome; of several verdicts of one rule, the worst."""
    found = [verdict.outcome for verdict in check_document(doc_type, values, qr) if verdict.rule == rule]
    assert found, f"{rule} gave no verdict"
    return next(kind for kind in (F, P, NA) if kind in found)


def failures(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [verdict.rule for verdict in verdicts if verdict.failed]


@pytest.mark.parametrize(
    ("doc_type", "values"), [("business_licence", LICENCE), ("food_operation_permit", FOOD), ("id_card", ID_CARD)]
)
def test_consistent_documents_have_no_failure(doc_type: str, values: dict[str, str | None]) -> None:
    verdicts = check_document(doc_type, values)
    assert failures(verdicts) == []
    assert all(verdict.fields for verdict in verdicts)
    assert {verdict.severity for verdict in verdicts} == {Severity.SOFT}


def test_an_empty_document_and_an_unknown_type_crash_nothing() -> None:
    assert failures(check_document("business_licence", {})) == ["business_licence.number_present"]
    assert failures(check_document("id_card", {"id_number": None, "birth": ""})) == []
    assert check_document("passport", {"name": "x"}) == ()


def test_licence_needs_a_credit_code_or_a_registration_number() -> None:
    rule = "business_licence.number_present"
    assert outcome("business_licence", LICENCE | {"credit_code": "****"}, rule) is F
    assert outcome("business_licence", {"registration_no": "110108000000016"}, rule) is P


def test_credit_code_region_against_the_address() -> None:
    rule = "region_matches_address"
    assert outcome("business_licence", LICENCE, rule) is P
    assert outcome("business_licence", LICENCE | {"address": "广东省深圳市某路1号"}, rule) is F
    assert outcome("business_licence", LICENCE | {"address": "深圳市南山区某路1号"}, rule) is F
    assert outcome("business_licence", LICENCE | {"address": "厦门市某区某路1号"}, rule) is P
    assert outcome("business_licence", LICENCE | {"address": "某路1号"}, rule) is NA
    assert outcome("business_licence", LICENCE | {"address": "上海路1号"}, rule) is NA
    national = "91100000600037341"
    assert outcome("business_licence", LICENCE | {"credit_code": national + "L"}, rule) is NA  # does not check: not looked at
    free_zone = {"credit_code": "", "registration_no": "310108000000016", "address": "中国（上海）自由贸易试验区某路1号"}
    assert outcome("business_licence", free_zone, rule) is P
    assert outcome("business_licence", free_zone | {"registration_no": "100000000000015"}, rule) is NA


def test_codes_of_other_authorities_on_a_licence_are_flagged() -> None:
    assert outcome("business_licence", LICENCE, "business_licence.code_class") is P
    institution = {"credit_code": "12110000000000000K"}  # fictional; check character computed with python-stdnum
    assert outcome("business_licence", institution, "business_licence.code_class") is F


@pytest.mark.parametrize(
    "change",
    [
        {"issued_on": "2015年05月31日"},
        {"established_on": "2035年06月01日"},
        {"term": "2015年06月01日至2014年05月31日"},
        {"term": "2017年06月01日至2035年05月31日"},
        {"issued_on": "2036年01月01日"},
    ],
)
def test_dates_out_of_order(change: dict[str, str | None]) -> None:
    assert outcome("business_licence", LICENCE | change, "date_order") is F


def test_partial_and_open_dates_are_given_the_benefit_of_the_doubt() -> None:
    assert failures(check_document("business_licence", LICENCE | {"issued_on": "2015年06月"})) == []
    assert failures(check_document("business_licence", LICENCE | {"term": "2015年06月01日至长期"})) == []
    assert failures(check_document("business_licence", LICENCE | {"term": "2015年06月01日至9999年12月31日"})) == []
    assert failures(check_document("business_licence", LICENCE | {"term": "50至2062年"})) == []


@pytest.mark.parametrize(
    "doc_type",
    [
        "food_operation_permit",
        "food_production_permit",
        "drug_operation_permit",
        "device_operation_permit",
        "device_production_permit",
    ],
)
def test_five_year_terms(doc_type: str) -> None:
    dates: dict[str, str | None] = {"issued_on": "2019年06月01日", "valid_until": "2024年05月31日"}
    assert outcome(doc_type, dates, "five_year_term") is P
    assert outcome(doc_type, dates | {"valid_until": "2024年06月01日"}, "five_year_term") is F
    assert outcome(doc_type, dates | {"valid_until": "长期"}, "five_year_term") is NA
    assert outcome(doc_type, dates | {"issued_on": "9999年06月01日"}, "five_year_term") is F
    assert outcome(doc_type, dates | {"valid_until": "2019年05月31日"}, "date_order") is F


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CODE, P),
        ("11010519491231002X", P),
        ("110105491231002", P),
        ("60003734-1", P),
        ("91350100M000100Y44", F),
        ("军字第1234567号", F),
        ("110105********002X", NA),
        ("无", NA),
        (None, NA),
    ],
)
def test_a_food_permit_may_hold_a_credit_code_or_an_id_number(code: str | None, expected: Outcome) -> None:
    for doc_type in ("food_operation_permit", "food_production_permit"):
        assert outcome(doc_type, FOOD | {"credit_code": code}, "food_permit.credit_code") is expected


def test_permit_number_against_business_form_and_address() -> None:
    assert outcome("food_operation_permit", FOOD, "food_operation_permit.business_form") is P
    assert (
        outcome("food_operation_permit", FOOD | {"business_form": "餐饮服务经营者"}, "food_operation_permit.business_form") is F
    )
    assert outcome("food_operation_permit", FOOD, "permit_region_matches_address") is P
    assert outcome("food_operation_permit", FOOD | {"premises": "上海市某路1号"}, "permit_region_matches_address") is F
    drug: dict[str, str | None] = {"permit_no": "粤DB123456789", "mode": "零售", "registered_address": "广东省某市某路1号"}
    assert failures(check_document("drug_operation_permit", drug)) == []
    assert outcome("drug_operation_permit", drug | {"mode": "批发"}, "drug_operation_permit.mode") is F
    assert outcome("drug_operation_permit", drug | {"registered_address": "海南省某市"}, "permit_region_matches_address") is F


@pytest.mark.parametrize(
    "payload",
    [
        CODE,
        f"https://example.invalid/q?uniscid={CODE}&v=1",
        f"统一社会信用代码：{CODE}；名称：某公司",
        f'{{"code": "{CODE.lower()}"}}',
    ],
)
def test_a_qr_code_with_the_printed_code_agrees(payload: str) -> None:
    assert outcome("business_licence", LICENCE, "qr_agrees", [payload]) is P


def test_a_qr_code_with_another_code_disagrees_and_one_without_says_nothing() -> None:
    assert outcome("business_licence", LICENCE, "qr_agrees", ["91110000600037341L"]) is F
    assert outcome("business_licence", LICENCE, "qr_agrees", ["91110000600037341L", CODE]) is P
    assert outcome("business_licence", LICENCE, "qr_agrees", ["https://example.invalid/", "x" * 1_000_000]) is NA
    assert outcome("business_licence", LICENCE | {"credit_code": None}, "qr_agrees", [CODE]) is NA
    assert outcome("food_operation_permit", FOOD, "qr_agrees", ["no=JY11108071215650"]) is P
    assert outcome("food_operation_permit", FOOD, "qr_agrees", ["no=JY11105050876919"]) is F
    assert not any(verdict.rule == "qr_agrees" for verdict in check_document("business_licence", LICENCE))


def test_id_card_number_against_printed_birth_and_sex() -> None:
    assert outcome("id_card", ID_CARD | {"birth": "1949年12月30日"}, "id_card.birth_matches_number") is F
    assert outcome("id_card", ID_CARD | {"sex": "男"}, "id_card.sex_matches_number") is F
    assert outcome("id_card", ID_CARD | {"birth": "1949年12月"}, "id_card.birth_matches_number") is P
    old = ID_CARD | {"id_number": "110105491231002"}
    assert outcome("id_card", old, "id_card.birth_matches_number") is P
    assert outcome("id_card", old, "id_card.sex_matches_number") is P
    assert outcome("id_card", ID_CARD | {"id_number": "军字第1234567号"}, "id_card.birth_matches_number") is NA


@pytest.mark.parametrize(
    ("birth", "term", "expected"),
    [
        ("2005年06月02日", "2021.06.01-2026.06.01", P),  # 15
        ("2005年06月01日", "2021.06.01-2031.06.01", P),  # 16
        ("1995年06月02日", "2021.06.01-2031.06.01", P),  # 25
        ("1995年06月01日", "2021.06.01-2041.06.01", P),  # 26
        ("1975年06月02日", "2021.06.01-2041.06.01", P),  # 45
        ("1975年06月01日", "2021.06.01-长期", P),  # 46
        ("1975年06月01日", "2021.06.01-2041.06.01", F),
        ("1995年06月01日", "2021.06.01-2031.06.01", F),
        ("1995年06月01日", "2021.06.01-2041.06.02", F),
        ("1995年06月01日", "2021.06.01-", NA),
    ],
)
def test_term_of_an_id_card_by_age(birth: str, term: str, expected: Outcome) -> None:
    assert outcome("id_card", {"birth": birth, "term": term}, "id_card.term_by_age") is expected


def test_other_documents() -> None:
    assert outcome("bank_account_permit", {"permit_no": "1000-12345678"}, "bank_account_permit.number_present") is P
    assert outcome("bank_account_permit", {"approval_no": "----"}, "bank_account_permit.number_present") is F
    road: dict[str, str | None] = {"valid_from": "2020-01-01", "valid_until": "2019-12-31"}
    assert outcome("road_transport_operation_permit", road, "date_order") is F
    letter: dict[str, str | None] = {"signed_on": "二〇二四年三月一日", "term": "2023年1月1日至2023年12月31日"}
    assert outcome("authorisation_letter", letter, "date_order") is F
