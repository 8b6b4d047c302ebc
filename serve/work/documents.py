"""What a caller may see and do of uploads: states, lists, cancelling. Every function checks the permission itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, and_, or_, select, update

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import reading, unseal_json, writing
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.people.roles import Permission
from certloop.serve.work.record import FILE_NAME, finish_batch
from certloop.serve.work.states import OPEN, Status

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

WORDS = {1: "high", 5: "normal", 9: "low"}


@dataclass(frozen=True, slots=True)
class CertificateState:
    certificate_id: str
    doc_type: str
    state: str
    revision: int

    def to_json(self) -> dict[str, Any]:
        return {"id": self.certificate_id, "doc_type": self.doc_type, "state": self.state, "revision": self.revision}


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that was handed in. ``file`` is its sender's name for it: personal data, as far as anybody knows."""

    document_id: str
    batch_id: str | None
    position: int
    file: str
    sha256: str
    size_bytes: int
    doc_type: str | None
    priority: str
    status: Status
    attempts: int
    error: Mapping[str, Any] | None
    accepted_at: str
    started_at: str | None
    finished_at: str | None
    certificates: tuple[CertificateState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.document_id,
            "batch_id": self.batch_id,
            "file": self.file,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "doc_type": self.doc_type,
            "priority": self.priority,
            "status": self.status.value,
            "attempts": self.attempts,
            "error": None if self.error is None else {"code": self.error["code"], "message": self.error["message"]},
            "accepted_at": self.accepted_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "certificates": [certificate.to_json() for certificate in self.certificates],
        }


def view(service: Service, actor: Actor, document_id: str) -> Upload:
    """Raises NotFoundError (also for another tenant's)."""
    actor.require(Permission.DOCUMENTS_READ)
    with reading(service, actor.tenant) as connection:
        return _views(connection, actor.tenant, [row_of(connection, actor.tenant, document_id)])[0]


def listing(
    service: Service,
    actor: Actor,
    *,
    limit: int,
    after: tuple[str, str] | None = None,
    status: Status | None = None,
    batch_id: str | None = None,
) -> tuple[Upload, ...]:
    """Uploads, the latest first (those of a batch: in its order). ``after`` are the sort keys of the last row seen."""
    actor.require(Permission.DOCUMENTS_READ)
    query: Select[Any] = select(uploads).where(uploads.c.tenant == actor.tenant, uploads.c.deleted_at.is_(None))
    if status is not None:
        query = query.where(uploads.c.status == status)
    if batch_id is None:
        keys = (uploads.c.accepted_at, uploads.c.document_id)
        if after is not None:
            query = query.where(or_(keys[0] < after[0], and_(keys[0] == after[0], keys[1] < after[1])))
        query = query.order_by(keys[0].desc(), keys[1].desc())
    else:
        query = query.where(uploads.c.batch_id == batch_id).order_by(uploads.c.position)
        if after is not None:
            query = query.where(uploads.c.position > int(after[0]))
    with reading(service, actor.tenant) as connection:
        return _views(connection, actor.tenant, connection.execute(query.limit(limit)).all())


def cancel(service: Service, actor: Actor, document_id: str) -> Upload:
    """Keep an upload from being read, or drop what its reading gives; one that has ended stays as it is."""
    actor.require(Permission.DOCUMENTS_WRITE)
    with writing(service, actor.tenant) as connection:
        row = row_of(connection, actor.tenant, document_id)
        cancel_rows(service, connection, actor.tenant, uploads.c.document_id == document_id)
        if row.batch_id is not None:
            finish_batch(service, connection, actor.tenant, row.batch_id)
    stop_reading(service, [document_id])
    with reading(service, actor.tenant) as connection:
        return _views(connection, actor.tenant, [row_of(connection, actor.tenant, document_id)])[0]


def cancel_rows(service: Service, connection: Connection, tenant: str, which: Any) -> int:
    """Cancel the open uploads of ``tenant`` that ``which`` selects, in the caller's transaction."""
    open_ones = update(uploads).where(uploads.c.tenant == tenant, uploads.c.status.in_(OPEN), which)
    return connection.execute(open_ones.values(status=Status.CANCELLED, finished_at=service.now())).rowcount


def stop_reading(service: Service, document_ids: Sequence[str]) -> None:
    """End readings that happen in this process; what another process still reads is dropped when it comes."""
    if service.readers is not None:
        for document_id in document_ids:
            service.readers.stop(document_id)


def row_of(connection: Connection, tenant: str, document_id: str) -> Any:
    mine = (uploads.c.tenant == tenant, uploads.c.document_id == document_id, uploads.c.deleted_at.is_(None))
    row = connection.execute(select(uploads).where(*mine)).first()
    if row is None:
        raise NotFoundError("no document with this id in this tenant")
    return row


def _views(connection: Connection, tenant: str, rows: Sequence[Any]) -> tuple[Upload, ...]:
    by_document: dict[str, list[CertificateState]] = {row.document_id: [] for row in rows}
    if rows:
        c = certificates.c
        query = select(c.document_id, c.certificate_id, c.doc_type, c.state, c.revision)
        query = query.where(c.tenant == tenant, c.document_id.in_(by_document)).order_by(c.document_id, c.position)
        for found in connection.execute(query):
            state = CertificateState(found.certificate_id, found.doc_type, found.state, found.revision)
            by_document[found.document_id].append(state)
    return tuple(
        Upload(
            document_id=row.document_id,
            batch_id=row.batch_id,
            position=row.position,
            file=unseal_json(connection, tenant, f"{FILE_NAME}/{row.document_id}", row.file_name),
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            doc_type=row.doc_type,
            priority=WORDS.get(row.priority, "normal"),
            status=Status(row.status),
            attempts=row.attempts,
            error=None if row.error is None else json.loads(row.error),
            accepted_at=row.accepted_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            certificates=tuple(by_document[row.document_id]),
        )
        for row in rows
    )
