"""Webhooks: signed, sent at least once with one id, retried, kept from private addresses, and told to nobody who left."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from callers import ACME, OTHER, Callers, Hands, admin_of
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import select, update
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from certloop.agentrl.store import AesGcm, NotFoundError
from certloop.serve.config import EdgeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import webhooks as webhooks_table
from certloop.serve.errors import ConflictError, TargetError
from certloop.serve.people import tenants
from certloop.serve.webhooks import deliveries, endpoints
from certloop.serve.webhooks.deliveries import MAX_ATTEMPTS, claim, parse_retry_after, wait_s
from certloop.serve.webhooks.outbox import Event, enqueue
from certloop.serve.webhooks.sender import Sender, sign
from certloop.serve.webhooks.targets import refused, resolve

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


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.hang.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def private(open_service: Callable[..., Service]) -> Service:
    """A service whose webhooks may go to this machine, sealed."""
    service = open_service(edge=EdgeConfig(webhook_private=True), cipher=AesGcm(bytes(range(32))))
    tenants.create(service, ADMIN, ACME)
    return service


def happened(service: Service, event: Event = Event.DOCUMENT_DONE, tenant: str = ACME) -> tuple[str, ...]:
    with writing(service, tenant) as connection:
        return enqueue(connection, tenant, event, {"document_id": "doc_1", "status": "done"}, service.clock())


def state(service: Service, webhook_id: str) -> list[tuple[str, int, int | None]]:
    rows = deliveries.page(service, ADMIN, webhook_id, state=None, before=None, limit=200)
    return [(row.state, row.attempts, row.last_status) for row in rows]


def why(service: Service, webhook_id: str) -> list[str | None]:
    return [row.last_error for row in deliveries.page(service, ADMIN, webhook_id, state=None, before=None, limit=200)]


def test_a_delivery_is_signed_as_standard_webhooks_say(private: Service, receiver: Receiver) -> None:
    _, secret = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    (delivery_id,) = happened(private)
    assert Sender(private).send_due() == 1
    (path, headers, body) = receiver.got[0]
    assert path == "/hook"
    assert headers["webhook-id"] == delivery_id
    assert headers["host"] == receiver.url.split("/")[2]
    assert Webhook(secret).verify(body, headers) == {
        "type": "document.done",
        "timestamp": "2026-03-01T08:00:00.000000+00:00",
        "data": {"document_id": "doc_1", "status": "done"},
    }
    assert Sender(private).send_due() == 0


def test_a_replayed_or_changed_delivery_is_refused_by_its_receiver() -> None:
    secret, now, body = endpoints.new_secret(), datetime.now(UTC), '{"type":"document.done"}'

    def headers(at: datetime, claimed: datetime | None = None, text: str = body) -> dict[str, str]:
        return {
            "webhook-id": "dlv_1",
            "webhook-timestamp": str(int((claimed or at).timestamp())),
            "webhook-signature": sign([secret], "dlv_1", at, text),
        }

    Webhook(secret).verify(body, headers(now))
    for wrong in (
        headers(now - timedelta(minutes=6)),  # outside of the window of five minutes
        headers(now - timedelta(minutes=6), claimed=now),  # and the time is part of what is signed
        headers(now, text='{"type":"batch.done"}'),
        headers(now) | {"webhook-id": "dlv_2"},
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, wrong)
    with pytest.raises(WebhookVerificationError):
        Webhook(endpoints.new_secret()).verify(body, headers(now))


def test_the_readmes_receiver_takes_each_delivery_once(private: Service, receiver: Receiver, root: Path) -> None:
    (example,) = [
        block
        for block in re.findall(
            r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        if "standardwebhooks" in block
    ]
    names: dict[str, Any] = {}
    exec(example, names)
    made, secret = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    (delivery_id,) = happened(private)
    Sender(private).send_due()
    deliveries.redeliver(private, ADMIN, made.webhook_id, delivery_id)
    Sender(private).send_due()
    handled: set[str] = set()
    taken = [names["received"](body, headers, secret, handled) for _, headers, body in receiver.got]
    assert [event and event["type"] for event in taken] == ["document.done", None]


def test_it_is_sent_again_with_the_same_id_until_it_is_taken(private: Service, receiver: Receiver, hands: Hands) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    (delivery_id,) = happened(private)
    receiver.answers = [(500, {}), (302, {"location": "http://127.0.0.1:1/"}), (404, {}), (200, {})]
    sender, seen = Sender(private), []
    for _ in range(4):
        assert sender.send_due() == 1
        assert sender.send_due() == 0  # not before its time
        seen.append(state(private, made.webhook_id)[0])
        hands.move(hours=15)
    assert seen == [("pending", 1, 500), ("pending", 2, 302), ("pending", 3, 404), ("delivered", 4, 200)]
    assert receiver.ids() == [delivery_id] * 4
    assert {path for path, _, _ in receiver.got} == {"/hook"}  # the redirect was not followed


def test_after_twelve_failures_it_stays_failed(private: Service, receiver: Receiver, hands: Hands) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    receiver.answers = [(503, {})] * (MAX_ATTEMPTS + 1)
    while Sender(private).send_due():
        hands.move(hours=15)
    assert state(private, made.webhook_id) == [("failed", 12, 503)]
    assert len(receiver.got) == 12


def test_waits_grow_by_four_and_are_spread() -> None:
    rng = random.Random(7)
    for attempt, middle in ((1, 5), (2, 20), (3, 80), (4, 320), (5, 1280), (6, 5120), (7, 20480), (8, 43200), (11, 43200)):
        waits = [wait_s(attempt, rng) for _ in range(200)]
        assert 0.8 * middle <= min(waits) < 0.85 * middle
        assert 1.15 * middle < max(waits) <= 1.2 * middle


def test_retry_after_is_heeded(private: Service, receiver: Receiver, hands: Hands) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    receiver.answers = [(429, {"retry-after": "3000"}), (200, {})]
    Sender(private).send_due()
    hands.move(seconds=2999)
    assert Sender(private).send_due() == 0
    hands.move(seconds=1)
    assert Sender(private).send_due() == 1
    assert state(private, made.webhook_id) == [("delivered", 2, 200)]
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert parse_retry_after("Sun, 01 Mar 2026 00:01:00 GMT", now) == 60.0
    assert [parse_retry_after(text, now) for text in (None, "", "soon", "-1", "1e9", "²")] == [None] * 6
    assert parse_retry_after("9" * 400, now) == 999_999_999.0


def test_gone_switches_the_endpoint_off(private: Service, receiver: Receiver, hands: Hands) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    hands.move(seconds=1)
    happened(private)
    receiver.answers = [(410, {}), (410, {})]
    Sender(private).send_due()
    after = endpoints.get(private, ADMIN, made.webhook_id)
    assert (after.disabled_at, after.disabled_reason) == (private.now(), "it answered 410 Gone")
    assert {row[0] for row in state(private, made.webhook_id)} == {"failed"}
    assert happened(private) == ()  # nobody listens any more
    endpoints.change(private, ADMIN, made.webhook_id, disabled=False)
    assert len(happened(private)) == 1


def test_a_dead_endpoint_is_no_answer(private: Service, hands: Hands) -> None:
    made, _ = endpoints.create(private, ADMIN, "http://127.0.0.1:9/hook", [Event.DOCUMENT_DONE])
    happened(private)
    assert Sender(private).send_due() == 1
    assert state(private, made.webhook_id) == [("pending", 1, None)]
    assert why(private, made.webhook_id) == ["unreachable"]


def test_an_answer_that_is_no_http_or_never_ends_its_head_is_broken(private: Service) -> None:
    for said in (b"220 mail.example.com ESMTP\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            made, _ = endpoints.create(
                private, ADMIN, f"http://127.0.0.1:{listener.getsockname()[1]}/hook", [Event.DOCUMENT_DONE]
            )

            def answer(listener: socket.socket = listener, said: bytes = said) -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said)

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            happened(private)
            assert Sender(private).send_due() == 1
            thread.join(10)
        assert (state(private, made.webhook_id), why(private, made.webhook_id)) == ([("pending", 1, None)], ["broken"])
        endpoints.remove(private, ADMIN, made.webhook_id)


def test_a_delivery_that_came_due_while_its_webhook_was_off_says_so(private: Service, receiver: Receiver) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    endpoints.change(private, ADMIN, made.webhook_id, disabled=True)
    assert Sender(private).send_due() == 0
    assert (state(private, made.webhook_id), why(private, made.webhook_id)) == ([("failed", 0, None)], ["switched_off"])
    endpoints.change(private, ADMIN, made.webhook_id, disabled=False)
    (failed,) = deliveries.page(private, ADMIN, made.webhook_id, state="failed", before=None, limit=1)
    deliveries.redeliver(private, ADMIN, made.webhook_id, failed.delivery_id)
    assert Sender(private).send_due() == 1
    assert (state(private, made.webhook_id), why(private, made.webhook_id)) == ([("delivered", 1, 204)], [None])


def test_a_hanging_endpoint_costs_its_deadline_and_delays_no_other(
    private: Service, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certloop.serve.webhooks.sender.DEADLINE_S", 0.3)
    slow, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    other = Receiver()
    fast, _ = endpoints.create(private, ADMIN, other.url, [Event.DOCUMENT_DONE])
    receiver.hang.clear()
    happened(private)
    assert Sender(private).send_due() == 2
    assert state(private, slow.webhook_id) == [("pending", 1, None)]
    assert (why(private, slow.webhook_id), why(private, fast.webhook_id)) == (["timeout"], [None])
    assert state(private, fast.webhook_id) == [("delivered", 1, 204)]
    other.server.shutdown()
    other.server.server_close()


def test_two_processes_do_not_make_one_attempt_twice(private: Service, hands: Hands) -> None:
    endpoints.create(private, ADMIN, "http://127.0.0.1:9/hook", [Event.DOCUMENT_DONE])
    happened(private)
    assert len(claim(private, ACME, 10)) == 1
    assert claim(private, ACME, 10) == ()
    hands.move(seconds=61)  # the first process died with it
    assert [due.attempt for due in claim(private, ACME, 10)] == [2]


def test_events_go_to_those_who_asked_for_them(private: Service) -> None:
    tenants.create(private, admin_of(OTHER), OTHER)
    both, _ = endpoints.create(private, ADMIN, "http://127.0.0.1:9/a", [Event.BATCH_DONE, Event.DOCUMENT_DONE])
    one, _ = endpoints.create(private, ADMIN, "http://127.0.0.1:9/b", [Event.BATCH_DONE])
    off, _ = endpoints.create(private, ADMIN, "http://127.0.0.1:9/c", [Event.DOCUMENT_DONE])
    endpoints.change(private, ADMIN, off.webhook_id, disabled=True)
    endpoints.create(private, admin_of(OTHER), "http://127.0.0.1:9/d", [Event.DOCUMENT_DONE])
    assert len(happened(private, Event.DOCUMENT_DONE)) == 1
    assert len(happened(private, Event.BATCH_DONE)) == 2
    assert [len(state(private, made.webhook_id)) for made in (both, one, off)] == [2, 1, 0]


def test_what_did_not_commit_is_not_told(private: Service) -> None:
    made, _ = endpoints.create(private, ADMIN, "http://127.0.0.1:9/a", [Event.DOCUMENT_DONE])
    with pytest.raises(RuntimeError), writing(private, ACME) as connection:
        enqueue(connection, ACME, Event.DOCUMENT_DONE, {"document_id": "doc_1"}, private.clock())
        raise RuntimeError("the rest of the transaction failed")
    assert state(private, made.webhook_id) == []


def test_both_secrets_sign_for_a_day_after_a_rotation(private: Service, receiver: Receiver, hands: Hands) -> None:
    made, old = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    _, new = endpoints.rotate_secret(private, ADMIN, made.webhook_id)
    happened(private)
    Sender(private).send_due()
    hands.move(hours=24)
    happened(private)
    Sender(private).send_due()
    (_, first, body), (_, second, _) = receiver.got
    for secret in (old, new):
        Webhook(secret).verify(body, first)
    Webhook(new).verify(receiver.got[1][2], second)
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(receiver.got[1][2], second)


def test_secrets_are_sealed(private: Service) -> None:
    _, secret = endpoints.create(private, ADMIN, "http://127.0.0.1:9/a", [Event.DOCUMENT_DONE])
    with reading(private, ACME) as connection:
        row = connection.execute(select(webhooks_table)).one()
    assert secret not in str(tuple(row))
    assert secret.removeprefix("whsec_") not in str(tuple(row))


def test_redelivery_sends_the_same_id_again(private: Service, receiver: Receiver) -> None:
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    (delivery_id,) = happened(private)
    with pytest.raises(ConflictError):
        deliveries.redeliver(private, ADMIN, made.webhook_id, delivery_id)
    Sender(private).send_due()
    assert deliveries.redeliver(private, ADMIN, made.webhook_id, delivery_id).state == "pending"
    Sender(private).send_due()
    assert receiver.ids() == [delivery_id] * 2
    with pytest.raises(NotFoundError):
        deliveries.redeliver(private, admin_of(OTHER), made.webhook_id, delivery_id)


def test_the_loop_runs_until_it_is_stopped(private: Service, receiver: Receiver) -> None:
    endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    sender = Sender(private, every_s=0.01)
    sender.start()
    happened(private)
    for _ in range(1000):
        if receiver.got:
            break
        threading.Event().wait(0.01)
    sender.stop()
    assert len(receiver.got) == 1


INTERNAL = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.100.100.200", "100.64.0.1", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1",
]  # fmt: skip
PUBLIC = ["93.184.216.34", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert refused(ipaddress.ip_address(address))
    with pytest.raises(TargetError):
        resolve("https://hook.example.com/", private=False, lookup=lambda *_: [address])
    with pytest.raises(TargetError):  # one bad address among good ones is enough
        resolve("https://hook.example.com/", private=False, lookup=lambda *_: ["93.184.216.34", address])


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_taken(address: str) -> None:
    target = resolve("https://hook.example.com:8443/a?b=c", private=False, lookup=lambda *_: [address])
    literal = f"[{ipaddress.ip_address(address)}]" if ":" in address else address
    assert target.connect == f"https://{literal}:8443/a?b=c"
    assert (target.host, target.authority) == ("hook.example.com", "hook.example.com:8443")


@pytest.mark.parametrize(
    "url",
    [
        "http://hook.example.com/", "ftp://hook.example.com/", "file:///etc/passwd", "gopher://hook.example.com/",
        "//hook.example.com/", "https://user:pw@hook.example.com/", "https://user@hook.example.com/", "https:///x", "https://",
        "https://hook.example.com/#x", "https://hook.example.com:22/", "https://hook.example.com:0/", "https://[::1", "",
        "https://hook.example.com:99999/", "https://hook.example.com:x/", "https://hook.exa mple.com/", "javascript:alert(1)",
        "https://hook.example.com/\r\nX: y", "https://hook.example.com/\x00", "https://hook.example.com/" + "a" * 2000,
    ],
)  # fmt: skip
def test_addresses_that_no_endpoint_may_have(everybody: Callers, url: str) -> None:
    with pytest.raises(TargetError):
        endpoints.create(everybody.service, ADMIN, url, [Event.DOCUMENT_DONE])
    answer = everybody.as_("admin").post("/v1/webhooks", json={"url": url, "events": ["document.done"]})
    assert answer.status_code == 422
    assert answer.json()["code"] in ("webhook_target", "request_invalid")


LITERAL = [
    "localhost", "Api.LocalHost", "localhost.", "127.1", "2130706433", "0x7f.0.0.1", "0x7F000001", "0177.0.0.1", "127.0.0.1",
    "127.0.0.1.", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0", "[::1]", "[::]", "[fe80::1]",
    "[fe80::1%25eth0]", "[fc00::1]", "[::ffff:127.0.0.1]", "[::ffff:a00:1]", "[64:ff9b::a9fe:a9fe]",
    "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
]  # fmt: skip


@pytest.mark.parametrize("host", LITERAL)
def test_an_address_written_out_is_refused_before_anything_is_kept(everybody: Callers, host: str) -> None:
    admin, url = everybody.as_("admin"), f"https://{host}:8443/hook"
    answer = admin.post("/v1/webhooks", json={"url": url, "events": ["document.done"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "webhook_target")
    assert admin.get("/v1/webhooks").json()["items"] == []


def test_nor_may_one_be_changed_to_it(callers: Callers) -> None:
    admin = callers.as_("admin")
    made = admin.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["document.done"]}).json()
    answer = admin.patch(f"/v1/webhooks/{made['webhook_id']}", json={"url": "https://[::1]/hook"})
    assert (answer.status_code, answer.json()["code"]) == (422, "webhook_target")
    assert admin.get(f"/v1/webhooks/{made['webhook_id']}").json()["url"] == "https://93.184.216.34/hook"


@pytest.mark.parametrize("host", ["hook.example.com", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_webhook_that_leads_inside_is_not_called_and_switched_off(service: Service, receiver: Receiver, host: str) -> None:
    """Registered as a harmless name, or before the rule: what counts is where it leads when it is used."""
    tenants.create(service, ADMIN, ACME)
    port = receiver.server.server_port
    made, _ = endpoints.create(service, ADMIN, "https://hook.example.com/hook", [Event.DOCUMENT_DONE])
    with writing(service, ACME) as connection:
        connection.execute(update(webhooks_table).values(url=f"https://{host}:{port}/hook"))
    happened(service)
    assert Sender(service, lookup=lambda *_: ["127.0.0.1"]).send_due() == 1
    assert receiver.got == []
    assert state(service, made.webhook_id) == [("failed", 1, None)]
    assert why(service, made.webhook_id) == ["refused"]
    found = endpoints.get(service, ADMIN, made.webhook_id)
    assert found.disabled_at is not None
    assert "not sent to" in str(found.disabled_reason)
    assert Sender(service).send_due() == 0


def test_a_name_that_is_not_resolved_just_now_is_asked_again(service: Service, hands: Hands) -> None:
    tenants.create(service, ADMIN, ACME)
    made, _ = endpoints.create(service, ADMIN, "https://hook.example.com/hook", [Event.DOCUMENT_DONE])
    happened(service)
    assert Sender(service, lookup=lambda *_: []).send_due() == 1
    assert state(service, made.webhook_id) == [("pending", 1, None)]
    assert why(service, made.webhook_id) == ["unresolved"]
    assert endpoints.get(service, ADMIN, made.webhook_id).disabled_at is None


def test_a_name_is_resolved_once_and_the_connection_goes_where_it_was_checked(private: Service, receiver: Receiver) -> None:
    """DNS rebinding: the name would lead elsewhere the second time it is asked."""
    asked: list[str] = []

    def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    endpoints.create(private, ADMIN, receiver.url.replace("127.0.0.1", "hook.example.com"), [Event.DOCUMENT_DONE])
    happened(private)
    Sender(private, lookup=lookup).send_due()
    assert asked == ["hook.example.com"]
    assert len(receiver.got) == 1
    assert receiver.got[0][1]["host"] == f"hook.example.com:{receiver.server.server_port}"


def test_the_certificate_must_be_the_names(private: Service, receiver: Receiver, tmp_path: Path) -> None:
    """The connection goes to an address, the certificate is compared with the name."""
    authority = self_signed(tmp_path, "hook.example.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    trusting = ssl.create_default_context(cafile=str(authority))
    port, here = receiver.server.server_port, (lambda *_: ["127.0.0.1"])
    for name, tls, fine in (
        ("hook.example.com", trusting, True),
        ("other.example.com", trusting, False),
        ("hook.example.com", None, False),  # nobody knows who signed it
    ):
        made, _ = endpoints.create(private, ADMIN, f"https://{name}:{port}/hook", [Event.DOCUMENT_DONE])
        happened(private)
        assert Sender(private, lookup=here, tls=tls).send_due() == 1
        assert state(private, made.webhook_id) == [("delivered", 1, 204) if fine else ("pending", 1, None)]
        assert why(private, made.webhook_id) == [None if fine else "tls"]
        endpoints.remove(private, ADMIN, made.webhook_id)
    assert len(receiver.got) == 1


def self_signed(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private_bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private_bytes + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_proxies_of_the_environment_are_not_used(private: Service, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    made, _ = endpoints.create(private, ADMIN, receiver.url, [Event.DOCUMENT_DONE])
    happened(private)
    Sender(private).send_due()
    assert state(private, made.webhook_id) == [("delivered", 1, 204)]


def test_over_http_the_secret_is_shown_once_and_lists_page(callers: Callers) -> None:
    admin = callers.as_("admin")
    made = admin.post("/v1/webhooks", json={"url": "https://erp.example.com/in", "events": ["document.done"]}).json()
    assert made["secret"].startswith("whsec_")
    assert "secret" not in json.dumps(admin.get("/v1/webhooks").json())
    path = f"/v1/webhooks/{made['webhook_id']}"
    assert admin.post(f"{path}/secret").json()["secret"] != made["secret"]
    sent = [happened(callers.service)[0] for _ in range(5)]
    listed, cursor = [], None
    while True:
        page = admin.get(f"{path}/deliveries", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        listed += [row["delivery_id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert listed == sent[::-1]
    other = admin.post("/v1/webhooks", json={"url": "https://erp.example.com/b", "events": ["document.done"]}).json()
    first = admin.get(f"{path}/deliveries", params={"limit": 2}).json()["next_cursor"]
    elsewhere = admin.get(f"/v1/webhooks/{other['webhook_id']}/deliveries", params={"cursor": first})
    assert elsewhere.json()["code"] == "cursor_invalid"
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404
