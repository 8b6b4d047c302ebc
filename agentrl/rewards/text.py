"""How alike two texts are: 1 - Levenshtein / longer length, after NFKC and without white space (METHODS §2)."""

from __future__ import annotations

import re
import unicodedata

MAX_EXACT_CHARS = 8192
"""Longer texts are compared exactly up to here; what follows counts as wrong, so a runaway answer stays cheap and never gains."""

MAX_MARKS = 30
"""So many combining marks in a row no language has (UAX #15, Stream-Safe Text Format); what follows in a long text is dropped,
because normalising sorts them in time that grows with the square of their number."""
MARKS_MATTER_CHARS = 4096
"""Below this length no run of marks takes long."""


def fold(text: str) -> str:
    """Return the text in NFKC without any white space: the form in which keys and values are compared."""
    if text.isascii():
        return "".join(text.split())
    parts = unicodedata.normalize("NFKC", _few_marks(text)).split()
    if len(parts) < 2:  # a part of a text in NFKC is in NFKC
        return _few_marks(parts[0]) if parts else ""
    # Without the white space a combining mark may stand behind another letter.
    text = _few_marks("".join(parts))
    return text if unicodedata.is_normalized("NFKC", text) else _few_marks(unicodedata.normalize("NFKC", text))


def text_similarity(a: str, b: str) -> float:
    """Return a similarity in [0, 1]: 1 for equal texts after :func:`fold` (two empty texts are equal), symmetric.

    Beyond ``MAX_EXACT_CHARS`` characters the answer is a lower bound of the true similarity.
    """
    return folded_similarity(fold(a), fold(b))


def folded_similarity(a: str, b: str) -> float:
    """Return :func:`text_similarity` of two texts that are folded already."""
    if a == b:
        return 1.0
    longest = max(len(a), len(b))
    distance = levenshtein(a[:MAX_EXACT_CHARS], b[:MAX_EXACT_CHARS]) + max(longest - MAX_EXACT_CHARS, 0)
    return max(0.0, 1.0 - distance / longest)


def _few_marks(text: str) -> str:
    """A long text with at most ``MAX_MARKS`` combining marks in a row."""
    if len(text) < MARKS_MATTER_CHARS:
        return text
    marks = "".join(c for c in set(text) if unicodedata.combining(unicodedata.normalize("NFKD", c)[0]))
    return re.sub(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+", r"\1", text) if marks else text


def levenshtein(a: str, b: str) -> int:
    """Return the edit distance (insert, delete and replace cost 1), bit-parallel over Python integers.

    Source: Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances", 2003.
    O(len(b)) integer operations of len(a) bits.
    """
    a, b = _without_common_ends(a, b)
    if not a or not b:
        return len(a) + len(b)
    if len(a) == len(b) and (replaced := sum(x != y for x, y in zip(a, b, strict=True))) <= 2:
        return replaced  # fewer than that would take an insertion and a deletion, which are two as well
    positions: dict[str, int] = {}
    for i, char in enumerate(a):
        positions[char] = positions.get(char, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    plus, minus, distance = full, 0, len(a)  # vertical differences of +1 and -1, one bit a row
    for char in b:
        equal = positions.get(char, 0)
        diagonal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (full & ~(diagonal | plus))
        down = plus & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down, reach = up << 1 | 1, down << 1, equal | minus
        plus = full & (down | ~(reach | up))
        minus = full & up & reach
    return distance


def _without_common_ends(a: str, b: str) -> tuple[str, str]:
    shortest = min(len(a), len(b))
    head = 0
    while head < shortest and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < shortest - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    return a[head : len(a) - tail], b[head : len(b) - tail]
