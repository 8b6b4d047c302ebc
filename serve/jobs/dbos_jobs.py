"""Durable jobs on DBOS: accepted in the caller's transaction, recovered after kill -9, in SQLite or Postgres.

House rules (each learned from a failure): the portable JSON serialiser, never pickle; names, the version and the executor's id
are fixed by hand, because a job is pinned to them; a job waits as one workflow without steps, whose effects are guarded by the
rows it writes. DBOS keeps one instance a process: so does this module.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select, text

from certloop.agentrl.store.engine import parse_url
from certloop.agentrl.store.events import new_id
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import uploads
from certloop.serve.jobs.leases import Leases
from certloop.serve.work.states import OPEN

if TYPE_CHECKING:
    from dbos import DBOS, DBOSClient

    from certloop.serve.config import ServeConfig
    from certloop.serve.context import Service

APPLICATION, VERSION = "certloop", "certloop-1"
WORKFLOW, QUEUE = "read_document", "documents"
POLL_S = 0.5
"""A look at the queue costs about 4 ms of CPU. Jobs are claimed ahead (as many again as are read, and one), so that a reader that
becomes free between two looks has its next document at once."""
DELAYED_S = 3.0
"""How often jobs whose delay is over are put into the queue: the shortest delay is 2 s."""
UNUSED_S = 60.0
DEFAULT_SCHEMA = "dbos"

_log = logging.getLogger("certloop.serve.jobs")

Run = Callable[[str, str], None]
"""Works on (tenant, document id) and returns when that is settled, given back or cancelled."""


class Acceptor:
    """Only takes jobs in: for processes without readers."""

    def __init__(self, service: Service) -> None:
        self._client = _client(service)

    def enqueue(self, connection: Connection, tenant: str, document_id: str, priority: int, delay_s: float = 0.0) -> None:
        options: dict[str, Any] = {
            "workflow_name": WORKFLOW,
            "queue_name": QUEUE,
            "workflow_id": f"{document_id}:{new_id()}",
            "app_version": VERSION,
            "application_name": APPLICATION,
            "priority": priority,
            "queue_partition_key": tenant,
        }
        if delay_s > 0:
            options["delay_seconds"] = delay_s
        self._client.enqueue_in_transaction(connection, options, tenant, document_id)  # type: ignore[arg-type]

    def forget_before(self, moment: datetime, most: int = 2000) -> int:
        ended = self._client.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            name=WORKFLOW,
            completed_before=moment.isoformat(),
            limit=most,
            load_input=False,
            load_output=False,
        )
        if ended:
            self._client.delete_workflows([one.workflow_id for one in ended])
        return len(ended)

    def close(self) -> None:
        self._client.destroy()


class Executor(Acceptor):
    """Takes jobs in and works on them, ``slots`` at a time. One a process."""

    def __init__(
        self,
        service: Service,
        run: Run,
        slots: int,
        stop_waiting: Callable[[], None],
        stop_reading: Callable[[], None],
        leases: Leases,
    ) -> None:
        """``stop_waiting`` is called when the end begins (jobs that have not begun give themselves back), ``stop_reading`` when
        the drain time is over (and at the very end)."""
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

        super().__init__(service)
        claimed = 2 * slots + 1
        self._stop_waiting, self._stop_reading, self._leases = stop_waiting, stop_reading, leases
        self._drain_s = service.config.jobs.drain_s
        self._idle: set[str] = set()
        self._closing = False
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": system_url(service.config),
            "dbos_system_schema": system_schema(service),
            "application_version": VERSION,
            "executor_id": leases.executor_id,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "WARNING",
            "use_listen_notify": False,
            "notification_listener_polling_interval_sec": 2.0,
            "max_executor_threads": claimed + 4,
            "sys_db_pool_size": claimed + 4,
            "run_migrations": False,
        }
        _look_less(DBOS(config=config))
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_named(run))
        DBOS.launch()
        _quiet()
        DBOS.register_queue(
            QUEUE,
            worker_concurrency=claimed,
            partition_worker_concurrency=claimed,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )
        self._leases.start(self._recover, self._find_forgotten)
        adopted = self.adopt(service)
        if adopted:
            _log.warning("%d open documents had no job; they have one now", adopted)

    def _recover(self, executor_ids: list[str]) -> bool:
        """Put what dead executors were working on back into the queue; not any more once this one ends."""
        from dbos import DBOS

        if self._closing:
            return False
        DBOS._recover_pending_workflows(executor_ids)
        return True

    def _find_forgotten(self) -> None:
        """Put back what this process claimed and does not run: the database went away just then. Seen twice, to be sure."""
        from dbos._dbos import _get_dbos_instance
        from dbos._recovery import _recover_workflow

        if self._closing:
            return
        dbos, mine = _get_dbos_instance(), self._leases.executor_id
        running = set(dbos._active_workflows_set.activeList())
        claimed = {one.workflow_id: one for one in dbos._sys_db.get_pending_workflows(mine, VERSION)}
        idle = set(claimed) - running
        for workflow_id in idle & self._idle:
            _recover_workflow(dbos, claimed[workflow_id], [mine])
        if idle & self._idle:
            _log.warning("%d jobs were claimed and not begun; they wait again", len(idle & self._idle))
        self._idle = idle

    def live_jobs(self) -> set[str]:
        """Documents that some job waits or runs for, here or elsewhere."""
        from dbos import DBOS

        found = DBOS.list_workflows(
            status=["ENQUEUED", "DELAYED", "PENDING"], name=WORKFLOW, load_input=False, load_output=False, limit=1_000_000
        )
        return {workflow.workflow_id.partition(":")[0] for workflow in found}

    def adopt(self, service: Service) -> int:
        """A new job for every open upload that has none (an unexpected end of DBOS's own row); returns how many."""
        found = {(tenant, row.document_id): row.priority for tenant in service.store.tenants() for row in _open(service, tenant)}
        live = self.live_jobs()
        lost = {key: priority for key, priority in found.items() if key[1] not in live}
        for (tenant, document_id), priority in lost.items():
            with writing(service, tenant) as connection:
                self.enqueue(connection, tenant, document_id, priority)
        return len(lost)

    def close(self) -> None:
        """Stop taking jobs, let those being read finish within the drain time, then end."""
        from dbos import DBOS

        self._closing = True
        self._stop_waiting()
        late = threading.Timer(self._drain_s, self._stop_reading)
        late.daemon = True
        late.start()
        DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=int(self._drain_s) + 15)
        late.cancel()
        self._stop_reading()
        self._leases.stop()
        super().close()


