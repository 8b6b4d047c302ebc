"""Batches: many files, a ZIP archive, a supplier's dossier; their progress as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import FormData, UploadFile

from certloop.agentrl.store import NotFoundError
from certloop.serve.api import forms
from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Cursor, Limit, Open
from certloop.serve.api.uploads import (
    BATCH,
    AcceptedOut,
    BatchId,
    DocumentsOut,
    IdempotencyKey,
    accepted,
    caller,
    document_out,
)
from certloop.serve.context import Service
from certloop.serve.errors import ArchiveError, ArchiveTooLargeError, RequestError, TooLargeError
from certloop.serve.intake.accept import Handed, accept, fingerprint, put_file, referred_file
from certloop.serve.intake.archive import Member, is_archive, is_office, members
from certloop.serve.intake.idempotency import parse_key
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.work import batches, documents, erasing
from certloop.serve.work.batches import BatchView

if TYPE_CHECKING:
    from certloop.serve.config import IntakeLimits

router = APIRouter(prefix="/v1/batches", tags=["batches"])
Writer = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_WRITE))]
Reader = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_READ))]
Deleter = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_DELETE))]
LISTING, FILES = "batches", "batch documents"
POLL_S = 0.5
MAX_STREAM_S = 3600.0
_EXAMPLE: dict[str, Any] = {
    "id": BATCH,
    "name": "supplier 4711",
    "dossier": True,
    "status": "running",
    "total": 3,
    "ended": 1,
    "counts": {"queued": 1, "running": 1, "done": 1, "failed": 0, "dead": 0, "cancelled": 0},
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "cancelled_at": None,
    "finished_at": None,
    "checks": None,
}


class BatchOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})
    id: str
    name: str
    dossier: bool
    status: str = Field(description="queued, running, done or cancelled")
    total: int
    ended: int
    counts: dict[str, int] = Field(description="files by status")
    created_at: str
    cancelled_at: str | None
    finished_at: str | None
    checks: Any = Field(description="of a dossier: what its papers say of each other, once all are done")


class BatchesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_EXAMPLE], "next_cursor": None}})
    items: list[BatchOut]
    next_cursor: str | None


@router.post(
    "",
    summary="Hand in many files",
    status_code=202,
    responses={404: {}},
    response_model=AcceptedOut,
    openapi_extra=forms.body_schema(forms.BatchReference, forms.BatchForm, "files", many=True),
)
async def post_batch(request: Request, service: Open, actor: Writer, idempotency_key: IdempotencyKey = None) -> Any:
    """Images, PDFs and ZIP archives of them, all accepted or none. A ZIP in a ZIP is not unpacked again."""
    if forms.media_type(request) == forms.JSON:
        body = await forms.json_body(request, forms.BatchReference)
        handed = await run_in_threadpool(_referred, service, actor, body.documents)
        wishes, batch = body.wishes(), body.batch()
    else:
        async with forms.form_of(request, max_files=service.config.intake.batch_files) as form:
            fields = forms.form_fields(form, forms.BatchForm, ("files",))
            handed = await run_in_threadpool(lambda: list(_from_form(service, actor, form, fields)))
        wishes, batch = fields.wishes(), fields.batch()
    key = parse_key(idempotency_key, fingerprint(caller(request, actor), handed, wishes, batch))
    return accepted(await run_in_threadpool(accept, service, actor, handed, wishes, batch=batch, key=key))


def _referred(service: Service, actor: Actor, references: list[forms.Reference]) -> list[Handed]:
    if len(references) > service.config.intake.batch_files:
        raise TooLargeError(f"a batch may hold {service.config.intake.batch_files} files at most")
    return [referred_file(service, actor, one.sha256, one.url, one.name, one.expected) for one in references]


def _from_form(service: Service, actor: Actor, form: FormData, fields: forms.BatchForm) -> Iterator[Handed]:
    """The files of a form, archives unpacked, stored one after another so that no more than one is in memory."""
    limits = service.config.intake
    unused, left = set(fields.expected), limits.batch_bytes
    for number, file in enumerate(form.getlist("files")):
        if not isinstance(file, UploadFile):
            raise RequestError("a field `files` is no file", [{"loc": ["files"], "message": "a file is needed"}])
        head = file.file.read(4)
        file.file.seek(0)
        if is_archive(head) and not is_office(file.file):
            for member in _members(file.file, limits, left, number):
                unused.discard(member.name)
                left -= len(member.content)
                yield put_file(service, actor, member.name, member.content, fields.expected.get(member.name))
        else:
            name = file.filename or "document"
            content = file.file.read()
            unused.discard(name)
            left -= len(content)
            yield put_file(service, actor, name, content, fields.expected.get(name))
    if unused:
        raise RequestError("`expected` names files that are not in the batch", [{"loc": ["expected"], "message": "unknown file"}])


def _members(file: IO[bytes], limits: IntakeLimits, left: int, number: int) -> Iterator[Member]:
    """As ``members``; an error says which file of the form it is about, by its number, since names are the caller's."""
    try:
        yield from members(file, limits, left)
    except (ArchiveError, ArchiveTooLargeError) as error:
        error.errors = ({"loc": ["files", number], "message": error.message},)
        raise


