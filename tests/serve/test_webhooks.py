"""Webhooks: signed, sent at least once with one id, retried, kept from private addresses, and told to nobody who left."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from callers import ACME, OTHER, Callers, Hands, admin_of
from sqlalchemy import select
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError
from webhook_receiver import ADMIN, Receiver, happened, state, why

from certloop.agentrl.store import NotFoundError
from certloop.serve.context import Service
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import webhooks as webhooks_table
from certloop.serve.errors import ConflictError
from certloop.serve.people import tenants
from certloop.serve.webhooks import deliveries, endpoints
from certloop.serve.webhooks.deliveries import MAX_ATTEMPTS, claim, parse_retry_after, wait_s
from certloop.serve.webhooks.outbox import Event, enqueue
from certloop.serve.webhooks.sender import Sender, sign


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
