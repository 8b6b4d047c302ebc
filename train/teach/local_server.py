"""A small OpenAI-compatible chat server on this machine: it makes whatever can answer a chat reachable by the real protocol.

It serves the scripted teacher to the nano pipeline and scripted answers, slow ones and faults to the tests. Not for the open
network.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server says. ``status`` other than 200 refuses. ``tokens`` are (text, log-probability), ``token_ids`` and
    ``prompt_ids`` their ids. Faults: ``hang_s`` of silence first, ``cut_after`` characters the connection closes, ``garbage``
    is sent as it is."""

    text: str = ""
    finish: str = "stop"
    status: int = 200
    tokens: Sequence[tuple[str, float]] = ()
    token_ids: Sequence[int] = ()
    prompt_ids: Sequence[int] = ()
    hang_s: float = 0.0
    cut_after: int | None = None
    garbage: str | None = None
    retry_after: int | None = None
    usage: tuple[int, int] | None = None


Answer = Callable[[Body], Reply]


class ChatServer:
    """Serves ``answer`` at ``url`` until closed; as a context manager. ``requests`` are the bodies it got, in order."""

    def __init__(self, answer: Answer, *, key: str = "") -> None:
        self.requests: list[Body] = []
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, answer, key))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def wait(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(server: ChatServer, answer: Answer, key: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Requests hold pages: nothing is logged."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            if self.path != "/v1/chat/completions":
                return self._send(404, {"error": {"message": "no such address"}})
            if key and self.headers.get("authorization") != f"Bearer {key}":
                return self._send(401, {"error": {"message": "wrong key"}})
            server.requests.append(body)
            reply = answer(body)
            if reply.hang_s:
                server.wait(reply.hang_s)
            if reply.status != 200:
                return self._send(reply.status, {"error": {"message": "refused"}}, reply.retry_after)
            if body.get("stream"):
                return self._stream(body, reply)
            choice = {"index": 0, "message": {"role": "assistant", "content": reply.text}, "finish_reason": reply.finish}
            if body.get("logprobs"):
                choice["logprobs"] = _logprobs(reply.tokens)
            return self._send(200, {"model": body.get("model"), "choices": [choice], "usage": _usage(reply)})

        def _send(self, status: int, data: Mapping[str, Any], retry_after: int | None = None) -> None:
            raw = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            if retry_after is not None:
                self.send_header("retry-after", str(retry_after))
            self.end_headers()
            self.wfile.write(raw)

        def _stream(self, body: Body, reply: Reply) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for event in _events(body, reply):
                    self.wfile.write(event)
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                return  # whoever asked has hung up

    return Handler


def _events(body: Body, reply: Reply) -> Sequence[bytes]:
    """The pieces of a streamed answer: a token each where there are tokens, else eight characters."""
    if reply.garbage is not None:
        return [reply.garbage.encode()]
    model = body.get("model")
    pieces: list[dict[str, Any]] = []
    if reply.tokens:
        ids: Sequence[int | None] = list(reply.token_ids) or [None] * len(reply.tokens)
        for (text, logprob), token in zip(reply.tokens, ids, strict=True):
            piece: dict[str, Any] = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            if body.get("logprobs"):
                piece["logprobs"] = _logprobs([(text, logprob)])
            if body.get("return_token_ids") and token is not None:
                piece["token_ids"] = [token]
            pieces.append(piece)
    else:
        parts = [reply.text[at : at + 8] for at in range(0, len(reply.text), 8)]
        pieces = [{"index": 0, "delta": {"content": part}, "finish_reason": None} for part in parts]
    out: list[dict[str, Any]] = []
    sent = 0
    for piece in pieces:
        sent += len(piece["delta"]["content"])
        if reply.cut_after is not None and sent > reply.cut_after:
            return [_line(event) for event in out]
        out.append({"model": model, "choices": [piece]})
    if out and body.get("return_token_ids") and reply.prompt_ids:
        out[0]["prompt_token_ids"] = list(reply.prompt_ids)
    out.append({"model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        out.append({"model": model, "choices": [], "usage": _usage(reply)})
    return [*(_line(event) for event in out), b"data: [DONE]\n\n"]


def _line(event: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _logprobs(tokens: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {"content": [{"token": text, "logprob": p, "bytes": list(text.encode()), "top_logprobs": []} for text, p in tokens]}


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.usage or (len(reply.prompt_ids), len(reply.token_ids) or len(reply.tokens) or len(reply.text))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
