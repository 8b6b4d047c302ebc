"""What the service relies on of its job engine, on SQLite and on Postgres."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from live import until
from postgres_place import postgres_server

from certloop.serve.config import JobConfig, ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import writing
from certloop.serve.db.schema import executors
from certloop.serve.jobs.dbos_jobs import Acceptor, Executor, migrate
from certloop.serve.jobs.leases import Leases, database_now

JOBS = JobConfig(lease_s=3.0, drain_s=5.0)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    if request.param == "sqlite":
        with Service.open(ServeConfig(f"sqlite:///{tmp_path}/store.db", jobs=JOBS)) as opened:
            yield opened
        return
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server()).url()
        yield stack.enter_context(Service.open(ServeConfig(url, str(tmp_path / "blobs"), jobs=JOBS, data_dir=tmp_path)))


class Recorder:
    """Notes what runs, in order; holds everything until ``go``."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self.go = threading.Event()

    def __call__(self, tenant: str, document_id: str) -> None:
        self.ran.append((tenant, document_id))
        self.go.wait(60)


@contextmanager
def executor(service: Service, run: Recorder, slots: int = 1) -> Iterator[Executor]:
    """Closed also where an assertion fails: a process has one, and the next test has another database."""
    working = Executor(service, run, slots, run.go.set, run.go.set, Leases(service))
    try:
        yield working
    finally:
        working.close()


def enqueue(service: Service, acceptor: Acceptor, tenant: str, document_id: str, priority: int = 5, delay_s: float = 0.0) -> None:
    service.tenant(tenant)
    with writing(service, tenant) as connection:
        acceptor.enqueue(connection, tenant, document_id, priority, delay_s)


def test_a_job_exists_exactly_when_its_transaction_commits(service: Service) -> None:
    migrate(service)
    acceptor = Acceptor(service)
    service.tenant("acme")
    with pytest.raises(ZeroDivisionError), writing(service, "acme") as connection:
        acceptor.enqueue(connection, "acme", "doc_lost", 5)
        _ = 1 / 0
    enqueue(service, acceptor, "acme", "doc_kept")
    run = Recorder()
    run.go.set()
    with executor(service, run) as working:
        until(lambda: run.ran)
        time.sleep(1)
        assert run.ran == [("acme", "doc_kept")]
        until(lambda: not working.live_jobs())


def test_jobs_start_by_priority_then_by_age_and_later_where_told(service: Service) -> None:
    migrate(service)
    acceptor = Acceptor(service)
    for name, priority, delay_s in (("low", 9, 0), ("first", 5, 0), ("late", 1, 600), ("second", 5, 0), ("high", 1, 0)):
        enqueue(service, acceptor, "acme", f"doc_{name}", priority, delay_s)
    run = Recorder()
    with executor(service, run, slots=1) as working:  # one is read, two more are claimed ahead
        until(lambda: len(run.ran) == 3)
        run.go.set()
        until(lambda: len(run.ran) == 4)
        order = [document_id for _tenant, document_id in run.ran]
        assert set(order[:3]) == {"doc_high", "doc_first", "doc_second"}
        assert order[3] == "doc_low"
        until(lambda: working.live_jobs() == {"doc_late"})  # its row is written after it ran


def test_one_tenant_does_not_starve_another(service: Service) -> None:
    """Tenants take turns at random: with 60 waiting of one, the only one of another is not the last."""
    migrate(service)
    acceptor = Acceptor(service)
    for number in range(60):
        enqueue(service, acceptor, "acme", f"doc_{number}")
    enqueue(service, acceptor, "other", "doc_other")
    run = Recorder()
    run.go.set()
    with executor(service, run):
        until(lambda: ("other", "doc_other") in run.ran)
        assert len(run.ran) < 61
        until(lambda: len(run.ran) == 61)


def test_what_a_dead_executor_worked_on_is_taken_over_when_its_lease_is_over(service: Service) -> None:
    """The rows of an executor that was killed in the middle: a claimed job, and a lease that nobody renews."""
    migrate(service)
    acceptor = Acceptor(service)
    enqueue(service, acceptor, "acme", "doc_orphan")
    schema = "" if service.engine.dialect.name == "sqlite" else f'"{_schema(service)}".'
    with writing(service, None) as connection:
        connection.exec_driver_sql(f"UPDATE {schema}workflow_status SET status = 'PENDING', executor_id = 'gone'")
        until_ = (database_now(connection) - timedelta(seconds=1)).isoformat(timespec="microseconds")
        row = {"executor_id": "gone", "started_at": until_, "lease_until": until_}
        connection.execute(executors.insert(), [row])
    run = Recorder()
    run.go.set()
    with executor(service, run):
        until(lambda: run.ran == [("acme", "doc_orphan")])


def test_ended_jobs_are_forgotten_after_a_while(service: Service) -> None:
    migrate(service)
    acceptor = Acceptor(service)
    for number in range(3):
        enqueue(service, acceptor, "acme", f"doc_{number}")
    enqueue(service, acceptor, "acme", "doc_late", delay_s=600)
    run = Recorder()
    run.go.set()
    with executor(service, run) as working:
        until(lambda: working.live_jobs() == {"doc_late"})
        assert working.forget_before(datetime.now(UTC) - timedelta(days=1)) == 0
        assert working.forget_before(datetime.now(UTC) + timedelta(minutes=1)) == 3
        assert working.live_jobs() == {"doc_late"}


def _schema(service: Service) -> str:
    from certloop.serve.jobs.dbos_jobs import system_schema

    return system_schema(service)
