"""Deciding a review: approve, reject, take back. Rows, signals and webhooks are written in one transaction, so exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from certloop.agentrl.signals import Origin, Signal, rejection_signal, withdrawal_signals
from certloop.agentrl.store import reader as stored
from certloop.serve.db.access import writing
from certloop.serve.db.schema import uploads
from certloop.serve.dossier.check import check_again
from certloop.serve.errors import UndoError, UnsaidError
from certloop.serve.feedback.signals import write_signals
from certloop.serve.people.roles import Permission
from certloop.serve.review import certificate as certs
from certloop.serve.review import double, history
from certloop.serve.review.certificate import Certificate
from certloop.serve.review.claims import Review, change, earlier, hold, later, load
from certloop.serve.review.edits import checked_comment, unsaid, working_fields
from certloop.serve.review.history import Action
from certloop.serve.review.policy import policy_of
from certloop.serve.review.signals import approval_signals, comment_signals, edited_labels
from certloop.serve.review.triage import drawn
from certloop.serve.webhooks.outbox import Event, enqueue

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.agentrl.trajectory import Trajectory
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


class RejectReason(StrEnum):
    """Why a certificate is refused. Only a bad answer is held against the reader; a bad paper is not its fault."""

    MISREAD = "misread"
    WRONG_TYPE = "wrong_type"
    NOT_A_CERTIFICATE = "not_a_certificate"
    NOT_LEGIBLE = "not_legible"
    INCOMPLETE = "incomplete"
    EXPIRED = "expired"
    SUSPECTED_FORGERY = "suspected_forgery"
    OTHER = "other"


BAD_ANSWER = frozenset({RejectReason.MISREAD, RejectReason.WRONG_TYPE, RejectReason.NOT_A_CERTIFICATE})
REJECT_SENTENCES: Mapping[RejectReason, tuple[str, str]] = {
    RejectReason.MISREAD: ("读取结果错误，无法逐项更正。", "Misread beyond correcting field by field."),
    RejectReason.WRONG_TYPE: ("证照类型判断错误。", "Taken for another kind of certificate."),
    RejectReason.NOT_A_CERTIFICATE: ("不是证照。", "Not a certificate."),
    RejectReason.NOT_LEGIBLE: ("图像不清晰，请重新拍摄。", "The picture is not legible; take another."),
    RejectReason.INCOMPLETE: ("页面不全。", "Pages are missing."),
    RejectReason.EXPIRED: ("证照已过期。", "The certificate has expired."),
    RejectReason.SUSPECTED_FORGERY: ("疑似伪造或涂改。", "Suspected to be forged or altered."),
    RejectReason.OTHER: ("其他原因。", "Another reason."),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """``signals`` are the ids of what was stored; ``undo_until`` an instant."""

    certificate_id: str
    state: str
    revision: int
    signals: tuple[str, ...]
    undo_until: str | None


@dataclass(frozen=True, slots=True)
class _Case:
    """One review being decided by its holder."""

    service: Service
    connection: Connection
    actor: Actor
    certificate: Certificate
    review: Review
    now: str

    @property
    def second(self) -> bool:
        return self.review.state != "open"

    def trajectory(self) -> Trajectory | None:
        if self.certificate.trajectory_id is None:
            return None
        return stored.one(self.connection, self.actor.tenant, self.certificate.trajectory_id).trajectory


def approve(service: Service, actor: Actor, certificate_id: str, revision: int, *, comment: str | None = None) -> Decision:
    """The certificate is right as it stands. Raises as :func:`claims.claim`, PreconditionError for another revision,
    UnsaidError where it was taken for another type and required fields of that were left alone."""

    def signals(case: _Case, origin: Origin) -> list[Signal]:
        read, final = certs.as_read(case.connection, case.certificate), case.certificate.fields
        trajectory = case.trajectory()
        changed_type = case.certificate.doc_type if case.certificate.doc_type != read["doc_type"] else None
        said = approval_signals(origin, read["fields"], final, trajectory=trajectory, doc_type=changed_type)
        return said + _comments(case, origin, edited_labels(read["fields"], final), trajectory)

    decision = _decide(service, actor, certificate_id, revision, "approved", signals, comment, {})
    service.loop.soon(actor.tenant, certificate_id, actor.actor_id)
    return decision


def reject(
    service: Service, actor: Actor, certificate_id: str, revision: int, reason: RejectReason, *, comment: str | None = None
) -> Decision:
    """The certificate is refused. Raises as :func:`approve`."""

    def signals(case: _Case, origin: Origin) -> list[Signal]:
        said = [rejection_signal(origin, reason.value)] if reason in BAD_ANSWER else []
        return said + _comments(case, origin, (), None)

    return _decide(service, actor, certificate_id, revision, "rejected", signals, comment, {"reason": reason.value})


def undo(service: Service, actor: Actor, certificate_id: str) -> Decision:
    """Take back one's own decision within ``ReviewPolicy.undo_s``: the review is open again and held, its signals are withdrawn
    by further signals. An admin may take back anybody's. Raises NotFoundError, UndoError."""
    actor.require(Permission.REVIEWS_DECIDE)
    with writing(service, actor.tenant) as connection:
        policy, now = policy_of(connection, actor.tenant), service.now()
        certificate, review = certs.load(connection, actor.tenant, certificate_id), load(connection, actor.tenant, certificate_id)
        if review.state not in ("approved", "rejected"):
            raise UndoError(f"this review is {review.state}: there is no decision to take back")
        if review.decided_by != actor.actor_id and not actor.may(Permission.ADMIN):
            raise UndoError("only who decided can take it back")
        if str(review.decided_at) <= earlier(now, policy.undo_s):
            raise UndoError(f"a decision can be taken back for {policy.undo_s:g} s")
        done = [
            e for e in history.entries(connection, actor.tenant, certificate_id) if e.action in (Action.APPROVED, Action.REJECTED)
        ]
        ids = _withdraw(service, connection, actor, certificate, done[-1].details.get("signals", ()), now)
        revision = certs.save(connection, certificate, at=now, state="review")
        held = {"claimed_by": actor.actor_id, "lease_until": later(now, policy.lease_s)}
        change(
            connection, actor.tenant, certificate_id, state="open", decided_by=None, decided_at=None, double_check=False, **held
        )
        check_again(service, connection, actor.tenant, _batch_of(connection, certificate), now)
        _note(connection, actor, certificate_id, now, Action.UNDONE, signals=list(ids))
        _tell(connection, service, certificate, Event.REVIEW_UNDONE, "review", revision)
        return Decision(certificate_id, "review", revision, ids, None)


