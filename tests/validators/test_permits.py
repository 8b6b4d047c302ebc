"""Permit numbers in all their generations. Samples: METHODS §12."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.iso7064 import mod_11_10

from certloop.validators import Outcome, Severity, Verdict, normalise, passes, validate


def failed(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [verdict.rule for verdict in verdicts if verdict.failed]


@pytest.mark.parametrize(
    "number", ["JY11108071215650", "JY11105050876919", "JY13101140093802", "JY13301080111719", "JY23506230105266"]
)
def test_food_operating_permits_pass(number: str) -> None:
    assert passes(validate("food_permit_no", number))
    assert passes(validate("food_permit_no", f"{number[:2].lower()} {number[2:]}"))


@pytest.mark.parametrize("number", ["SC11351090100010", "SC10741018302531", "SC12434017430075", "SC10744030704994"])
def test_food_production_permits_pass(number: str) -> None:
    assert passes(validate("food_production_no", number))
    assert failed(validate("food_permit_no", number)) == ["food_permit_no.shape"]


def test_wrong_food_check_digit_is_a_warning_until_calibrated() -> None:
    verdicts = validate("food_permit_no", "JY11105000000001")  # the check digit would be 5
    assert failed(verdicts) == ["food_permit_no.check_digit"]
    assert {verdict.severity for verdict in verdicts} == {Severity.SOFT}
    assert passes(validate("food_permit_no", "JY11105000000005"))


def test_business_form_and_region_of_a_food_permit() -> None:
    body = "9990105000000"
    number = "JY" + body + mod_11_10.calc_check_digit(body)
    assert failed(validate("food_permit_no", number)) == ["food_permit_no.business_form", "food_permit_no.region"]


def test_record_numbers_are_judged_by_form_only() -> None:
    for kind in ("food_permit_no", "food_record_no"):
        verdicts = validate(kind, "YB11101050000001")
        assert passes(verdicts)
        assert verdicts[-1].outcome is Outcome.NOT_APPLICABLE
    assert failed(validate("food_record_no", "JY11108071215650")) == ["food_record_no.shape"]


def test_letters_in_a_food_permit_are_suggested_as_digits() -> None:
    (verdict,) = validate("food_permit_no", "JYI1108071215650")
    assert verdict.suggestion == "JY11108071215650"
    (verdict,) = validate("food_production_no", "SC1135109O1OOO1O")
    assert verdict.suggestion == "SC11351090100010"


@pytest.mark.parametrize(
    "number",
    [
        "琼AA898000001",  # since 2024
        "粤DB123456789",
        "京AA0100001",  # until 2023
        "沪CB0200123",
        "浙DA5710001-02",
        "浙DA5710001—002",
        "京1010001",  # 1999
        "豫2031234-01",
        "京 AA 0100001",
    ],
)
def test_drug_licence_numbers_of_each_generation_pass(number: str) -> None:
    assert passes(validate("drug_permit_no", number))


@pytest.mark.parametrize("number", ["京EA0100001", "京AC0100001", "京AA01000012", "京5010001", "AA0100001", "国AA0100001"])
def test_other_drug_licence_numbers_fail_softly(number: str) -> None:
    assert failed(validate("drug_permit_no", number)) == ["drug_permit_no.shape"]
    assert validate("drug_permit_no", number)[0].severity is Severity.SOFT


@pytest.mark.parametrize(
    "number",
    [
        "沪嘉食药监械经营许20187006号",
        "粤穗食药监械经营许20171161号",
        "京丰食药监械经营备20150159号",
        "沪浦药监械经营许20221234号",
        "京食药监械生产许20150001号",
        "苏药监械生产备２０２３１２３４号",
        "沪嘉 食药监械经营许 20187006 号",
    ],
)
def test_device_numbers_pass(number: str) -> None:
    assert passes(validate("device_permit_no", number))


@pytest.mark.parametrize("number", ["沪嘉食药监械经营许2018706号", "食药监械经营许20187006号", "沪嘉食药监械经营许20187006"])
def test_other_device_numbers_fail(number: str) -> None:
    assert failed(validate("device_permit_no", number)) == ["device_permit_no.shape"]


def test_device_registration_numbers() -> None:
    for number in ("国械注准20153010001", "国械注进20172660123", "国械注许20193220456", "粤械注准20202140789"):
        assert passes(validate("device_registration_no", number))
    assert failed(validate("device_registration_no", "国械注准2015301001")) == ["device_registration_no.shape"]


def test_account_approval_numbers() -> None:
    assert passes(validate("account_approval_no", "J2900123456789"))
    assert passes(validate("account_approval_no", "1000-12345678"))
    assert failed(validate("account_approval_no", "J290002140648")) == ["account_approval_no.truncated"]
    assert failed(validate("account_approval_no", "K2900123456789")) == ["account_approval_no.shape"]
    assert validate("account_approval_no", "J29O0123456789")[0].suggestion == "J2900123456789"


def test_road_transport_numbers() -> None:
    assert passes(validate("road_transport_no", "津交运管许可德字120128300595"))
    assert passes(validate("road_transport_no", "津交运管许可德字120128300595号"))
    assert passes(validate("road_transport_no", "交运管许可货字330106000001号"))
    assert passes(validate("road_transport_no", "330106000001"))
    assert failed(validate("road_transport_no", "津交运管许可德字1201号")) == ["road_transport_no.truncated"]
    assert failed(validate("road_transport_no", "津交运管许可德字990128300595号")) == ["road_transport_no.region"]


def test_permit_numbers_are_normalised_but_never_repaired() -> None:
    assert normalise("food_permit_no", " ｊｙ１１１０８０７１２１５６５０ ") == "JY11108071215650"
    assert normalise("food_permit_no", "JYI1108071215650") == "JYI1108071215650"
    assert normalise("licence_no", "编号 No. 012 ") == "编号NO.012"


@given(st.sampled_from("123"), st.sampled_from(["11", "31", "44"]), st.text("0123456789", min_size=10, max_size=10), st.data())
def test_every_single_substitution_in_a_food_permit_is_noticed(form: str, province: str, rest: str, data: st.DataObject) -> None:
    body = form + province + rest
    digits = body + mod_11_10.calc_check_digit(body)
    assert passes(validate("food_permit_no", "JY" + digits))
    position = data.draw(st.integers(0, 13))
    other = data.draw(st.sampled_from("0123456789".replace(digits[position], "")))
    assert "food_permit_no.check_digit" in failed(
        validate("food_permit_no", "JY" + digits[:position] + other + digits[position + 1 :])
    )
