"""Several processes on one Postgres: workers that die, sleep past their lease, and a database that restarts under them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import ACME, Live, ended, post, small_page, until
from postgres_place import Postgres, postgres_server
from sqlalchemy import select

from certloop.agentrl.store.schema import events
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, uploads

pytestmark = pytest.mark.slow

JOBS = {"readers": 1, "lease_s": 4.0, "drain_s": 5.0, "attempts": 3}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


class Cluster:
    """An API that only accepts, and workers; all in one folder, on one database."""

    def __init__(self, folder: Path, url: str, workers: int, **settings: Any) -> None:
        self.api = Live(folder, url, work=False, jobs=JOBS, **settings)
        self.workers = [Live(folder, url, command="worker", name=f"worker-{n}", jobs=JOBS, **settings) for n in range(workers)]

    def __enter__(self) -> Cluster:
        self.api.start()
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.workers, self.api):
            one.__exit__(None, None, None)

    def rows(self) -> tuple[list[Any], list[str], list[str]]:
        with self.api.open() as service, reading(service, ACME) as connection:
            return (
                list(connection.execute(select(uploads.c.document_id, uploads.c.status, uploads.c.attempts))),
                sorted(connection.execute(select(certificates.c.certificate_id)).scalars()),
                sorted(connection.execute(select(events.c.event_id).where(events.c.kind == "trajectory")).scalars()),
            )


def check_once(cluster: Cluster, ids: list[str]) -> None:
    rows, certs, told = cluster.rows()
    assert sorted(row.document_id for row in rows) == sorted(ids)
    assert {row.status for row in rows} == {"done"}
    assert certs == told == sorted(f"{document_id}.0" for document_id in ids)


def test_workers_that_are_killed_lose_nothing(tmp_path: Path, postgres: Postgres) -> None:
    rng = random.Random(3)
    with Cluster(tmp_path, postgres.url(), workers=2) as cluster:
        client = cluster.api.client()
        ids = [post(client, small_page(n % 10)).json()["id"] for n in range(30)]
        for round_ in range(4):
            done = until(lambda: client.get("/v1/documents?status=done&limit=200").json()["items"] or None)
            time.sleep(rng.uniform(1.0, 3.0))
            victim = cluster.workers[round_ % 2]
            victim.kill()
            victim.start()
            assert done
        for document_id in ids:
            ended(client, document_id, 240)
        check_once(cluster, ids)


def test_a_worker_that_sleeps_past_its_lease_wakes_to_find_its_work_done(tmp_path: Path, postgres: Postgres) -> None:
    with Cluster(tmp_path, postgres.url(), workers=1, reader="odd_readers:open_odd") as cluster:
        client = cluster.api.client()
        sleeper = cluster.workers[0]
        document_id = post(client, b"slow3.00" + small_page(1)).json()["id"]
        until(lambda: client.get(f"/v1/documents/{document_id}").json()["status"] == "running")
        sleeper.signal(signal.SIGSTOP)  # its reader goes on and answers into the pipe
        try:
            other = Live(tmp_path, sleeper.url, command="worker", name="other", jobs=JOBS, reader="odd_readers:open_odd")
            with other:
                state = ended(client, document_id)
                assert (state["status"], state["attempts"]) == ("done", 2)
                finished_at = state["finished_at"]
                sleeper.signal(signal.SIGCONT)
                time.sleep(3)  # it records what it read, in vain
                assert client.get(f"/v1/documents/{document_id}").json()["finished_at"] == finished_at
                again = post(client, small_page(2)).json()["id"]
                assert ended(client, again)["status"] == "done"
                check_once(cluster, [document_id, again])
        finally:
            sleeper.signal(signal.SIGCONT)


def test_a_database_that_restarts_fails_no_document(tmp_path: Path, postgres: Postgres) -> None:
    with Cluster(tmp_path, postgres.url(), workers=1) as cluster:
        client = cluster.api.client()
        ids = [post(client, small_page(n)).json()["id"] for n in range(6)]
        until(lambda: client.get("/v1/documents?status=done").json()["items"])
        postgres.restart()
        answer = until(lambda: (a := post(client, small_page(7))).status_code == 202 and a)
        ids.append(answer.json()["id"])
        for document_id in ids:
            assert ended(client, document_id)["status"] == "done"
        check_once(cluster, ids)


def test_tenants_do_not_see_each_other_even_in_plain_sql(tmp_path: Path, postgres: Postgres) -> None:
    """Row level security holds for every table of the service, whatever a query forgets to ask."""
    from certloop.serve.db.schema import TENANT_TABLES

    with Cluster(tmp_path, postgres.url(), workers=0) as cluster:
        post(cluster.api.client(tenant="acme"), small_page(1))
        post(cluster.api.client(tenant="other"), small_page(2))
        with cluster.api.open() as service:
            with reading(service, "acme") as connection:
                assert set(connection.execute(select(uploads.c.tenant)).scalars()) == {"acme"}
            with reading(service, None) as connection:
                for table in TENANT_TABLES:
                    assert connection.execute(select(table)).all() == []
