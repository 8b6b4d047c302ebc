"""Callers who begin a request and never end it: nobody waits for them, and they are no bug."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from callers import Callers
from live import until


@pytest.fixture
def port(callers: Callers) -> Iterator[int]:
    """The application on a real socket."""
    running = uvicorn.Server(uvicorn.Config(callers.app, port=0, access_log=False, log_config=None, http="h11"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until(lambda: running.started)
    yield running.servers[0].sockets[0].getsockname()[1]
    running.should_exit = True
    thread.join(10)


def half_a_request(port: int, key: str) -> socket.socket:
    """Headers, the beginning of a form, and then nothing."""
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"POST /v1/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n"
    made.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n".encode())
    return made


def test_a_body_that_stops_is_not_waited_for_for_ever(callers: Callers, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certloop.serve.api.limits.BODY_WAIT_S", 0.2)
    with half_a_request(port, callers.keys["operator"]) as waiting:
        answer = waiting.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ") and b'"code":"request_timeout"' in answer


def test_a_caller_who_leaves_in_the_middle_is_no_bug(callers: Callers, port: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        half_a_request(port, callers.keys["operator"]).close()
        until(lambda: [r for r in caplog.records if r.name == "certloop.access"])
    assert [record.facts["status"] for record in caplog.records if record.name == "certloop.access"] == [499]  # type: ignore[attr-defined]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
