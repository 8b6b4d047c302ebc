"""The history of a certificate: who did what and when. Rows are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, insert, select

from certloop.serve.db.access import seal_json, unseal_json
from certloop.serve.db.schema import history


class Action(StrEnum):
    OPENED = "opened"
    CLAIMED = "claimed"
    RENEWED = "renewed"
    RELEASED = "released"
    EDITED = "edited"
    APPROVED = "approved"
    REJECTED = "rejected"
    UNDONE = "undone"
    COMMENTED = "commented"
    DOUBLE_CHECKED = "double_checked"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. ``details`` may hold values of the document (old and new of an edit): never log them."""

    seq: int
    at: str
    actor: str
    action: Action
    field: str | None
    details: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "at": self.at,
            "actor": self.actor,
            "action": self.action.value,
            "field": self.field,
            "details": dict(self.details),
        }


def append(
    connection: Connection,
    tenant: str,
    certificate_id: str,
    *,
    at: str,
    actor: str,
    action: Action,
    field: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> int:
    """Add a row in the caller's write transaction and return its number."""
    mine = (history.c.tenant == tenant, history.c.certificate_id == certificate_id)
    seq = int(connection.execute(select(func.max(history.c.seq)).where(*mine)).scalar() or 0) + 1
    sealed = seal_json(connection, tenant, _name(certificate_id, seq), dict(details or {}))
    row = {"tenant": tenant, "certificate_id": certificate_id, "seq": seq, "at": at, "actor": actor}
    connection.execute(insert(history), [row | {"action": action.value, "field": field, "details": sealed}])
    return seq


def entries(connection: Connection, tenant: str, certificate_id: str) -> tuple[Entry, ...]:
    """Every row of one certificate, oldest first."""
    mine = (history.c.tenant == tenant, history.c.certificate_id == certificate_id)
    rows = connection.execute(select(history).where(*mine).order_by(history.c.seq))
    return tuple(
        Entry(
            row.seq,
            row.at,
            row.actor,
            Action(row.action),
            row.field,
            unseal_json(connection, tenant, _name(certificate_id, row.seq), row.details),
        )
        for row in rows
    )


def _name(certificate_id: str, seq: int) -> str:
    return f"serve_history.details/{certificate_id}#{seq}"
