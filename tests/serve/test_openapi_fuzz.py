"""The whole API against its own description, over real HTTP: whatever is sent, the answer is one that the description promises.

The fast run sends examples and corner cases to every operation; the slow one draws many requests more, and follows ids from one
answer to the next request.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from acme_world import World
from callers import Callers
from sqlalchemy import insert

from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.db.schema import executors
from certloop.serve.jobs.start import start_accepting

HERE = Path(__file__).resolve().parent
CERTIFICATES = 20


@pytest.fixture
def server(tmp_path: Path, root: Path) -> Iterator[tuple[str, Callers]]:
    """A service that takes documents in, ready because some executor holds a lease for ever."""
    service = Service.open(ServeConfig(f"sqlite:///{tmp_path}/store.db"))
    start_accepting(service)
    with writing(service, None) as connection:
        lease = {"executor_id": "elsewhere", "started_at": service.now(), "lease_until": "9999-01-01T00:00:00.000000+00:00"}
        connection.execute(insert(executors), [lease])
    with service, Callers(service) as callers:
        running = uvicorn.Server(uvicorn.Config(callers.app, port=0, access_log=False, log_config=None))
        thread = threading.Thread(target=running.run, daemon=True)
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}", callers
        running.should_exit = True
        thread.join(10)


def run(folder: Path, url: str, key: str, *options: str) -> str:
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(HERE / "schemathesis.toml"), "run",
        f"{url}/openapi.json", "--header", f"Authorization: Bearer {key}", "--seed", "7", "--no-shrink", *options,
    ]  # fmt: skip
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(HERE), "NO_COLOR": "1"}
    environment["FUZZ_IDS"] = str(folder / "ids.json")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-15_000:] + done.stderr[-2000:]
    return done.stdout


def run_all(folder: Path, server: tuple[str, Callers], *options: str) -> str:
    """Everything with one tenant's admin; the settings with another's, because a rate of nearly nothing ends the run."""
    url, callers = server
    world = World(callers)
    names = [world.certificate()["certificate_id"] for _ in range(CERTIFICATES)]
    (folder / "ids.json").write_text(json.dumps({"certificate_id": names, "trajectory_id": names}), encoding="utf-8")
    out = run(folder, url, callers.keys["admin"], "--exclude-path", "/v1/tenant", *options)
    return out + run(folder, url, callers.keys["foreign"], "--include-path", "/v1/tenant", *options)


def test_every_operation_keeps_its_word(tmp_path: Path, server: tuple[str, Callers]) -> None:
    out = run_all(tmp_path, server, "--phases", "examples,coverage")
    assert re.search(r"Tested: 6\d", out), "every operation"


@pytest.mark.slow
def test_every_operation_keeps_its_word_for_longer(tmp_path: Path, server: tuple[str, Callers]) -> None:
    out = run_all(tmp_path, server, "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "25")
    assert re.search(r"Tested: 6\d", out), "every operation"
