"""Files by address, from a real server on a loopback address that the test allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from certloop.serve.config import IntakeLimits
from certloop.serve.errors import FetchError, ForbiddenError, TooLargeError
from certloop.serve.intake.fetch import fetch

LIMITS = IntakeLimits(file_bytes=10_000, fetch_allowed=True, fetch_private=True, fetch_timeout_s=3.0)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        word = self.path.strip("/").partition("/")[0]
        if word == "redirect":
            self.send_response(302)
            self.send_header("Location", "/file/a.jpg")
            self.end_headers()
            return
        self.send_response(404 if word == "missing" else 200)
        self.end_headers()
        if word == "file":
            self.wfile.write(b"the file")
        elif word == "endless":
            self._slowly(b"x" * 5000, pause_s=0.0)
        elif word == "slow":
            self._slowly(b"x", pause_s=0.5)
        elif word == "cut":
            self.wfile.write(b"half")

    def _slowly(self, part: bytes, pause_s: float) -> None:
        try:
            for _ in range(60):
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(pause_s)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_file_comes_with_its_name(base: str) -> None:
    assert fetch(f"{base}/file/%E6%89%A7%E7%85%A7.jpg?token=1", LIMITS) == ("执照.jpg", b"the file")


def test_fetching_is_off_unless_it_is_allowed(base: str) -> None:
    with pytest.raises(ForbiddenError):
        fetch(f"{base}/file/a.jpg", replace(LIMITS, fetch_allowed=False))


@pytest.mark.parametrize("word", ["missing", "redirect", "slow"])
def test_what_is_no_file_is_refused(base: str, word: str) -> None:
    with pytest.raises(FetchError):
        fetch(f"{base}/{word}/a.jpg", LIMITS)


def test_a_file_is_not_taken_further_than_its_limit(base: str) -> None:
    with pytest.raises(TooLargeError):
        fetch(f"{base}/endless/a.jpg", LIMITS)


def test_nobody_there_is_a_typed_error(base: str) -> None:
    with pytest.raises(FetchError):
        fetch("http://127.0.0.1:9/a.jpg", LIMITS)


def test_a_name_that_leads_to_a_private_address_is_refused_even_beside_a_public_one() -> None:
    closed = replace(LIMITS, fetch_private=False)
    for addresses in (["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::1"], ["fd00::1"], ["169.254.169.254"]):
        with pytest.raises(FetchError, match="public"):
            fetch("https://files.example/a.jpg", closed, lookup=lambda _host, _port, found=addresses: found)
    with pytest.raises(FetchError, match="public"):
        fetch("http://files.example/a.jpg", closed, lookup=lambda _host, _port: ["93.184.216.34"])
