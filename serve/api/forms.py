"""Requests that hand files in: a multipart form, or JSON that refers to a stored file or an address."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from certloop.agentrl.trajectory import Consent
from certloop.serve.api.shapes import PLAIN, Body, Bool
from certloop.serve.errors import MediaTypeError, RequestError, TooLargeError
from certloop.serve.intake.accept import MAX_NAME_CHARS, NewBatch, Wishes

M = TypeVar("M", bound=BaseModel)
FORM, JSON = "multipart/form-data", "application/json"
MAX_FIELD_BYTES = 256 << 10
MAX_FIELDS = 32
BAD_REQUEST = 400
MAX_EXPECTED = 200
Purpose = Annotated[str, StringConstraints(max_length=200, pattern=PLAIN)]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS, pattern=PLAIN)]
DocType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
Expected = Annotated[dict[str, str], Field(max_length=MAX_EXPECTED)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Address = Annotated[str, StringConstraints(min_length=8, max_length=2048, pattern=r"^https?://[\x21-\x7e]+$")]


class Options(Body):
    """How to read."""

    doc_type: DocType | None = Field(None, description="take every certificate for this type; null: find out")
    priority: Literal["high", "normal", "low"] = Field("normal", description="among the documents of this tenant")
    consent: Consent | None = Field(None, description="what the document may be used for; null: as the tenant's settings say")
    purpose: Purpose | None = Field(None, description="what the consent was given for")

    def wishes(self) -> Wishes:
        return Wishes(self.doc_type, self.priority, self.consent, self.purpose)


class Reference(Body):
    """A file that is somewhere already: exactly one of ``sha256`` and ``url``."""

    sha256: Sha256 | None = Field(None, description="a file of this tenant, handed in before")
    url: Address | None = Field(None, description="where to fetch it from; off unless the operator of the service allows it")
    name: FileName | None = None
    expected: Expected = Field(default_factory=dict, description="audit mode: declared values by field")


class DocumentReference(Reference, Options):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "name": "licence.jpg",
                "doc_type": "business_licence",
                "expected": {"name": "青松样本贸易有限公司"},
            }
        },
    )


class BatchReference(Options):
    """A batch of files that are somewhere already."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "name": "supplier 4711",
                "dossier": True,
                "documents": [{"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}],
            }
        },
    )
    name: Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=PLAIN)] = ""
    dossier: Bool = Field(False, description="all files belong to one supplier: check them against each other")
    documents: list[Reference] = Field(min_length=1, max_length=10_000)

    def batch(self) -> NewBatch:
        return NewBatch(self.name, self.dossier)


class DocumentForm(Options):
    """The fields of a form beside its file. ``expected`` is a JSON object."""

    expected: Expected = Field(default_factory=dict)


class BatchForm(Options):
    """The fields of a form beside its files. ``expected`` is a JSON object: declared values by field, by file name."""

    name: Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=PLAIN)] = ""
    dossier: bool = False
    expected: Annotated[dict[str, Expected], Field(max_length=10_000)] = Field(default_factory=dict)

    def batch(self) -> NewBatch:
        return NewBatch(self.name, self.dossier)


def media_type(request: Request) -> str:
    """``multipart/form-data`` or ``application/json``. Raises MediaTypeError for anything else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (FORM, JSON):
        raise MediaTypeError(f"this route takes {FORM} or {JSON}")
    return kind


async def json_body(request: Request, model: type[M]) -> M:
    """Raises RequestError, which names the places that are wrong."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise _malformed(error) from None


@asynccontextmanager
async def form_of(request: Request, max_files: int) -> AsyncIterator[FormData]:
    """The form; files lie on the disk once they are large, and go at the end. Raises RequestError."""
    try:
        form = await request.form(max_files=max_files, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    except HTTPException as error:  # Starlette's word for a form that is too long or not one
        if "Too many files" in str(error.detail):
            raise TooLargeError(f"this form may hold {max_files} files at most") from None
        if error.status_code != BAD_REQUEST:
            raise
        raise RequestError("the form cannot be read; is it multipart/form-data with the boundary it names?") from None
    try:
        yield form
    finally:
        await form.close()


def form_fields(form: FormData, model: type[M], files: tuple[str, ...]) -> M:
    """The form's other fields. Raises RequestError."""
    values: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name in files and isinstance(value, UploadFile):
            continue
        if isinstance(value, UploadFile) or name in values:
            raise RequestError(
                "a field of the form is a file, or stands there twice", [{"loc": [name[:64]], "message": "unexpected"}]
            )
        values[name] = _object(name, value) if name == "expected" else value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _malformed(error) from None


def _object(name: str, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RequestError("this field of the form is a JSON object", [{"loc": [name], "message": "not a JSON object"}])
    return value


def _malformed(error: ValidationError) -> RequestError:
    places = [{"loc": [p if isinstance(p, int) else str(p)[:64] for p in e["loc"]], "message": e["msg"]} for e in error.errors()]
    return RequestError("the request is not well formed; `errors` names the places", places[:50])


def body_schema(model: type[BaseModel], form: type[BaseModel], files: str, many: bool) -> dict[str, Any]:
    """The OpenAPI description of a body that comes as a form or as JSON; FastAPI cannot say it by itself."""
    binary = {"type": "string", "contentMediaType": "application/octet-stream"}
    described = form.model_json_schema(ref_template="#/components/schemas/{model}")
    properties = {
        name: {"type": "string", "contentMediaType": JSON, "contentSchema": schema} if name == "expected" else schema
        for name, schema in described["properties"].items()
    }
    properties[files] = {"type": "array", "items": binary, "minItems": 1} if many else binary
    form_schema = {"type": "object", "required": [files], "additionalProperties": False, "properties": properties}
    if "$defs" in described:
        form_schema = _inlined(form_schema, described["$defs"])
    reference = model.model_json_schema(ref_template="#/components/schemas/{model}")
    reference = _inlined({k: v for k, v in reference.items() if k != "$defs"}, reference.get("$defs", {}))
    return {"requestBody": {"required": True, "content": {FORM: {"schema": form_schema}, JSON: {"schema": reference}}}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """References replaced by what they name: the schema stands in the middle of a document with other definitions."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {key: _inlined(value, definitions) for key, value in schema.items()}
    return [_inlined(item, definitions) for item in schema] if isinstance(schema, list) else schema
