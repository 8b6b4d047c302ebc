"""One shape for every error: RFC 9457 problem details with a stable ``code``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from certloop.agentrl.errors import CertloopError
from certloop.serve.errors import LimitedError, MediaTypeError, RequestError, ServeError

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[str, int] = {
    "unauthenticated": 401, "login_failed": 401,
    "forbidden": 403, "csrf": 403, "consent_missing": 403,
    "not_found": 404, "blob_missing": 404, "method_not_allowed": 405,
    "conflict": 409, "event_duplicate": 409, "not_ready": 409, "review_claimed": 409, "fields_unsaid": 409, "undo_too_late": 409,
    "request_timeout": 408, "erased": 410, "precondition_failed": 412, "too_large": 413, "archive_too_large": 413,
    "media_type": 415,
    "request_invalid": 422, "cursor_invalid": 422, "webhook_target": 422, "tenant_settings": 422, "unknown_type": 422,
    "unknown_kind": 422, "tenant_invalid": 422, "event_invalid": 422, "signal_invalid": 422, "calibration_invalid": 422,
    "archive_invalid": 422, "archive_unsafe": 422, "fetch_failed": 422, "idempotency_key": 422,
    "release_unknown": 404, "rule_unknown": 404, "release_invalid": 409, "release_conflict": 409, "run_busy": 409,
    "memory_invalid": 422, "rule_refused": 422, "replay_failed": 409, "memory_full": 409, "gate_invalid": 422,
    "loop_invalid": 422, "registry_damaged": 500, "artefact_invalid": 500, "replica_failed": 503, "new_type_failed": 422,
    "precondition_required": 428, "rate_limited": 429, "locked_out": 429, "queue_full": 429,
    "internal": 500, "serve_error": 500, "service_closed": 503, "store_busy": 503, "store_unavailable": 503,
}  # fmt: skip
"""The HTTP status of each code; a code that is not named here is a bug or the caller's file: 500 or 422 by its class."""
TITLES = {
    400: "Bad request", 401: "Not authenticated", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Request timeout", 409: "Conflict", 410: "Gone", 412: "Precondition failed", 413: "Too large",
    415: "Unsupported media type", 422: "Not well formed", 428: "Precondition required", 429: "Too many requests",
    500: "Internal error", 503: "Temporarily unavailable",
}  # fmt: skip
_HTTP_CODES = {
    400: "request_invalid", 404: "not_found", 405: "method_not_allowed", 408: "request_timeout", 413: "too_large",
    415: "media_type",
}  # fmt: skip


class Place(BaseModel):
    """Where in a request something is wrong; what stood there is not repeated."""

    loc: list[str | int]
    message: str


class Problem(BaseModel):
    """The body of every error."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:certloop:problem:not_found",
                "title": "Not found",
                "status": 404,
                "detail": "no document doc_18f0 in this tenant",
                "code": "not_found",
                "instance": "urn:request:0190f2",
            }
        }
    )
    type: str = Field(description="a URI that names the kind of problem; its last part is the code")
    title: str
    status: int
    detail: str = Field(description="what was wrong, with what, and what to do; never a value read from a document")
    code: str = Field(description="stable across releases")
    instance: str = Field(description="the id of the request, as in the logs and in X-Request-Id")
    errors: list[Place] | None = None


def problem(error: CertloopError, request: Request | None = None) -> JSONResponse:
    """The answer to a typed error."""
    status = STATUS.get(error.code) or (422 if isinstance(error, ValueError) and not isinstance(error, OSError) else 500)
    headers = dict(error.headers) if isinstance(error, ServeError) else {}
    errors = error.errors if isinstance(error, ServeError) else ()
    if status == 503 and not isinstance(error, LimitedError):
        headers["Retry-After"] = "5"
    return answer(status, error.code, error.message, request, headers=headers, errors=errors)


def answer(
    status: int, code: str, detail: str, request: Request | None, *, headers: Mapping[str, str] | None = None, errors: Any = ()
) -> JSONResponse:
    request_id = getattr(request.state, "request_id", "unknown") if request is not None else "unknown"
    body: dict[str, Any] = {
        "type": f"urn:certloop:problem:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
        "instance": f"urn:request:{request_id}",
    }
    if errors:
        body["errors"] = list(errors)
    return _Answer(body, status, dict(headers or {}))


class _Answer(JSONResponse):
    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        """Names of a request's fields may stand in it, and JSON may write half a character (``\\ud800``) that UTF-8 cannot."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def install(app: FastAPI) -> None:
    """Every error of the app gets this shape: typed errors, validation, unknown routes and methods. Bugs: ``headers``."""

    @app.exception_handler(CertloopError)
    def typed(request: Request, error: CertloopError) -> JSONResponse:
        return problem(error, request)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        if (allow := _overshadowed(request, error)) is not None:
            return answer(405, "method_not_allowed", "Method Not Allowed", request, headers={"Allow": allow})
        if any(e["loc"][0] == "path" for e in error.errors()):  # an id that cannot be one is no other answer than one of nobody
            return answer(404, "not_found", "there is nothing by this id in this tenant", request)
        if _unread(request, error):
            return problem(MediaTypeError("the body is taken as JSON only: send Content-Type: application/json"), request)
        places = [
            {"loc": [p if isinstance(p, int) else str(p)[:64] for p in e["loc"]], "message": e["msg"]} for e in error.errors()
        ]
        return problem(RequestError("the request is not well formed; `errors` names the places", places[:50]), request)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        code = _HTTP_CODES.get(error.status_code, "request_invalid" if error.status_code < 500 else "internal")
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the router names the methods of the first route only
            headers["Allow"] = ", ".join(_methods(request))
        return answer(error.status_code, code, str(error.detail), request, headers=headers)


def _overshadowed(request: Request, error: RequestValidationError) -> str | None:
    """The methods of a route whose path is written out (``/reviews/summary``) when a request with another method of its own was
    taken for one with an id in that place (``/reviews/{certificate_id}``); None otherwise."""
    taken_for_id = any(e["loc"][0] == "path" for e in error.errors())
    return ", ".join(_methods(request, exact=True)) or None if taken_for_id else None


def _unread(request: Request, error: RequestValidationError) -> bool:
    """Whether a body came that is not called JSON, and was therefore not read as such."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    return not is_json and any(e["loc"] == ("body",) and e["type"] != "missing" for e in error.errors())


def _methods(request: Request, *, exact: bool = False) -> list[str]:
    """The methods of a path; of routes with ids in their path only where none is written out."""
    path = request.url.path
    routes = [route for route in iter_route_contexts(request.app.routes) if getattr(route, "path_regex", None)]
    written_out = [route for route in routes if route.path == path]
    chosen = written_out or ([] if exact else [route for route in routes if route.path_regex.match(path)])
    return sorted({method for route in chosen for method in route.methods or ()})
