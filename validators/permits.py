"""Permit numbers: food (JY, SC, YB), drug, medical device, bank account and road transport, in all their generations.

All soft. Drug, device, account and road numbers have no published check digit. JY and SC numbers do (GB/T 17710-1999,
ISO 7064 MOD 11,10), and it held for all nine genuine numbers at hand, but older forms of some provinces may lack it: until
it is calibrated on real permits a failure is a warning and may not become a negative reward (METHODS §12, severity rule).
"""

from __future__ import annotations

import re

from .checksums import mod_11_10_check_digit
from .outcome import Verdict
from .printed import CONFUSABLE_DIGITS, code_text, fold_dashes
from .regions import MAINLAND_ABBREVIATIONS, PROVINCES, is_province, province_of_abbreviation
from .rule import Rule, soft

_P = MAINLAND_ABBREVIATIONS
_HAN = "一-鿿"
_FOOD = re.compile(r"(JY|SC|YB)([0-9]{14})")
_DRUG = (
    ("2024-", re.compile(rf"[{_P}][A-D][AB][0-9]{{9}}")),
    ("-2023", re.compile(rf"[{_P}][A-D][AB][0-9]{{7}}(?:-?[0-9]{{2,3}})?")),
    ("1999", re.compile(rf"[{_P}][1-4][0-9]{{6}}(?:-[0-9]{{2,3}})?")),
)
_DEVICE = re.compile(rf"[{_P}][{_HAN}]{{0,4}}?食?药监械(?:经营|生产)[许备]\(?(?:19|20)[0-9]{{2}}\)?[0-9]{{4,6}}号")
_DEVICE_REGISTRATION = re.compile(rf"[国{_P}]械注[准进许](?:19|20)[0-9]{{2}}[1-3][0-9]{{2}}[0-9]{{4}}")
_ACCOUNT = re.compile(r"[JLZ][0-9]{13}")
_ACCOUNT_SHORT = re.compile(r"[JLZ][0-9]{8,12}")
_ACCOUNT_FORM = re.compile(r"[0-9]{4}-[0-9]{8}")
_ROAD = re.compile(rf"[{_P}]?交运管许可[{_HAN}A-Z]{{1,3}}字第?([0-9]{{12}})号?")
_ROAD_SHORT = re.compile(rf"[{_P}]?交运管许可[{_HAN}A-Z]{{1,3}}字第?[0-9]{{1,11}}号?")
_ROAD_CERTIFICATE = re.compile(r"[0-9]{12}")

_CHECK = (("校验码正确", "the check digit is right"), ("校验码不符", "the check digit does not fit"))
_REGION = (
    ("行政区划的省级代码存在", "the province of the region code exists"),
    ("行政区划的省级代码不存在", "no province has this region code"),
)
_UNVERIFIED = ("备案编号的校验规则未经核实", "the check rule of record numbers is not verified")
FOOD_SHAPE = soft(
    "food_permit_no.shape",
    ("JY 或 YB 加 14 位数字", "JY or YB and 14 digits"),
    ("不是 JY（许可）或 YB（备案）加 14 位数字", "not JY (permit) or YB (record) and 14 digits"),
)
FOOD_CHECK = soft("food_permit_no.check_digit", *_CHECK)
FOOD_FORM = soft(
    "food_permit_no.business_form",
    ("主体业态代码为 1-3", "the business form is 1 to 3"),
    ("主体业态代码不是 1（销售）、2（餐饮）、3（食堂）", "the business form is not 1 (sale), 2 (catering), 3 (canteen)"),
)
FOOD_REGION = soft("food_permit_no.region", *_REGION)
RECORD_SHAPE = soft(
    "food_record_no.shape", ("YB 加 14 位数字", "YB and 14 digits"), ("不是 YB 加 14 位数字", "not YB and 14 digits")
)
RECORD_CHECK = soft("food_record_no.check_digit", *_CHECK)
PRODUCTION_SHAPE = soft(
    "food_production_no.shape", ("SC 加 14 位数字", "SC and 14 digits"), ("不是 SC 加 14 位数字", "not SC and 14 digits")
)
PRODUCTION_CHECK = soft("food_production_no.check_digit", *_CHECK)
PRODUCTION_REGION = soft("food_production_no.region", *_REGION)
DRUG_SHAPE = soft(
    "drug_permit_no.shape",
    ("符合药品经营许可证编号规则", "a drug operating licence number"),
    ("不符合任何一版药品经营许可证编号规则", "fits no generation of drug operating licence numbers"),
)
DEVICE_SHAPE = soft(
    "device_permit_no.shape",
    ("符合医疗器械许可或备案编号规则", "a medical device permit or record number"),
    ("不符合医疗器械许可或备案编号规则", "not a medical device permit or record number"),
)
REGISTRATION_SHAPE = soft(
    "device_registration_no.shape",
    ("符合医疗器械注册证编号规则", "a medical device registration number"),
    ("不符合医疗器械注册证编号规则", "not a medical device registration number"),
)
ACCOUNT_SHAPE = soft(
    "account_approval_no.shape",
    ("核准号为 1 位字母加 13 位数字（或证件编号）", "a letter and 13 digits (or the form's own number)"),
    ("不是 J、L、Z 加 13 位数字的核准号", "not J, L or Z and 13 digits"),
)
ACCOUNT_SHORT = soft(
    "account_approval_no.truncated", ("", ""), ("核准号位数不足，可能漏读", "too few digits, perhaps not all were read")
)
ROAD_SHAPE = soft(
    "road_transport_no.shape",
    ("符合道路运输经营许可证号规则", "a road transport operating permit number"),
    ("不符合道路运输经营许可证号规则", "not a road transport operating permit number"),
)
ROAD_SHORT = soft("road_transport_no.truncated", ("", ""), ("许可证号不足 12 位数字", "fewer than 12 digits"))
ROAD_REGION = soft("road_transport_no.region", *_REGION)


