"""The outbox: events become deliveries in the transaction that made them true, so none is lost and none is sent too early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import Connection, insert, select

from certloop.agentrl.store.events import new_id
from certloop.serve.db.schema import deliveries, webhooks


class Event(StrEnum):
    """What a webhook may be told. Payloads hold ids and states, never values."""

    DOCUMENT_DONE = "document.done"
    DOCUMENT_FAILED = "document.failed"
    BATCH_DONE = "batch.done"
    REVIEW_APPROVED = "review.approved"
    REVIEW_REJECTED = "review.rejected"
    REVIEW_UNDONE = "review.undone"


def enqueue(
    connection: Connection, tenant: str, event: str, payload: Mapping[str, str | int | bool | None], at: datetime
) -> tuple[str, ...]:
    """Queue one delivery for each endpoint of the tenant that listens to ``event``; returns their ids.

    The connection must be in a write transaction of this tenant: the deliveries exist exactly when its other rows do.
    ``payload`` holds ids and states only; it leaves the house.
    """
    kind, stamp = Event(event), at.astimezone(UTC).isoformat(timespec="microseconds")
    query = select(webhooks.c.webhook_id, webhooks.c.events).where(webhooks.c.tenant == tenant, webhooks.c.disabled_at.is_(None))
    body = json.dumps({"type": str(kind), "timestamp": stamp, "data": dict(payload)}, ensure_ascii=False, separators=(",", ":"))
    rows = [
        {
            "tenant": tenant,
            "delivery_id": f"dlv_{new_id()}",
            "webhook_id": row.webhook_id,
            "event": str(kind),
            "payload": body,
            "state": "pending",
            "attempts": 0,
            "next_at": stamp,
            "created_at": stamp,
        }
        for row in connection.execute(query)
        if str(kind) in json.loads(row.events)
    ]
    if rows:
        connection.execute(insert(deliveries), rows)
    return tuple(str(row["delivery_id"]) for row in rows)