def _look_less(dbos: DBOS) -> None:
    """DBOS looks for delayed jobs and into a queue of its own, which nothing here uses, once a second: on a busy machine, where
    a document takes long, that was half of all looking. It has no setting for either."""
    from dbos import _workflow_commands

    _workflow_commands._BACKGROUND_JOBS_INTERVAL_SEC = DELAYED_S
    dbos._registry.get_internal_queue()._polling_interval_sec = UNUSED_S


def _open(service: Service, tenant: str) -> list[Any]:
    with reading(service, tenant) as connection:
        columns = (uploads.c.document_id, uploads.c.priority)
        query = select(*columns).where(uploads.c.tenant == tenant, uploads.c.status.in_(OPEN), uploads.c.deleted_at.is_(None))
        return list(connection.execute(query))


def _quiet() -> None:
    """DBOS's lines go where the process's lines go, in its shape."""
    logger = logging.getLogger("dbos")
    logger.handlers[:] = []
    logger.propagate = True
    logger.setLevel(logging.WARNING)


def _named(run: Run) -> Callable[[str, str], None]:
    def read_document(tenant: str, document_id: str) -> None:
        run(tenant, document_id)

    return read_document


def migrate(service: Service) -> None:
    """Make or update DBOS's own tables in the service's database."""
    from dbos import DBOS

    _quiet()
    DBOS.migrate(system_url(service.config), schema=system_schema(service))


def system_url(config: ServeConfig) -> str:
    return parse_url(config.database_url).render_as_string(hide_password=False)


def system_schema(service: Service) -> str:
    """``dbos``; beside another schema than public (several services in one database) that schema's name before it."""
    if service.engine.dialect.name != "postgresql":
        return DEFAULT_SCHEMA
    with reading(service, None) as connection:
        current = str(connection.execute(text("SELECT current_schema()")).scalar_one())
    return DEFAULT_SCHEMA if current == "public" else f"{current}_{DEFAULT_SCHEMA}"


def _client(service: Service) -> DBOSClient:
    from dbos import DBOSClient, DBOSPortableJSONSerializer

    return DBOSClient(
        system_database_url=system_url(service.config),
        dbos_system_schema=system_schema(service),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
        lazy=True,
    )
