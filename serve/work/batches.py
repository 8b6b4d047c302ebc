"""Batches: many files handed in together, perhaps one supplier's dossier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, func, or_, select, update

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import reading, unseal_json, writing
from certloop.serve.db.schema import batches, uploads
from certloop.serve.people.roles import Permission
from certloop.serve.work.documents import cancel_rows, stop_reading
from certloop.serve.work.record import finish_batch
from certloop.serve.work.states import OPEN, Status

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

CHECKS = "serve_batches.checks"


@dataclass(frozen=True, slots=True)
class BatchView:
    """``counts`` are uploads by status; ``checks`` what a dossier's papers say of each other, once all are done."""

    batch_id: str
    name: str
    dossier: bool
    total: int
    counts: Mapping[str, int]
    created_at: str
    cancelled_at: str | None
    finished_at: str | None
    checks: Any = None

    @property
    def ended(self) -> int:
        return self.total - sum(self.counts.get(status, 0) for status in OPEN)

    @property
    def status(self) -> str:
        if self.cancelled_at is not None:
            return "cancelled"
        if self.finished_at is not None:
            return "done"
        return "queued" if self.counts.get(Status.QUEUED, 0) == self.total else "running"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.batch_id,
            "name": self.name,
            "dossier": self.dossier,
            "status": self.status,
            "total": self.total,
            "ended": self.ended,
            "counts": {str(status): self.counts.get(status, 0) for status in Status},
            "created_at": self.created_at,
            "cancelled_at": self.cancelled_at,
            "finished_at": self.finished_at,
            "checks": self.checks,
        }


def view(service: Service, actor: Actor, batch_id: str) -> BatchView:
    """Raises NotFoundError (also for another tenant's)."""
    actor.require(Permission.DOCUMENTS_READ)
    with reading(service, actor.tenant) as connection:
        return _views(connection, actor.tenant, [_row(connection, actor.tenant, batch_id)])[0]


def listing(service: Service, actor: Actor, *, limit: int, after: tuple[str, str] | None = None) -> tuple[BatchView, ...]:
    """Batches, the latest first. ``after``: created_at and id of the last one seen."""
    actor.require(Permission.DOCUMENTS_READ)
    keys = (batches.c.created_at, batches.c.batch_id)
    query = select(batches).where(batches.c.tenant == actor.tenant)
    if after is not None:
        query = query.where(or_(keys[0] < after[0], and_(keys[0] == after[0], keys[1] < after[1])))
    with reading(service, actor.tenant) as connection:
        rows = connection.execute(query.order_by(keys[0].desc(), keys[1].desc()).limit(limit)).all()
        return _views(connection, actor.tenant, rows)


def cancel(service: Service, actor: Actor, batch_id: str) -> BatchView:
    """Read no further file of the batch; what was read stays."""
    actor.require(Permission.DOCUMENTS_WRITE)
    mine = (batches.c.tenant == actor.tenant, batches.c.batch_id == batch_id)
    with writing(service, actor.tenant) as connection:
        row = _row(connection, actor.tenant, batch_id)
        reading_now = _document_ids(connection, actor.tenant, batch_id, Status.RUNNING)
        if row.finished_at is None and cancel_rows(service, connection, actor.tenant, uploads.c.batch_id == batch_id):
            connection.execute(update(batches).where(*mine).values(cancelled_at=service.now()))
            finish_batch(service, connection, actor.tenant, batch_id)
    stop_reading(service, reading_now)
    return view(service, actor.with_right(Permission.DOCUMENTS_READ), batch_id)


def document_ids(service: Service, actor: Actor, batch_id: str) -> list[str]:
    """The uploads of a batch in its order. Raises NotFoundError."""
    actor.require(Permission.DOCUMENTS_READ)
    with reading(service, actor.tenant) as connection:
        _row(connection, actor.tenant, batch_id)
        return _document_ids(connection, actor.tenant, batch_id)


def _document_ids(connection: Connection, tenant: str, batch_id: str, status: Status | None = None) -> list[str]:
    query = select(uploads.c.document_id).where(
        uploads.c.tenant == tenant, uploads.c.batch_id == batch_id, uploads.c.deleted_at.is_(None)
    )
    if status is not None:
        query = query.where(uploads.c.status == status)
    return list(connection.execute(query.order_by(uploads.c.position)).scalars())


def _row(connection: Connection, tenant: str, batch_id: str) -> Any:
    row = connection.execute(select(batches).where(batches.c.tenant == tenant, batches.c.batch_id == batch_id)).first()
    if row is None:
        raise NotFoundError("no batch with this id in this tenant")
    return row


def _views(connection: Connection, tenant: str, rows: Any) -> tuple[BatchView, ...]:
    counts: dict[str, Counter[str]] = {row.batch_id: Counter() for row in rows}
    if rows:
        query = select(uploads.c.batch_id, uploads.c.status, func.count()).where(
            uploads.c.tenant == tenant, uploads.c.batch_id.in_(counts)
        )
        for batch_id, status, count in connection.execute(query.group_by(uploads.c.batch_id, uploads.c.status)):
            counts[batch_id][status] = count
    return tuple(
        BatchView(
            batch_id=row.batch_id,
            name=row.name,
            dossier=row.dossier,
            total=row.total,
            counts=counts[row.batch_id],
            created_at=row.created_at,
            cancelled_at=row.cancelled_at,
            finished_at=row.finished_at,
            checks=None if row.checks is None else unseal_json(connection, tenant, f"{CHECKS}/{row.batch_id}", row.checks),
        )
        for row in rows
    )
