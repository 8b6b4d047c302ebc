"""What is done from time to time: erasures that a crash cut short are finished, rows of erased documents are emptied, old
idempotency keys and finished jobs go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from certloop.agentrl.store import apply_retention, finish_erasures
from certloop.serve.db.access import writing
from certloop.serve.intake.idempotency import forget_before
from certloop.serve.people.tenants import settings_of
from certloop.serve.work.erasing import forget_erased

if TYPE_CHECKING:
    from certloop.serve.context import Service

KEEP_KEYS = timedelta(days=7)
KEEP_JOBS = timedelta(days=1)
JOBS_EVERY = timedelta(minutes=10)
ERASURES_EVERY = timedelta(minutes=10)
ERASURE_S = 60.0
"""A younger erasure is most likely still under way, in this process or in another."""
ACTOR = "serve:chores"


class Chores:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs_seen_at = service.clock()
        self._erasures_seen_at: datetime | None = None

    def all(self) -> tuple[Callable[[], None], ...]:
        return (
            self.forget_keys,
            self.forget_jobs,
            self.keep_retention,
            self.finish_erasures,
            self.empty_erased,
            self._service.loop.catch_up,
        )

    def forget_keys(self) -> None:
        old = (self._service.clock() - KEEP_KEYS).astimezone(UTC).isoformat(timespec="microseconds")
        for tenant in self._service.store.tenants():
            with writing(self._service, tenant) as connection:
                forget_before(connection, tenant, old)

    def forget_jobs(self) -> None:
        now = self._service.clock()
        if now - self._jobs_seen_at >= JOBS_EVERY and not self._service.ending:
            self._jobs_seen_at = now
            self._service.jobs.forget_before(now - KEEP_JOBS)

    def keep_retention(self) -> None:
        """Erase what a tenant does not want kept any longer."""
        for tenant in self._service.store.tenants():
            days = settings_of(self._service, tenant).retention_days
            if days is not None:
                handle = self._service.tenant(tenant)
                apply_retention(handle, keep_days=days, actor=ACTOR, today=self._service.clock())

    def finish_erasures(self) -> None:
        """Images and snapshots of what was deleted when the process died: soon after a start, then now and again."""
        now = self._service.clock()
        if self._erasures_seen_at is None or now - self._erasures_seen_at >= ERASURES_EVERY:
            for tenant in self._service.store.tenants():
                finish_erasures(self._service.tenant(tenant), ACTOR, older_than_s=ERASURE_S)
            self._erasures_seen_at = now

    def empty_erased(self) -> None:
        """Documents may be erased in the store by name (``certloop store erase``), or by a deletion that was interrupted."""
        for tenant in self._service.store.tenants():
            forget_erased(self._service, tenant)
