"""Dates and terms in every written form: 2015年06月01日, 二〇一五年六月一日, 2015.06.01-2035.06.01, 至2023年08月13日, 长期.

A year has four digits and is never completed or guessed; a missing day or month lowers the precision.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

from .printed import MAX_VALUE_CHARS, fold_dashes, plain_text

_ZERO = "0Oo〇零○◯"
_DIGIT_VALUES = {
    **dict.fromkeys(_ZERO, 0), **{str(n): n for n in range(1, 10)}, **dict(zip("一二三四五六七八九", range(1, 10), strict=True)),
    **dict(zip("壹贰叁肆伍陆柒捌玖", range(1, 10), strict=True)), "貳": 2, "參": 3, "叄": 3, "陸": 6, "两": 2,
}  # fmt: skip
_D = "".join(_DIGIT_VALUES)
_T = _D + "十拾廿卅元"
_DATE = re.compile(
    rf"(?<![0-9])(?P<y1>[{_D}]{{4}}) ?年"
    rf"(?: ?(?P<m1>[{_T}]{{1,4}}) ?月(?: ?(?P<d1>[{_T}]{{1,4}})(?: ?[日号]|(?![{_T}年])(?! 年)))?)?(?: ?日)?"
    r"|(?<![0-9])(?P<y2>[1-9][0-9]{3}) ?(?P<s>[-./]) ?(?P<m2>[0-9]{1,2})"
    r"(?: ?(?P=s) ?(?P<d2>[0-9]{1,2})(?![0-9])|(?! ?(?P=s) ?[0-9]{1,3}(?![0-9])))(?![0-9年万元])"
    r"|(?<![0-9])(?P<y3>(?:1[89]|2[01]|99)[0-9]{2})(?P<m3>[0-9]{2})(?P<d3>[0-9]{2})(?![0-9])"
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_JUNK = " ★☆※*。.,、;:·'\"()[]<>《》【】|_-~"
_TIME_TAIL = re.compile(r"(?<=[0-9])[ T]?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:\.[0-9]{1,6})?Z?$")
_LEAD = re.compile(r"^(?:有效期限?(?:自|至|到)?|自|从|至|到|于)[: ]*")
_TAIL = re.compile(r"[ ]?(?:止|起|前|为止)$")
_OPEN_END = re.compile(r"长期有效|长期|永久存续|永久|永续经营|无固定期限|无期限|无限期|不约定期限")
_TWO_DIGIT_YEAR = re.compile(
    r"'?[0-9〇零一二三四五六七八九]{2} ?年 ?[^年]{1,6}月.{0,8}"
    r"|[0-9]{2} ?([-./]) ?[0-9]{1,2} ?\1 ?[0-9]{1,2}"
)
_CONNECTOR = re.compile(r"[自从由至到起止期限内有效为一与和" + re.escape(_JUNK) + r"]*")


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A calendar date of which the day, or month and day, may not be printed."""

    year: int
    month: int | None = None
    day: int | None = None

    @property
    def precision(self) -> str:
        """``day``, ``month`` or ``year``."""
        return "year" if self.month is None else "month" if self.day is None else "day"

    def iso(self) -> str:
        """ISO 8601, no more precise than the print: 2015-06-01, 2015-06 or 2015."""
        return "-".join([f"{self.year:04d}", *(f"{part:02d}" for part in (self.month, self.day) if part is not None)])

    def may_be_by(self, other: PartialDate) -> bool:
        """Whether this date can lie on or before the other, given what is not printed."""
        return (self.year, self.month or 1, self.day or 1) <= (other.year, other.month or 12, other.day or 31)


@dataclass(frozen=True, slots=True)
class DateRange:
    """A term. ``open_ended`` (长期) is not a missing end; ``partial`` says that something printed could not be read."""

    start: PartialDate | None
    end: PartialDate | None
    open_ended: bool = False
    partial: bool = False


def parse_date(text: str) -> PartialDate | None:
    """The one date that the text is, or None (also for impossible days and years of two digits)."""
    cleaned = _strip(_clean(text))
    for candidate in (cleaned, cleaned.replace(" ", "")):
        found = _DATE.fullmatch(candidate)
        if found is not None:
            return _date_of(found)
    return None


def find_dates(text: str) -> tuple[PartialDate, ...]:
    """Every possible date in a text, in order; only its first MAX_VALUE_CHARS characters are looked at."""
    cleaned = _clean(text[:MAX_VALUE_CHARS])
    return tuple(date for found in _DATE.finditer(cleaned) if (date := _date_of(found)) is not None)


