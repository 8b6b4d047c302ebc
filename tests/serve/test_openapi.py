"""The description of the API is complete: words, examples, and every error."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from callers import Callers
from jsonschema_rs import Draft202012Validator

METHODS = ("get", "put", "post", "delete", "patch")
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


@pytest.fixture(scope="module")
def document(everybody: Callers) -> dict[str, Any]:
    found: dict[str, Any] = everybody.as_("anonymous").get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_every_operation_has_words(document: dict[str, Any]) -> None:
    lacking = [name for name, one in operations(document) if not one.get("summary") or not one.get("tags")]
    assert not lacking
    summaries = [one["summary"] for _, one in operations(document)]
    assert len(set(summaries)) == len(summaries)
    ids = [one["operationId"] for _, one in operations(document)]
    assert len(set(ids)) == len(ids)


def test_every_error_has_the_one_shape_and_is_described(document: dict[str, Any]) -> None:
    for name, one in operations(document):
        errors = {status: answer for status, answer in one["responses"].items() if status >= "400"}
        assert {"400", "500", "503"} <= set(errors), name
        if one.get("security"):
            assert {"401", "403", "429"} <= set(errors), name
        if "{" in name:
            assert "404" in errors, name
        for status, answer in errors.items():
            assert answer["content"] == PROBLEM, f"{name} {status}"
            assert answer["description"], f"{name} {status}"
    assert set(document["components"]["schemas"]["Problem"]["required"]) == {
        "type",
        "title",
        "status",
        "detail",
        "code",
        "instance",
    }
    assert "HTTPValidationError" not in json.dumps(document)


def test_every_json_body_has_an_example_that_fits(document: dict[str, Any]) -> None:
    """Requests and answers alike."""
    wrong = []
    for name, one in operations(document):
        places = [("request", one.get("requestBody", {}).get("content", {}))]
        places += [(status, answer.get("content", {})) for status, answer in one["responses"].items() if status < "400"]
        for where, content in places:
            for kind, media in content.items():
                if kind != "application/json":
                    continue
                schema = media["schema"]
                candidates = [schema, *schema.get("anyOf", [])]
                examples = [media["example"]] if "example" in media else list(media.get("examples", {}).values())
                examples += [found["example"] for found in (resolved(document, c) for c in candidates) if "example" in found]
                if schema.get("type") == "array" and "example" in (item := resolved(document, schema["items"])):
                    examples.append([item["example"]])
                if not examples:
                    wrong.append(f"{name} {where}: no example")
                for example in examples:
                    value = example["value"] if isinstance(example, dict) and set(example) <= {"summary", "value"} else example
                    whole = {**schema, "components": document["components"]}
                    wrong += [f"{name} {where}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]
    assert not wrong


def test_only_public_routes_are_without_security(document: dict[str, Any]) -> None:
    opened = {name for name, one in operations(document) if not one.get("security")}
    assert opened == {"POST /v1/login", "GET /healthz", "GET /readyz"}
    assert set(document["components"]["securitySchemes"]) == {"key", "session"}


def test_every_parameter_is_described_by_its_schema(document: dict[str, Any]) -> None:
    for name, one in operations(document):
        for parameter in one.get("parameters", []):
            if parameter["in"] in ("path", "query"):
                text = json.dumps(parameter["schema"])
                bounded = any(word in text for word in ("pattern", "enum", "$ref", "maximum", "maxLength", "boolean", "const"))
                assert bounded, f"{name} {parameter['name']}: takes anything"


def test_the_page_for_people_shows_every_route_and_loads_nothing(everybody: Callers, document: dict[str, Any]) -> None:
    answer = everybody.as_("anonymous").get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    for name, one in operations(document):
        method, path = name.split(" ")
        assert f">{method} {path}</code>" in answer.text, name
        assert html.escape(one["summary"]) in answer.text
    assert "<script" not in answer.text and "src=" not in answer.text
    style = re.search("<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';"), "the page's own style, and nothing else"


def test_the_page_repeats_no_markup_of_a_request(everybody: Callers) -> None:
    answer = everybody.as_("anonymous").get("/docs", headers={"Host": "a<img>.test"})
    assert "<img" not in answer.text
