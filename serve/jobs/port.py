"""What the service needs of a job engine. DBOS is the one adapter (``dbos_jobs``)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection


class Jobs(Protocol):
    """Accepted work survives kill -9 of any process. The contract:

    - ``enqueue`` takes part in the caller's transaction: the job exists if and only if that commits;
    - jobs of lower ``priority`` numbers (1 to 9) start first, equal ones in the order of their enqueuing; tenants take turns;
    - a job may run more than once, also twice at a time (a process died or slept, its lease ran out): what it writes must be
      guarded by its own unique keys;
    - ``delay_s`` keeps a job from starting earlier.
    """

    def enqueue(self, connection: Connection, tenant: str, document_id: str, priority: int, delay_s: float = 0.0) -> None: ...

    def forget_before(self, moment: datetime, most: int = 2000) -> int:
        """Remove what is known of jobs that ended before ``moment``; returns how many. Documents know their own state."""
        ...

    def close(self) -> None:
        """End: what runs may finish within the time of the configuration, what waits goes on after the next start."""
