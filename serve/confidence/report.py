"""What the calibration in force does: the straight-through rate at this and other error rates, and what was found wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from certloop.extract.stored import document_from_json
from certloop.serve.confidence.fit import RATES, ece, passing
from certloop.serve.confidence.versions import active, reviewed_samples
from certloop.serve.db.access import reading, unseal_json
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.people.roles import Permission
from certloop.serve.review.policy import policy_of
from certloop.serve.review.triage import ReviewPolicy, Why, unsure_fields

if TYPE_CHECKING:
    from certloop.extract.result import FieldResult
    from certloop.serve.confidence.calibration import Calibration
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor
    from certloop.templates import DocumentType, Registry

_NOT_UNSURE = frozenset(Why) - {Why.FIELD_UNSURE, Why.SAMPLED, Why.DOUBLE_CHECK}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A certificate as it was read. ``other``: it needed a person for another reason than sureness."""

    doc_type: DocumentType
    fields: Mapping[str, FieldResult]
    other: bool


def report(service: Service, actor: Actor, *, last: int = 200) -> dict[str, Any]:
    """Over the ``last`` certificates that were read, and the ``last`` that auditors reviewed."""
    actor.require(Permission.LEARNING_READ)
    with reading(service, actor.tenant) as connection:
        calibration, policy = active(connection, actor.tenant), policy_of(connection, actor.tenant)
        seen = _seen(connection, actor.tenant, service.registry, last)
        reviewed = list(reviewed_samples(connection, actor.tenant, service.registry, last))
        sampled = list(reviewed_samples(connection, actor.tenant, service.registry, last, sampled=True))
    rates = sorted({*RATES, policy.accepted_error})
    return {
        "version": calibration.version,
        "source": calibration.source,
        "accepted_error": policy.accepted_error,
        "all_fields": policy.all_fields,
        "certificates": len(seen),
        "straight_through": [_through(seen, policy, calibration, rate) for rate in rates],
        "passed_and_sampled": dict(passing(calibration, sampled, policy.accepted_error)),
        "reviewed": {
            "fields": len(reviewed),
            "right": sum(s.right for s in reviewed),
            "ece_before": ece([(s.confidence, s.right) for s in reviewed]),
            "ece_after": ece([(calibration.probability(s.kind, s.confidence), s.right) for s in reviewed]),
        },
    }


def _through(seen: list[_Seen], policy: ReviewPolicy, calibration: Calibration, rate: float) -> dict[str, Any]:
    """What would pass if ``rate`` were the accepted error rate; sampling aside."""
    asked = replace(policy, accepted_error=rate)
    passed = sum(not s.other and not unsure_fields(s.fields, asked, s.doc_type, calibration) for s in seen)
    return {
        "accepted_error": rate,
        "threshold": calibration.threshold(rate),
        "passed": passed,
        "rate": round(passed / len(seen), 4) if seen else None,
    }


def _seen(connection: Connection, tenant: str, registry: Registry, last: int) -> list[_Seen]:
    query = (
        select(certificates.c.position, certificates.c.reasons, uploads.c.document_id, uploads.c.result)
        .join(uploads, (uploads.c.tenant == tenant) & (uploads.c.document_id == certificates.c.document_id))
        .where(certificates.c.tenant == tenant, uploads.c.result.is_not(None))
        .order_by(certificates.c.created_at.desc())
        .limit(last)
    )
    out = []
    for row in connection.execute(query):
        result = unseal_json(connection, tenant, f"serve_uploads.result/{row.document_id}", row.result)
        document = document_from_json(result["documents"][row.position])
        doc_type = registry.types.get(document.doc_type)
        other = any(reason["reason"] in _NOT_UNSURE for reason in json.loads(row.reasons))
        if doc_type is None:
            continue
        out.append(_Seen(doc_type, document.fields, other))
    return out
