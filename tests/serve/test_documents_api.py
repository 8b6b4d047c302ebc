"""Handing documents in and asking for them: what is accepted, refused, repeated and kept apart. Nobody reads here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from callers import ACME, Callers, admin_of
from live import post
from sqlalchemy import func, select

from certloop.serve.config import IntakeLimits, JobConfig
from certloop.serve.context import Service
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.jobs.dbos_jobs import system_schema
from certloop.serve.people import tenants
from certloop.serve.work.erasing import delete_document

PNG = b"\x89PNG\r\n\x1a\n not a page, nobody looks"


def count(service: Service, tenant: str = ACME) -> int:
    with reading(service, tenant) as connection:
        return int(connection.execute(select(func.count()).select_from(uploads).where(uploads.c.tenant == tenant)).scalar_one())


def waiting_jobs(service: Service) -> int:
    table = "workflow_status" if service.engine.dialect.name == "sqlite" else f"{system_schema(service)}.workflow_status"
    with service.engine.connect() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table} WHERE status = 'ENQUEUED'").scalar_one())


def test_a_file_is_accepted_with_its_job_and_its_consent(callers: Callers) -> None:
    answer = post(
        callers.as_("operator"), PNG, "../../a b.png", doc_type="id_card", priority="high", consent="tenant", purpose="p"
    )
    assert answer.status_code == 202
    state = callers.as_("operator").get(answer.headers["location"]).json()
    assert (state["status"], state["file"], state["doc_type"], state["priority"]) == ("queued", "a b.png", "id_card", "high")
    assert (count(callers.service), waiting_jobs(callers.service)) == (1, 1)
    with reading(callers.service, ACME) as connection:
        stored = connection.execute(select(uploads.c.store_document_id)).scalar_one()
    terms = callers.service.tenant(ACME).document(stored).state
    assert (str(terms.consent), terms.purpose) == ("tenant", "p")


def test_without_words_the_tenants_settings_say_what_a_document_may_be_used_for(callers: Callers) -> None:
    tenants.change_settings(callers.service, admin_of(ACME), ACME, {"consent": "shared", "purpose": "trial"})
    post(callers.as_("operator"), PNG)
    with reading(callers.service, ACME) as connection:
        stored = connection.execute(select(uploads.c.store_document_id)).scalar_one()
    terms = callers.service.tenant(ACME).document(stored).state
    assert (str(terms.consent), terms.purpose) == ("shared", "trial")


def test_the_same_key_gives_the_same_answer_and_another_body_is_refused(callers: Callers) -> None:
    operator = callers.as_("operator")
    first = post(operator, PNG, key="k-1", doc_type="id_card")
    again = post(operator, PNG, key="k-1", doc_type="id_card")
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    for other in (post(operator, PNG + b"2", key="k-1", doc_type="id_card"), post(operator, PNG, key="k-1")):
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key")
    assert (count(callers.service), waiting_jobs(callers.service)) == (1, 1)
    assert post(callers.as_("foreign"), PNG, key="k-1").status_code == 202  # a key is the tenant's own


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_key_that_is_none_is_refused(callers: Callers, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = callers.as_("operator").post("/v1/documents", files={"file": ("a.png", PNG)}, headers=headers)
    assert answer.status_code == 422
    assert count(callers.service) == 0


@pytest.mark.parametrize(
    ("fields", "loc"),
    [
        ({"priority": "urgent"}, ["priority"]),
        ({"consent": "yes"}, ["consent"]),
        ({"unknown": "1"}, ["unknown"]),
        ({"doc_type": "A B"}, ["doc_type"]),
        ({"expected": "[1]"}, ["expected"]),
        ({"expected": "{"}, ["expected"]),
        ({"doc_type": "id_card", "expected": '{"colour": "red"}'}, ["expected", "colour"]),
        ({"expected": '{"name": 5}'}, ["expected", "name"]),
        ({"purpose": "a\u0007"}, ["purpose"]),
    ],
)
def test_what_is_wrong_with_a_form_is_named(callers: Callers, fields: dict[str, str], loc: list[str]) -> None:
    answer = post(callers.as_("operator"), PNG, **fields)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert answer.json()["errors"][0]["loc"] == loc
    assert count(callers.service) == 0


def test_an_unknown_type_is_refused(callers: Callers) -> None:
    answer = post(callers.as_("operator"), PNG, doc_type="driving_licence")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_type")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/png", ""])
def test_other_bodies_are_refused(callers: Callers, kind: str) -> None:
    answer = callers.as_("operator").post("/v1/documents", content=PNG, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "media_type")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"sha256": "00"}', b'{"url": "file:///etc/passwd"}', b'{"sha256": 1}', b"[" * 50_000],
)
def test_json_that_is_no_reference_is_refused(callers: Callers, body: bytes) -> None:
    answer = callers.as_("operator").post("/v1/documents", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


def test_a_file_without_a_byte_is_refused_at_once(callers: Callers) -> None:
    answer = post(callers.as_("operator"), b"", key="k-empty")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_empty")
    assert (count(callers.service), waiting_jobs(callers.service)) == (0, 0)
    assert post(callers.as_("operator"), PNG, key="k-empty").status_code == 202  # the key was not used up


def test_a_form_without_a_file_or_with_two_is_refused(callers: Callers) -> None:
    operator = callers.as_("operator")
    assert operator.post("/v1/documents", files={"other": ("a.png", PNG)}).status_code == 422
    assert operator.post("/v1/documents", files=[("file", ("a.png", PNG)), ("file", ("b.png", PNG))]).status_code == 413
    broken = operator.post(
        "/v1/documents", content=b"--x\r\nnothing", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert broken.status_code == 422
    without = operator.post("/v1/documents", content=b"--x\r\nnothing", headers={"Content-Type": "multipart/form-data"})
    assert without.status_code == 422


def test_a_stored_file_may_be_given_by_its_hash_within_the_tenant(callers: Callers) -> None:
    operator = callers.as_("operator")
    first = operator.get(post(operator, PNG).headers["location"]).json()
    again = operator.post("/v1/documents", json={"sha256": first["sha256"], "name": "again.png"})
    assert again.status_code == 202
    assert operator.get(again.headers["location"]).json()["sha256"] == first["sha256"]
    foreign = callers.as_("foreign").post("/v1/documents", json={"sha256": first["sha256"]})
    assert (foreign.status_code, foreign.json()["code"]) == (404, "not_found")


def test_addresses_are_fetched_only_where_the_operator_says_so(callers: Callers) -> None:
    answer = callers.as_("operator").post("/v1/documents", json={"url": "https://example.com/a.jpg"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "CERTLOOP_FETCH" in answer.json()["detail"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a.jpg", "https://127.0.0.1/a.jpg", "https://localhost/a.jpg", "https://[::1]/a.jpg", "https://10.0.0.1/a",
        "https://169.254.169.254/latest/meta-data", "https://[::ffff:127.0.0.1]/a", "https://0.0.0.0/a", "https://user:pw@127.0.0.1/a",
    ],
)  # fmt: skip
def test_places_that_are_not_public_are_never_fetched(open_service: Callable[..., Service], url: str) -> None:
    with Callers(open_service(intake=IntakeLimits(fetch_allowed=True))) as callers:
        answer = callers.as_("operator").post("/v1/documents", json={"url": url})
        assert (answer.status_code, answer.json()["code"]) == (422, "fetch_failed")


def test_a_full_queue_is_429_and_nothing_is_kept(open_service: Callable[..., Service]) -> None:
    with Callers(open_service(jobs=JobConfig(queue_limit=2))) as callers:
        operator = callers.as_("operator")
        assert [post(operator, PNG).status_code for _ in range(3)] == [202, 202, 429]
        full = post(operator, PNG)
        assert full.json()["code"] == "queue_full"
        assert int(full.headers["retry-after"]) >= 1
        assert post(callers.as_("foreign"), PNG).status_code == 202  # another tenant's queue is its own
        assert count(callers.service) == 2
        (first, *_) = operator.get("/v1/documents").json()["items"]
        operator.post(f"/v1/documents/{first['id']}/cancel")
        assert post(operator, PNG).status_code == 202


def test_lists_go_on_where_they_were_and_cursors_stay_in_their_tenant(callers: Callers) -> None:
    operator = callers.as_("operator")
    ids = [post(operator, PNG + bytes([n])).json()["id"] for n in range(5)]
    seen, cursor = [], ""
    while True:
        page = operator.get(f"/v1/documents?limit=2{cursor}").json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen) == sorted(ids)
    assert len(seen) == 5
    taken = operator.get("/v1/documents?limit=2").json()["next_cursor"]
    foreign = callers.as_("foreign").get(f"/v1/documents?cursor={taken}")
    assert (foreign.status_code, foreign.json()["code"]) == (422, "cursor_invalid")
    assert operator.get(f"/v1/batches?cursor={taken}").json()["code"] == "cursor_invalid"
    assert operator.get("/v1/documents?cursor=AAAA").json()["code"] == "cursor_invalid"
    assert [item["id"] for item in operator.get("/v1/documents?status=done").json()["items"]] == []


def test_another_tenants_document_is_not_there(callers: Callers) -> None:
    location = post(callers.as_("operator"), PNG).headers["location"]
    foreign = callers.as_("foreign")
    for method, path in (("GET", location), ("GET", f"{location}/result"), ("POST", f"{location}/cancel"), ("DELETE", location)):
        answer = foreign.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert foreign.get("/v1/documents").json()["items"] == []


def test_a_result_that_is_not_there_yet_says_when_to_ask_again(callers: Callers) -> None:
    location = post(callers.as_("operator"), PNG).headers["location"]
    answer = callers.as_("operator").get(f"{location}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_ready")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_cancelled_document_stays_cancelled(callers: Callers) -> None:
    operator = callers.as_("operator")
    location = post(operator, PNG).headers["location"]
    assert operator.post(f"{location}/cancel").json()["status"] == "cancelled"
    assert operator.post(f"{location}/cancel").json()["status"] == "cancelled"
    assert operator.get(f"{location}/result").json()["error"]["code"] == "cancelled"


def test_deleting_erases_what_the_service_and_the_store_hold(callers: Callers) -> None:
    operator, service = callers.as_("operator"), callers.service
    location = post(operator, PNG, "张样本的执照.png").headers["location"]
    twin = post(operator, PNG).headers["location"]  # the same bytes show the same subject
    other = post(operator, PNG + b"other").headers["location"]
    sha256 = operator.get(location).json()["sha256"]
    assert operator.delete(location).status_code == 204
    assert [operator.get(place).status_code for place in (location, twin, other)] == [404, 404, 200]
    assert not service.store.blobs.exists(ACME, sha256)
    with reading(service, ACME) as connection:
        rows = connection.execute(select(uploads).where(uploads.c.deleted_at.is_not(None))).all()
    assert {(row.status, row.result, row.expected) for row in rows} == {("cancelled", None, None)}
    assert "张样本" not in json.dumps([list(row) for row in rows], ensure_ascii=False)
    assert operator.delete(location).status_code == 404


def test_what_the_store_erased_by_name_goes_from_the_service_too(callers: Callers) -> None:
    """`certloop store erase` knows nothing of the service: its chores follow."""
    from certloop.agentrl.store import erase
    from certloop.serve.work.chores import Chores

    location = post(callers.as_("operator"), PNG).headers["location"]
    with reading(callers.service, ACME) as connection:
        stored = connection.execute(select(uploads.c.store_document_id)).scalar_one()
    erase(callers.service.tenant(ACME), [stored], actor="cli", reason="asked")
    Chores(callers.service).empty_erased()
    assert callers.as_("operator").get(location).status_code == 404


def test_documents_older_than_the_tenant_wants_are_erased(callers: Callers, hands: Any) -> None:
    from datetime import UTC, datetime

    from certloop.serve.work.chores import Chores

    location = post(callers.as_("operator"), PNG).headers["location"]
    tenants.change_settings(callers.service, admin_of(ACME), ACME, {"retention_days": 30})
    hands.at = datetime.now(UTC)
    Chores(callers.service).keep_retention()
    Chores(callers.service).empty_erased()
    assert callers.as_("operator").get(location).status_code == 200
    hands.move(days=31)
    Chores(callers.service).keep_retention()
    Chores(callers.service).empty_erased()
    assert callers.as_("operator").get(location).status_code == 404


def test_a_deletion_that_a_crash_cut_short_is_finished(callers: Callers, hands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from certloop.serve.work import chores

    service = callers.service
    location = post(callers.as_("operator"), PNG).headers["location"]
    blobs = list(service.store.blobs.list(ACME))
    assert blobs

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(service.store.blobs), "delete", die)
        with pytest.raises(KeyboardInterrupt):
            delete_document(service, admin_of(ACME), location.rpartition("/")[2])
    assert list(service.store.blobs.list(ACME)) == blobs
    house = chores.Chores(service)
    house.finish_erasures()
    assert list(service.store.blobs.list(ACME)) == blobs  # it may still be under way
    monkeypatch.setattr(chores, "ERASURE_S", 0.0)
    hands.move(minutes=11)
    house.finish_erasures()
    assert list(service.store.blobs.list(ACME)) == []


def test_idempotency_keys_are_forgotten_after_a_week(callers: Callers, hands: Any) -> None:
    from certloop.serve.work.chores import Chores

    operator = callers.as_("operator")
    first = post(operator, PNG, key="k").json()["id"]
    hands.move(days=6)
    Chores(callers.service).forget_keys()
    assert post(operator, PNG, key="k").json()["id"] == first
    hands.move(days=2)
    Chores(callers.service).forget_keys()
    assert post(operator, PNG, key="k").json()["id"] != first


def test_names_and_declared_values_are_sealed_at_rest(open_service: Callable[..., Service]) -> None:
    from certloop.agentrl.store import AesGcm

    service = open_service(cipher=AesGcm(bytes(range(32))))
    with Callers(service) as callers:
        operator = callers.as_("operator")
        answer = post(operator, PNG, "张样本.png", expected=json.dumps({"name": "青松样本"}), key="k")
        assert operator.get(answer.headers["location"]).json()["file"] == "张样本.png"
        assert post(operator, PNG, "张样本.png", expected=json.dumps({"name": "青松样本"}), key="k").json() == answer.json()
        with reading(service, ACME) as connection:
            rows = [list(row) for row in connection.execute(select(uploads))] + [
                list(r) for r in connection.execute(select(certificates))
            ]
        assert "样本" not in json.dumps(rows, ensure_ascii=False)
