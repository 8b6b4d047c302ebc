"""When two readings of a value are the same print: strict, but blind to width, spaces, end marks and the form of a date.

The rules are those of the development pack's README; dates are compared by their numbers, whatever numerals they are printed in.
"""

from __future__ import annotations

import re
import unicodedata

DATE_KINDS = frozenset({"date", "date_range"})
OPEN_END = "长期"
_DATE_LABEL = re.compile("日期|期限|有效期")
_PUNCTUATION = str.maketrans("“”‘’、，。；：【】〔〕『』—–~～", "\"\"'',,.;:[][][]----")
_END_MARKS = "*★.,;"
_DATE_ONLY = re.compile("[〇○零Oo一二三四五六七八九十年月日至止自]+")
_ZERO = re.compile("[○零Oo]")
_ARABIC = str.maketrans("〇一二三四五六七八九", "0123456789")
_NUMERAL = r"[\d〇一二三四五六七八九十]"
_DATE = re.compile(rf"({_NUMERAL}{{4}})[年./-]({_NUMERAL}{{1,3}})[月./-]({_NUMERAL}{{1,3}})")

Date = tuple[int, int, int]


def same_value(label: str, expected: str, got: str | None, *, kind: str | None = None) -> bool:
    """Return whether ``got`` is the printed value ``expected``.

    A field of kind date or date_range, or with 日期, 期限 or 有效期 in its label, compares by its dates when ``expected`` has
    any, and 长期 must stand in both or in neither. No answer is never the same, not even as an empty text.
    """
    if got is None or got == "":
        return False
    if (kind in DATE_KINDS or _DATE_LABEL.search(label)) and (wanted := dates_in(expected)):
        return wanted == dates_in(got) and (OPEN_END in expected) == (OPEN_END in got)
    return comparable(expected) == comparable(got)


def comparable(text: str) -> str:
    """Return the text in NFKC without white space and end marks, punctuation unified, 〇 for ○, 零 and O in a Chinese date."""
    text = re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))
    if _DATE_ONLY.fullmatch(text):
        text = _ZERO.sub("〇", text)
    return text.translate(_PUNCTUATION).rstrip(_END_MARKS)


def dates_in(text: str) -> list[Date]:
    """Return every (year, month, day) in the text, in order; numbers are not checked against the calendar."""
    return [(_number(y), _number(m), _number(d)) for y, m, d in _DATE.findall(comparable(text))]


def _number(numeral: str) -> int:
    digits = numeral.translate(_ARABIC)
    if "十" not in digits:
        return int(digits)
    tens, _, ones = digits.partition("十")
    return (int(tens) if tens else 1) * 10 + (int(ones) if ones.isdigit() else 0)
