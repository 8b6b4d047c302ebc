"""From what happens to signals: checks of a field, an auditor's review, an upload.

What a signal is worth is fusion's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from certloop.agentrl.rewards import claims_nothing, fold, match_fields
from certloop.agentrl.signals.schema import Reason, Scope, Signal, Source, validate
from certloop.agentrl.trajectory import Trajectory, field_token_span


@dataclass(frozen=True, slots=True)
class SecondRead:
    """An independent look at the print: ``by`` what looked (a zoomed crop, another engine, a QR code), and what it read."""

    by: str
    text: str | None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Which trajectory a signal is about, who speaks, and when (ISO 8601 with a time zone)."""

    traj_id: str
    actor: str
    at: str


def validator_signals(
    origin: Origin,
    field: str,
    answer: str | None,
    *,
    hard_fail: bool,
    message: str = "",
    second_reads: Iterable[SecondRead] = (),
    span: tuple[int, int] | None = None,
) -> list[Signal]:
    """Return the signals of one field's checks: the failed rule (if any) and what each second read says of the answer.

    A pass gives no signal. ``message`` becomes the hint; a second read that is empty says nothing.
    """
    out = []
    if hard_fail:
        out.append(_field(origin, Source.VALIDATOR, field, -1.0, 1.0, Reason.HARD_FAIL, span=span, hint=message or None))
    for read in second_reads:
        if claims_nothing(read.text) or read.text is None:
            continue
        same = fold(read.text) == fold(answer or "")
        reason = Reason.SECOND_READ_AGREES if same else Reason.SECOND_READ_DIFFERS
        by = Origin(origin.traj_id, read.by, origin.at)
        out.append(_field(by, Source.VALIDATOR, field, 0.0, read.confidence, reason, span=span))
    return out


def where_to_look(label: str) -> str:
    """Say where to look again, never what stands there: a hint that holds the answer teaches the answer. A domain that knows what
    its fields stand on hands in a ``locate`` of its own."""
    return f"字段「{label}」答错了，请回到它的出处，逐字核对后再答。"


def review_signals(
    origin: Origin,
    original: Mapping[str, str | None],
    final: Mapping[str, str | None],
    *,
    labels: Mapping[str, str] | None = None,
    locate: Callable[[str], str] = where_to_look,
    trajectory: Trajectory | None = None,
) -> list[Signal]:
    """Return the signals of an auditor's approval of ``final`` after ``original`` was shown.

    Each changed field gets -1 with a hint where to look (``evidence`` keeps old, new and the variant that holds the answer),
    each kept field +1. The trajectory's value is the F1 of the original against the final answer: 1 when nothing was changed,
    never a flat +1. With ``trajectory`` the field signals carry their token spans.
    """
    out: list[Signal] = []
    for name in dict.fromkeys((*final, *original)):
        old, new = original.get(name), final.get(name)
        if fold(old or "") == fold(new or "") or (claims_nothing(old) and claims_nothing(new)):
            if not claims_nothing(new):
                out.append(_field(origin, Source.AUDITOR, name, 1.0, 1.0, Reason.APPROVAL))
            continue
        label = (labels or {}).get(name, name)
        evidence = {"old": old, "new": new, "hint_with_answer": _with_answer(label, new)}
        span = field_token_span(trajectory, name) if trajectory is not None else None
        out.append(_field(origin, Source.AUDITOR, name, -1.0, 1.0, Reason.EDIT, span=span, hint=locate(label), evidence=evidence))
    f1 = min(1.0, match_fields(final, original).f1)
    edits = sum(s.reason == Reason.EDIT for s in out)
    return [*out, _whole(origin, Source.AUDITOR, f1, 1.0, Reason.APPROVAL, {"edits": edits})]


def rejection_signal(origin: Origin, why: str = "") -> Signal:
    """Return an auditor's refusal of the whole answer."""
    return _whole(origin, Source.AUDITOR, -1.0, 1.0, Reason.REJECTION, {"why": why} if why else {})


def withdrawal_signals(origin: Origin, signals: Iterable[Signal]) -> list[Signal]:
    """Return what takes these signals back, as if they had never been said; they stay stored."""
    said: dict[str, Any] = {"value": 0.0, "confidence": 0.0, "reason": Reason.WITHDRAWN, "actor": origin.actor, "at": origin.at}
    empty: dict[str, Any] = {"hint": None, "evidence": {}}
    return [validate(replace(signal, **said, **empty, supersedes=signal.signal_id)) for signal in signals]


def upload_signal(origin: Origin, *, same_document: bool) -> Signal:
    """Return what the next upload says of the answer before it: the same document again is -1, another one says nothing (0)."""
    value, confidence = (-1.0, 0.8) if same_document else (0.0, 0.0)
    return _whole(origin, Source.IMPLICIT, value, confidence, Reason.REUPLOAD)


def silent_approval_signal(origin: Origin, confidence: float = 0.6) -> Signal:
    """Return what it says that an answer was used without a word: +1, implicit, less sure than an auditor's approval."""
    return _whole(origin, Source.IMPLICIT, 1.0, confidence, Reason.APPROVAL)


def judge_signal(origin: Origin, score: float, confidence: float = 1.0) -> Signal:
    """Return a judge's score in [-1, 1] of the whole answer; ``origin.actor`` names judge and version."""
    return _whole(origin, Source.JUDGE, score, confidence, Reason.JUDGEMENT)


def business_signal(origin: Origin, outcome: str, *, good: bool) -> Signal:
    """Return a business outcome (a word such as first_pass). It never enters a reward, only the guard on releases."""
    return _whole(origin, Source.BUSINESS, 1.0 if good else -1.0, 1.0, Reason.BUSINESS_OUTCOME, {"outcome": outcome})


def _with_answer(label: str, new: str | None) -> str:
    return f"字段「{label}」没有内容，不应填写。" if claims_nothing(new) else f"字段「{label}」应读作「{new}」。"


def _whole(
    origin: Origin, source: Source, value: float, confidence: float, reason: Reason, evidence: Mapping[str, Any] | None = None
) -> Signal:
    return validate(
        Signal(
            traj_id=origin.traj_id,
            source=source,
            scope=Scope.TRAJECTORY,
            value=value,
            confidence=confidence,
            reason=reason,
            actor=origin.actor,
            at=origin.at,
            evidence=evidence or {},
        )
    )


def _field(
    origin: Origin,
    source: Source,
    field: str,
    value: float,
    confidence: float,
    reason: Reason,
    *,
    span: tuple[int, int] | None = None,
    hint: str | None = None,
    evidence: Mapping[str, str | None] | None = None,
) -> Signal:
    return validate(
        Signal(
            traj_id=origin.traj_id,
            source=source,
            scope=Scope.FIELD,
            value=value,
            confidence=confidence,
            reason=reason,
            actor=origin.actor,
            at=origin.at,
            field=field,
            span=span,
            hint=hint,
            evidence=evidence or {},
        )
    )
