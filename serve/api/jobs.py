"""Dead letters: documents that were tried as often as allowed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Cursor, Limit, Open
from certloop.serve.api.uploads import DocumentId, DocumentOut, DocumentsOut, document_out
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.work.dead import dead_letters, retry

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Manager = Annotated[Actor, Depends(allowed(Permission.JOBS_MANAGE))]
LISTING = "dead"


@router.get("/dead", summary="Documents that were given up, the latest first")
def get_dead(service: Open, actor: Manager, limit: Limit = 50, cursor: Cursor = None) -> DocumentsOut:
    after = None if cursor is None else read_cursor(cursor, actor.tenant, LISTING, 2)
    found = dead_letters(service, actor, limit=limit, after=None if after is None else (after[0], after[1]))
    more = len(found) == limit
    next_cursor = write_cursor(actor.tenant, LISTING, found[-1].accepted_at, found[-1].document_id) if more else None
    return DocumentsOut(items=[document_out(upload) for upload in found], next_cursor=next_cursor)


@router.post("/dead/{document_id}/retry", summary="Try one again", status_code=202, responses={409: {}})
def retry_dead(service: Open, actor: Manager, document_id: DocumentId) -> DocumentOut:
    return document_out(retry(service, actor, document_id))
