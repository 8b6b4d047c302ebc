"""Hints: short texts that say what to do instead, where they come from, and what they must not give away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

HINT_START, HINT_END = "[HINT_START]", "[HINT_END]"
MIN_HINT_CHARS = 10
"""A judge's hint must be longer than this to be kept (METHODS §5)."""

_QUOTES = (("「", "」"), ("『", "』"), ("“", "”"), ('"', '"'))
_YEAR = r"(?:\d{2,4}|[〇零一二三四五六七八九]{4})"
_PART = r"[\d一二三四五六七八九十]{1,3}"
_DATE = rf"{_YEAR}\s*[年./-]\s*{_PART}\s*[月./-]\s*{_PART}\s*日?"
_VALUE = re.compile(rf"{_DATE}|[0-9０-９A-Z]{{4,}}")
_SAYS = "应为|应该是|应是|应当是|改成|改为|读作|写成|should be|must be|is actually|change it to"
_GIVEN = re.compile(rf"((?:{_SAYS})[:：\s]*)[^，。；,;!?！？]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HintVote:
    """One judge's word on whether the next message holds something that would have helped: vote +1 with the hint, or -1."""

    vote: int
    hint: str = ""


def between_markers(text: str) -> str | None:
    """Return the last hint between the markers, stripped; None when there is none."""
    before_ends = text.split(HINT_END)[:-1]
    found = [part.split(HINT_START, 1)[1] for part in before_ends if HINT_START in part]
    return (found[-1].strip() or None) if found else None


def choose_hint(votes: Iterable[HintVote]) -> str | None:
    """Return the longest hint of a +1 vote that has more than ten characters; None means: drop the sample (METHODS §5)."""
    kept = [vote.hint.strip() for vote in votes if vote.vote == 1 and len(vote.hint.strip()) > MIN_HINT_CHARS]
    return max(kept, key=len) if kept else None


def without_answer(hint: str) -> str:
    """Return a hint without the values it names (quoted texts, dates, codes, what follows "应为"): it says where, not what.

    A rule of thumb that errs on the side of taking away; training on hints that hold the answer leaks the ground truth.
    """
    for opening, closing in _QUOTES:
        hint = _without_quoted(hint, opening, closing)
    return _VALUE.sub("…", _GIVEN.sub(r"\1…", hint))


def _without_quoted(text: str, opening: str, closing: str) -> str:
    """A regular expression would look for the end anew from every opening quote: the square of a long message."""
    out, at = [], 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start + 1)) >= 0:
        out += [text[at:start], "…"]
        at = end + 1
    return "".join(out) + text[at:]


def field_named(text: str, labels: Mapping[str, Sequence[str]]) -> str | None:
    """Return the field whose label stands in the text; the longest label wins, then the earliest."""
    hits = [
        (-len(label), text.lower().index(label.lower()), name)
        for name, names in labels.items()
        for label in names
        if label and label.lower() in text.lower()
    ]
    return min(hits)[2] if hits else None


def with_hint(messages: Sequence[Mapping[str, str]], hint: str) -> list[dict[str, str]]:
    """Return the messages with the hint appended to the last user message: the teacher's prompt for the *same* response tokens.

    Raises ValueError when there is no user message.
    """
    out = [dict(message) for message in messages]
    for message in reversed(out):
        if message.get("role") == "user":
            message["content"] += f"\n\n[user's hint / instruction]\n{hint}"
            return out
    raise ValueError("there is no user message to append the hint to")
