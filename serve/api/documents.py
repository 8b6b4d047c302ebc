"""Documents: hand one in, see its state, cancel and delete it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from certloop.serve.api import forms
from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Cursor, Limit, Open
from certloop.serve.api.uploads import (
    AcceptedOut,
    DocumentId,
    DocumentOut,
    DocumentsOut,
    IdempotencyKey,
    accepted,
    caller,
    document_out,
)
from certloop.serve.context import Service
from certloop.serve.errors import RequestError
from certloop.serve.intake.accept import Handed, Wishes, accept, fingerprint, put_file, referred_file
from certloop.serve.intake.idempotency import parse_key
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.work import documents, erasing
from certloop.serve.work.states import Status

router = APIRouter(prefix="/v1/documents", tags=["documents"])
Writer = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_WRITE))]
Reader = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_READ))]
Deleter = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_DELETE))]
LISTING = "documents"


@router.post(
    "",
    summary="Hand in a file",
    status_code=202,
    responses={404: {}},
    response_model=AcceptedOut,
    openapi_extra=forms.body_schema(forms.DocumentReference, forms.DocumentForm, "file", many=False),
)
async def post_document(request: Request, service: Open, actor: Writer, idempotency_key: IdempotencyKey = None) -> Any:
    """One file (an image or a PDF, of one or more certificates). It is answered 202 once it is durable, and then never lost."""
    if forms.media_type(request) == forms.JSON:
        body = await forms.json_body(request, forms.DocumentReference)
        handed = await run_in_threadpool(referred_file, service, actor, body.sha256, body.url, body.name, body.expected)
        wishes = body.wishes()
    else:
        handed, wishes = await _from_form(request, service, actor)
    key = parse_key(idempotency_key, fingerprint(caller(request, actor), handed, wishes))
    return accepted(await run_in_threadpool(accept, service, actor, [handed], wishes, key=key))


async def _from_form(request: Request, service: Service, actor: Actor) -> tuple[Handed, Wishes]:
    async with forms.form_of(request, max_files=1) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise RequestError("the form has no file", [{"loc": ["file"], "message": "a file is needed"}])
        fields = forms.form_fields(form, forms.DocumentForm, ("file",))
        name = file.filename or "document"
        handed = await run_in_threadpool(lambda: put_file(service, actor, name, file.file.read(), fields.expected))
    return handed, fields.wishes()


@router.get("", summary="Documents, the latest first")
def get_documents(
    service: Open,
    actor: Reader,
    status: Annotated[Status | None, Query(description="only those in this state")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DocumentsOut:
    after = None if cursor is None else read_cursor(cursor, actor.tenant, LISTING, 2)
    found = documents.listing(service, actor, limit=limit, status=status, after=None if after is None else (after[0], after[1]))
    more = len(found) == limit
    next_cursor = write_cursor(actor.tenant, LISTING, found[-1].accepted_at, found[-1].document_id) if more else None
    return DocumentsOut(items=[document_out(upload) for upload in found], next_cursor=next_cursor)


@router.get("/{document_id}", summary="The state of a document")
def get_document(service: Open, actor: Reader, document_id: DocumentId) -> DocumentOut:
    return document_out(documents.view(service, actor, document_id))


@router.post("/{document_id}/cancel", summary="Do not read it")
def cancel_document(service: Open, actor: Writer, document_id: DocumentId) -> DocumentOut:
    """One that has ended stays as it is."""
    return document_out(documents.cancel(service, actor, document_id))


@router.delete("/{document_id}", summary="Erase it", status_code=204)
def delete_document(service: Open, actor: Deleter, document_id: DocumentId) -> Response:
    """Erases the file, its pages, results, trajectories and signals, and every other document of the same file: the same picture
    shows the same subject."""
    erasing.delete_document(service, actor, document_id)
    return Response(status_code=204)
