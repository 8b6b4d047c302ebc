"""The queue of certificates that a person must look at."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.schema import certificates, reviews
from certloop.serve.review import history
from certloop.serve.review.triage import Reason, priority_of

TRIAGE = "triage"


def open_review(
    connection: Connection, tenant: str, certificate_id: str, reasons: Sequence[Reason], at: str, *, actor: str = TRIAGE
) -> bool:
    """Put a certificate into the queue, in the write transaction of ``tenant`` that the caller has open.

    The certificate's row must be there; its state becomes review and ``reasons`` are added to it. One that is open already gets
    the further reasons; one that was decided stays decided (False). ``at`` is an instant as ``Service.now`` writes it.
    """
    if not reasons:
        return False
    mine = (certificates.c.tenant == tenant, certificates.c.certificate_id == certificate_id)
    row = connection.execute(select(certificates.c.state, certificates.c.reasons, certificates.c.revision).where(*mine)).first()
    if row is None:
        raise NotFoundError(f"no certificate {certificate_id[:80]} in this tenant")
    if row.state in ("approved", "rejected"):
        return False
    known = json.loads(row.reasons)
    added = [reason.to_json() for reason in reasons if reason.to_json() not in known]
    connection.execute(
        update(certificates)
        .where(*mine)
        .values(
            state="review",
            reasons=json.dumps([*known, *added], ensure_ascii=False),
            revision=row.revision + (row.state != "review" or bool(added)),
            updated_at=at,
        )
    )
    review = (reviews.c.tenant == tenant, reviews.c.certificate_id == certificate_id)
    priority = priority_of(reasons)
    there = connection.execute(select(reviews.c.priority).where(*review)).scalar()
    if there is None:
        values = {"state": "open", "priority": priority, "created_at": at, "double_check": False}
        connection.execute(insert(reviews), [{"tenant": tenant, "certificate_id": certificate_id} | values])
    else:
        connection.execute(update(reviews).where(*review).values(state="open", priority=max(priority, there)))
    why = [{"reason": reason.why.value, "field": reason.field} for reason in reasons]
    history.append(connection, tenant, certificate_id, at=at, actor=actor, action=history.Action.OPENED, details={"reasons": why})
    return True