@router.get("", summary="Batches, the latest first")
def get_batches(service: Open, actor: Reader, limit: Limit = 50, cursor: Cursor = None) -> BatchesOut:
    after = None if cursor is None else read_cursor(cursor, actor.tenant, LISTING, 2)
    found = batches.listing(service, actor, limit=limit, after=None if after is None else (after[0], after[1]))
    more = len(found) == limit
    next_cursor = write_cursor(actor.tenant, LISTING, found[-1].created_at, found[-1].batch_id) if more else None
    return BatchesOut(items=[_out(one) for one in found], next_cursor=next_cursor)


@router.get("/{batch_id}", summary="The state of a batch")
def get_batch(service: Open, actor: Reader, batch_id: BatchId) -> BatchOut:
    return _out(batches.view(service, actor, batch_id))


@router.get("/{batch_id}/documents", summary="The files of a batch, in its order")
def get_batch_documents(
    service: Open, actor: Reader, batch_id: BatchId, limit: Limit = 50, cursor: Cursor = None
) -> DocumentsOut:
    batches.view(service, actor, batch_id)
    listing = f"{FILES} {batch_id}"
    after = None if cursor is None else _number(read_cursor(cursor, actor.tenant, listing, 1)[0])
    found = documents.listing(service, actor, limit=limit, after=after, batch_id=batch_id)
    next_cursor = write_cursor(actor.tenant, listing, str(found[-1].position)) if len(found) == limit else None
    return DocumentsOut(items=[document_out(upload) for upload in found], next_cursor=next_cursor)


@router.post("/{batch_id}/cancel", summary="Read no further file of it")
def cancel_batch(service: Open, actor: Writer, batch_id: BatchId) -> BatchOut:
    """What was read stays."""
    return _out(batches.cancel(service, actor, batch_id))


@router.delete("/{batch_id}", summary="Erase it with all its documents", status_code=204)
def delete_batch(service: Open, actor: Deleter, batch_id: BatchId) -> Response:
    erasing.delete_batch(service, actor, batch_id)
    return Response(status_code=204)


def known_batch(service: Open, actor: Reader, batch_id: BatchId) -> BatchView:
    """Asked before a stream begins, so that an unknown id is an ordinary 404."""
    return batches.view(service, actor, batch_id)


@router.get(
    "/{batch_id}/events",
    summary="Progress of a batch as server-sent events",
    response_class=EventSourceResponse,
)
async def get_batch_events(
    request: Request, service: Open, actor: Reader, first: Annotated[BatchView, Depends(known_batch)]
) -> AsyncIterator[ServerSentEvent]:
    """An event `progress` (as the state of the batch) at once and after each change; after the last one `done`, then the end.

    The event's id is how many files have ended; a stream that was cut is simply asked for again.
    """
    loop, shown, one = asyncio.get_running_loop(), None, first
    until = loop.time() + MAX_STREAM_S
    while loop.time() < until and not await request.is_disconnected():
        now = one.to_json()
        ended = one.status in ("done", "cancelled")
        if now != shown:
            shown = now
            yield ServerSentEvent(data=BatchOut.model_validate(now), event="done" if ended else "progress", id=str(one.ended))
        if ended or service.ending:
            return
        await asyncio.sleep(POLL_S)
        try:
            one = await run_in_threadpool(batches.view, service, actor, first.batch_id)
        except NotFoundError:  # deleted meanwhile
            return


def _number(text: str) -> tuple[str, str]:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        from certloop.serve.errors import CursorError

        raise CursorError("this cursor was changed; begin without one")
    return text, ""


def _out(one: BatchView) -> BatchOut:
    return BatchOut.model_validate(one.to_json())
