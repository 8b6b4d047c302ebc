"""The API for people to read: one page made here from its description, without scripts and without anything of another server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from certloop.serve.api.openapi import METHODS, describe
from certloop.serve.api.security import public

router = APIRouter(include_in_schema=False)
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1c2430;background:#fff}
nav ul{columns:2;padding-left:1.2rem}h2{margin-top:2.5rem;border-bottom:1px solid #c5ccd6}
h3{margin:2rem 0 .3rem}code,pre{font:14px/1.45 ui-monospace,monospace}
.m{background:#e6ebf2;padding:.1rem .4rem;border-radius:.2rem}
pre{background:#f3f5f8;padding:.7rem;overflow:auto}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;border-bottom:1px solid #e3e7ed}
@media(prefers-color-scheme:dark){body{color:#dfe5ee;background:#14181f}pre{background:#1e242e}.m{background:#2b3442}a{color:#8ab4f8}
td,th,h2{border-color:#39424f}}
@media(max-width:40rem){nav ul{columns:1}}
"""
CSP = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@router.get("/docs", dependencies=[Depends(public)])
def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(page(describe(request.app), str(request.base_url).rstrip("/")), headers={"Content-Security-Policy": CSP})


def page(schema: Mapping[str, Any], base: str) -> str:
    """The whole description as HTML: by tag, each route with its parameters, an example of a request and of its answer."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, item in schema["paths"].items():
        for method in METHODS:
            if method in item:
                groups.setdefault(item[method]["tags"][0], []).append((method, path, item[method]))
    links = "".join(
        f'<li><a href="#{_id(one)}">{escape(one["summary"])}</a></li>' for routes in groups.values() for _, _, one in routes
    )
    body = "".join(
        f"<h2>{escape(tag)}</h2>" + "".join("".join(_route(schema, base, *route)) for route in routes)
        for tag, routes in groups.items()
    )
    words = "".join(f"<p>{_words(part)}</p>" for part in str(schema["info"]["description"]).split("\n\n"))
    title = f"{schema['info']['title']} {schema['info']['version']}: API"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{words}"
        f'<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p><nav><ul>{links}</ul></nav>{body}</body></html>'
    )


def _route(schema: Mapping[str, Any], base: str, method: str, path: str, one: dict[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{_id(one)}">{escape(one["summary"])}</h3><p><code class="m">{method.upper()} {escape(path)}</code></p>'
    yield "".join(f"<p>{_words(part)}</p>" for part in str(one.get("description", "")).split("\n\n") if part)
    if given := one.get("parameters"):
        rows = "".join(
            f"<tr><td><code>{escape(p['name'])}</code></td><td>{escape(p['in'])}{', required' if p.get('required') else ''}</td>"
            f"<td>{_words(p.get('description', ''))}</td></tr>"
            for p in given
        )
        yield f"<table>{rows}</table>"
    yield f"<pre>{escape(_curl(schema, base, method, path, one))}</pre>"
    for status, answer in sorted(one["responses"].items()):
        example = _example(schema, answer.get("content", {}).get("application/json", {}).get("schema", {}))
        if status < "400" and example is not None:
            yield f"<p>{status}:</p><pre>{escape(json.dumps(example, ensure_ascii=False, indent=2))}</pre>"
    errors = "".join(
        f"<tr><td>{status}</td><td>{escape(answer['description'])}</td></tr>"
        for status, answer in sorted(one["responses"].items())
        if status >= "400"
    )
    yield f"<table>{errors}</table>"


def _curl(schema: Mapping[str, Any], base: str, method: str, path: str, one: Mapping[str, Any]) -> str:
    parts = ["curl" if method == "get" else f"curl -X {method.upper()}"]
    if one.get("security"):
        parts.append('-H "Authorization: Bearer $KEY"')
    parts += [f"-H '{p['name']}: \"2\"'" for p in one.get("parameters", ()) if p["name"] == "If-Match"]
    content = one.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        name = content["multipart/form-data"]["schema"]["required"][0]
        parts.append(f"-F {name}=@scan.jpg")
    elif "application/json" in content:
        example = _example(schema, content["application/json"]["schema"])
        parts.append(f"--json '{json.dumps({} if example is None else example, ensure_ascii=False)}'")
    return " ".join([*parts, f"'{base}{path}'"])


def _example(schema: Mapping[str, Any], shape: Mapping[str, Any]) -> Any:
    """The example that a model gives, looked for behind its reference; None where there is none."""
    for one in (shape, *shape.get("anyOf", ())):
        if "$ref" in one:
            one = schema["components"]["schemas"][one["$ref"].rpartition("/")[2]]
        if "example" in one:
            return one["example"]
    return None


def _words(text: str) -> str:
    """Text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _id(one: Mapping[str, Any]) -> str:
    return escape(one["operationId"], quote=True)
