"""Citizens' ID numbers (GB 11643-1999): 18 characters, and the 15-digit form that has been void since 2013."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .checksums import id_check_character
from .dates import PartialDate, is_calendar_date
from .outcome import Verdict
from .printed import CONFUSABLE_DIGITS, code_text
from .regions import TAIWAN_RESIDENTS, is_province
from .rule import hard, soft

_ID_18 = re.compile(r"[0-9]{17}[0-9X]")
_ID_15 = re.compile(r"[0-9]{15}")
_MASKED = re.compile(r"(?=.*\*\*)[0-9*]{14,17}[0-9X*]")
_OTHER_DOCUMENT = re.compile(r"[一-鿿]{0,6}字第?[0-9]{4,10}号?|[A-Z]{1,2}[0-9]{7,10}")

SHAPE = hard(
    "id_number.shape",
    ("18 位（或旧式 15 位）", "18 characters (or the old 15 digits)"),
    ("不是 18 位或 15 位身份证号码", "not an ID number of 18 or 15 characters"),
)
BIRTH = hard(
    "id_number.birth",
    ("出生日期存在", "the birth date exists"),
    ("号码中的出生日期不存在", "the birth date in the number does not exist"),
)
CHECK = hard(
    "id_number.check_character",
    ("校验码正确", "the check character is right"),
    ("校验码不符", "the check character does not fit"),
)
REGION = soft(
    "id_number.region",
    ("地址码的省级代码存在", "the province of the number exists"),
    ("地址码的省级代码不存在", "no province has this number"),
)
OLD_FORM = soft(
    "id_number.old_form",
    ("", ""),
    ("15 位身份证号码自 2013 年起停用", "15-digit ID numbers have been void since 2013"),
)
OTHER_DOCUMENT = soft(
    "id_number.other_document",
    ("", ""),
    ("这是其他证件（如军官证、护照）的号码", "this is the number of another document (officer's card, passport)"),
)


@dataclass(frozen=True, slots=True)
class Holder:
    """What a well-formed number says about its holder."""

    birth: PartialDate
    sex: str
    """男 or 女."""


def validate_id_number(value: str) -> tuple[Verdict, ...]:
    """Rules on an ID number; counties are never checked, abolished ones stay in their holders' numbers."""
    number = code_text(value)
    if _MASKED.fullmatch(number) and len(number) in (15, 18):
        return (SHAPE.skip("号码已脱敏", "the number is masked"),)
    if _ID_15.fullmatch(number):
        return _validate_15(number)
    if _ID_18.fullmatch(number) is None:
        if _OTHER_DOCUMENT.fullmatch(number):
            return (OTHER_DOCUMENT.judge(False),)
        repaired = number.replace("×", "X").translate(CONFUSABLE_DIGITS)
        return (SHAPE.judge(False, suggestion=repaired if is_valid_18(repaired) else None),)
    return (
        SHAPE.judge(True),
        BIRTH.judge(_birth(number) is not None),
        CHECK.judge(id_check_character(number[:17]) == number[17]),
        _region(number),
    )


def holder_of(value: str) -> Holder | None:
    """Birth date and sex from a number of 18 or 15 characters (checksum not looked at), or None if they cannot be read."""
    number = code_text(value)
    if _ID_15.fullmatch(number):
        number = upgrade_15(number)
    birth = _birth(number) if _ID_18.fullmatch(number) else None
    return None if birth is None else Holder(birth, "男" if int(number[16]) % 2 else "女")


def upgrade_15(number: str) -> str:
    """The 18-character form of a 15-digit number; sequences 996-999 were kept for people born in the 19th century."""
    century = "18" if number[12:] in ("996", "997", "998", "999") else "19"
    body = number[:6] + century + number[6:]
    return body + id_check_character(body)


def is_valid_18(number: str) -> bool:
    """Province, birth date and check character of an already normalised 18-character number."""
    if _ID_18.fullmatch(number) is None or not _known_province(number):
        return False
    return _birth(number) is not None and id_check_character(number[:17]) == number[17]


def _validate_15(number: str) -> tuple[Verdict, ...]:
    upgraded = upgrade_15(number)
    born = _birth(upgraded) is not None
    return (
        SHAPE.judge(True),
        BIRTH.judge(born),
        CHECK.skip("15 位号码没有校验码", "15-digit numbers have no check character"),
        _region(number),
        OLD_FORM.judge(False, suggestion=upgraded if born else None),
    )


def _region(number: str) -> Verdict:
    if number[0] == "9" and len(number) == 18:
        return REGION.skip("外国人永久居留身份证号码", "the number of a foreign permanent resident")
    return REGION.judge(_known_province(number))


def _known_province(number: str) -> bool:
    return is_province(number[:2]) or number[:2] == TAIWAN_RESIDENTS


def _birth(number: str) -> PartialDate | None:
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    if not 1800 <= year <= 2099 or not is_calendar_date(year, month, day):
        return None
    return PartialDate(year, month, day)
