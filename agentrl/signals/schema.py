"""The one schema of feedback (DESIGN §3). Signals are only ever added; a reward is a fold over them (``fusion``)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from certloop.agentrl.signals.errors import SignalError
from certloop.agentrl.trajectory.validation import is_instant, is_json

SCHEMA = "certloop.signal/1"
_LAST = 1 << 63
"""No step and no token has a higher number."""


class Source(StrEnum):
    """Who speaks. Explicit feedback of any person is ``auditor``; ``business`` outcomes never enter a reward, only the guard."""

    VALIDATOR = "validator"
    AUDITOR = "auditor"
    IMPLICIT = "implicit"
    JUDGE = "judge"
    BUSINESS = "business"


class Scope(StrEnum):
    TOKEN = "token"  # noqa: S105 - a scope, no secret
    FIELD = "field"
    STEP = "step"
    TRAJECTORY = "trajectory"


class Reason(StrEnum):
    """Reasons that fusion knows. Other reasons are allowed: lower-case words that say why."""

    HARD_FAIL = "hard_fail"  # a checksum with a published algorithm does not hold
    SOFT_FAIL = "soft_fail"  # a convention that real documents break: never a negative reward
    PASS = "pass"  # noqa: S105 - rules hold, which proves little
    SECOND_READ_DIFFERS = "second_read_differs"  # an independent look at the print reads something else than the answer
    SECOND_READ_AGREES = "second_read_agrees"  # an independent look reads what was answered
    PRINT_IS_WRONG = "print_is_wrong"  # an auditor says that the answer is verbatim and the document itself is at fault
    EDIT = "edit"
    APPROVAL = "approval"
    REJECTION = "rejection"
    NEXT_MESSAGE = "next_message"
    REUPLOAD = "reupload"
    JUDGEMENT = "judgement"
    BUSINESS_OUTCOME = "business_outcome"
    WITHDRAWN = "withdrawn"  # its author takes back the signal that it supersedes; it says nothing itself


@dataclass(frozen=True, slots=True)
class Signal:
    """One piece of feedback on one trajectory.

    ``value`` in [-1, 1], ``confidence`` in [0, 1], ``at`` an ISO 8601 instant with a time zone, ``actor`` who or what spoke,
    ``span`` the tokens ``(start, end)`` meant, ``hint`` one to three sentences on what to do instead, ``evidence`` a JSON object
    (an edit holds ``old`` and ``new``), ``supersedes`` the ``signal_id`` of the signal that this one replaces.
    """

    traj_id: str
    source: Source
    scope: Scope
    value: float
    confidence: float
    reason: str
    actor: str
    at: str
    field: str | None = None
    step: int | None = None
    span: tuple[int, int] | None = None
    hint: str | None = None
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    supersedes: str | None = None

    @property
    def signal_id(self) -> str:
        """A hash of the content: the same signal delivered twice is one signal."""
        text = json.dumps(_content(self), ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def instant(self) -> datetime:
        return datetime.fromisoformat(self.at)


def validate(signal: Signal) -> Signal:
    """Return the signal unchanged. Raises SignalError for the first thing that is wrong."""
    if not isinstance(signal.source, Source) or not isinstance(signal.scope, Scope):
        raise SignalError("source and scope must be members of Source and Scope")
    for name in ("traj_id", "reason", "actor"):
        if not isinstance(getattr(signal, name), str) or not getattr(signal, name):
            raise SignalError(f"a signal needs a {name}")
    for name, low in (("value", -1.0), ("confidence", 0.0)):
        number = getattr(signal, name)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not low <= number <= 1.0:  # NaN lies nowhere
            raise SignalError(f"{name} must be a number in [{low:g}, 1]")
    if not is_instant(signal.at):
        raise SignalError("at must be an ISO 8601 instant with a time zone")
    _target(signal)
    if not isinstance(signal.evidence, Mapping) or not is_json(dict(signal.evidence)):
        raise SignalError("evidence must be a JSON object")
    for name in ("hint", "supersedes"):
        if getattr(signal, name) is not None and not isinstance(getattr(signal, name), str):
            raise SignalError(f"{name} must be text")
    return signal


def to_json(signal: Signal) -> dict[str, Any]:
    """Return the signal as JSON types, with its ``signal_id`` and the schema's version."""
    return {"schema": SCHEMA, "signal_id": signal.signal_id, **_content(signal)}


def from_json(data: Mapping[str, Any]) -> Signal:
    """Read and validate. Raises SignalError, also when a stored ``signal_id`` does not fit the content."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise SignalError(f"unknown signal schema; this release reads {SCHEMA}")
    values = {key: value for key, value in data.items() if key not in ("schema", "signal_id")}
    try:
        if (span := values.get("span")) is not None:
            start, end = span
            values["span"] = (start, end)
        signal = Signal(**values | {"source": Source(values["source"]), "scope": Scope(values["scope"])})
    except (TypeError, ValueError, KeyError) as error:
        raise SignalError(f"a key of the signal is missing, unknown or has the wrong type ({type(error).__name__})") from None
    validate(signal)
    if data.get("signal_id", signal.signal_id) != signal.signal_id:
        raise SignalError("the signal_id does not fit the content: the signal was altered")
    return signal


def _target(signal: Signal) -> None:
    if signal.scope is Scope.FIELD and not signal.field:
        raise SignalError("a signal of scope 'field' must name its field")
    if signal.scope is Scope.STEP and signal.step is None:
        raise SignalError("a signal of scope 'step' must number its step")
    if signal.scope is Scope.TOKEN and signal.span is None:
        raise SignalError("a signal of scope 'token' must give its span")
    if not isinstance(signal.field, str | None):
        raise SignalError("field must be text")
    if signal.step is not None and not (type(signal.step) is int and 0 <= signal.step < _LAST):
        raise SignalError("step must be a whole number from 0 on")
    if signal.span is not None and not _is_span(signal.span):
        raise SignalError("a span must be (start, end) with whole numbers 0 <= start < end")


def _is_span(span: tuple[int, int]) -> bool:
    return (
        isinstance(span, tuple)
        and len(span) == 2
        and all(type(token) is int for token in span)
        and 0 <= span[0] < span[1] < _LAST
    )


def _content(signal: Signal) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for spec in fields(signal):
        value = getattr(signal, spec.name)
        if spec.name in ("source", "scope", "reason"):
            value = str(value)
        elif spec.name in ("value", "confidence"):
            value = float(value)
        elif spec.name == "span" and value is not None:
            value = list(value)
        elif spec.name == "evidence":
            value = dict(value)
        out[spec.name] = value
    return out
