"""The append-only log of a tenant: events by position, and one hash-chained audit row a transaction."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from certloop.agentrl.store.engine import cipher_of
from certloop.agentrl.store.errors import EventError
from certloop.agentrl.store.events import NewEvent, canonical, now, row_values
from certloop.agentrl.store.schema import audit, events

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what and when. ``hash`` covers every other column, the hash of the row before among them."""

    tenant: str
    position: int
    at: str
    actor: str
    action: str
    details: Mapping[str, Any]
    prev_hash: str
    hash: str


def append(
    connection: Connection, tenant: str, new: Sequence[NewEvent], actor: str, action: str = "append", **details: Any
) -> None:
    """Add events and the audit row that covers them. The connection must be in a write transaction of this tenant."""
    first = (connection.execute(select(func.max(events.c.position)).where(events.c.tenant == tenant)).scalar() or 0) + 1
    cipher = cipher_of(connection)
    rows = [row_values(cipher, tenant, first + offset, event) for offset, event in enumerate(new)]
    if rows:
        connection.execute(insert(events), rows)
        kinds = Counter(str(event.kind) for event in new)
        details |= {"first": first, "last": first + len(rows) - 1, "kinds": dict(kinds)}
        details["digest"] = events_digest(row["row_sha256"] for row in rows)
    add_audit(connection, tenant, actor, action, details)


def add_audit(connection: Connection, tenant: str, actor: str, action: str, details: Mapping[str, Any]) -> None:
    """Add one row to the tenant's chain; in a sealed store it bears a keyed mark. ``details`` holds ids and counts, never
    content."""
    if "\0" in actor:
        raise EventError("an actor must not hold a NUL character")  # Postgres takes none
    head = connection.execute(
        select(audit.c.position, audit.c.hash).where(audit.c.tenant == tenant).order_by(audit.c.position.desc()).limit(1)
    ).first()
    values: dict[str, Any] = {
        "tenant": tenant,
        "position": 1 if head is None else head.position + 1,
        "at": now(),
        "actor": actor,
        "action": action,
        "details": canonical(details),
        "prev_hash": GENESIS if head is None else head.hash,
    }
    row_hash = audit_hash(values)
    connection.execute(insert(audit), [values | {"hash": row_hash, "mac": cipher_of(connection).mark(tenant, row_hash)}])


def audit_hash(values: Mapping[str, Any]) -> str:
    names = ("tenant", "position", "at", "actor", "action", "details", "prev_hash")
    return hashlib.sha256(canonical([values[name] for name in names]).encode()).hexdigest()


def events_digest(row_hashes: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for row_hash in row_hashes:
        digest.update(row_hash.encode())
    return digest.hexdigest()


def audit_from_row(row: Any) -> AuditRow:
    return AuditRow(row.tenant, row.position, row.at, row.actor, row.action, json.loads(row.details), row.prev_hash, row.hash)
