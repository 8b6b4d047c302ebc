"""Starting what works on jobs in this process, and what only takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certloop.serve.jobs.dbos_jobs import Acceptor, Executor, migrate
from certloop.serve.jobs.leases import Leases
from certloop.serve.work.readers import OpenPageReader, Readers, open_page_reader
from certloop.serve.work.reading import Work

if TYPE_CHECKING:
    from certloop.serve.context import Service


def start_working(service: Service, open_reader: OpenPageReader = open_page_reader) -> None:
    """Read documents in this process until ``service.close``. Raises WorkerRunningError where SQLite has a worker already."""
    leases = Leases(service)
    migrate(service)
    readers = Readers(service.config.extract, service.config.jobs.readers, open_reader)
    work = Work(service, readers)

    def end_reading() -> None:
        work.stop()
        readers.close()

    service.attach_jobs(
        Executor(service, work.run, service.config.jobs.readers, readers.stop_waiting, end_reading, leases), readers
    )


def start_accepting(service: Service) -> None:
    """Take documents in; other processes read them (Postgres)."""
    migrate(service)
    service.attach_jobs(Acceptor(service))
