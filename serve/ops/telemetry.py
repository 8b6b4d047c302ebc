"""Traces with OpenTelemetry, when the operator asks for them (``CERTLOOP_TELEMETRY``; extra ``telemetry``).

Where they go is said by OpenTelemetry's own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ...). A span has
the route's template, never a path, a query, a header or a body: no personal data leaves by this door.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from certloop.serve.errors import TelemetryError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

NAME = "certloop"


def start() -> None:
    """Send spans of this process, in the background, as OpenTelemetry's variables say. Raises TelemetryError."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TelemetryError(f"CERTLOOP_TELEMETRY needs the package {error.name}: install certloop[telemetry]") from None
    provider = TracerProvider(resource=Resource.create({"service.name": NAME}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer(NAME)


@contextmanager
def request_span(tracing: Tracer | None, method: str, headers: Mapping[str, str]) -> Iterator[RequestSpan]:
    """A span around a request, below the caller's own if it says so (W3C traceparent)."""
    if tracing is None:
        yield RequestSpan(None)
        return
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    context = extract({name: headers[name] for name in ("traceparent", "tracestate") if name in headers})
    with tracing.start_as_current_span(
        method, context, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
    ) as span:
        yield RequestSpan(span)


class RequestSpan:
    """Does nothing where nobody traces."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def answered(self, method: str, route: str, status: int, request_id: str, tenant: str | None) -> None:
        if self._span is None:
            return
        self._span.update_name(f"{method} {route}")
        values = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        for name, value in {**values, "certloop.request_id": request_id, "certloop.tenant": tenant}.items():
            if value is not None:
                self._span.set_attribute(name, value)
        if status >= 500 or status == 0:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR))
