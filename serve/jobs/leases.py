"""Who works here: a stable name per executor, a lease that it renews, and a reaper that gives a dead one's work to the living.

All times of leases are the database's own, so that hosts whose clocks differ agree.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert, select, text, update

from certloop.agentrl.store import StoreError
from certloop.agentrl.store.engine import parse_url
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import executors
from certloop.serve.errors import WorkerRunningError

if TYPE_CHECKING:
    from certloop.serve.config import ServeConfig
    from certloop.serve.context import Service

SQLITE_EXECUTOR = "sqlite"
MAX_SLOTS = 256
LOOK_BACK = timedelta(days=1)
_log = logging.getLogger("certloop.serve.jobs")


class Leases:
    """Holds this process's name from construction to ``stop``. Raises WorkerRunningError where SQLite has a worker already."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lease_s = service.config.jobs.lease_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock, self.executor_id = _named_lock(service.config)

    def start(self, recover: Callable[[list[str]], bool], look: Callable[[], None]) -> None:
        """Renew this lease and look for dead executors every third of a lease, then ``look`` after this one. ``recover`` must be
        harmless when repeated, and says whether it did anything about it."""
        self._beat(recover, look)
        self._thread = threading.Thread(target=self._run, args=(recover, look), name="leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            try:
                with writing(self._service, None) as connection:  # what is left behind, if anything, is free at once
                    mine = executors.c.executor_id == self.executor_id
                    connection.execute(update(executors).where(mine).values(lease_until=_text(database_now(connection))))
            except StoreError as error:
                _log.warning("the lease of %s was not given back: %s", self.executor_id, error.code)
        os.close(self._lock)

    def _run(self, recover: Callable[[list[str]], bool], look: Callable[[], None]) -> None:
        while not self._stop.wait(self._lease_s / 3):
            self._beat(recover, look)

    def _beat(self, recover: Callable[[list[str]], bool], look: Callable[[], None]) -> None:
        try:
            self._renew()
            dead = {} if self._stop.is_set() else self._dead()
            if dead and recover(list(dead)):
                self._recovered([name for name, at in dead.items() if at is None])
            look()
        except Exception as error:  # noqa: BLE001 - a database that is away must not end the lease's thread
            _log.warning("the lease of %s was not renewed (%s); trying again", self.executor_id, type(error).__name__)

    def _renew(self) -> None:
        with writing(self._service, None) as connection:
            now = database_now(connection)
            values = {"lease_until": _text(now + timedelta(seconds=self._lease_s)), "recovered_at": None}
            mine = executors.c.executor_id == self.executor_id
            if connection.execute(update(executors).where(mine).values(**values)).rowcount == 0:
                row = {"executor_id": self.executor_id, "started_at": _text(now)}
                connection.execute(insert(executors), [row | values])

    def _dead(self) -> dict[str, str | None]:
        """Executors whose lease ran out within a day, and since when others took over: a sleeper may claim again, then die."""
        with reading(self._service, None) as connection:
            now = database_now(connection)
            query = select(executors.c.executor_id, executors.c.recovered_at).where(
                executors.c.lease_until < _text(now),
                executors.c.lease_until > _text(now - LOOK_BACK),
                executors.c.executor_id != self.executor_id,
            )
            return {row.executor_id: row.recovered_at for row in connection.execute(query)}

    def _recovered(self, dead: list[str]) -> None:
        if not dead:
            return
        with writing(self._service, None) as connection:
            late = (executors.c.executor_id.in_(dead), executors.c.lease_until < _text(database_now(connection)))
            connection.execute(update(executors).where(*late).values(recovered_at=_text(database_now(connection))))
        _log.warning("took over the work of %d executors whose lease ran out", len(dead))


def database_now(connection: Connection) -> datetime:
    """The database's clock, UTC."""
    if connection.dialect.name == "sqlite":
        return datetime.fromisoformat(connection.execute(text("SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')")).scalar_one())
    now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now.astimezone(UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def _named_lock(config: ServeConfig) -> tuple[int, str]:
    """A lock that ends with the process, and the name it stands for: the same after a restart on this host."""
    url = parse_url(config.database_url)
    if url.get_backend_name() == "sqlite":
        descriptor = _lock(Path(f"{url.database}.worker.lock"))
        if descriptor is None:
            raise WorkerRunningError(
                "another certloop process works on this SQLite database; one is all it can have: use Postgres for more"
            )
        return descriptor, SQLITE_EXECUTOR
    folder = config.data_dir or Path(tempfile.gettempdir()) / f"certloop-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    host = config.jobs.executor_id or socket.gethostname()
    for slot in range(MAX_SLOTS):
        name = f"{host}-{slot}"
        descriptor = _lock(folder / f"{name}.lock")
        if descriptor is not None:
            return descriptor, name
    raise WorkerRunningError(f"{MAX_SLOTS} workers run on this host already")


def _lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
