"""Rules on dates, terms, amounts, digits, and on the field of a food permit that holds a credit code or an ID number."""

from __future__ import annotations

import re

from . import citizen_id, organisation_codes
from .dates import PartialDate, has_two_digit_year, is_open_end, looks_like_date, parse_date, parse_date_range
from .money import parse_money
from .outcome import Verdict
from .printed import code_text
from .rule import soft

_PLAUSIBLE_YEARS = range(1840, 2101)
_NO_LIMIT_YEAR = 9999
_DATE_LIKE = re.compile(r"[0-9]{4}|[0-9]{2}年[0-9]|[0-9]{2}[-./][0-9]|[〇零○一二三四五六七八九壹贰叁肆伍陆柒捌玖]{2,4}年")

DATE_READABLE = soft("date.readable", ("是日期", "a date"), ("不能读作一个日期", "cannot be read as one date"))
DATE_OPEN_END = soft("date.open_ended", ("长期有效", "without an end"), ("", ""))
DATE_CALENDAR = soft("date.calendar", ("日期存在", "the day exists"), ("日期不存在", "no such day in the calendar"))
DATE_FOUR_DIGITS = soft("date.four_digit_year", ("", ""), ("年份只有两位，不予推断", "a year of two digits is never completed"))
DATE_DAY = soft("date.day_precision", ("精确到日", "given to the day"), ("", ""))
DATE_PLAUSIBLE = soft("date.plausible_year", ("年份合理", "a plausible year"), ("年份不合理", "an implausible year"))
RANGE_READABLE = soft("date_range.readable", ("是期限", "a term"), ("不能读作期限", "cannot be read as a term"))
RANGE_COMPLETE = soft(
    "date_range.complete",
    ("起止日期均已读出", "all that is printed was read"),
    ("起止日期只读出一部分", "only part of the term could be read"),
)
RANGE_ORDER = soft("date_range.order", ("起不晚于止", "it starts before it ends"), ("起晚于止", "it ends before it starts"))
RANGE_PLAUSIBLE = soft("date_range.plausible_year", DATE_PLAUSIBLE.holds, DATE_PLAUSIBLE.broken)
MONEY_READABLE = soft("money.readable", ("是金额", "an amount"), ("不能读作一个金额", "cannot be read as one amount"))
DIGITS_ONLY = soft("digits.only", ("只含数字", "only digits"), ("含有数字以外的字符", "characters other than digits"))
EITHER_CODE = soft(
    "uscc_or_id_number.either",
    ("是统一社会信用代码、组织机构代码或身份证号码", "a credit code, an organisation code or an ID number"),
    ("既不是统一社会信用代码、组织机构代码，也不是身份证号码", "neither a credit code, an organisation code nor an ID number"),
)


def validate_date(value: str) -> tuple[Verdict, ...]:
    """One date of day or lesser precision; 长期 is a valid answer to 有效期至."""
    if is_open_end(value):
        return (DATE_OPEN_END.judge(True),)
    date = parse_date(value)
    if date is None:
        if has_two_digit_year(value):
            return (DATE_FOUR_DIGITS.judge(False),)
        return ((DATE_CALENDAR if looks_like_date(value) else DATE_READABLE).judge(False),)
    exact = date.precision == "day"
    return (
        DATE_READABLE.judge(True),
        DATE_CALENDAR.judge(True),
        DATE_DAY.judge(True) if exact else DATE_DAY.skip("未写到日", "the day is not given"),
        DATE_PLAUSIBLE.judge(_plausible(date)),
    )


def validate_date_range(value: str) -> tuple[Verdict, ...]:
    """A term with one or two dates or an open end."""
    term = parse_date_range(value)
    if term is None:
        if _DATE_LIKE.search(code_text(value)) is None:
            return (RANGE_READABLE.skip("期限以文字表述", "the term is given in words"),)
        return (RANGE_READABLE.judge(False),)
    dates = [date for date in (term.start, term.end) if date is not None]
    if term.start is not None and term.end is not None:
        order = RANGE_ORDER.judge(term.start.may_be_by(term.end))
    else:
        order = RANGE_ORDER.skip("没有起止两个日期", "there are not two dates")
    return (
        RANGE_READABLE.judge(True),
        RANGE_COMPLETE.judge(not term.partial),
        order,
        RANGE_PLAUSIBLE.judge(all(_plausible(date) for date in dates)),
    )


def validate_money(value: str) -> tuple[Verdict, ...]:
    """One amount; figures and capital numerals beside each other must agree."""
    return (MONEY_READABLE.judge(parse_money(value) is not None),)


def validate_digits(value: str) -> tuple[Verdict, ...]:
    """Digits, with spaces or hyphens between them."""
    return (DIGITS_ONLY.judge(re.fullmatch(r"[0-9-]*[0-9][0-9-]*", code_text(value)) is not None),)


def validate_uscc_or_id_number(value: str) -> tuple[Verdict, ...]:
    """The 社会信用代码 of a food permit: a sole trader's may be an ID number, so neither form alone fails it."""
    code = code_text(value)
    holder = citizen_id.holder_of(value)
    fits = (
        organisation_codes.is_valid_uscc(code)
        or organisation_codes.is_valid_org_code(code)
        or citizen_id.is_valid_18(code)
        or (holder is not None and len(code) == 15)
    )
    if not fits and re.fullmatch(r"(?=.*\*\*)[0-9A-Z*]{15,18}", code):
        return (EITHER_CODE.skip("号码已脱敏", "the number is masked"),)
    hint = next((verdict.suggestion for verdict in organisation_codes.validate_uscc(value) if verdict.suggestion), None)
    return (EITHER_CODE.judge(fits, suggestion=hint),)


def _plausible(date: PartialDate) -> bool:
    return date.year in _PLAUSIBLE_YEARS or date.year == _NO_LIMIT_YEAR
