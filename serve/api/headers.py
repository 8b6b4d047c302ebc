"""What surrounds every answer: the id of the request, the headers that tell browsers what not to do, one line in the log."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request

from certloop.agentrl.store.events import new_id
from certloop.serve.api.problems import answer, problem
from certloop.serve.api.security import is_loopback
from certloop.serve.errors import RequestError
from certloop.serve.ops.logs import REQUEST_ID, log_bug, log_request
from certloop.serve.ops.telemetry import request_span, tracer

if TYPE_CHECKING:
    from fastapi import FastAPI
    from opentelemetry.trace import Tracer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from certloop.serve.context import Service

_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
API_CSP = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
DESK_CSP = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
"""Gradio builds its page from inline scripts and compiles templates; nothing of another origin is allowed all the same."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
LEFT = 499
"""What stands in logs and numbers for a caller who went away in the middle of his body (nginx's number)."""
PROBES = ("/healthz", "/readyz")
"""Whoever looks after a process asks by its address; both answers say nothing that a name would protect."""
API_PATHS = ("/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json")
FIXED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Surround:
    """The outermost layer. Bugs of any layer below become the one shape of errors here, with the same headers as all answers."""

    def __init__(self, app: ASGIApp, service: Service, tracer: Tracer | None) -> None:
        self.app = app
        self.service = service
        self.tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, request, began = Headers(scope=scope), Request(scope), time.perf_counter()
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        token = REQUEST_ID.set(request_id)
        status = 0

        async def surrounded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), scope, request_id)
            await send(message)

        method = scope["method"] if scope["method"] in METHODS else "other"
        with request_span(self.tracer, method, headers) as span:
            try:
                await self._answer(request, receive, surrounded)
            except ClientDisconnect:
                status = LEFT  # nobody is there to be answered
            except Exception as error:
                log_bug(error)
                if status:
                    raise  # half an answer is out; the connection has to break
                words = "an unexpected error; the log has it under the id of the request"
                await answer(500, "internal", words, request)(scope, receive, surrounded)
            finally:
                seconds = time.perf_counter() - began
                known = scope["state"].get("known")
                span.answered(method, route_of(scope), status, request_id, known.actor.tenant if known else None)
                log_request(scope, method, route_of(scope), status, seconds)
                self.service.metrics.request(method, route_of(scope), status, seconds)
                REQUEST_ID.reset(token)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        if request.url.path in PROBES or self._host_allowed(request.headers.get("host", "")):
            await self.app(request.scope, receive, send)
        else:
            refused = RequestError("this server does not answer to this Host name; see CERTLOOP_HOSTS")
            await problem(refused, request)(request.scope, receive, send)

    def _host_allowed(self, host: str) -> bool:
        config = self.service.config
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if config.demo and not config.edge.hosts:
            return is_loopback(name)
        return not config.edge.hosts or name in config.edge.hosts


def route_of(scope: Scope) -> str:
    """The template of the route, never the path: what stands in a path is the caller's."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", "")) or "unmatched"


def _add_headers(headers: MutableHeaders, scope: Scope, request_id: str) -> None:
    path = scope["path"]
    api = path.startswith(API_PATHS)
    for name, value in FIXED.items():
        headers[name] = value
    headers["X-Request-Id"] = request_id
    headers.setdefault("Content-Security-Policy", API_CSP if api else DESK_CSP)
    if api:
        headers.setdefault("Cache-Control", "no-store")
    if scope.get("scheme") == "https":
        headers["Strict-Transport-Security"] = "max-age=31536000"


def install(app: FastAPI) -> None:
    service: Service = app.state.service
    app.add_middleware(Surround, service=service, tracer=tracer() if service.config.edge.telemetry else None)