def _decide(
    service: Service,
    actor: Actor,
    certificate_id: str,
    revision: int,
    state: str,
    signals_of: Callable[[_Case, Origin], list[Signal]],
    comment: str | None,
    details: Mapping[str, Any],
) -> Decision:
    actor.require(Permission.REVIEWS_DECIDE)
    with writing(service, actor.tenant) as connection:
        certificate, now = certs.load(connection, actor.tenant, certificate_id), service.now()
        review = hold(service, connection, actor, certificate_id)
        certs.check_revision(certificate, revision)
        case = _Case(service, connection, actor, certificate, review, now)
        if state == "approved":
            _check_said(case)
        if comment is not None:
            more = {"second": True} if case.second else {}
            _note(connection, actor, certificate_id, now, Action.COMMENTED, comment=checked_comment(comment), **more)
        if case.second:
            return Decision(certificate_id, certificate.state, double.finish(case, state), (), None)
        ids: tuple[str, ...] = ()
        if certificate.trajectory_id is not None:
            origin = Origin(certificate.trajectory_id, actor.actor_id, now)
            ids = write_signals(service, connection, actor.tenant, signals_of(case, origin), actor.actor_id)
        policy = policy_of(connection, actor.tenant)
        again = state == "approved" and drawn(policy.seed, "double", certificate_id, policy.double_share)
        new = certs.save(connection, certificate, at=now, state=state)
        change(
            connection, actor.tenant, certificate_id, state=state, decided_by=actor.actor_id, decided_at=now,
            claimed_by=None, lease_until=None, double_check=again,
        )  # fmt: skip
        check_again(service, connection, actor.tenant, _batch_of(connection, certificate), now)
        action = Action.APPROVED if state == "approved" else Action.REJECTED
        _note(connection, actor, certificate_id, now, action, signals=list(ids), **details)
        _tell(connection, service, certificate, Event(f"review.{state}"), state, new)
        return Decision(certificate_id, state, new, ids, later(now, policy.undo_s))


def _check_said(case: _Case) -> None:
    """A type that a person changed makes other fields required, and no reader has looked for those: a person must."""
    kind = case.service.registry.types.get(case.certificate.doc_type)
    if kind is None or kind.id == certs.as_read(case.connection, case.certificate)["doc_type"]:
        return
    missing = unsaid(kind, working_fields(case.connection, case.review, case.certificate, kind))
    if missing:
        places = [{"loc": ["fields", name], "message": "required and not said"} for name in missing]
        words = "，".join(f"「{kind.fields[name].label}」({name})" for name in missing)
        said = (
            f"{kind.id} requires fields that nobody has filled in: {words}. Correct each: a value, or null and why there is none"
        )
        raise UnsaidError(said, places)


def _batch_of(connection: Connection, certificate: Certificate) -> str | None:
    mine = (uploads.c.tenant == certificate.tenant, uploads.c.document_id == certificate.document_id)
    batch_id: str | None = connection.execute(select(uploads.c.batch_id).where(*mine)).scalar()
    return batch_id


def _comments(case: _Case, origin: Origin, edited: Sequence[str], trajectory: Trajectory | None) -> list[Signal]:
    """The comments since the last decision, each in the name of who made it."""
    entries = history.entries(case.connection, case.actor.tenant, case.certificate.certificate_id)
    last = max((e.seq for e in entries if e.action in (Action.APPROVED, Action.REJECTED)), default=0)
    said = [
        (Origin(origin.traj_id, entry.actor, entry.at), str(entry.details["comment"]))
        for entry in entries
        if entry.action is Action.COMMENTED and entry.seq > last and not entry.details.get("second")
    ]
    doc_type = case.service.registry.types.get(case.certificate.doc_type)
    return comment_signals(said, doc_type=doc_type, edited=edited, trajectory=trajectory)


def _withdraw(
    service: Service, connection: Connection, actor: Actor, certificate: Certificate, ids: Sequence[str], now: str
) -> tuple[str, ...]:
    if certificate.trajectory_id is None or not ids:
        return ()
    known = stored.one(connection, actor.tenant, certificate.trajectory_id)
    said = [signal for signal in known.signals if signal.signal_id in set(ids)]
    origin = Origin(certificate.trajectory_id, actor.actor_id, now)
    return write_signals(service, connection, actor.tenant, withdrawal_signals(origin, said), actor.actor_id)


def _tell(connection: Connection, service: Service, certificate: Certificate, event: Event, state: str, revision: int) -> None:
    payload = {"certificate_id": certificate.certificate_id, "document_id": certificate.document_id, "state": state}
    enqueue(connection, certificate.tenant, event, payload | {"revision": revision}, service.clock())


def _note(connection: Connection, actor: Actor, certificate_id: str, at: str, action: Action, **details: Any) -> None:
    history.append(connection, actor.tenant, certificate_id, at=at, actor=actor.actor_id, action=action, details=details)
