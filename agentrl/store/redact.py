"""What leaves to judges, coaches, shared memory and logs goes through a :class:`Redactor` first.

Nothing here knows a document type: patterns, names and field ids come from the caller. Redaction lowers a risk; it is no proof of
anonymity. To *share* documents, have them pseudonymised and rendered anew (:class:`Pseudonymiser`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.trajectory import Redaction, Step, Trajectory

_SEP = r"[ \t\u3000\-–—._·]?"


class Redactor(Protocol):
    """The port. The contract: ``text`` is deterministic and idempotent, never raises, and a text without personal data comes
    back unchanged. ``fields`` are the keys whose values are personal whatever they are."""

    @property
    def fields(self) -> Collection[str]: ...

    def text(self, text: str) -> str: ...


class Pseudonymiser(Protocol):
    """The only way to share a document: replace its values by consistent fictional ones and render the page anew with them.

    The contract: neither the returned image nor the returned answer holds a value of the original, both agree with each other,
    and the same document with the same seed gives the same bytes. ``kind`` is the trajectory's ``doc_type``. The domain's own
    room implements it (it owns a renderer).
    """

    def rerender(self, image: bytes, answer: Mapping[str, Any], kind: str, seed: int) -> tuple[bytes, Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """What to look for in folded text (NFKC, so that full-width digits are digits), and the word that stands for it. Where the
    expression has a group named ``value`` only that group goes: what announces a value stays."""

    word: str
    regex: re.Pattern[str]


_DATE = re.compile(r"(?<!\d)(?:19|20)\d{2}[-./](?:0?[1-9]|1[0-2])[-./](?:0?[1-9]|[12]\d|3[01])(?!\d)")
_PLACEHOLDER = re.compile(r"\[[a-z]+\]")
MASK = "\ue000"
"""Stands for every character that is redacted already: no expression of a caller should take a value to begin or end there."""
MAX_PASSES = 8
_HAN = r"\u4e00-\u9fff"
_UNIT = r"(?:号|弄|室|栋|幢|楼|层|座|单元|铺)"
DEFAULT_PATTERNS = (
    Pattern("email", re.compile(r"[A-Za-z0-9._%+\-]{1,64}@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)+")),
    Pattern("phone", re.compile(rf"(?<![\dA-Za-z])(?:\+?86{_SEP})?1[3-9](?:{_SEP}\d){{9}}(?![\dA-Za-z])")),
    Pattern("phone", re.compile(r"(?<![\dA-Za-z])(?:\(0\d{2,3}\)|0\d{2,3}[- ])\d{7,8}(?:[-转]\d{1,6})?(?![\dA-Za-z])")),
    Pattern(
        "address",
        re.compile(
            rf"[{_HAN}0-9]{{2,30}}?(?:路|街|道|巷|弄|胡同|村|镇|乡|里)[{_HAN}0-9A-Za-z\-]{{0,16}}?\d+{_UNIT}"
            rf"(?:[{_HAN}0-9A-Za-z\-]{{0,8}}?\d+{_UNIT}){{0,4}}"
        ),
    ),
    Pattern("number", re.compile(rf"(?<![0-9A-Za-z])\d(?:{_SEP}\d){{5,}}(?:{_SEP}[Xx])?(?![0-9A-Za-z])")),
    Pattern("number", re.compile(r"(?<![0-9A-Za-z])(?=(?:[A-Za-z]{0,12}\d){6})[0-9A-Za-z]+")),
)
"""Any word with six digits, and six digits with single separators between them, are a number. A date written 2019-03-05 or
2019.3.5 stays; who holds a date for personal (a date of birth) names its field or hands in a pattern."""


class PatternRedactor:
    """Numbers, phones, e-mail and street addresses by pattern; names from a list; whole values of fields known to be personal.

    ``names`` are replaced wherever they stand (of one character: nowhere, it would hit common words). ``patterns`` are tried
    before the default ones. A value under a key in ``fields`` is replaced entirely, whatever it is.
    """

    def __init__(self, names: Iterable[str] = (), patterns: Iterable[Pattern] = (), fields: Collection[str] = ()) -> None:
        folded = sorted({_fold(name).strip() for name in names}, key=lambda name: (-len(name), name))
        words = [r"\s?".join(map(re.escape, name)) for name in folded if len(name) > 1]
        own = (Pattern("name", re.compile("|".join(words))),) if words else ()
        self._patterns = (*own, *patterns)
        self._fields = frozenset(fields)

    @property
    def fields(self) -> Collection[str]:
        return self._fields

    def text(self, text: str) -> str:
        """What is left when nothing more is found: a value that went may have hidden another one's beginning."""
        for _ in range(MAX_PASSES):
            if (less := self._once(text)) == text:
                break
            text = less
        return text

    def _once(self, text: str) -> str:
        folded, out, end = _fold(text), [], 0
        for start, stop, word in self._spans(folded):
            out.append(text[end:start])
            out.append(f"[{word}]")
            end = stop
        return "".join([*out, text[end:]])

    def _spans(self, folded: str) -> list[tuple[int, int, str]]:
        work = _PLACEHOLDER.sub(_blank, folded)
        spans: list[tuple[int, int, str]] = []
        for pattern in (*self._patterns, None, *DEFAULT_PATTERNS):
            if pattern is None:  # dates stay, unless the caller's patterns say otherwise
                work = _DATE.sub(_blank, work)
                continue
            group = "value" if "value" in pattern.regex.groupindex else 0
            found = [m.span(group) for m in pattern.regex.finditer(work) if m.end(group) > m.start(group)]
            for start, stop in found:
                spans.append((start, stop, pattern.word))
                work = work[:start] + MASK * (stop - start) + work[stop:]
        return sorted(spans)


