"""The next message of a conversation about a certificate, as implicit feedback (METHODS §5).

Rules decide what it says (``agentrl/signals/phrases.toml``), or a judge where one is configured; a judge that fails is named in
the answer and the rules decide. A judge sees redacted texts only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from certloop.agentrl.signals import (
    Feedback,
    JudgeError,
    LlmJudge,
    Origin,
    Reason,
    Signal,
    Source,
    classify_message,
    next_message_signals,
)
from certloop.agentrl.store import reader, redact_json
from certloop.extract.redaction import certificate_redactor
from certloop.serve.db.access import writing
from certloop.serve.feedback.signals import write_signals
from certloop.serve.people.roles import Permission
from certloop.serve.review.signals import labels_of

if TYPE_CHECKING:
    from certloop.agentrl.store import StoredTrajectory
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


@dataclass(frozen=True, slots=True)
class Heard:
    """What a message was taken to say. ``value`` is None for one that says nothing at all; ``field`` is a printed label."""

    value: float | None
    confidence: float
    rule: str
    field: str | None
    hint: str | None
    signals: tuple[str, ...]
    judged_by: str
    judge_error: str | None = None
    repeated: bool = False


def hear(
    service: Service,
    actor: Actor,
    trajectory_id: str,
    message: str,
    *,
    previous_request: str | None = None,
    message_id: str | None = None,
) -> Heard:
    """Store what the message says of the answer before it. With a ``message_id`` a repeated call adds nothing.

    ``previous_request`` lets a rephrased request be recognised. Raises NotFoundError, ErasedError.
    """
    actor.require(Permission.FEEDBACK_WRITE)
    stored = service.tenant(actor.tenant).trajectory(trajectory_id)
    if known := _known(stored, message_id):
        return known
    found, judged_by, judge_error = _judged(service, stored, message, previous_request)
    with writing(service, actor.tenant) as connection:
        stored = reader.one(connection, actor.tenant, trajectory_id)
        if known := _known(stored, message_id):
            return known
        doc_type = service.registry.types.get(stored.trajectory.doc_type)
        signals = next_message_signals(
            Origin(trajectory_id, actor.actor_id, service.now()),
            message,
            labels=labels_of(doc_type) if doc_type is not None else None,
            previous_request=previous_request,
            trajectory=stored.trajectory,
            feedback=found,
        )
        more = {"judged_by": judged_by} | ({} if message_id is None else {"message_id": message_id})
        signals = [replace(signal, evidence={**signal.evidence, **more}) for signal in signals]
        write_signals(service, connection, actor.tenant, signals, actor.actor_id)
    return _heard(signals, judge_error)


def _judged(
    service: Service, stored: StoredTrajectory, message: str, previous_request: str | None
) -> tuple[Feedback | None, str, str | None]:
    by_rules = classify_message(message, previous_request=previous_request)
    config = service.config.judge
    if config is None or by_rules is None:
        return by_rules, "rules", None
    redactor = certificate_redactor(stored.trajectory, stored.signals, service.registry)
    judge = LlmJudge(config, redact=lambda text: str(redact_json(text, redactor)))
    try:
        return judge.judge(previous_request or "", stored.trajectory.final_json or "", message), config.model, None
    except JudgeError as error:
        return by_rules, "rules", error.code


def _known(stored: StoredTrajectory, message_id: str | None) -> Heard | None:
    if message_id is None:
        return None
    said = [s for s in stored.signals if s.source is Source.IMPLICIT and s.evidence.get("message_id") == message_id]
    return replace(_heard(said, None), repeated=True) if said else None


def _heard(signals: list[Signal], judge_error: str | None) -> Heard:
    if not signals:
        return Heard(None, 0.0, "empty", None, None, (), "rules", judge_error)
    whole = next((s for s in signals if s.field is None and s.reason == Reason.NEXT_MESSAGE), signals[0])
    return Heard(
        value=whole.value,
        confidence=whole.confidence,
        rule=str(whole.evidence["rule"]),
        field=next((s.field for s in signals if s.field is not None), None),
        hint=whole.hint,
        signals=tuple(signal.signal_id for signal in signals),
        judged_by=str(whole.evidence.get("judged_by", "rules")),
        judge_error=judge_error,
    )
