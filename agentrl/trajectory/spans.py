"""Where a field's value stands in an answer: its characters in the JSON text, then its tokens.

A value's span is its whole JSON literal, quotes included: ending a text too early is a decision of the closing quote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from certloop.agentrl.trajectory.errors import TrajectoryError
from certloop.agentrl.trajectory.schema import Trajectory

Span = tuple[int, int]
Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_MAX_DEPTH = 64


def value_spans(text: str) -> dict[Path, Span]:
    """Return the character span of every value of a JSON text by its path, ``("fields", "name")`` or ``("rows", 0)``.

    The whole text has the empty path; of a repeated key the last value counts. Raises TrajectoryError when it is not JSON.
    """
    try:
        spans = dict(_values(text, _skip(text, 0), ()))
    except (ValueError, IndexError, RecursionError):
        raise TrajectoryError("the answer is not JSON, so its fields have no spans") from None
    if _skip(text, spans[()][1]) != len(text):
        raise TrajectoryError("text follows the JSON answer")
    return spans


def field_span(text: str, *path: str | int) -> Span | None:
    """Return the character span of one value, or None when the answer has no such field."""
    return value_spans(text).get(path)


def token_span(chars: Span, offsets: Sequence[Span]) -> Span | None:
    """Return the tokens ``[first, last + 1)`` that cover any of the characters; None when no token does.

    ``offsets`` are ``(start, end)`` characters of each token; ``(n, n)`` stands for a token without text.
    """
    hits = [i for i, (start, end) in enumerate(offsets) if start < chars[1] and end > chars[0] and end > start]
    return (hits[0], hits[-1] + 1) if hits else None


def field_token_span(trajectory: Trajectory, *path: str | int) -> Span | None:
    """Return the token span of one field of the final answer, counted from the trajectory's first token.

    None when the answer has no such field (or is no JSON: feedback on it is feedback all the same), and when the trajectory has
    no token offsets (an engine without tokens).
    """
    if trajectory.final_json is None or not trajectory.token_offsets or not trajectory.segments:
        return None
    try:
        chars = field_span(trajectory.final_json, *path)
    except TrajectoryError:
        return None
    inside = token_span(chars, trajectory.token_offsets) if chars is not None else None
    if inside is None:
        return None
    base = trajectory.segments[-1].start
    return base + inside[0], base + inside[1]


def _skip(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return found.end() if found else index


def _values(text: str, start: int, path: Path) -> Iterator[tuple[Path, Span]]:
    """Yield the spans below one value, and last the value's own."""
    if len(path) > _MAX_DEPTH:
        raise RecursionError
    if text[start] not in "{[":
        _, end = _DECODER.raw_decode(text, start)
        yield path, (start, end)
        return
    close = "}" if text[start] == "{" else "]"
    index, count = _skip(text, start + 1), 0
    while text[index] != close:
        if count:
            if text[index] != ",":
                raise ValueError("a comma is missing")
            index = _skip(text, index + 1)
        key: str | int = count
        if close == "}":
            if text[index] != '"':
                raise ValueError("a key must be text")
            key, index = _DECODER.raw_decode(text, index)
            index = _skip(text, index)
            if text[index] != ":":
                raise ValueError("a colon is missing")
            index = _skip(text, index + 1)
        for below, span in _values(text, index, (*path, key)):
            yield below, span
            index = span[1]
        index, count = _skip(text, index), count + 1
    yield path, (start, index + 1)
