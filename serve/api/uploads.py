"""Shapes of what is handed in and read: shared by the routes of documents, batches, results and jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from certloop.serve.intake.idempotency import Answer
from certloop.serve.people.actor import Actor
from certloop.serve.work.documents import Upload
from certloop.serve.work.states import Status

DOCUMENT, BATCH = "doc_18c0f3a2b4d5e6f708192a3b4c5d6e7f", "bat_18c0f3a2b4d5e6f708192a3b4c5d6e80"
DocumentId = Annotated[str, Path(pattern=r"^doc_[0-9a-f]{32}$", examples=[DOCUMENT])]
BatchId = Annotated[str, Path(pattern=r"^bat_[0-9a-f]{32}$", examples=[BATCH])]
CertificateId = Annotated[str, Path(pattern=r"^doc_[0-9a-f]{32}\.[0-9]{1,4}$", examples=[f"{DOCUMENT}.0"])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="repeat a request under the same key: the same answer, and nothing is done twice",
    ),
]
_AT = "2026-03-01T08:00:00.000000+00:00"
DOCUMENT_EXAMPLE: dict[str, Any] = {
    "id": DOCUMENT,
    "batch_id": None,
    "file": "licence.jpg",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "size_bytes": 172675,
    "doc_type": None,
    "priority": "normal",
    "status": "done",
    "attempts": 1,
    "error": None,
    "accepted_at": _AT,
    "started_at": _AT,
    "finished_at": "2026-03-01T08:00:03.000000+00:00",
    "certificates": [{"id": f"{DOCUMENT}.0", "doc_type": "business_licence", "state": "review", "revision": 1}],
}


class AcceptedOut(BaseModel):
    """It is durable and will be read."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"id": DOCUMENT, "status": "queued", "location": f"/v1/documents/{DOCUMENT}"}}
    )
    id: str
    status: str
    location: str = Field(description="where its state is; also in the header Location")
    total: int | None = Field(None, description="of a batch: its files")


class ErrorOut(BaseModel):
    code: str
    message: str


class CertificateStateOut(BaseModel):
    id: str
    doc_type: str
    state: str = Field(description="passed, review, approved or rejected")
    revision: int


class DocumentOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": DOCUMENT_EXAMPLE})
    id: str
    batch_id: str | None
    file: str
    sha256: str
    size_bytes: int
    doc_type: str | None = Field(description="the type that was asked for; null: find out")
    priority: str
    status: Status
    attempts: int
    error: ErrorOut | None
    accepted_at: str
    started_at: str | None
    finished_at: str | None
    certificates: list[CertificateStateOut]


class DocumentsOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [DOCUMENT_EXAMPLE], "next_cursor": None}})
    items: list[DocumentOut]
    next_cursor: str | None


def document_out(upload: Upload) -> DocumentOut:
    return DocumentOut.model_validate(upload.to_json())


def accepted(answer: Answer) -> JSONResponse:
    headers = dict(answer.headers)
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    return JSONResponse(dict(answer.body), answer.status, headers)


def caller(request: Request, actor: Actor) -> str:
    """What a fingerprint of a request begins with: one key of one tenant means one request, whoever sends it."""
    return f"{actor.tenant} {request.method} {request.url.path}"
