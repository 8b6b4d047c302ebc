"""Guidance: the only door by which memory, skills and notes steer the reader.

A hint names a field and, optionally, when it applies (``doc_type``, ``trigger``: text that must stand on the page) and what to
do: more printed labels for the field, where its value stands, what it looks like, which tool to use on it. A note is a sentence
for engines that read sentences: a model gets it in the guidance block of its prompt, the layout reader passes it by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from certloop.agentrl.errors import CertloopError

TOOLS = ("zoom", "red_ink", "qr")


class GuidanceError(CertloopError, ValueError):
    """A hint is not well formed; the message names the key."""

    code = "guidance_invalid"


@dataclass(frozen=True, slots=True)
class Hint:
    """One piece of guidance for one field.

    ``anchor_aliases`` printed labels to accept, ``region`` (left, top, right, bottom) in [0, 1] of the upright page in which the
    value must stand, ``value_regex`` what the value looks like (searched in the region or the whole page when no label is
    found), ``tool_policy`` tools to apply to the field whatever its confidence.
    """

    field: str
    doc_type: str | None = None
    trigger: str | None = None
    anchor_aliases: tuple[str, ...] = ()
    region: tuple[float, float, float, float] | None = None
    value_regex: re.Pattern[str] | None = None
    tool_policy: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hint:
        """Read one hint. Raises GuidanceError for unknown keys, bad patterns, regions and tools."""
        known = {"field", "doc_type", "trigger", "anchor_aliases", "region", "value_regex", "tool_policy"}
        if unknown := set(data) - known:
            raise GuidanceError(f"unknown keys in a hint: {sorted(unknown)}; known: {sorted(known)}")
        if not isinstance(data.get("field"), str):
            raise GuidanceError("a hint needs the id of a field in 'field'")
        for key in ("doc_type", "trigger", "value_regex"):
            if data.get(key) is not None and not isinstance(data[key], str):
                raise GuidanceError(f"'{key}' must be a text")
        for key in ("anchor_aliases", "tool_policy"):
            items = data.get(key, [])
            if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) and item.strip() for item in items):
                raise GuidanceError(f"'{key}' must be a list of texts that are not empty")
        if bad := set(data.get("tool_policy", ())) - set(TOOLS):
            raise GuidanceError(f"unknown tools {sorted(bad)}; known: {list(TOOLS)}")
        try:
            pattern = re.compile(data["value_regex"]) if data.get("value_regex") else None
        except re.error as error:
            raise GuidanceError(f"'value_regex' is not a regular expression: {error}") from error
        return cls(
            field=data["field"],
            doc_type=data.get("doc_type"),
            trigger=data.get("trigger"),
            anchor_aliases=tuple(data.get("anchor_aliases", ())),
            region=_region(data.get("region")),
            value_regex=pattern,
            tool_policy=tuple(data.get("tool_policy", ())),
        )


def _region(value: object) -> tuple[float, float, float, float] | None:
    """(left, top, right, bottom) in [0, 1], left before right and top above bottom. Raises GuidanceError."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)) and len(value) == 4 and all(isinstance(v, (int, float)) and 0 <= v <= 1 for v in value):
        left, top, right, bottom = (float(v) for v in value)
        if left < right and top < bottom:
            return left, top, right, bottom
    raise GuidanceError("'region' must be [left, top, right, bottom] with 0 <= left < right <= 1 and 0 <= top < bottom <= 1")


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence of guidance in plain words, for pages of a type and, with ``trigger``, of a text (None: for all)."""

    text: str
    doc_type: str | None = None
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """Low-rank weights of a release: the name they go by, never used twice, and the verified folder they stand in."""

    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class Guidance:
    """All hints and notes of one reading; empty by default, which is how the reader is measured. ``adapter`` are the weights that
    answer (None: the engine's own); the layout reader has none and passes it by."""

    hints: tuple[Hint, ...] = field(default=())
    notes: tuple[Note, ...] = field(default=())
    adapter: Adapter | None = None

    @classmethod
    def from_json(cls, data: Iterable[dict[str, Any]]) -> Guidance:
        return cls(tuple(Hint.from_json(item) for item in data))

    def for_page(self, doc_type: str, page_text: str) -> Sequence[Hint]:
        """The hints that apply to a page of this type with this text (without white space)."""
        return [h for h in self.hints if _applies(h, doc_type, page_text)]

    def notes_for_page(self, doc_type: str, page_text: str) -> Sequence[Note]:
        """As :meth:`for_page`, the notes."""
        return [n for n in self.notes if _applies(n, doc_type, page_text)]


def _applies(item: Hint | Note, doc_type: str, page_text: str) -> bool:
    return item.doc_type in (None, doc_type) and (item.trigger is None or re.sub(r"\s+", "", item.trigger) in page_text)
