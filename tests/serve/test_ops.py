"""Operations: alive, ready, numbers, logs without personal data, traces, and taking up new types without a restart."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acme_world import World
from callers import ACME, OTHER, PASSWORD, Callers, Hands
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, insert, select
from starlette.testclient import TestClient

from certloop.agentrl.store import StoreUnavailableError
from certloop.extract.config import ExtractConfig
from certloop.serve.api.app import create_app
from certloop.serve.config import EdgeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.db.schema import executors, sessions
from certloop.serve.errors import TelemetryError
from certloop.serve.ops import telemetry
from certloop.serve.ops.background import Background
from certloop.serve.ops.logs import JsonLines, describe, set_up
from certloop.serve.ops.metrics import state as metrics_state
from certloop.serve.ops.reload import reload, reloading
from certloop.serve.people.passwords import Backoff
from certloop.serve.people.roles import Role
from certloop.serve.people.sessions import log_in
from certloop.templates import TemplateError
from certloop.templates.loader import BUILTIN


def numbers(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sample.labels or ''}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def hold_lease(service: Service, until: str = "9999-01-01T00:00:00.000000+00:00") -> None:
    with writing(service, None) as connection:
        row = {"executor_id": "elsewhere", "started_at": service.now(), "lease_until": until}
        connection.execute(insert(executors), [row])


def test_alive_is_not_ready(callers: Callers) -> None:
    client = callers.as_("anonymous")
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["errors"] == [{"loc": ["executor"], "message": "no worker"}]
    hold_lease(callers.service)
    checks = dict.fromkeys(("database", "blobs", "executor", "releases", "confidence"), "ok")
    assert client.get("/readyz").json() == {"status": "ready", "checks": checks}


def test_a_lease_that_ran_out_is_none(callers: Callers) -> None:
    hold_lease(callers.service, "2026-01-01T00:00:00.000000+00:00")
    assert callers.as_("anonymous").get("/readyz").status_code == 503


def test_lost_images_and_a_lost_database_are_told(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_lease(callers.service)
    client = callers.as_("anonymous")
    shutil.rmtree(callers.service.store.blobs.url)
    assert client.get("/readyz").json()["errors"] == [{"loc": ["blobs"], "message": "not writable"}]
    callers.service.store.engine.dispose()
    Path(str(callers.service.store.engine.url.database)).write_bytes(b"no database" * 1000)
    broken = {row["loc"][0]: row["message"] for row in client.get("/readyz").json()["errors"]}
    assert broken["database"].startswith("store_")
    assert client.get("/healthz").status_code == 200


def test_a_database_that_is_away_is_worth_another_try(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise StoreUnavailableError("the database refused; is it running?")

    monkeypatch.setattr("certloop.serve.people.keys.reading", away)
    answer = callers.as_("operator").get("/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "5"


@pytest.fixture
def busy(callers: Callers) -> World:
    """Documents in several states, for acme."""
    world = World(callers)
    world.document()
    world.dead()
    world.certificate()
    world.decided()
    world.delivery()
    return world


def test_a_tenant_sees_its_own_numbers(busy: World) -> None:
    mine = numbers(busy.callers.as_("engineer").get("/metrics").text)
    assert mine["certloop_documents{'status': 'queued'}"] == 1
    assert mine["certloop_documents{'status': 'dead'}"] == 1
    assert mine["certloop_documents{'status': 'done'}"] == 2
    assert mine["certloop_certificates{'state': 'review'}"] == 1
    assert mine["certloop_certificates{'state': 'approved'}"] == 1
    assert mine["certloop_straight_through_ratio"] == 0.0
    assert mine["certloop_deliveries{'state': 'failed'}"] == 1
    assert not any(name.startswith("certloop_http") for name in mine)  # what the process counted is about everybody
    others = numbers(busy.callers.as_("foreign").get("/metrics").text)
    assert not any(name.startswith("certloop_documents") for name in others)
    assert busy.callers.as_("operator").get("/metrics").status_code == 403


def test_open_metrics_have_the_totals_and_name_nobody(open_service: Callable[..., Service], hands: Hands) -> None:
    service = open_service(edge=EdgeConfig(metrics_open=True))
    with Callers(service) as callers:
        world = World(callers)
        world.document()
        world.certificate()
        hands.move(seconds=90)
        text = callers.as_("anonymous").get("/metrics").text
    found = numbers(text)
    assert found["certloop_documents{'status': 'queued'}"] == 1
    assert found["certloop_queue_oldest_seconds"] == 90
    answered = {name: value for name, value in found.items() if name.startswith("certloop_http_requests_total")}
    assert answered["certloop_http_requests_total{'method': 'POST', 'route': '/v1/documents', 'status': '202'}"] == 2
    for word in (ACME, OTHER, "样例", "key_", "doc_", *world.made):
        assert word not in text


def test_every_number_is_in_the_readme(service: Service, root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    text = (service.metrics.flows() + metrics_state(service, ())).decode()
    names = {family.name for family in text_string_to_metric_families(text) if not family.name.endswith("_created")}
    assert len(names) > 10
    assert not {name for name in names if f"`{name}`" not in readme}


def test_routes_are_templates_in_numbers_and_logs(callers: Callers, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="certloop.access"):
        callers.as_("admin").get("/v1/keys/key_" + "0" * 32)
        callers.as_("admin").get("/张三/110101199003071234?name=张三")
        callers.as_("admin").request("张三".encode().hex(), "/healthz")
    facts = [record.facts for record in caplog.records]  # type: ignore[attr-defined]
    assert [(row["method"], row["route"], row["status"]) for row in facts] == [
        ("GET", "/v1/keys/{key_id}", 404),
        ("GET", "unmatched", 404),
        ("other", "/healthz", 405),
    ]
    assert facts[0]["tenant"] == ACME
    assert "110101199003071234" not in str(facts) + callers.service.metrics.flows().decode()


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The process's log as it would stand on standard error."""
    root, out = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("httpx", "dbos", "sqlalchemy", "uvicorn")}
    set_up("debug", out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)


