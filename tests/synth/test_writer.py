"""A language model may write the words: what it writes is checked, asked again, and replaced by the grammar when it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from certloop.synth.config import WriterConfig
from certloop.synth.sample import Recipe, draw_document

PLAIN = draw_document(Recipe("business_licence", 11, 500, layouts=("horizontal_2019",)))


@contextmanager
def endpoint(answer: Callable[[dict[str, Any], int], str | int]) -> Iterator[tuple[WriterConfig, list[dict[str, Any]]]]:
    """A real HTTP server that answers chat completions with ``answer(request, number)`` (an int is a status)."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = answer(asked[-1], len(asked))
            body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
            self.send_response(content if isinstance(content, int) else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield WriterConfig(f"http://127.0.0.1:{server.server_port}/v1", "writer", timeout_s=5), asked
    finally:
        server.shutdown()
        server.server_close()


def good(request: dict[str, Any], county: str = "") -> str:
    keys = request["response_format"]["json_schema"]["schema"]["required"]
    place = PLAIN.firm.place
    address = f"{place.city}{county or place.county}云岭路8号"
    values = {"name": "晨曦岚山科技有限公司", "person": "苏晓岚", "address": address, "scope": "软件开发；信息咨询服务。"}
    return json.dumps({k: values[k] for k in keys}, ensure_ascii=False)


def draw(config: WriterConfig) -> Any:
    return draw_document(Recipe("business_licence", 11, 500, layouts=("horizontal_2019",), writer=config))


def test_what_the_model_writes_is_printed() -> None:
    with endpoint(lambda request, number: good(request)) as (config, asked):
        document = draw(config)
    assert document.page.values["name"] == "晨曦岚山科技有限公司" and document.page.values["person"] == "苏晓岚"
    assert document.writer_fallback == ""
    assert document.page.values["credit_code"] == PLAIN.page.values["credit_code"]
    assert asked[0]["model"] == "writer" and PLAIN.firm.place.code in asked[0]["messages"][0]["content"]


def test_a_wrong_place_or_no_json_is_asked_again() -> None:
    answers = {1: lambda r: "这是答案", 2: lambda r: good(r, county="别处区"), 3: good}
    with endpoint(lambda request, number: answers[number](request)) as (config, asked):
        document = draw(config)
    assert len(asked) == 3 and document.page.values["name"] == "晨曦岚山科技有限公司"
    assert "must lie in" in asked[2]["messages"][-1]["content"]


def test_nonsense_to_the_end_falls_back_to_the_grammar_and_says_so() -> None:
    with endpoint(lambda request, number: "{}") as (config, asked):
        document = draw(config)
    assert len(asked) == config.attempts
    assert document.page.values == PLAIN.page.values
    assert "keys must be exactly" in document.writer_fallback


def test_an_endpoint_that_fails_or_is_down_falls_back_too() -> None:
    with endpoint(lambda request, number: 503) as (config, _):
        assert "answered 503" in draw(config).writer_fallback
    assert "cannot be reached" in draw(config).writer_fallback
