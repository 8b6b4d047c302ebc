"""Dead letters: documents that were tried as often as allowed. A person sees them and may have them tried again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import update

from certloop.serve.db.access import writing
from certloop.serve.db.schema import batches, uploads
from certloop.serve.errors import ConflictError
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.work.documents import Upload, listing, row_of, view
from certloop.serve.work.states import Status

if TYPE_CHECKING:
    from certloop.serve.context import Service


def dead_letters(service: Service, actor: Actor, *, limit: int, after: tuple[str, str] | None = None) -> tuple[Upload, ...]:
    """The latest first."""
    actor.require(Permission.JOBS_MANAGE)
    return listing(service, _reader(actor), limit=limit, after=after, status=Status.DEAD)


def retry(service: Service, actor: Actor, document_id: str) -> Upload:
    """Try a dead document again, as often as a new one. Raises NotFoundError, ConflictError for one that is not dead."""
    actor.require(Permission.JOBS_MANAGE)
    tenant = actor.tenant
    with writing(service, tenant) as connection:
        row = row_of(connection, tenant, document_id)
        if row.status != Status.DEAD:
            raise ConflictError(f"this document is {row.status}; only a dead one is tried again")
        note = json.loads(row.error or "{}") | {"failures": 0, "before": row.attempts}
        mine = (uploads.c.tenant == tenant, uploads.c.document_id == document_id)
        values = {"status": Status.QUEUED, "error": json.dumps(note, ensure_ascii=False), "finished_at": None}
        connection.execute(update(uploads).where(*mine).values(**values))
        if row.batch_id is not None:
            this = (batches.c.tenant == tenant, batches.c.batch_id == row.batch_id)
            connection.execute(update(batches).where(*this).values(finished_at=None))
        service.jobs.enqueue(connection, tenant, document_id, row.priority)
    return view(service, _reader(actor), document_id)


def _reader(actor: Actor) -> Actor:
    """Who may manage jobs may see the states of their documents."""
    return Actor(actor.tenant, actor.actor_id, actor.role, actor.scopes | {Permission.DOCUMENTS_READ})