def test_a_log_line_is_json_with_the_requests_id(callers: Callers, lines: Callable[[], list[dict[str, Any]]]) -> None:
    answer = callers.as_("operator").get("/v1/me")
    (row,) = [line for line in lines() if line["event"] == "request"]
    assert row["request_id"] == answer.headers["x-request-id"]
    assert (row["level"], row["logger"], row["route"], row["status"], row["tenant"]) == (
        "info", "certloop.access", "/v1/me", 200, ACME,
    )  # fmt: skip
    assert callers.keys["operator"] not in json.dumps(lines())


def test_a_bug_is_logged_without_its_words(lines: Callable[[], list[dict[str, Any]]]) -> None:
    try:
        try:
            int("张三 110101199003071234")
        except ValueError as error:
            raise KeyError("张三") from error
    except KeyError as error:
        logging.getLogger("certloop.serve").error("unexpected error", exc_info=error)
    logging.getLogger("some.library").warning("row: %s", "张三 110101199003071234")
    bug, foreign = lines()
    assert bug["error"]["class"] == "builtins.KeyError"
    assert bug["error"]["cause"]["class"] == "builtins.ValueError"
    assert bug["error"]["at"][-1].startswith("test_ops.py:")
    assert "张三" not in json.dumps(lines(), ensure_ascii=False)
    assert foreign["event"].startswith("test_ops:")  # of a library only the place: its words are not ours


def test_a_typed_error_is_logged_with_its_words() -> None:
    assert describe(StoreUnavailableError("the database refused")) == {
        "class": "StoreUnavailableError",
        "code": "store_unavailable",
        "message": "the database refused",
    }


def test_a_line_is_one_line(lines: Callable[[], list[dict[str, Any]]]) -> None:
    logging.getLogger("certloop.serve").info("a\nb\r\u2028c", extra={"facts": {"x": "y\n{}"}})
    record = logging.LogRecord("certloop", logging.INFO, "", 1, "a\nb", None, None)
    assert "\n" not in JsonLines().format(record)
    assert lines()[0]["x"] == "y\n{}"


