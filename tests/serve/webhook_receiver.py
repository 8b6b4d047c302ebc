"""A real receiver of webhooks, and what is known of what was sent to it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from callers import ACME, admin_of

from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.webhooks import deliveries
from certloop.serve.webhooks.outbox import Event, enqueue

ADMIN = admin_of(ACME)


class Receiver:
    """A real HTTP server that answers as it is told and keeps what came."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.hang = threading.Event()
        self.hang.set()
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                receiver.hang.wait(20)
                status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.got]


def happened(service: Service, event: Event = Event.DOCUMENT_DONE, tenant: str = ACME) -> tuple[str, ...]:
    with writing(service, tenant) as connection:
        return enqueue(connection, tenant, event, {"document_id": "doc_1", "status": "done"}, service.clock())


def state(service: Service, webhook_id: str) -> list[tuple[str, int, int | None]]:
    rows = deliveries.page(service, ADMIN, webhook_id, state=None, before=None, limit=200)
    return [(row.state, row.attempts, row.last_status) for row in rows]


def why(service: Service, webhook_id: str) -> list[str | None]:
    return [row.last_error for row in deliveries.page(service, ADMIN, webhook_id, state=None, before=None, limit=200)]