def validate_food_permit_no(value: str) -> tuple[Verdict, ...]:
    """JY + business form, region, 6-digit sequence and check digit; YB numbers (备案) are accepted by their form only."""
    number = code_text(value)
    found = _FOOD.fullmatch(number)
    if found is None or found[1] == "SC":
        return (_broken(FOOD_SHAPE, number, "JY"),)
    if found[1] == "YB":
        return FOOD_SHAPE.judge(True), FOOD_CHECK.skip(*_UNVERIFIED)
    digits = found[2]
    return (
        FOOD_SHAPE.judge(True),
        FOOD_FORM.judge(digits[0] in "123"),
        FOOD_REGION.judge(is_province(digits[1:3])),
        FOOD_CHECK.judge(_checks(digits)),
    )


def validate_food_record_no(value: str) -> tuple[Verdict, ...]:
    """YB + 14 digits (仅销售预包装食品备案). Whether they end in a check digit is not verified."""
    number = code_text(value)
    found = _FOOD.fullmatch(number)
    if found is None or found[1] != "YB":
        return (RECORD_SHAPE.judge(False),)
    return RECORD_SHAPE.judge(True), RECORD_CHECK.skip(*_UNVERIFIED)


def validate_food_production_no(value: str) -> tuple[Verdict, ...]:
    """SC + 3-digit category, region, 4-digit sequence and check digit."""
    number = code_text(value)
    found = _FOOD.fullmatch(number)
    if found is None or found[1] != "SC":
        return (_broken(PRODUCTION_SHAPE, number, "SC"),)
    digits = found[2]
    return (
        PRODUCTION_SHAPE.judge(True),
        PRODUCTION_REGION.judge(is_province(digits[3:5])),
        PRODUCTION_CHECK.judge(_checks(digits)),
    )


def validate_drug_permit_no(value: str) -> tuple[Verdict, ...]:
    """Three generations: 1999 rule, until 2023, and since 2024-01-01 (市场监管总局令 84, §76)."""
    return (DRUG_SHAPE.judge(drug_permit_generation(value) is not None),)


def drug_permit_generation(value: str) -> str | None:
    """``1999``, ``-2023``, ``2024-``, or None."""
    number = fold_dashes(code_text(value))
    return next((name for name, pattern in _DRUG if pattern.fullmatch(number)), None)


def validate_device_permit_no(value: str) -> tuple[Verdict, ...]:
    """经营许, 经营备, 生产许, 生产备 numbers, with the 食 of the years 2014-2022 or without."""
    return (DEVICE_SHAPE.judge(_DEVICE.fullmatch(code_text(value)) is not None),)


def validate_device_registration_no(value: str) -> tuple[Verdict, ...]:
    """国械注准 / 进 / 许 and provincial registration certificates."""
    return (REGISTRATION_SHAPE.judge(_DEVICE_REGISTRATION.fullmatch(code_text(value)) is not None),)


def validate_account_approval_no(value: str) -> tuple[Verdict, ...]:
    """J (basic), L (temporary) or Z (special) + 13 digits; the form's own ``0000-00000000`` is accepted too."""
    number = fold_dashes(code_text(value))
    if _ACCOUNT_SHORT.fullmatch(number):
        return (ACCOUNT_SHORT.judge(False),)
    if _ACCOUNT.fullmatch(number) or _ACCOUNT_FORM.fullmatch(number):
        return (ACCOUNT_SHAPE.judge(True),)
    repaired = number[:1] + number[1:].translate(CONFUSABLE_DIGITS)
    return (ACCOUNT_SHAPE.judge(False, suggestion=repaired if _ACCOUNT.fullmatch(repaired) else None),)


def validate_road_transport_no(value: str) -> tuple[Verdict, ...]:
    """X交运管许可X字 + 12 digits, or the vehicle certificate's bare 12 digits."""
    number = code_text(value)
    if _ROAD_SHORT.fullmatch(number):
        return (ROAD_SHORT.judge(False),)
    found = _ROAD.fullmatch(number)
    if found is None:
        return (ROAD_SHAPE.judge(_ROAD_CERTIFICATE.fullmatch(number) is not None),)
    return ROAD_SHAPE.judge(True), ROAD_REGION.judge(is_province(found[1][:2]))


def food_business_form(value: str) -> str | None:
    """The first digit of a well-formed JY number."""
    found = _FOOD.fullmatch(code_text(value))
    return found[2][0] if found and found[1] == "JY" else None


def province_of_permit(value: str) -> str | None:
    """The two-digit province that a JY or SC number, or a number that begins with a province's abbreviation, names."""
    number = code_text(value)
    found = _FOOD.fullmatch(number)
    if found is None:
        return province_of_abbreviation(number[:1])
    start = {"JY": 1, "SC": 3}.get(found[1])
    code = found[2][start : start + 2] if start is not None else ""
    return code if code in PROVINCES else None


def _broken(rule: Rule, number: str, prefix: str) -> Verdict:
    """A failed form, with a suggestion if putting digits for O, I, Z, S makes the number whole and right."""
    repaired = number[:2] + number[2:].translate(CONFUSABLE_DIGITS)
    found = _FOOD.fullmatch(repaired)
    usable = found is not None and found[1] == prefix and _checks(found[2])
    return rule.judge(False, suggestion=repaired if usable else None)


def _checks(digits: str) -> bool:
    return mod_11_10_check_digit(digits[:-1]) == digits[-1]