class TestTelemetry:
    def test_without_its_packages_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
        with pytest.raises(TelemetryError, match=r"certloop\[telemetry\]"):
            telemetry.start()

    def test_a_span_has_the_route_and_nothing_else(self, open_service: Callable[..., Service]) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Tracer, get_current_span
        from opentelemetry.util._decorator import _agnosticcontextmanager

        finished: list[Any] = []

        class Recorded(NonRecordingSpan):
            def __init__(self, name: str, parent: SpanContext) -> None:
                super().__init__(parent)
                self.name, self.parent, self.attributes, self.status = name, parent, {}, None  # type: ignore[var-annotated]

            def update_name(self, name: str) -> None:
                self.name = name

            def set_attribute(self, key: str, value: Any) -> None:
                self.attributes[key] = value

            def set_status(self, status: Any, description: str | None = None) -> None:
                self.status = status.status_code.name

        class Recorder(Tracer):
            def start_span(self, name: str, context: Context | None = None, *_: Any, **__: Any) -> Span:
                return Recorded(name, get_current_span(context).get_span_context())

            @_agnosticcontextmanager
            def start_as_current_span(self, name: str, context: Context | None = None, *_: Any, **__: Any) -> Iterator[Span]:
                span = self.start_span(name, context)
                with trace.use_span(span):
                    yield span
                finished.append(span)

        service = open_service()
        with Callers(service) as callers:
            app = create_app(service)
            surround = next(layer for layer in app.user_middleware if "tracer" in layer.kwargs)
            surround.kwargs["tracer"] = Recorder()
            key = callers.keys["operator"]
            client = TestClient(app, headers={"Authorization": f"Bearer {key}"})
            parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            client.get("/v1/documents?limit=7", headers={"traceparent": parent, "X-Request-Id": "request-1"})
            client.get("/张三")
        first, second = finished
        assert first.name == "GET /v1/documents"
        assert f"{first.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
        assert first.attributes == {
            "http.request.method": "GET",
            "http.route": "/v1/documents",
            "http.response.status_code": 200,
            "certloop.request_id": "request-1",
            "certloop.tenant": ACME,
        }
        assert second.name == "GET unmatched"


class Readers:
    """What ``reload`` asks of the readers."""

    def __init__(self) -> None:
        self.configs: list[ExtractConfig] = []

    def reload(self, config: ExtractConfig) -> None:
        self.configs.append(config)


@pytest.fixture
def growing(open_service: Callable[..., Service], tmp_path: Path) -> tuple[Service, Path, Readers]:
    """A service with a folder of types of its own, which is still empty."""
    types = tmp_path / "types"
    types.mkdir()
    service = open_service(extract=ExtractConfig(template_path=(str(types),)))
    service.readers = readers = Readers()  # type: ignore[assignment]
    return service, types, readers


def add_type(types: Path) -> None:
    source = BUILTIN / "bank_account_permit"
    text = (source / "type.toml").read_text(encoding="utf-8").replace('id = "bank_account_permit"', 'id = "my_permit"')
    (types / "my_permit").mkdir()
    (types / "my_permit" / "type.toml").write_text(text, encoding="utf-8")
    shutil.copy2(source / "prompt.txt", types / "my_permit" / "prompt.txt")


def test_new_types_are_taken_up(growing: tuple[Service, Path, Readers]) -> None:
    service, types, readers = growing
    with Callers(service) as callers:
        count = len(service.registry)
        add_type(types)
        assert len(service.registry) == count
        answer = callers.as_("engineer").post("/v1/reload")
        assert (answer.status_code, answer.json()) == (202, {"document_types": count + 1})
        assert "my_permit" in service.registry.types
        assert readers.configs == [service.config.extract]
        assert next(iter(callers.as_("admin").get("/v1/audit").json()["items"]))["action"] == "service.reload"


def test_a_broken_type_changes_nothing(growing: tuple[Service, Path, Readers]) -> None:
    service, types, readers = growing
    before = service.registry
    (types / "my_permit").mkdir()
    (types / "my_permit" / "type.toml").write_text("id = ", encoding="utf-8")
    with pytest.raises(TemplateError):
        reload(service)
    assert service.registry is before
    assert readers.configs == []


def test_a_signal_reloads(growing: tuple[Service, Path, Readers]) -> None:
    service, types, _ = growing
    count, before = len(service.registry), signal.getsignal(signal.SIGHUP)
    with reloading(service):
        add_type(types)
        signal.raise_signal(signal.SIGHUP)
        for thread in [t for t in threading.enumerate() if t.name == "reload"]:
            thread.join()
    assert len(service.registry) == count + 1
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_chore_that_fails_stops_no_other(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fails() -> None:
        raise StoreUnavailableError("away")

    def bug() -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.WARNING), Background(service, fails, bug, lambda: done.append("x"), every_s=60):
        pass
    assert done == ["x"]  # at the end once more
    assert [re.sub(r"\d+", "", record.message) for record in caplog.records] == ["a chore waits"] * 2


def test_sessions_that_are_over_go(callers: Callers, hands: Hands) -> None:
    callers.user("boss", Role.ADMIN)
    log_in(callers.service, ACME, "boss", PASSWORD, "", Backoff())
    hands.move(hours=13)
    Background(callers.service).do_chores()
    with callers.service.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(sessions)).scalar_one() == 0
