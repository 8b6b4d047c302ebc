"""Batches: many files and archives, all accepted or none; lists, cancelling and deleting. Nobody reads here."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from callers import ACME, Callers
from sqlalchemy import func, select

from certloop.serve.config import IntakeLimits, JobConfig
from certloop.serve.context import Service
from certloop.serve.db.access import reading
from certloop.serve.db.schema import batches, uploads

PNG = b"\x89PNG\r\n\x1a\n nobody looks "


def packed(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()


def hand_in(client: Any, *files: tuple[str, bytes], key: str | None = None, **fields: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/v1/batches", files=[("files", file) for file in files], data=fields, headers=headers)


def counts(service: Service) -> tuple[int, int]:
    with reading(service, ACME) as connection:
        return tuple(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (batches, uploads))  # type: ignore[return-value]


def test_files_and_archives_become_one_batch_in_their_order(callers: Callers) -> None:
    operator = callers.as_("operator")
    archive = packed(("dir/b.png", PNG + b"b"), ("dir/c.png", PNG + b"c"))
    answer = hand_in(
        operator, ("a.png", PNG + b"a"), ("more.zip", archive), ("d.png", PNG + b"d"), name="supplier", dossier="true"
    )
    assert answer.status_code == 202
    assert answer.json()["total"] == 4
    batch = operator.get(answer.headers["location"]).json()
    assert (batch["name"], batch["dossier"], batch["status"], batch["ended"]) == ("supplier", True, "queued", 0)
    assert batch["counts"] == {"queued": 4, "running": 0, "done": 0, "failed": 0, "dead": 0, "cancelled": 0}
    listed = operator.get(f"{answer.headers['location']}/documents?limit=3").json()
    rest = operator.get(f"{answer.headers['location']}/documents?limit=3&cursor={listed['next_cursor']}").json()
    assert [item["file"] for item in listed["items"] + rest["items"]] == ["a.png", "b.png", "c.png", "d.png"]


def test_the_same_key_gives_the_same_batch(callers: Callers) -> None:
    operator = callers.as_("operator")
    archive = packed(("b.png", PNG))
    first = hand_in(operator, ("a.png", PNG), ("b.zip", archive), key="k", dossier="true")
    assert hand_in(operator, ("a.png", PNG), ("b.zip", archive), key="k", dossier="true").json() == first.json()
    assert hand_in(operator, ("a.png", PNG), ("b.zip", archive), key="k").json()["code"] == "idempotency_key"
    assert counts(callers.service) == (1, 2)


def test_a_damaged_archive_is_named_by_its_number(callers: Callers) -> None:
    damaged, fine = packed(("a.png", PNG))[:50], packed(("b.png", PNG))
    for bad, code in ((damaged, "archive_invalid"), (packed(("../z.png", PNG)), "archive_unsafe")):
        files: list[tuple[str, bytes]] = [("a.png", PNG), ("fine.zip", fine), ("x.zip", bad)]
        body = hand_in(callers.as_("operator"), *files).json()
        assert (body["code"], body["errors"][0]["loc"]) == (code, ["files", 2])


@pytest.mark.parametrize(
    ("files", "status", "code"),
    [
        ([("x.zip", packed(("../evil.png", PNG)))], 422, "archive_unsafe"),
        ([("a.png", PNG), ("x.zip", packed(("a.png", PNG))[:50])], 422, "archive_invalid"),
        ([("x.zip", packed())], 422, "archive_invalid"),
        ([("x.zip", packed(*[(f"{n}.png", PNG) for n in range(31)]))], 413, "archive_too_large"),
        ([("x.zip", packed(("big.png", b"1" * 200_000)))], 413, "archive_too_large"),
        ([("big.png", b"1" * 200_000)], 413, "too_large"),
        ([(f"{n}.png", PNG) for n in range(21)], 413, "too_large"),
        ([("x.zip", packed(*[(f"{n}.png", PNG) for n in range(21)]))], 413, "too_large"),
    ],
)
def test_a_batch_is_refused_as_a_whole(open_service: Callable[..., Service], files: Any, status: int, code: str) -> None:
    limits = IntakeLimits(file_bytes=100_000, batch_bytes=1_000_000, batch_files=20, archive_entries=30)
    with Callers(open_service(intake=limits)) as callers:
        answer = hand_in(callers.as_("operator"), *files)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert counts(callers.service) == (0, 0)


def test_a_batch_that_the_queue_has_no_room_for_is_429_as_a_whole(open_service: Callable[..., Service]) -> None:
    with Callers(open_service(jobs=JobConfig(queue_limit=3))) as callers:
        answer = hand_in(callers.as_("operator"), *[(f"{n}.png", PNG) for n in range(4)])
        assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
        assert counts(callers.service) == (0, 0)


def test_files_are_given_by_hash_too(callers: Callers) -> None:
    operator = callers.as_("operator")
    first = operator.get(f"{hand_in(operator, ('a.png', PNG)).headers['location']}/documents").json()["items"][0]
    answer = operator.post(
        "/v1/batches", json={"documents": [{"sha256": first["sha256"]}, {"sha256": first["sha256"], "name": "b.png"}]}
    )
    assert answer.json()["total"] == 2
    assert operator.post("/v1/batches", json={"documents": []}).status_code == 422
    assert operator.post("/v1/batches", json={"documents": [{}]}).status_code == 422
    assert (
        operator.post("/v1/batches", json={"documents": [{"sha256": first["sha256"], "url": "https://a.example/b"}]}).status_code
        == 422
    )


def test_declared_values_go_to_the_file_they_name(callers: Callers) -> None:
    operator = callers.as_("operator")
    expected = json.dumps({"b.png": {"name": "青松样本"}})
    assert hand_in(operator, ("a.png", PNG), ("x.zip", packed(("in/b.png", PNG))), expected=expected).status_code == 202
    unknown = hand_in(operator, ("a.png", PNG), expected=expected)
    assert (unknown.status_code, unknown.json()["errors"][0]["loc"]) == (422, ["expected"])
    with reading(callers.service, ACME) as connection:
        rows = connection.execute(select(uploads.c.expected).order_by(uploads.c.position)).scalars().all()
    assert [row is not None for row in rows] == [False, True]


def test_a_cancelled_batch_reads_nothing_more(callers: Callers) -> None:
    operator = callers.as_("operator")
    location = hand_in(operator, ("a.png", PNG), ("b.png", PNG)).headers["location"]
    batch = operator.post(f"{location}/cancel").json()
    assert (batch["status"], batch["counts"]["cancelled"], batch["ended"]) == ("cancelled", 2, 2)
    assert operator.post(f"{location}/cancel").json() == batch


def test_a_deleted_batch_is_gone_with_its_documents(callers: Callers) -> None:
    operator = callers.as_("operator")
    location = hand_in(operator, ("a.png", PNG + b"a"), ("b.png", PNG + b"b")).headers["location"]
    ids = [item["id"] for item in operator.get(f"{location}/documents").json()["items"]]
    assert callers.as_("auditor").delete(location).status_code == 403
    assert operator.delete(location).status_code == 204
    assert operator.get(location).status_code == 404
    assert operator.delete(location).status_code == 404
    assert {operator.get(f"/v1/documents/{document_id}").status_code for document_id in ids} == {404}


def test_another_tenants_batch_is_not_there(callers: Callers) -> None:
    operator, foreign = callers.as_("operator"), callers.as_("foreign")
    location = hand_in(operator, *[(f"{n}.png", PNG) for n in range(3)]).headers["location"]
    cursor = operator.get(f"{location}/documents?limit=1").json()["next_cursor"]
    for method, path in (
        ("GET", ""), ("GET", "/documents"), ("GET", "/results"), ("GET", "/events"), ("POST", "/cancel"), ("DELETE", ""),
    ):  # fmt: skip
        answer = foreign.request(method, f"{location}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    mine = hand_in(foreign, ("a.png", PNG)).headers["location"]
    assert foreign.get(f"{mine}/documents?cursor={cursor}").json()["code"] == "cursor_invalid"
    other = hand_in(operator, ("a.png", PNG)).headers["location"]
    assert operator.get(f"{other}/documents?cursor={cursor}").json()["code"] == "cursor_invalid"


def test_progress_of_a_batch_that_has_ended_is_one_event(callers: Callers) -> None:
    operator = callers.as_("operator")
    location = hand_in(operator, ("a.png", PNG)).headers["location"]
    operator.post(f"{location}/cancel")
    answer = operator.get(f"{location}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    (event,) = [block for block in answer.text.split("\n\n") if block and not block.startswith(":")]
    lines = dict(line.split(": ", 1) for line in event.splitlines())
    assert (lines["event"], lines["id"], json.loads(lines["data"])["status"]) == ("done", "1", "cancelled")
