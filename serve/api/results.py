"""Results: what was read of a document, a batch or one certificate, and the pictures of its pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Open
from certloop.serve.api.uploads import DOCUMENT, BatchId, CertificateId, DocumentId
from certloop.serve.errors import RequestError
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.work import results
from certloop.serve.work.pages import Box, page_png
from certloop.serve.work.results import MEDIA_TYPES, ExportFormat

router = APIRouter(prefix="/v1", tags=["results"])
Reader = Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_READ))]
_FORMATS = Query(alias="format", description="csv has one row a field, xlsx one sheet a type of document")
_FIELD: dict[str, Any] = {
    "label": "成立日期",
    "value": "2019年3月5日",
    "normalised": "2019-03-05",
    "status": "read",
    "confidence": 0.98,
    "box": [[410, 520], [640, 520], [640, 552], [410, 552]],
    "page": 0,
    "validations": [],
}
_CERTIFICATE: dict[str, Any] = {
    "doc_type": "business_licence",
    "type_confidence": 0.99,
    "type_version": "1",
    "title": "营业执照",
    "copy": "副本",
    "pages": [0],
    "box": None,
    "rotation": 0.0,
    "fields": {"established_on": _FIELD},
    "missing": ["scope"],
    "validations": [],
    "quality": {},
    "seals": [],
    "qr": [],
    "release": "embedded",
    "trajectory_id": f"{DOCUMENT}.0",
    "certificate_id": f"{DOCUMENT}.0",
    "state": "review",
    "revision": 1,
    "reasons": [{"reason": "required_missing", "field": "scope"}],
}


class CertificateOut(BaseModel):
    """As ``certloop extract`` prints a document, with where it stands; see the README for each key."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": _CERTIFICATE})
    certificate_id: str
    trajectory_id: str | None
    doc_type: str
    state: str = Field(description="passed, review, approved or rejected")
    revision: int = Field(description="grows with every change; also the ETag of the review")
    reasons: list[dict[str, Any]] = Field(description="why it went to review")
    fields: dict[str, dict[str, Any]] = Field(description="as they stand now, edits included")
    comparisons: list[dict[str, Any]] | None = Field(
        None, description="audit mode: match, differs or not_readable a declared field, with the place and the reason"
    )


class ResultOut(BaseModel):
    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"example": {"id": DOCUMENT, "file": "licence.jpg", "status": "ok", "documents": [_CERTIFICATE]}},
    )
    id: str
    file: str
    status: str = Field(description="ok, partial or failed")
    documents: list[CertificateOut]


_BINARY = {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}
_FILES: dict[str, Any] = {
    MEDIA_TYPES[ExportFormat.CSV].partition(";")[0]: {"schema": {"type": "string"}},
    MEDIA_TYPES[ExportFormat.JSONL]: {"schema": {"type": "string"}},
    MEDIA_TYPES[ExportFormat.XLSX]: _BINARY,
}


@router.get(
    "/documents/{document_id}/result",
    summary="What was read of a document",
    response_model=ResultOut,
    responses={200: {"content": _FILES}, 409: {}},
)
def get_result(
    service: Open, actor: Reader, document_id: DocumentId, kind: Annotated[ExportFormat, _FORMATS] = ExportFormat.JSON
) -> Any:
    """409 `not_ready` while it waits or is read; a file that could not be read has status `failed` and an `error`."""
    answer = results.result_of(service, actor, document_id)
    if kind is ExportFormat.JSON:
        return ResultOut.model_validate(answer.body).model_dump(exclude_unset=True)
    return _file(results.export([answer], kind), kind, document_id)


@router.get(
    "/batches/{batch_id}/results",
    summary="What was read of a batch",
    response_model=list[ResultOut],
    responses={200: {"content": _FILES}},
)
def get_results(
    service: Open, actor: Reader, batch_id: BatchId, kind: Annotated[ExportFormat, _FORMATS] = ExportFormat.JSON
) -> Response:
    """In the order of the batch, as far as it was read; files that could not be read have status `failed` and an `error`."""
    return _file(results.export(results.results_of_batch(service, actor, batch_id), kind), kind, batch_id)


@router.get("/certificates/{certificate_id}", summary="One certificate", response_model=CertificateOut)
def get_certificate(service: Open, actor: Reader, certificate_id: CertificateId, response: Response) -> Any:
    certificate = results.certificate_of(service, actor, certificate_id)
    response.headers["ETag"] = f'"{certificate["revision"]}"'
    return certificate


@router.get(
    "/certificates/{certificate_id}/pages/{page}.png",
    summary="A page, or a part of it, as a picture",
    response_class=Response,
    responses={200: {"content": {"image/png": _BINARY}}},
)
def get_page(
    service: Open,
    actor: Reader,
    certificate_id: CertificateId,
    page: Annotated[int, Path(ge=0, le=9999, description="number in the file, from 0")],
    crop: Annotated[
        str | None,
        Query(pattern=r"^[0-9]{1,6},[0-9]{1,6},[0-9]{1,6},[0-9]{1,6}$", description="left,top,right,bottom in pixels"),
    ] = None,
    field: Annotated[str | None, Query(pattern=r"^[a-z0-9_]{1,64}$", description="the place of this field")] = None,
    width: Annotated[int | None, Query(ge=16, le=4096, description="shrink to so many pixels")] = None,
) -> Response:
    if crop is not None and field is not None:
        raise RequestError("ask for a crop or for a field, not for both")
    box: Box | None = None
    if crop is not None:
        left, top, right, bottom = (int(part) for part in crop.split(","))
        box = (left, top, right, bottom)
    content = page_png(service, actor, certificate_id, page, crop=box, field=field, width=width)
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, no-store"})


def _file(content: bytes, kind: ExportFormat, name: str) -> Response:
    headers = {} if kind is ExportFormat.JSON else {"Content-Disposition": f'attachment; filename="{name}.{kind.value}"'}
    return Response(content, media_type=MEDIA_TYPES[kind], headers=headers)
