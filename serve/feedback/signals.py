"""Signals into the store, in the transaction of the service's own rows: both exist, or neither."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from certloop.agentrl.signals import Signal
from certloop.agentrl.store import Batch

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.serve.context import Service


def write_signals(
    service: Service, connection: Connection, tenant: str, signals: Iterable[Signal], actor: str
) -> tuple[str, ...]:
    """Add signals about trajectories of ``tenant`` and return their ids; one that is stored already stays one.

    The connection must be in a write transaction of this tenant. Raises the store's errors (NotFoundError, ErasedError, ...).
    """
    handle = service.tenant(tenant)
    batch = Batch(tenant, handle.subject_salt)
    given = list(signals)
    ids = tuple([batch.add_signal(signal) for signal in given])
    if ids:
        batch.write(connection, handle.blobs, actor)
        service.metrics.signals(given)
    return ids
