"""From what a model wrote to fields: tolerant in reading, honest in marking.

A right answer is plain reasoning, then exactly one JSON object whose values are texts or null. Everything else is read as far as
it goes, and marked: a mark says that the answer is not what was asked for, so that rewards and gates can tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from certloop.agentrl.trajectory.schema import Outcome
from certloop.extract.engine.loops import text_loop

MAX_CHARS = 200_000
MAX_BROKEN = 64  # malformed openings tried before giving up, so that no text costs more than linear time

_START = re.compile(r'\{\s*["}]')
_SPACE = re.compile(r"\s*")
_FENCE = re.compile(r"```\w*\s*\Z")
_LITERAL = re.compile(r"null|true|false|-?Infinity|NaN|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS = ("null", "true", "false", "NaN", "Infinity", "-Infinity")
_CONTROL = re.compile(r"[\x00-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NESTED = json.JSONDecoder(strict=False)


class Mark(StrEnum):
    """What was not as asked for."""

    NO_JSON = "no_json"
    CUT = "cut"
    BROKEN = "broken"
    SEVERAL = "several_objects"
    DUPLICATE_KEYS = "duplicate_keys"
    NOT_FINITE = "not_finite"
    NOT_TEXT = "not_text"
    FENCED = "fenced"
    LENIENT = "lenient_syntax"
    UNCLOSED_THINK = "unclosed_think"
    IN_THOUGHT = "in_thought"
    TRAILING = "trailing_text"
    WRAPPED = "wrapped"
    LOOP = "loop"


FORM_FAULTS = frozenset(
    {Mark.SEVERAL, Mark.FENCED, Mark.TRAILING, Mark.WRAPPED, Mark.UNCLOSED_THINK, Mark.LENIENT, Mark.IN_THOUGHT}
)
"""What a reward takes its floor for: the values are there, but not in one JSON object that ends the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``fields`` as written (the last of repeated keys), ``thought`` the reasoning before them, ``json_text`` the object exactly
    as it stands at ``span`` of the text. ``value_spans`` bound each value's JSON literal in the text."""

    fields: dict[str, str | None]
    thought: str = ""
    marks: frozenset[Mark] = frozenset()
    json_text: str | None = None
    span: tuple[int, int] = (0, 0)
    value_spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def strict(self) -> bool:
        """Whether the text is exactly what was asked for."""
        return not self.marks

    @property
    def complete(self) -> bool:
        """Whether the chosen object was closed: a cut or broken one is only what could be saved of it."""
        return self.json_text is not None and not self.marks & {Mark.CUT, Mark.BROKEN}

    @property
    def outcome(self) -> Outcome:
        if Mark.NO_JSON in self.marks:
            return Outcome.TRUNCATED if Mark.LOOP in self.marks else Outcome.MALFORMED
        if Mark.CUT in self.marks:
            return Outcome.TRUNCATED
        return Outcome.MALFORMED if Mark.BROKEN in self.marks else Outcome.CLEAN


def read_answer(text: str) -> Answer:
    """Read a model's whole output. Never raises; the time it takes is linear in the text's length."""
    marks: set[Mark] = set()
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS]
        marks.add(Mark.CUT)
    if text_loop(text) is not None:
        marks.add(Mark.LOOP)
    begin, unclosed = _after_thinking(text)
    if unclosed:
        marks.add(Mark.UNCLOSED_THINK)
    objects = list(_objects(text, begin))
    if not objects and begin:
        objects = list(_objects(text, 0))
        if objects:
            marks.add(Mark.IN_THOUGHT)
    if not objects:
        return Answer({}, _plain(text), frozenset(marks | {Mark.NO_JSON}))
    chosen = _choose(objects)
    if sum(o.state == "complete" for o in objects) > 1:
        marks.add(Mark.SEVERAL)
    return _answer(text, chosen, marks)


@dataclass(slots=True)
class _Object:
    """One object as scanned; ``state`` is complete, cut (the text ended in it) or broken."""

    start: int
    end: int
    pairs: list[tuple[str, Any, tuple[int, int]]]
    state: str = "complete"
    marks: set[Mark] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Written:
    """A value that is neither text nor null, as it was written."""

    text: str


class _NotFinite:
    """NaN or an infinity."""


def _after_thinking(text: str) -> tuple[int, bool]:
    """Where the answer proper begins, and whether a thought was opened and never closed."""
    close = text.rfind("</think>")
    opened = text.rfind("<think>")
    if opened > close:
        return (close + len("</think>") if close >= 0 else 0), True
    return (close + len("</think>") if close >= 0 else 0), False


def _choose(objects: list[_Object]) -> _Object:
    """The last complete object with fields; else the last with anything saved; else the last."""
    for good in (
        [o for o in objects if o.state == "complete" and o.pairs],
        [o for o in objects if o.pairs],
        [o for o in objects if o.state == "complete"],
    ):
        if good:
            return good[-1]
    return objects[-1]


