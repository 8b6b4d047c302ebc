"""Deleting documents: erased in the store, with what the service's own tables held of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select, update

from certloop.agentrl.store import NotFoundError, erase
from certloop.agentrl.store.erase import forget_pages
from certloop.agentrl.store.schema import erased
from certloop.serve.db.access import reading, seal_json, writing
from certloop.serve.db.schema import batches, certificates, history, reviews, uploads
from certloop.serve.dossier.check import check_again
from certloop.serve.people.roles import Permission
from certloop.serve.work.documents import row_of, stop_reading
from certloop.serve.work.record import FILE_NAME, finish_batch
from certloop.serve.work.states import OPEN, Status

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

REASON = "deleted by its owner"
_CHUNK = 400


def delete_document(service: Service, actor: Actor, document_id: str) -> int:
    """Erase an upload, whatever its state; returns how many uploads went: those of the same file go with it, because the same
    picture shows the same subject. Raises NotFoundError."""
    actor.require(Permission.DOCUMENTS_DELETE)
    with reading(service, actor.tenant) as connection:
        row = row_of(connection, actor.tenant, document_id)
    return _erase(service, actor, [row])


def delete_batch(service: Service, actor: Actor, batch_id: str) -> int:
    """Erase every upload of a batch, and the batch. Raises NotFoundError."""
    actor.require(Permission.DOCUMENTS_DELETE)
    this = (batches.c.tenant == actor.tenant, batches.c.batch_id == batch_id)
    with reading(service, actor.tenant) as connection:
        if connection.execute(select(batches.c.batch_id).where(*this)).first() is None:
            raise NotFoundError("no batch with this id in this tenant")
        mine = (uploads.c.tenant == actor.tenant, uploads.c.batch_id == batch_id, uploads.c.deleted_at.is_(None))
        rows = connection.execute(select(uploads).where(*mine)).all()
    count = _erase(service, actor, rows) if rows else 0
    with writing(service, actor.tenant) as connection:
        connection.execute(delete(batches).where(*this))
    return count


def _erase(service: Service, actor: Actor, rows: Sequence[object]) -> int:
    handle = service.tenant(actor.tenant)
    erase(handle, [str(row.store_document_id) for row in rows], actor=actor.actor_id, reason=REASON)  # type: ignore[attr-defined]
    return forget_erased(service, actor.tenant)


def forget_erased(service: Service, tenant: str) -> int:
    """Empty the service's rows of every document that the store has erased, whoever erased it; returns how many uploads."""
    with writing(service, tenant) as connection:
        gone = select(erased.c.document_id).where(erased.c.tenant == tenant)
        mine = (uploads.c.tenant == tenant, uploads.c.deleted_at.is_(None), uploads.c.store_document_id.in_(gone))
        rows = connection.execute(select(uploads.c.document_id, uploads.c.batch_id).where(*mine)).all()
        ids = [row.document_id for row in rows]
        for start in range(0, len(ids), _CHUNK):
            _empty(service, connection, tenant, ids[start : start + _CHUNK])
        for batch_id in {row.batch_id for row in rows if row.batch_id is not None}:
            finish_batch(service, connection, tenant, batch_id)
            check_again(service, connection, tenant, batch_id, service.now())  # verdicts quote values
    if ids:
        stop_reading(service, ids)
        forget_pages(service.tenant(tenant))
    return len(ids)


def _empty(service: Service, connection: Connection, tenant: str, ids: list[str]) -> None:
    found = select(certificates.c.certificate_id).where(certificates.c.tenant == tenant, certificates.c.document_id.in_(ids))
    of_these = list(connection.execute(found).scalars())
    for start in range(0, len(of_these), _CHUNK):
        part = of_these[start : start + _CHUNK]
        for table in (history, reviews, certificates):
            connection.execute(delete(table).where(table.c.tenant == tenant, table.c.certificate_id.in_(part)))
    mine = (uploads.c.tenant == tenant, uploads.c.document_id.in_(ids))
    cancelled = {"status": Status.CANCELLED, "finished_at": service.now()}
    connection.execute(update(uploads).where(*mine, uploads.c.status.in_(OPEN)).values(**cancelled))
    for document_id in ids:
        empty = {
            "deleted_at": service.now(),
            "file_name": seal_json(connection, tenant, f"{FILE_NAME}/{document_id}", ""),
            "result": None,
            "expected": None,
        }
        one = (uploads.c.tenant == tenant, uploads.c.document_id == document_id)
        connection.execute(update(uploads).where(*one).values(**empty))
