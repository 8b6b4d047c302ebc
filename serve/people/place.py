"""Where people are kept: what the functions of this package need of the open service, or of a command without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from certloop.agentrl.store.log import add_audit

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from certloop.agentrl.store import Store
    from certloop.serve.people.actor import Actor


class Place(Protocol):
    """``serve.context.Service`` is one."""

    @property
    def store(self) -> Store: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def clock(self) -> Callable[[], datetime]: ...


def written(moment: datetime) -> str:
    """As the tables write times: UTC with microseconds, so that text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def audit(connection: Connection, actor: Actor, action: str, tenant: str | None = None, **details: object) -> None:
    """One row of the tenant's chain, in the transaction of the change. ``details`` are ids and words, no personal data."""
    clean: Mapping[str, object] = {name: value for name, value in details.items() if value is not None}
    add_audit(connection, tenant or actor.tenant, actor.actor_id, action, clean)