def _answer(text: str, found: _Object, marks: set[Mark]) -> Answer:
    marks |= found.marks
    before = text[: found.start]
    if _FENCE.search(before):
        marks.add(Mark.FENCED)
        before = _FENCE.sub("", before)
    if found.state != "complete":
        marks.add(Mark.CUT if found.state == "cut" else Mark.BROKEN)
    elif _rest(text[found.end :], fenced=Mark.FENCED in marks):
        marks.add(Mark.TRAILING)
    fields: dict[str, str | None] = {}
    spans: dict[str, tuple[int, int]] = {}
    for key, value, span in found.pairs:
        if key in fields:
            marks.add(Mark.DUPLICATE_KEYS)
        fields[key] = _text(value, marks)
        spans[key] = span
    return Answer(fields, _plain(before), frozenset(marks), text[found.start : found.end], (found.start, found.end), spans)


def _rest(after: str, *, fenced: bool) -> str:
    """What stands behind the object, its closing fence left out."""
    after = after.strip()
    return after.removeprefix("```").strip() if fenced else after


def _text(value: Any, marks: set[Mark]) -> str | None:
    if value is None:
        return None
    if isinstance(value, _NotFinite):
        marks.add(Mark.NOT_FINITE)
        return None
    if isinstance(value, _Written):
        marks.add(Mark.NOT_TEXT)
        value = value.text
    if _SURROGATE.search(value):
        marks.add(Mark.NOT_TEXT)
        value = _SURROGATE.sub("\ufffd", value)
    return str(value)


def _plain(text: str) -> str:
    """The reasoning without its think marks."""
    return _SURROGATE.sub("\ufffd", text.replace("<think>", "").replace("</think>", "")).strip()


def _objects(text: str, begin: int) -> Iterator[_Object]:
    """Every top-level object from ``begin`` on, closed or not."""
    at, broken = begin, 0
    while broken < MAX_BROKEN and (match := _START.search(text, at)):
        found = _unwrapped(text, _scan(text, match.start()))
        yield found
        broken += found.state == "broken"
        at = max(found.end, match.start() + 1)


def _unwrapped(text: str, found: _Object) -> _Object:
    """``{"fields": {...}}`` means its inner object."""
    if found.state == "complete" and len(found.pairs) == 1 and isinstance(found.pairs[0][1], _Written):
        start = found.pairs[0][2][0]
        if text[start] == "{":
            inner = _scan(text, start)
            if inner.state == "complete" and inner.pairs:
                return _Object(found.start, found.end, inner.pairs, "complete", found.marks | inner.marks | {Mark.WRAPPED})
    return found


def _scan(text: str, start: int) -> _Object:
    """Read the object that opens at ``start`` pair by pair, until it closes or cannot be read on."""
    found = _Object(start, len(text), [])
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        found.end = at + 1
        return found
    while True:
        try:
            key, at = _string(text, at, found)
            at = _skip(text, at)
            if text[at : at + 1] not in (":", "："):
                raise _Stop(at)
            found.marks |= {Mark.LENIENT} if text[at] == "：" else set()
            start_of_value = _skip(text, at + 1)
            value, at = _value(text, start_of_value, found)
        except _Stop as stop:
            return _stopped(found, text, stop.at)
        found.pairs.append((key, value, (start_of_value, at)))
        at = _skip(text, at)
        following = text[at : at + 1]
        if following == "}":
            found.end = at + 1
            return found
        if following in (",", "，"):
            found.marks |= {Mark.LENIENT} if following == "，" else set()
            at = _skip(text, at + 1)
            if text[at : at + 1] == "}":
                found.marks.add(Mark.LENIENT)
                found.end = at + 1
                return found
        elif following == '"':
            found.marks.add(Mark.LENIENT)  # a comma was forgotten
        else:
            if at < len(text):
                found.pairs.pop()  # where its value ends is in doubt
            return _stopped(found, text, at)


class _Stop(Exception):
    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


def _stopped(found: _Object, text: str, at: int) -> _Object:
    found.state = "cut" if at >= len(text) else "broken"
    found.end = min(at, len(text))
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _string(text: str, at: int, found: _Object) -> tuple[str, int]:
    """A JSON text and where it ends. A raw line break inside is taken, and marked."""
    if text[at : at + 1] != '"':
        raise _Stop(at)
    try:
        value, end = scanstring(text, at + 1, False)
    except ValueError as error:
        unterminated = "Unterminated" in str(error) or getattr(error, "pos", 0) >= len(text) - 6
        raise _Stop(len(text) if unterminated else at + 1) from None
    if _CONTROL.search(text, at, end):
        found.marks.add(Mark.LENIENT)
    return value, end


def _value(text: str, at: int, found: _Object) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first == '"':
        return _string(text, at, found)
    if first in ("{", "["):
        try:
            _, end = _NESTED.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise _Stop(at + 1 if at + 1 < len(text) else len(text)) from None
        return _Written(text[at:end]), end
    literal = _LITERAL.match(text, at)
    if literal is None:
        raise _Stop(len(text) if any(word.startswith(text[at : at + 10]) for word in _WORDS) else at)
    written = literal.group()
    if written == "null":
        return None, literal.end()
    if written in ("NaN", "Infinity", "-Infinity"):
        return _NotFinite(), literal.end()
    if literal.end() == len(text) and written not in ("true", "false"):
        raise _Stop(len(text))  # the number may have gone on
    if re.match(r"-?0\d", written):
        found.marks.add(Mark.LENIENT)
    return _Written(written), literal.end()
