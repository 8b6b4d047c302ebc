"""How a printed value is brought to a comparable form before a rule looks at it; the value itself is never changed.

Everything past this module sees NFKC text without odd white space, so the rules may use explicit ASCII classes.
(``str.isdigit``, ``\\d`` and ``str.upper`` also accept or produce characters that no certificate number may hold.)
"""

from __future__ import annotations

import re
import unicodedata

MAX_VALUE_CHARS = 4096
"""No number, date or amount is longer; longer values are refused before any work is done on them."""

MAX_TEXT_CHARS = 16384
"""Longest running text that is normalised: NFKC is quadratic in the length of a run of combining marks."""

_ASCII_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−－﹣", "-") | dict.fromkeys("～〜∼", "~"))
_BRACKETS = str.maketrans("〔【［[〕】］]•・‧∙⋅", "(((())))·····")
_FILLER = re.compile(r"[*\-_/\\.…~×※★☆#年月日至止|]+")
_BLANK_WORDS = frozenset(
    {"无", "空白", "以下空白", "此处空白", "此栏空白", "无此项", "未填", "未填写", "暂无", "不详", "N/A", "NA"}
)
_COPY_SUFFIX = re.compile(r"\([0-9]{1,3}[-/][0-9]{1,3}\)$")
CONFUSABLE_DIGITS = str.maketrans("OIZS", "0125")
"""Letters that cannot occur in a credit code and the digit each is mistaken for; V has no safe target."""


def code_text(value: str) -> str:
    """NFKC, without white space and invisible characters, ASCII letters in upper case."""
    folded = unicodedata.normalize("NFKC", value).translate(_ASCII_UPPER)
    joined = "".join(ch for ch in folded if not ch.isspace() and unicodedata.category(ch) not in ("Cf", "Cc"))
    # a removed space may have parted a letter from its mark
    return joined if joined.isascii() else unicodedata.normalize("NFKC", joined)


def plain_text(value: str) -> str:
    """NFKC with each run of white space made one space, none at the ends."""
    return " ".join(unicodedata.normalize("NFKC", value).split())


def name_text(value: str) -> str:
    """A name for comparison: NFKC, no spaces, one kind of bracket, one kind of middle dot."""
    return code_text(value).translate(_BRACKETS)


def fold_dashes(text: str) -> str:
    """Every dash as ``-`` and every wave as ``~``."""
    return text.translate(_DASHES)


def without_copy_suffix(code: str) -> str:
    """A number without the ``(1-1)`` that duplicates (副本) print behind it."""
    return _COPY_SUFFIX.sub("", fold_dashes(code))


def is_blank(value: str | None) -> bool:
    """Whether nothing is printed: missing, empty, or a filler such as ``****``, ``----``, 无, 空白 or a bare 年 月 日."""
    if value is None:
        return True
    if len(value) > MAX_VALUE_CHARS:
        return False
    text = fold_dashes(code_text(value))
    return not text or text in _BLANK_WORDS or _FILLER.fullmatch(text) is not None
