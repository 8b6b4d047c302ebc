"""What the queue holds, and one review with everything that a decision needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from certloop.extract.result import FieldStatus
from certloop.extract.stored import document_from_json
from certloop.serve.confidence.calibration import Calibration
from certloop.serve.confidence.versions import active
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, reviews
from certloop.serve.people.roles import Permission
from certloop.serve.review import certificate as certs
from certloop.serve.review import history
from certloop.serve.review.certificate import Certificate, Fields, values_of
from certloop.serve.review.claims import Review, earlier, from_row, load
from certloop.serve.review.edits import own_entries, working_fields
from certloop.serve.review.policy import policy_of
from certloop.serve.review.triage import Reason, Why
from certloop.serve.work.results import expected_of
from certloop.serve.work.verdict import comparisons_for
from certloop.templates import DocumentType
from certloop.validators import check_document

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

Position = tuple[float, str, str]
"""Sort keys of a row: priority, created_at, certificate_id."""
SECOND_PRIORITY = 0.0


class State(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"


class Claimed(StrEnum):
    MINE = "mine"
    OTHERS = "others"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of the queue. ``min_age_s``: waiting for at least so long."""

    state: State = State.OPEN
    doc_type: str | None = None
    reason: Why | None = None
    claimed: Claimed | None = None
    min_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the queue as ``actor`` may see it, and where it stands in the order."""

    body: Mapping[str, Any]
    position: Position


def listing(service: Service, actor: Actor, wanted: Wanted, *, limit: int, after: Position | None = None) -> tuple[Row, ...]:
    """The heaviest first, then the oldest. Open ones include second looks at what others decided."""
    actor.require(Permission.REVIEWS_READ)
    with reading(service, actor.tenant) as connection:
        now, undo_s = service.now(), policy_of(connection, actor.tenant).undo_s
        second = _second(actor, earlier(now, undo_s))
        weight: ColumnElement[float] = reviews.c.priority
        if wanted.state is State.OPEN:
            weight = case((reviews.c.state == State.OPEN.value, reviews.c.priority), else_=SECOND_PRIORITY)
        since = case((reviews.c.state == State.OPEN.value, reviews.c.created_at), else_=reviews.c.decided_at)
        query = (
            select(reviews, certificates.c.doc_type, certificates.c.document_id, certificates.c.reasons, certificates.c.revision)
            .add_columns(weight.label("weight"), since.label("since"))
            .join(
                certificates,
                and_(certificates.c.tenant == reviews.c.tenant, certificates.c.certificate_id == reviews.c.certificate_id),
            )
            .where(reviews.c.tenant == actor.tenant)
            .where(*_filters(wanted, actor, now, second, since))
            .order_by(weight.desc(), reviews.c.created_at, reviews.c.certificate_id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(_beyond(weight, after))
        return tuple(
            Row(_row_json(row, now, wanted.state), (row.weight, row.created_at, row.certificate_id))
            for row in connection.execute(query)
        )


def summary(service: Service, actor: Actor) -> dict[str, Any]:
    """How much waits, for how long, why, and who holds it; second looks apart."""
    actor.require(Permission.REVIEWS_READ)
    with reading(service, actor.tenant) as connection:
        now, undo_s = service.now(), policy_of(connection, actor.tenant).undo_s
        mine = (reviews.c.tenant == actor.tenant, reviews.c.state == State.OPEN.value)
        held = and_(reviews.c.claimed_by.is_not(None), reviews.c.lease_until > now)
        counted = select(func.count(), func.count().filter(held), func.min(reviews.c.created_at)).where(*mine)
        waiting, claimed, oldest = connection.execute(counted).one()
        same = and_(certificates.c.tenant == reviews.c.tenant, certificates.c.certificate_id == reviews.c.certificate_id)
        grouped = select(certificates.c.reasons, func.count()).join(reviews, same).where(*mine).group_by(certificates.c.reasons)
        reasons: dict[str, int] = {}
        for text, count in connection.execute(grouped):
            for why in {reason["reason"] for reason in json.loads(text)}:
                reasons[why] = reasons.get(why, 0) + count
        second = select(func.count()).select_from(reviews).where(reviews.c.tenant == actor.tenant)
        seconds = connection.execute(second.where(_second(actor, earlier(now, undo_s)))).scalar_one()
    return {
        "open": waiting,
        "claimed": claimed,
        "oldest_age_s": _age_s(oldest, now) if waiting else None,
        "second_looks": seconds,
        "reasons": dict(sorted(reasons.items())),
    }


def view(service: Service, actor: Actor, certificate_id: str) -> dict[str, Any]:
    """One review: fields with places, checks and probabilities, what was declared, history. A second look is blind: it shows
    what was read, never what the first auditor made of it. Raises NotFoundError."""
    if not actor.may(Permission.REVIEWS_DECIDE):  # who decides may see what
        actor.require(Permission.REVIEWS_READ)
    with reading(service, actor.tenant) as connection:
        certificate, review = certs.load(connection, actor.tenant, certificate_id), load(connection, actor.tenant, certificate_id)
        now, undo_s = service.now(), policy_of(connection, actor.tenant).undo_s
        blind = review.second(earlier(now, undo_s)) and review.decided_by != actor.actor_id
        kind = service.registry.types.get(certificate.doc_type)
        read = certs.as_read(connection, certificate)
        fields = working_fields(connection, review, certificate, kind) if blind else certificate.fields
        entries = history.entries(connection, actor.tenant, certificate_id)
        shown = own_entries(entries, review) if blind and review.claimed_by == actor.actor_id else [] if blind else list(entries)
        document = dict(read) | {"doc_type": certificate.doc_type, "fields": dict(fields)}
        declared = expected_of(connection, actor.tenant, certificate.document_id)
        compared = comparisons_for(service, document_from_json(document), declared)
        calibration = active(connection, actor.tenant)
        return _head(certificate, review, now, blind) | {
            "title": read["title"],
            "type_confidence": read["type_confidence"],
            "pages": read["pages"],
            "quality": read["quality"],
            "seals": read["seals"],
            "qr": read["qr"],
            "fields": _fields_json(certificate_id, fields, read["fields"], kind, calibration),
            "missing": missing_fields(kind, fields),
            "validations": [v.to_json() for v in check_document(certificate.doc_type, values_of(fields), _payloads(read))],
            "comparisons": [comparison.to_json() for comparison in compared],
            "history": [entry.to_json() for entry in shown],
        }


def missing_fields(kind: DocumentType | None, fields: Fields) -> list[str]:
    """Required fields without a value; of a group of which one is enough, the first, when all are without."""
    if kind is None:
        return []
    groups = [(name,) for name in kind.required] + list(kind.one_of)
    return [group[0] for group in groups if all((fields.get(name) or {}).get("value") is None for name in group)]


def _head(certificate: Certificate, review: Review, now: str, blind: bool) -> dict[str, Any]:
    reasons = [Reason(Why.DOUBLE_CHECK).to_json()] if blind else [dict(reason) for reason in certificate.reasons]
    return {
        "certificate_id": certificate.certificate_id,
        "document_id": certificate.document_id,
        "doc_type": certificate.doc_type,
        "revision": certificate.revision,
        "state": State.OPEN.value if blind else review.state,
        "second_look": blind,
        "priority": SECOND_PRIORITY if blind else review.priority,
        "reasons": reasons,
        "created_at": review.created_at,
        "age_s": _age_s(str(review.decided_at) if blind else review.created_at, now),
        "claimed_by": review.claimed_by if review.claimed_by is not None and str(review.lease_until) > now else None,
        "lease_until": review.lease_until if review.claimed_by is not None and str(review.lease_until) > now else None,
        "decided_by": None if blind else review.decided_by,
        "decided_at": None if blind else review.decided_at,
    }


def _row_json(row: Any, now: str, asked: State) -> dict[str, Any]:
    review = from_row(row)
    blind = asked is State.OPEN and review.state != State.OPEN.value
    certificate = Certificate(
        row.tenant, row.certificate_id, row.document_id, 0, None, row.doc_type, row.state, row.revision, {},
        tuple(json.loads(row.reasons)), row.created_at, row.created_at,
    )  # fmt: skip
    return _head(certificate, review, now, blind)


def _fields_json(
    certificate_id: str, fields: Fields, read: Fields, kind: DocumentType | None, calibration: Calibration
) -> dict[str, dict[str, Any]]:
    out = {}
    for name, field in fields.items():
        spec = kind.fields.get(name) if kind is not None else None
        edited = "edited" in field
        sure = None
        if spec is not None and field["status"] == FieldStatus.READ and not edited:
            sure = round(calibration.probability(spec.kind.value, float(field["confidence"])), 4)
        before = read.get(name)
        out[name] = {
            **field,
            "kind": spec.kind.value if spec is not None else None,
            "required": bool(spec is not None and spec.required),
            "probability": sure,
            "crop": None if field["box"] is None else f"/v1/certificates/{certificate_id}/pages/{field['page']}.png?field={name}",
            "edited": field.get("edited"),
            "read_value": None if before is None else before["value"],
        }
    return out


def _filters(
    wanted: Wanted, actor: Actor, now: str, second: ColumnElement[bool], since: ColumnElement[str]
) -> list[ColumnElement[bool]]:
    if wanted.state is State.OPEN:
        out = [or_(reviews.c.state == State.OPEN.value, second)]
    else:
        out = [reviews.c.state == wanted.state.value]
    if wanted.doc_type is not None:
        out.append(certificates.c.doc_type == wanted.doc_type)
    if wanted.reason is Why.DOUBLE_CHECK:
        out.append(second)
    elif wanted.reason is not None:
        out += [certificates.c.reasons.contains(f'"reason": "{wanted.reason.value}"', autoescape=True)]
        out += [reviews.c.state == wanted.state.value]
    held = and_(reviews.c.claimed_by.is_not(None), reviews.c.lease_until > now)
    if wanted.claimed is Claimed.MINE:
        out += [held, reviews.c.claimed_by == actor.actor_id]
    elif wanted.claimed is Claimed.OTHERS:
        out += [held, reviews.c.claimed_by != actor.actor_id]
    elif wanted.claimed is Claimed.NOBODY:
        out.append(or_(reviews.c.claimed_by.is_(None), reviews.c.lease_until <= now))
    if wanted.min_age_s > 0:
        out.append(since <= earlier(now, wanted.min_age_s))
    return out


def _second(actor: Actor, undo_until: str) -> ColumnElement[bool]:
    """Decided, drawn for a second look, past the time for taking back, and by somebody else."""
    return and_(
        reviews.c.double_check.is_(True),
        reviews.c.state == State.APPROVED.value,
        reviews.c.decided_at <= undo_until,
        reviews.c.decided_by != actor.actor_id,
    )


def _beyond(weight: ColumnElement[float], after: Position) -> ColumnElement[bool]:
    priority, created_at, certificate_id = after
    same = and_(
        weight == priority,
        or_(
            reviews.c.created_at > created_at,
            and_(reviews.c.created_at == created_at, reviews.c.certificate_id > certificate_id),
        ),
    )
    return or_(weight < priority, same)


def _payloads(read: Mapping[str, Any]) -> list[str]:
    return [code["payload"] for code in read["qr"]]


def _age_s(since: str, now: str) -> float:
    return round(max(0.0, (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()), 3)


def count_open(connection: Connection, tenant: str) -> int:
    """How many certificates wait for a person (for metrics)."""
    query = select(func.count()).select_from(reviews).where(reviews.c.tenant == tenant, reviews.c.state == State.OPEN.value)
    return int(connection.execute(query).scalar_one())
