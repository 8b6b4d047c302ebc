"""kill -9 of the service, again and again, while documents are handed in and read: none is lost, nothing exists twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from live import ACME, Live, small_page, tiny_page, until
from sqlalchemy import select

from certloop.agentrl.store.schema import events
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, deliveries, uploads

pytestmark = pytest.mark.slow

DOCUMENTS, KILLS, PAGES = 200, 12, 20
AFTER_S = 2.5
"""A kill comes up to so long after the first document of a life was read: in the middle of things, not only of starting."""


class Listener:
    """Receives webhooks and remembers which ids came how often."""

    def __init__(self) -> None:
        seen = self.seen = Counter[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                seen[self.headers["webhook-id"]] += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def listener() -> Any:
    made = Listener()
    yield made
    made.server.shutdown()


def hand_in(live: Live, key: str, pages: list[bytes], accepted: dict[str, str], done: list[bool]) -> None:
    """Hand every page in under a key of its own, and again while no answer comes: what a careful client does."""
    headers = {"Authorization": f"Bearer {key}"}
    for number in range(DOCUMENTS):
        while True:
            try:
                with httpx.Client(base_url=live.base, headers=headers, timeout=20, trust_env=False) as client:
                    answer = client.post(
                        "/v1/documents",
                        files={"file": (f"{number}.png", pages[number % PAGES])},
                        headers={"Idempotency-Key": f"k-{number}"},
                    )
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            if answer.status_code == 202:
                accepted[f"k-{number}"] = answer.json()["id"]
                break
            assert answer.status_code in (429, 503), answer.text
            time.sleep(0.5)
    done.append(True)


def test_kill_9_in_a_loop_loses_nothing_and_repeats_nothing(tmp_path: Path, listener: Listener) -> None:
    rng = random.Random(7)
    pages = [small_page(number) if number % 5 == 0 else tiny_page(number) for number in range(PAGES)]
    live = Live(tmp_path, jobs={"readers": 2, "lease_s": 5.0, "drain_s": 10.0}).start()
    key = live.key("admin")
    with live.client() as admin:
        admin.post("/v1/webhooks", json={"url": listener.url, "events": ["document.done"]}).raise_for_status()
    accepted: dict[str, str] = {}
    done: list[bool] = []
    sender = Thread(target=hand_in, args=(live, key, pages, accepted, done), daemon=True)
    sender.start()
    service = live.open()
    for life in range(KILLS):
        if life % 4:  # every fourth dies while it starts
            before = _ended(service)
            until(lambda before=before: _ended(service) > before)
        time.sleep(rng.uniform(0.0, AFTER_S))
        live.kill()
        live.start(wait=False)
    live.wait_ready()
    sender.join(300)
    assert done, "the client could not hand everything in"
    finished = _wait_until_all_ended(service, live)
    live.stop()
    assert len(accepted) == len(set(accepted.values())) == DOCUMENTS, "one key, one document"
    assert finished == Counter({"done": DOCUMENTS}), finished
    _check_rows(service, set(accepted.values()))
    _check_webhooks(service, listener)
    service.close()


def _ended(service: Any) -> int:
    with reading(service, ACME) as connection:
        return len(connection.execute(select(uploads.c.document_id).where(uploads.c.finished_at.is_not(None))).all())


def _wait_until_all_ended(service: Any, live: Live, patience_s: float = 240.0) -> Counter[str]:
    """As long as it goes on; ``patience_s`` without one more document is the end of it."""
    most, since = -1, time.monotonic()
    while True:
        with reading(service, ACME) as connection:
            statuses = Counter(connection.execute(select(uploads.c.status).where(uploads.c.tenant == ACME)).scalars())
        open_ones = statuses["queued"] + statuses["running"]
        if sum(statuses.values()) >= DOCUMENTS and not open_ones:
            return statuses
        if statuses.total() - open_ones > most:
            most, since = statuses.total() - open_ones, time.monotonic()
        assert time.monotonic() < since + patience_s, f"{statuses}\n{live.tail()}"
        time.sleep(0.5)


def _check_rows(service: Any, accepted: set[str]) -> None:
    """Exactly one upload, certificate and trajectory a document, under the one id that the client was told."""
    with reading(service, ACME) as connection:
        ids = list(connection.execute(select(uploads.c.document_id)).scalars())
        certs = list(connection.execute(select(certificates.c.certificate_id)).scalars())
        told = list(connection.execute(select(events.c.event_id).where(events.c.kind == "trajectory")).scalars())
    assert sorted(ids) == sorted(accepted)
    assert sorted(certs) == sorted(f"{document_id}.0" for document_id in accepted)
    assert sorted(told) == sorted(certs)


def _check_webhooks(service: Any, listener: Listener) -> None:
    """One delivery a document; each arrived at least once, under its id."""
    from certloop.serve.webhooks.sender import Sender

    sender = Sender(service)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        sender.send_due()
        with reading(service, ACME) as connection:
            rows = connection.execute(select(deliveries.c.delivery_id, deliveries.c.payload, deliveries.c.state)).all()
        if all(row.state == "delivered" for row in rows):
            break
        time.sleep(0.5)
    assert len(rows) == DOCUMENTS
    assert len({row.payload.partition("document_id")[2] for row in rows}) == DOCUMENTS
    assert {row.delivery_id for row in rows} == set(listener.seen)