def parse_date_range(text: str) -> DateRange | None:
    """The term that a text states, or None if it holds neither a date nor an open end."""
    cleaned = _clean(text)
    opening = _OPEN_END.search(cleaned)
    found = list(_DATE.finditer(cleaned))
    if len(found) > 2 or not (opening or found):
        return None
    dates = [_date_of(match) for match in found]
    rest = _DATE.sub(" ", _OPEN_END.sub(" ", cleaned))
    partial = None in dates or _CONNECTOR.fullmatch(rest) is None
    if opening is not None:
        return DateRange(dates[0] if dates else None, None, open_ended=True, partial=partial or len(dates) > 1)
    if len(dates) == 2:
        return DateRange(dates[0], dates[1], partial=partial)
    before, after = cleaned[: found[0].start()], cleaned[found[0].end() :]
    if re.search(r"[至到~-]", before) or "止" in after:
        return DateRange(None, dates[0], partial=partial)
    if re.search(r"[至到起~-]", after) or re.search(r"[自从由]", before):
        return DateRange(dates[0], None, partial=True)
    return None if partial else DateRange(None, dates[0], partial=True)


def is_open_end(text: str) -> bool:
    """Whether the whole text says 长期, 永久, 无固定期限 or the like."""
    return _OPEN_END.fullmatch(_strip(_clean(text)).replace(" ", "")) is not None


def has_two_digit_year(text: str) -> bool:
    """15年6月1日, 15-06-01."""
    return _TWO_DIGIT_YEAR.fullmatch(_strip(_clean(text))) is not None


def looks_like_date(text: str) -> bool:
    """Whether the text has the form of a date, possible or not."""
    return _DATE.fullmatch(_strip(_clean(text))) is not None


def is_calendar_date(year: int, month: int, day: int) -> bool:
    """Gregorian calendar; any year from 1."""
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= _days_in(year, month)


def last_day_of_term(start: PartialDate, years: int) -> PartialDate | None:
    """start + years - 1 day, as a permit's term is counted (2019-06-01 and five years: 2024-05-31); None if no day is given."""
    if start.month is None or start.day is None:
        return None
    year = start.year + years
    if start.day > 1:
        return PartialDate(year, start.month, min(start.day - 1, _days_in(year, start.month)))
    if start.month == 1:
        return PartialDate(year - 1, 12, 31)
    return PartialDate(year, start.month - 1, _days_in(year, start.month - 1))


def _days_in(year: int, month: int) -> int:
    return 29 if month == 2 and calendar.isleap(year) else _MONTH_DAYS[month - 1]


def _clean(text: str) -> str:
    """Folded text; an overlong one becomes empty, so that nothing is found in it."""
    return "" if len(text) > MAX_VALUE_CHARS else fold_dashes(plain_text(text))


def _strip(text: str) -> str:
    text = _TIME_TAIL.sub("", text.strip(_JUNK))
    text = _LEAD.sub("", text, count=1)
    return _TAIL.sub("", text.strip(_JUNK), count=1).strip(_JUNK)


def _date_of(found: re.Match[str]) -> PartialDate | None:
    year = _digits(found["y1"] or found["y2"] or found["y3"])
    month_text = found["m1"] or found["m2"] or found["m3"]
    day_text = found["d1"] or found["d2"] or found["d3"]
    if year < 1000:
        return None
    if month_text is None:
        return PartialDate(year)
    month = 1 if month_text == "元" else _small_number(month_text)
    if month is None or not 1 <= month <= 12:
        return None
    if day_text is None:
        return PartialDate(year, month)
    day = _small_number(day_text)
    return PartialDate(year, month, day) if day is not None and is_calendar_date(year, month, day) else None


def _digits(text: str) -> int:
    return int("".join(str(_DIGIT_VALUES[ch]) for ch in text))


def _small_number(text: str) -> int | None:
    """06, 六, 〇六, 十二, 二十, 三十一, 廿一, 零壹拾, 一二 (digit by digit) to an integer below 100."""
    text = text.replace("拾", "十").replace("廿", "二十").replace("卅", "三十")
    if text.count("十") > 1 or "元" in text:
        return None
    if "十" not in text:
        return _digits(text) if len(text) <= 2 else None
    tens, _, ones = text.lstrip(_ZERO).partition("十")
    if len(tens) > 1 or len(ones) > 1:
        return None
    return (_digits(tens) if tens else 1) * 10 + (_digits(ones) if ones else 0)
