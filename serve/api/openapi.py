"""The description of the API: what FastAPI cannot know is added here, the shape of every error above all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from certloop.serve.api.problems import MEDIA_TYPE, TITLES, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

METHODS = ("get", "put", "post", "delete", "patch")
DESCRIPTION = """\
Reads Chinese business certificates into checked JSON.

Send `Authorization: Bearer ck_...` with every request. What is answered 202 is never lost. Every error has one shape
(`application/problem+json`) with a `code` that is stable across releases. Ids of other tenants are answered 404.
"""
_ALWAYS = (400, 500, 503)
"""A request that is no HTTP a server can read, a bug, and a database that cannot be reached may happen anywhere."""


def install(app: FastAPI) -> None:
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs", {})
        schemas["Problem"] = problem
        for model in _models(BaseModel):
            _restore_example(model, schemas)
        for path, item in schema["paths"].items():
            for method in METHODS:
                if method in item:
                    _complete(path, item[method])
        app.openapi_schema = schema
    return app.openapi_schema


def _restore_example(model: type[BaseModel], schemas: dict[str, Any]) -> None:
    """FastAPI drops what is null in examples. Two models of one name have their modules before it."""
    extra = model.model_config.get("json_schema_extra")
    example = extra.get("example") if isinstance(extra, dict) else None
    for name in (model.__name__, f"{model.__module__}.{model.__qualname__}".replace(".", "__")):
        if example is not None and set(schemas.get(name, {}).get("properties", ())) == set(model.model_fields):
            schemas[name]["example"] = example


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The shapes of this service."""
    for model in base.__subclasses__():
        if model.__module__.startswith("certloop.serve."):
            yield model
        yield from _models(model)


def _complete(path: str, operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation["responses"]
    wanted = set(_ALWAYS)
    if operation.get("security"):
        wanted |= {401, 403, 429}
    if "{" in path:
        wanted.add(404)
    beside_path = any(parameter["in"] != "path" for parameter in operation.get("parameters", ()))
    if beside_path or "requestBody" in operation:
        wanted.add(422)
    if "requestBody" in operation:
        wanted |= {408, 413, 415}
    if "428" in responses:
        for parameter in operation["parameters"]:
            if parameter["name"] == "If-Match":  # it may be missing, and is then answered 428 and not 422
                parameter |= {"required": True, "schema": {"type": "string", "pattern": '^"[0-9]{1,9}"$'}}
    wanted |= {int(status) for status in responses if status.isdigit() and int(status) >= 400}
    for status in sorted(wanted):
        given = responses.get(str(status), {})
        words = given.get("description", "")
        responses[str(status)] = {
            "description": words if words and words != TITLES.get(status) and "Error" not in words else TITLES[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = {
                "Retry-After": {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 1}}
            }
