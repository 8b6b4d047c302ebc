"""Every error has one shape, a status of its own, and says nothing of what stood in the request."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from callers import Callers

import certloop.serve
from certloop.agentrl.errors import CertloopError
from certloop.serve.api.problems import STATUS, TITLES, problem
from certloop.serve.errors import LimitedError, RequestError, ServeError

AT_THE_START = {"demo_refused", "listen_failed", "worker_running", "telemetry_missing"}
OF_A_DOCUMENT = {"read_failed", "read_timeout", "worker_crashed", "reader_failed", "reader_stopped"}
"""Codes that no request is answered with: those of starting the service, and those that stand in a document's state."""


def serve_errors() -> Iterator[type[CertloopError]]:
    for module in pkgutil.walk_packages(certloop.serve.__path__, "certloop.serve."):
        importlib.import_module(module.name)

    def below(cls: type[CertloopError]) -> Iterator[type[CertloopError]]:
        for child in cls.__subclasses__():
            if child.__module__.startswith("certloop.serve"):
                yield child
            yield from below(child)

    return below(ServeError)


def test_every_error_of_the_service_has_a_status_of_its_own() -> None:
    codes = {cls.code for cls in serve_errors()}
    assert codes <= set(STATUS) | AT_THE_START | OF_A_DOCUMENT
    assert {STATUS[code] for code in STATUS} <= set(TITLES)


def test_the_tree_is_drawn() -> None:
    drawn = certloop.serve.errors.__doc__ or ""
    for cls in serve_errors():
        assert f"{cls.__name__} " in drawn, cls.__name__
        assert f" {cls.code} " in drawn, cls.code


SHAPE = {"type", "title", "status", "detail", "code", "instance"}


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/nothing", {}, 404, "not_found"),
        ("GET", "/v1/documents/doc_" + "0" * 32, {}, 404, "not_found"),
        ("PUT", "/v1/keys", {}, 405, "method_not_allowed"),
        ("PATCH", "/v1/reviews/summary", {}, 405, "method_not_allowed"),
        ("POST", "/v1/keys", {"content": b"x" * (2 << 20), "headers": {"content-type": "application/json"}}, 413, "too_large"),
        ("POST", "/v1/documents", {"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "media_type"),
        ("POST", "/v1/keys", {"json": {"name": "张三", "role": "chief"}}, 422, "request_invalid"),
        ("POST", "/v1/keys", {"content": b"{", "headers": {"content-type": "application/json"}}, 422, "request_invalid"),
        ("GET", "/v1/audit?cursor=AAAA", {}, 422, "cursor_invalid"),
        ("POST", "/v1/keys", {"content": b'{"name": "a", "role": "operator"}'}, 415, "media_type"),
        (
            "POST",
            "/v1/keys",
            {"content": b"a=1", "headers": {"content-type": "application/x-www-form-urlencoded"}},
            415,
            "media_type",
        ),
        ("POST", "/v1/keys", {"content": b"{}", "headers": {"content-type": "application/json-seq"}}, 415, "media_type"),
        ("POST", "/v1/keys", {}, 422, "request_invalid"),
        ("PATCH", "/v1/tenant", {"content": b'{"settings": {}}', "headers": {"content-type": "text/plain"}}, 415, "media_type"),
        ("GET", "/v1/documents/%00", {}, 404, "not_found"),
        ("GET", "/v1/documents/..%2f..", {}, 404, "not_found"),
        ("POST", "/v1/webhooks", {"json": {"url": "http://a.example/", "events": ["batch.done"]}}, 422, "webhook_target"),
    ],
)
def test_one_shape(everybody: Callers, method: str, path: str, options: dict[str, Any], status: int, code: str) -> None:
    answer = everybody.as_("admin").request(method, path, **options)
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) - {"errors"} == SHAPE
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert body["title"] == TITLES[status]
    assert body["type"] == f"urn:certloop:problem:{code}"
    assert body["instance"] == f"urn:request:{answer.headers['x-request-id']}"


def test_an_id_that_cannot_be_one_is_answered_like_one_of_nobody(everybody: Callers) -> None:
    """On every route with an id in its path: 404 and the same words, whatever is wrong with it."""
    client, seen = everybody.as_("admin"), 0
    schema = client.get("/openapi.json").json()
    for path, item in schema["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        for method in item.keys() & {"get", "post", "patch", "delete"} if names else ():
            body = item[method].get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            example = schema["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {}).get("example")
            for wrong in ("x", "doc_" + "0" * 31, "DOC_" + "0" * 32, "%F0%9F%98%80", "doc_" + "0" * 32 + "%0A"):
                filled = re.sub(r"{(\w+)}", wrong, path)
                answer = client.request(method, filled, json=example)
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (method, filled, answer.text)
                seen += 1
    assert seen > 100


def test_a_refused_method_names_those_there_are(everybody: Callers) -> None:
    client = everybody.as_("admin")
    for path, methods in (
        ("/v1/keys", "GET, POST"),
        ("/v1/webhooks/whk_" + "0" * 32, "DELETE, GET, PATCH"),
        ("/v1/reviews/summary", "GET"),
    ):
        assert client.put(path).headers["allow"] == methods


def test_what_was_sent_is_not_repeated(everybody: Callers) -> None:
    secret = "身份证110101199003071234"
    for body in (
        {"name": "k", "role": secret},
        {"name": "k", "role": "operator", "scopes": [secret]},
        {"name": 5, "role": [secret]},
    ):
        answer = everybody.as_("admin").post("/v1/keys", json=body)
        assert answer.status_code == 422
        assert "110101199003071234" not in answer.text
    places = everybody.as_("admin").post("/v1/keys", json={"name": "k", "role": secret}).json()["errors"]
    assert places[0]["loc"] == ["body", "role"]


def test_a_bug_is_told_to_the_log_and_not_to_the_caller(everybody: Callers, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ValueError("张三 110101199003071234")

    everybody.app.get("/broken")(broken)
    with caplog.at_level(logging.ERROR, logger="certloop.serve"):
        answer = everybody.as_("admin").get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "110101199003071234" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert [record.message for record in caplog.records] == ["unexpected error"]


def test_waiting_is_told_in_whole_seconds() -> None:
    assert problem(LimitedError("wait", 0.2)).headers["retry-after"] == "1"
    assert problem(LimitedError("wait", 61.5)).headers["retry-after"] == "62"
    assert problem(LimitedError("wait", float("inf"))).headers["retry-after"] == "86400"
    rows = json.loads(bytes(problem(RequestError("no", [{"loc": ["a"], "message": "b"}])).body))
    assert (rows["status"], rows["errors"]) == (422, [{"loc": ["a"], "message": "b"}])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/keys", b'{"name": "a", "role": "operator", "\\ud800": 1}'),
        ("POST", "/v1/documents", b'{"sha256": "%b", "expected": {"\\ud800": "x"}}' % (b"0" * 64)),
        ("PATCH", "/v1/tenant", b'{"settings": {"\\udfff": 1}}'),
    ],
)
def test_half_a_character_in_a_name_is_no_bug(everybody: Callers, method: str, path: str, body: bytes) -> None:
    """JSON may write a lone surrogate, which UTF-8 cannot: the answer names the place all the same."""
    answer = everybody.as_("admin").request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


def test_half_a_character_in_a_form_is_refused(everybody: Callers) -> None:
    for expected in ('{"\\ud800": "x"}', '{"name": "\\ud800"}'):
        files, data = {"file": ("a.png", b"x")}, {"expected": expected}
        answer = everybody.as_("operator").post("/v1/documents", files=files, data=data)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
