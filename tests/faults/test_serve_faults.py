"""What else goes wrong: between commit and answer, in a reader, on the disk, with the database, with the clock."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest
from live import ACME, Live, ended, post, small_page, until
from sqlalchemy import func, select

from certloop.agentrl.store.schema import events
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.errors import WorkerRunningError

pytestmark = pytest.mark.slow

QUICK = {"readers": 1, "attempts": 2, "timeout_s": 25.0, "lease_s": 4.0, "drain_s": 5.0}


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Live]:
    """A service whose reader hangs or dies where a file says so."""
    with Live(tmp_path, reader="odd_readers:open_odd", jobs=QUICK) as live:
        yield live


def test_a_kill_between_commit_and_answer_is_healed_by_the_same_key(tmp_path: Path) -> None:
    """The process dies when everything is committed and the answer is not out yet: the retried key finds the one document."""
    live = Live(tmp_path, jobs=QUICK, die_after_accept=1).start()
    key = live.key("operator")
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "order-17"}
    page = small_page(1)
    with (
        pytest.raises(httpx.TransportError),
        httpx.Client(base_url=live.base, headers=headers, timeout=30, trust_env=False) as client,
    ):
        client.post("/v1/documents", files={"file": ("a.png", page)})
    assert live.process is not None
    assert live.process.wait(10) == -signal.SIGKILL
    live.settings["die_after_accept"] = 0
    live.start()
    with live.open() as service, reading(service, ACME) as connection:
        (committed,) = connection.execute(select(uploads.c.document_id)).scalars()
    with httpx.Client(base_url=live.base, headers=headers, timeout=30, trust_env=False) as client:
        answer = client.post("/v1/documents", files={"file": ("a.png", page)})
        assert answer.status_code == 202
        assert answer.json()["id"] == committed
        assert answer.headers["idempotent-replayed"] == "true"
    assert ended(live.client(), committed)["status"] == "done"
    live.stop()


def test_a_reader_that_hangs_costs_its_document_alone(odd: Live) -> None:
    client = odd.client()
    hanging = post(client, b"hang").json()["id"]
    good = post(client, small_page(2)).json()["id"]
    assert ended(client, good)["status"] == "done"
    state = ended(client, hanging)
    assert (state["status"], state["error"]["code"], state["attempts"]) == ("dead", "read_timeout", 2)


@pytest.mark.parametrize(("poison", "code"), [(b"die", "worker_crashed"), (b"exit", "worker_crashed")])
def test_a_poison_document_is_given_up_seen_and_tried_again(odd: Live, poison: bytes, code: str) -> None:
    client = odd.client()
    document_id = post(client, poison, "poison.png").json()["id"]
    state = ended(client, document_id)
    assert (state["status"], state["error"]["code"], state["attempts"]) == ("dead", code, 2)
    assert [item["id"] for item in client.get("/v1/jobs/dead").json()["items"]] == [document_id]
    again = client.post(f"/v1/jobs/dead/{document_id}/retry")
    assert (again.status_code, again.json()["status"]) == (202, "queued")
    assert client.post(f"/v1/jobs/dead/{document_id}/retry").json()["code"] == "conflict"
    state = ended(client, document_id)
    assert (state["status"], state["attempts"]) == ("dead", 4)  # as many tries as a new one
    assert client.get(f"/v1/documents/{document_id}/result").json()["error"]["code"] == code


def test_cancelling_ends_a_reading_at_once(odd: Live) -> None:
    client = odd.client()
    hanging = post(client, b"hang").json()["id"]
    until(lambda: client.get(f"/v1/documents/{hanging}").json()["status"] == "running")
    assert client.post(f"/v1/documents/{hanging}/cancel").json()["status"] == "cancelled"
    good = post(client, small_page(3)).json()["id"]
    assert ended(client, good)["status"] == "done"
    state = client.get(f"/v1/documents/{hanging}").json()
    assert (state["status"], state["attempts"]) == ("cancelled", 1)


def test_readers_end_with_the_service_even_when_they_hang(odd: Live) -> None:
    client = odd.client()
    hanging = post(client, b"hang").json()["id"]
    until(lambda: client.get(f"/v1/documents/{hanging}").json()["status"] == "running")
    children = _children(odd.pid)
    assert children
    odd.kill()
    until(lambda: not [pid for pid in children if _alive(pid)], 20)


def test_a_drain_ends_what_is_read_and_gives_the_rest_back(tmp_path: Path) -> None:
    live = Live(tmp_path, reader="odd_readers:open_odd", jobs=QUICK | {"drain_s": 30.0}).start()
    client = live.client()
    first = post(client, b"slow2.00" + small_page(1)).json()["id"]
    rest = [post(client, small_page(n)).json()["id"] for n in range(2, 5)]
    until(lambda: client.get(f"/v1/documents/{first}").json()["status"] == "running")
    assert live.stop() == 0
    with live.open() as service, reading(service, ACME) as connection:
        found = connection.execute(select(uploads.c.document_id, uploads.c.status)).all()
    rows = {row.document_id: row.status for row in found}
    assert rows[first] == "done"
    assert {rows[document_id] for document_id in rest} <= {"queued", "done"}
    live.start()
    client = live.client()
    assert {ended(client, document_id)["status"] for document_id in rest} == {"done"}
    assert {ended(client, document_id)["attempts"] for document_id in rest} == {1}
    live.stop()


def test_an_open_stream_does_not_hold_up_the_end(odd: Live) -> None:
    client = odd.client()
    batch = client.post("/v1/batches", files=[("files", ("a.png", b"hang"))]).json()
    lines: list[str] = []

    def listen() -> None:
        with client.stream("GET", f"{batch['location']}/events") as stream:
            lines.extend(stream.iter_lines())

    listener = Thread(target=listen, daemon=True)
    listener.start()
    until(lambda: client.get(batch["location"]).json()["counts"]["running"])
    assert odd.stop() == 0
    listener.join(10)
    assert not listener.is_alive()
    assert "event: progress" in lines
    with odd.open() as service, reading(service, ACME) as connection:
        assert connection.execute(select(uploads.c.status)).scalars().all() == ["queued"], "the hanging one waits again"


def test_sqlite_has_one_process_that_reads(odd: Live) -> None:
    from live import config_from

    from certloop.serve.context import Service
    from certloop.serve.jobs.leases import Leases

    with Service.open(config_from(odd.settings)) as second, pytest.raises(WorkerRunningError, match="Postgres"):
        Leases(second)


def test_a_locked_sqlite_is_waited_for(tmp_path: Path) -> None:
    """Another process holds the write lock for seconds: what is asked waits or is told 503, and nothing is lost."""
    with Live(tmp_path, jobs=QUICK) as live:
        client = live.client()
        before = post(client, small_page(1)).json()["id"]
        lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        until(lambda: _locked(lock))
        started = time.monotonic()
        assert client.get(f"/v1/documents/{before}").status_code == 200  # readers never wait
        assert time.monotonic() - started < 30
        time.sleep(6)
        lock.execute("ROLLBACK")
        lock.close()
        after = post(client, small_page(2)).json()["id"]
        assert ended(client, before)["status"] == ended(client, after)["status"] == "done"


def test_a_full_disk_refuses_new_documents_and_fails_none(tmp_path: Path) -> None:
    """No file of the service may grow: 503 while that lasts, and what was accepted before is read afterwards."""
    with Live(tmp_path, jobs=QUICK) as live:
        try:
            client = live.client()
            accepted = post(client, small_page(1)).json()["id"]
            assert ended(client, accepted)["status"] == "done"
            waiting = [post(client, small_page(n)).json()["id"] for n in range(2, 6)]
            _limit_files(live, 100_000)
            refused = post(client, os.urandom(300_000), "large.bin")
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert "retry-after" in refused.headers
            assert client.get("/healthz").status_code == 200
            time.sleep(5)
            _limit_files(live, None)
            after = post(client, small_page(9)).json()["id"]
            assert {ended(client, document_id)["status"] for document_id in (*waiting, after)} == {"done"}
        finally:
            _limit_files(live, None)


@pytest.mark.parametrize("shift_s", [-86_400.0, 86_400.0 * 30])
def test_a_clock_that_jumps_between_two_starts_harms_nothing(tmp_path: Path, shift_s: float) -> None:
    live = Live(tmp_path, jobs=QUICK).start()
    client = live.client()
    first = post(client, small_page(1)).json()["id"]
    assert ended(client, first)["status"] == "done"
    waiting = [post(client, small_page(n)).json()["id"] for n in range(2, 5)]
    live.kill()
    live.settings["clock_shift_s"] = shift_s
    live.start()
    client = live.client()
    assert {ended(client, document_id)["status"] for document_id in waiting} == {"done"}
    assert client.get(f"/v1/documents/{first}/result").json()["documents"]
    with live.open() as service, reading(service, ACME) as connection:
        assert connection.execute(select(func.count()).select_from(certificates)).scalar_one() == 4
        told = select(func.count()).select_from(events).where(events.c.kind == "trajectory")
        assert connection.execute(told).scalar_one() == 4
    live.stop()


def _locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


def _limit_files(live: Live, largest: int | None) -> None:
    """Set the largest file that the running service may write: its disk is full beyond that (EFBIG as ENOSPC)."""
    import resource

    value = resource.RLIM_INFINITY if largest is None else largest
    resource.prlimit(live.pid, resource.RLIMIT_FSIZE, (value, resource.RLIM_INFINITY))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
