"""Numbers of organisations: unified social credit code (GB 32100-2015), organisation code (GB 11714) and the 15-digit
registration number of business licences before 2015 (GS15-2006)."""

from __future__ import annotations

import re

from . import citizen_id
from .checksums import mod_11_10_check_digit, org_code_check_character, uscc_check_character
from .outcome import Verdict
from .printed import CONFUSABLE_DIGITS, code_text, without_copy_suffix
from .regions import NATIONAL, is_province
from .rule import hard, soft

_USCC = re.compile(r"[0-9A-HJ-NPQRTUWXY]{2}[0-9]{6}[0-9A-HJ-NPQRTUWXY]{10}")
_ORG = re.compile(r"([0-9A-Z]{8})-?([0-9X])")
_DEPARTMENTS = frozenset("123456789ANY")

USCC_SHAPE = hard(
    "uscc.shape",
    ("18 位，字符符合 GB 32100", "18 characters of the GB 32100 alphabet"),
    ("不是 18 位，或含 I、O、S、V、Z，或第 3-8 位不是数字", "not 18 characters of the GB 32100 alphabet with digits at 3-8"),
)
USCC_CHECK = hard(
    "uscc.check_character", ("校验码正确", "the check character is right"), ("校验码不符", "the check character does not fit")
)
_ID_GIVEN = (
    ("不是身份证号码", "not a citizen's ID number"),
    ("这是身份证号码，不是统一社会信用代码", "this is a citizen's ID number, not a credit code"),
)
USCC_NOT_ID = hard("uscc.is_id_number", *_ID_GIVEN)
USCC_MAY_BE_ID = soft("uscc.is_id_number", *_ID_GIVEN)
USCC_ORG = soft(
    "uscc.organisation_code",
    ("内含的组织机构代码校验正确", "the organisation code inside checks"),
    ("内含的组织机构代码校验不符", "the organisation code inside does not check"),
)
USCC_DEPARTMENT = soft(
    "uscc.department",
    ("登记管理部门代码已知", "the registering department is known"),
    ("登记管理部门代码未知", "the registering department is unknown"),
)
USCC_REGION = soft(
    "uscc.region",
    ("行政区划的省级代码存在", "the province of the region code exists"),
    ("行政区划的省级代码不存在", "no province has this region code"),
)
ORG_SHAPE = hard(
    "org_code.shape",
    ("8 位本体码加 1 位校验码", "8 characters and a check character"),
    ("不是 8 位本体码加 1 位校验码", "not 8 characters and a check character"),
)
ORG_CHECK = hard(
    "org_code.check_character", ("校验码正确", "the check character is right"), ("校验码不符", "the check character does not fit")
)
REGNO_SHAPE = hard("regno15.shape", ("15 位数字", "15 digits"), ("不是 15 位数字", "not 15 digits"))
REGNO_CHECK = hard(
    "regno15.check_digit", ("校验码正确", "the check digit is right"), ("校验码不符", "the check digit does not fit")
)
REGNO_OLD = soft("regno15.old_form", ("2007 年前的 13 位注册号", "a 13-digit number from before 2007"), ("", ""))
REGNO_NOT_USCC = soft(
    "regno15.is_credit_code", ("", ""), ("这是统一社会信用代码，不是注册号", "this is a credit code, not a registration number")
)
REGNO_REGION = soft(
    "regno15.region",
    ("登记机关的省级代码存在", "the province of the authority exists"),
    ("登记机关的省级代码不存在", "no province has this authority code"),
)


def validate_uscc(value: str) -> tuple[Verdict, ...]:
    """Rules on a credit code; a letter that cannot occur (O, I, Z, S) yields a suggestion if the code then checks."""
    code = without_copy_suffix(code_text(value))
    is_id = citizen_id.is_valid_18(code)
    if is_id and not is_valid_uscc(code):
        return (USCC_NOT_ID.judge(False),)
    if _USCC.fullmatch(code) is None:
        repaired = code.translate(CONFUSABLE_DIGITS)
        usable = len(code) == 18 and is_valid_uscc(repaired) and not citizen_id.is_valid_18(repaired)
        return (USCC_SHAPE.judge(False, suggestion=repaired if usable else None),)
    checks = uscc_check_character(code[:17]) == code[17]
    verdicts = [USCC_SHAPE.judge(True), USCC_CHECK.judge(checks)]
    if is_id:  # about one ID number in 31 also passes the credit code's checksum: then only a person can tell
        verdicts.append(USCC_MAY_BE_ID.judge(False))
    verdicts.append(USCC_ORG.judge(is_valid_org_code(code[8:17])))
    verdicts.append(USCC_DEPARTMENT.judge(code[0] in _DEPARTMENTS))
    verdicts.append(USCC_REGION.judge(is_province(code[2:4]) or code[2:8] == NATIONAL + "0000"))
    return tuple(verdicts)


def validate_org_code(value: str) -> tuple[Verdict, ...]:
    """Rules on an organisation code, with or without the hyphen before its check character."""
    found = _ORG.fullmatch(without_copy_suffix(code_text(value)))
    if found is None:
        return (ORG_SHAPE.judge(False),)
    return ORG_SHAPE.judge(True), ORG_CHECK.judge(org_code_check_character(found[1]) == found[2])


def validate_regno15(value: str) -> tuple[Verdict, ...]:
    """Rules on a registration number. The 13-digit numbers from before 2007 have no check digit and only pass softly."""
    number = without_copy_suffix(code_text(value))
    if re.fullmatch(r"[0-9]{13}", number):
        return (
            REGNO_OLD.judge(True),
            REGNO_CHECK.skip("13 位旧注册号没有校验码", "13-digit numbers have no check digit"),
        )
    if is_valid_uscc(number):
        return (REGNO_NOT_USCC.judge(False),)
    if re.fullmatch(r"[0-9]{15}", number) is None:
        repaired = number.translate(CONFUSABLE_DIGITS)
        return (REGNO_SHAPE.judge(False, suggestion=repaired if _is_valid_regno15(repaired) else None),)
    return (
        REGNO_SHAPE.judge(True),
        REGNO_CHECK.judge(_is_valid_regno15(number)),
        REGNO_REGION.judge(is_province(number[:2]) or number[:6] == NATIONAL + "0000"),
    )


def is_valid_uscc(code: str) -> bool:
    """Form and check character of an already normalised credit code."""
    return _USCC.fullmatch(code) is not None and uscc_check_character(code[:17]) == code[17]


def is_valid_org_code(code: str) -> bool:
    """Form and check character of an already normalised organisation code."""
    found = _ORG.fullmatch(code)
    return found is not None and org_code_check_character(found[1]) == found[2]


def _is_valid_regno15(number: str) -> bool:
    return re.fullmatch(r"[0-9]{15}", number) is not None and mod_11_10_check_digit(number[:14]) == number[14]
