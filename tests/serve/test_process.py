"""``certloop serve`` as a person starts it: it says where it is, and ends when it is told."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from certloop.serve.errors import ListenError
from certloop.serve.process import address_of, bound

from live import until  # isort: skip


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"), ("0.0.0.0", "http://localhost:8000"), ("::", "http://localhost:8000"),
        ("::1", "http://[::1]:8000"), ("reader.example.com", "http://reader.example.com:8000"),
    ],
)  # fmt: skip
def test_the_address_is_one_that_can_be_typed(host: str, address: str) -> None:
    assert address_of(host, 8000) == address


def test_serve_says_where_it_is_once_it_answers(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("certloop")), "serve", "--demo", "--port", "0", "--no-desk"]
    environment = os.environ | {"CERTLOOP_DATABASE_URL": f"sqlite:///{tmp_path}/store.db"}
    with (tmp_path / "log").open("wb") as log, (tmp_path / "out").open("w+b") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=log)
        try:
            said = until(lambda: (tmp_path / "out").read_text(encoding="utf-8"))
            found = re.fullmatch(r"certloop is up: the API at (http://127\.0\.0\.1:[0-9]+/docs)\. Ctrl-C ends it\.\n", said)
            assert found is not None, said
            assert httpx.get(found[1], trust_env=False).status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(90)
    assert process.returncode == 0, (tmp_path / "log").read_text(encoding="utf-8")


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [str(Path(sys.executable).with_name("certloop")), "serve", "--demo", "--port", port, "--no-desk"]
        environment = os.environ | {"CERTLOOP_DATABASE_URL": f"sqlite:///{tmp_path}/store.db"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error[listen_failed]: cannot listen on 127.0.0.1 port {port}: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.1", "a" * 300])
def test_an_address_of_another_machine_is_none_to_listen_on(host: str) -> None:
    with pytest.raises(ListenError, match="cannot listen on"):
        bound(host, 0)
