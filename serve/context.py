"""The open service: what every route, job and page of the desk works with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from certloop.agentrl.store import Store, TenantStore
from certloop.serve.config import DEMO_TENANT, ServeConfig
from certloop.serve.db.migrate import upgrade
from certloop.serve.errors import ServiceClosedError
from certloop.templates import Registry, load_types

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from certloop.agentrl.store import Cipher
    from certloop.serve.jobs.port import Jobs
    from certloop.serve.loop.live import Loop
    from certloop.serve.ops.metrics import Metrics
    from certloop.serve.work.readers import Readers

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Service:
    """One a process. ``clock`` tells UTC time and may be replaced by tests; ``jobs`` is None until somebody starts them."""

    def __init__(self, config: ServeConfig, store: Store, clock: Clock = utc_now) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self.cipher: Cipher = store.cipher
        self._jobs: Jobs | None = None
        self._handles: dict[str, TenantStore] = {}
        self.readers: Readers | None = None
        self.releases_checked: tuple[datetime, str] | None = None  # when, and what was found
        self.ending = False  # streams end by themselves, so that the process may

    @classmethod
    def open(cls, config: ServeConfig, clock: Clock = utc_now) -> Self:
        """Open the store and bring the service's tables to this release. Raises the errors of ``Store.open``."""
        store = Store.open(config.database_url, config.blob_url, cipher=config.cipher)
        try:
            upgrade(store.engine)
            if config.demo:
                store.for_tenant(DEMO_TENANT)
        except BaseException:
            store.close()
            raise
        return cls(config, store, clock)

    @property
    def engine(self) -> Engine:
        return self.store.engine

    @cached_property
    def registry(self) -> Registry:
        return load_types(self.config.extract.template_path)

    @cached_property
    def loop(self) -> Loop:
        """Releases, rules in use, and learning from decisions."""
        from certloop.serve.loop.live import Loop

        return Loop.open(self, self.config.artefacts)

    @cached_property
    def metrics(self) -> Metrics:
        from certloop.serve.ops.metrics import Metrics

        return Metrics()

    @property
    def jobs(self) -> Jobs:
        """Raises ServiceClosedError where no jobs were attached."""
        if self._jobs is None:
            raise ServiceClosedError("this process accepts no documents: its jobs were not started")
        return self._jobs

    def attach_jobs(self, jobs: Jobs, readers: Readers | None = None) -> None:
        """``readers`` where this process reads, too."""
        self._jobs, self.readers = jobs, readers

    def tenant(self, tenant: str) -> TenantStore:
        """The store's handle of one tenant; asked for once. Inside a transaction a second connection must not be waited for:
        whoever holds the last one may be waiting for this transaction."""
        if tenant not in self._handles:
            self._handles[tenant] = self.store.for_tenant(tenant)
        return self._handles[tenant]

    def now(self) -> str:
        """The clock's time as the tables write it: UTC, microseconds, so that text order is time order."""
        return self.clock().astimezone(UTC).isoformat(timespec="microseconds")

    def close(self) -> None:
        self.ending = True
        if "loop" in self.__dict__:
            self.loop.close()
        if self._jobs is not None:
            self._jobs.close()
            self._jobs = None
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