def _blank(match: re.Match[str]) -> str:
    return MASK * (match.end() - match.start())


def own_redactor(
    trajectory: Trajectory, signals: Iterable[Signal] = (), fields: Collection[str] = (), patterns: Iterable[Pattern] = ()
) -> PatternRedactor:
    """A redactor that also knows this document's own values: those of its answer and those that auditors wrote."""
    words = sorted(own_values(trajectory, signals), key=lambda v: (-len(v), v))
    own = [Pattern("value", re.compile("|".join(map(re.escape, words))))] if words else []
    return PatternRedactor(patterns=[*own, *patterns], fields=fields)


def own_values(trajectory: Trajectory, signals: Iterable[Signal] = ()) -> frozenset[str]:
    """The values of a trajectory's answer and those that auditors wrote, folded; single characters are no values."""
    known = set(_leaves(_parsed(trajectory.final_json)))
    for signal in signals:
        known |= set(_leaves([signal.evidence.get("old"), signal.evidence.get("new")]))
    return frozenset(_fold(v).strip() for v in known if len(v.strip()) > 1)


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return text


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)


def redact_json(value: Any, redactor: Redactor, fields: Collection[str] | None = None) -> Any:
    """A JSON value with every text redacted; long whole numbers count as texts. Keys stay: they are names of fields."""
    private = redactor.fields if fields is None else fields
    if isinstance(value, str):
        return _inner_json(value, redactor, private)
    if isinstance(value, Mapping):
        return {k: "[value]" if k in private and v is not None else redact_json(v, redactor, private) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_json(item, redactor, private) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) >= 10**6:
        return redactor.text(f"{value:.0f}")
    return value


def redact_trajectory(trajectory: Trajectory, redactor: Redactor) -> Trajectory:
    """A copy for judges, coaches and shared memory. Token ids, log-probabilities and offsets go as well: they spell the text."""
    return replace(
        trajectory,
        steps=tuple(_redact_step(step, redactor) for step in trajectory.steps),
        final_json=None if trajectory.final_json is None else redact_json(trajectory.final_json, redactor),
        outcome_reason=None if trajectory.outcome_reason is None else redactor.text(trajectory.outcome_reason),
        token_ids=(),
        logprobs=(),
        loss_mask=(),
        segments=(),
        token_offsets=(),
        image_sha256=(),
        redaction=Redaction.REDACTED,
    )


def redact_signal(signal: Signal, redactor: Redactor) -> Signal:
    """A copy whose hint and evidence are redacted; its ``signal_id`` is therefore another one."""
    return replace(
        signal,
        hint=None if signal.hint is None else redactor.text(signal.hint),
        evidence=_redact_evidence(signal, redactor),
    )


def _redact_evidence(signal: Signal, redactor: Redactor) -> Mapping[str, Any]:
    private: Collection[str] = redactor.fields
    if signal.field in private:  # an edit's old and new value are values of that field
        return dict.fromkeys(signal.evidence, "[value]")
    return dict(redact_json(signal.evidence, redactor))


def _redact_step(step: Step, redactor: Redactor) -> Step:
    action, result = step.action, step.tool_result
    return replace(
        step,
        observation=redact_json(step.observation, redactor),
        thought=redactor.text(step.thought),
        action=None if action is None else replace(action, args=redact_json(action.args, redactor)),
        tool_result=None if result is None else replace(result, payload=redact_json(result.payload, redactor), payload_ref=None),
        tok_start=None,
        tok_end=None,
        reflection=None if step.reflection is None else redactor.text(step.reflection),
    )


def _inner_json(text: str, redactor: Redactor, private: Collection[str]) -> str:
    """A text that is itself a JSON object or list keeps its shape."""
    if text[:1] in ("{", "["):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return redactor.text(text)
        if isinstance(inner, (dict, list)):
            return json.dumps(redact_json(inner, redactor, private), ensure_ascii=False)
    return redactor.text(text)


def _fold(text: str) -> str:
    """NFKC character by character where the length stays, so that places in the folded text are places in the text."""
    return "".join(folded if len(folded := unicodedata.normalize("NFKC", c)) == 1 else c for c in text)
