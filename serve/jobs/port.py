"""What the service needs of a job engine. DBOS is the one adapter (``dbos_jobs``)."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection


class Jobs(Protocol):
    """Accepted work survives kill -9 of any process. The contract:

    - ``enqueue`` takes part in the caller's transaction: the job exists if and only if that commits;
    - a ``job_id`` that was enqueued before is not enqueued again;
    - a job may run more than once (a process died, a lease ran out): what it writes must be guarded by its own unique keys;
    - jobs of lower ``priority`` numbers start first, equal ones in the order of their enqueuing.
    """

    def enqueue(self, connection: Connection, job_id: str, tenant: str, document_id: str, priority: int) -> None: ...

    def cancel(self, job_id: str) -> None:
        """Keep a job that has not begun from beginning; one that runs ends by itself."""

    def close(self) -> None: ...
