"""The read path: stored trajectories with their signals and the consent in force, in pages, so that memory stays flat."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from certloop.agentrl.signals import schema as signal_schema
from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.store.engine import cipher_of
from certloop.agentrl.store.errors import ErasedError, EventError, NotFoundError
from certloop.agentrl.store.events import Event, Kind, from_row, instant
from certloop.agentrl.store.schema import events
from certloop.agentrl.trajectory import Consent, Outcome, Trajectory, codec

PAGE = 200
RewardOf = Callable[[Trajectory, Sequence[Signal]], "float | None"]
"""A fold of a trajectory's signals into one number; None when nothing was said yet."""


@dataclass(frozen=True, slots=True)
class ConsentState:
    """What a document may be used for now."""

    consent: Consent
    purpose: str

    def covers(self, wanted: Consent) -> bool:
        order = [Consent.NONE, Consent.TENANT, Consent.SHARED]
        return order.index(self.consent) >= order.index(wanted)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What a person handed in: ``images`` are blobs by hash."""

    document_id: str
    doc_type: str | None
    created_at: str
    images: tuple[str, ...]
    state: ConsentState


@dataclass(frozen=True, slots=True)
class StoredTrajectory:
    """A trajectory, what was said about it, and the ids of every event it was put together from."""

    position: int
    document_id: str
    trajectory: Trajectory
    signals: tuple[Signal, ...]
    state: ConsentState
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which trajectories; empty means all. ``since`` and ``until`` are instants (end exclusive), ``consent`` the least that
    the document must allow now, ``purpose`` its purpose word for word, ``fields`` keys that a signal speaks about,
    ``min_reward`` and ``max_reward`` bounds of the reward given beside them (what has no reward is left out)."""

    doc_types: tuple[str, ...] = ()
    traj_ids: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    since: str | None = None
    until: str | None = None
    consent: Consent = Consent.NONE
    purpose: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "doc_types": list(self.doc_types),
            "traj_ids": list(self.traj_ids),
            "fields": list(self.fields),
            "outcomes": [str(o) for o in self.outcomes],
            "since": self.since,
            "until": self.until,
            "consent": str(self.consent),
            "purpose": self.purpose,
            "min_reward": self.min_reward,
            "max_reward": self.max_reward,
        }

    @property
    def wants_reward(self) -> bool:
        return self.min_reward is not None or self.max_reward is not None


EVERYTHING = Filters()


def stream(
    connection: Connection, tenant: str, filters: Filters = EVERYTHING, reward_of: RewardOf | None = None, page: int = PAGE
) -> Iterator[StoredTrajectory]:
    """Every stored trajectory that the filters let through, oldest first. Erased ones are not there.

    The connection's transaction is one view of the store. Raises ValueError when rewards are filtered without ``reward_of``,
    EventError when the bounds are no numbers.
    """
    if filters.wants_reward and reward_of is None:
        raise ValueError("a filter on rewards needs the fold that makes one")
    if any(bound is not None and math.isnan(bound) for bound in (filters.min_reward, filters.max_reward)):
        raise EventError("a bound of rewards must be a number")
    after, cipher = 0, cipher_of(connection)
    while rows := connection.execute(_page(tenant, filters, after, page)).all():
        heads = [from_row(row, cipher) for row in rows]
        after = heads[-1].position
        for stored in assemble(connection, tenant, heads):
            if _passes(stored, filters, reward_of):
                yield stored


def _page(tenant: str, filters: Filters, after: int, page: int) -> Select[Any]:
    query = select(events).where(
        events.c.tenant == tenant,
        events.c.kind == str(Kind.TRAJECTORY),
        events.c.position > after,
        events.c.payload.is_not(None),
    )
    if filters.doc_types:
        query = query.where(events.c.doc_type.in_(filters.doc_types))
    if filters.traj_ids:
        query = query.where(events.c.traj_id.in_(filters.traj_ids))
    if filters.since is not None:
        query = query.where(events.c.created_at >= instant(filters.since))
    if filters.until is not None:
        query = query.where(events.c.created_at < instant(filters.until))
    return query.order_by(events.c.position).limit(page)


def _passes(stored: StoredTrajectory, filters: Filters, reward_of: RewardOf | None) -> bool:
    if not stored.state.covers(filters.consent):
        return False
    if filters.purpose is not None and stored.state.purpose != filters.purpose:
        return False
    if filters.outcomes and stored.trajectory.outcome not in filters.outcomes:
        return False
    if filters.fields and not {s.field for s in stored.signals} & set(filters.fields):
        return False
    if filters.wants_reward and reward_of is not None:
        reward = reward_of(stored.trajectory, stored.signals)
        low = float("-inf") if filters.min_reward is None else filters.min_reward
        high = float("inf") if filters.max_reward is None else filters.max_reward
        return reward is not None and low <= reward <= high
    return True


def assemble(connection: Connection, tenant: str, heads: Sequence[Event]) -> Iterator[StoredTrajectory]:
    """Put trajectories together from their events: two queries for a whole page."""
    traj_ids = [head.traj_id for head in heads]
    parts: dict[str | None, list[Event]] = {traj_id: [] for traj_id in traj_ids}
    rest = select(events).where(events.c.tenant == tenant, events.c.traj_id.in_(traj_ids), events.c.payload.is_not(None))
    # Sorted here: asked for an order, SQLite walks all of the tenant's events instead of looking up these few.
    for row in sorted(connection.execute(rest), key=lambda row: row.position):
        if row.kind in (Kind.STEP, Kind.SIGNAL):
            parts[row.traj_id].append(from_row(row, cipher_of(connection)))
    states = consent_states(connection, tenant, [str(head.document_id) for head in heads])
    for head in heads:
        assert head.payload is not None and head.document_id is not None, "only whole trajectories are asked for"
        yield _stored(head, head.payload, head.document_id, parts[head.traj_id], states[head.document_id])


def _stored(
    head: Event, payload: Mapping[str, Any], document_id: str, parts: Sequence[Event], state: tuple[ConsentState, list[str]]
) -> StoredTrajectory:
    data = {key: value for key, value in payload.items() if key != "n_steps"}
    steps = [event.payload for event in parts if event.kind is Kind.STEP and event.payload is not None]
    said = [event.payload for event in parts if event.kind is Kind.SIGNAL and event.payload is not None]
    return StoredTrajectory(
        position=head.position,
        document_id=document_id,
        trajectory=codec.from_json(data | {"steps": steps}),
        signals=tuple(signal_schema.from_json(item) for item in said),
        state=state[0],
        event_ids=(head.event_id, *(event.event_id for event in parts), *state[1]),
    )


def consent_states(connection: Connection, tenant: str, document_ids: Sequence[str]) -> dict[str, tuple[ConsentState, list[str]]]:
    """The consent in force of each document, and the events that say so (the last one counts)."""
    out: dict[str, tuple[ConsentState, list[str]]] = {}
    kinds = (str(Kind.DOCUMENT), str(Kind.CONSENT))
    query = select(events).where(events.c.tenant == tenant, events.c.document_id.in_(set(document_ids)), events.c.kind.in_(kinds))
    for row in sorted(connection.execute(query), key=lambda row: row.position):
        event = from_row(row, cipher_of(connection))
        if event.payload is None or event.document_id is None:
            continue
        state = ConsentState(Consent(event.payload["consent"]), event.payload["purpose"])
        out[event.document_id] = (state, [*out.get(event.document_id, (None, []))[1], event.event_id])
    return out


def one(connection: Connection, tenant: str, traj_id: str) -> StoredTrajectory:
    """One trajectory. Raises NotFoundError (another tenant's id is not found either) and ErasedError."""
    query = select(events).where(events.c.tenant == tenant, events.c.kind == str(Kind.TRAJECTORY), events.c.traj_id == traj_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError("no trajectory with this id in this tenant")
    if row.payload is None:
        raise ErasedError(f"the subject of this trajectory was erased (erasure {row.erasure_id})")
    return next(assemble(connection, tenant, [from_row(row, cipher_of(connection))]))


def event(connection: Connection, tenant: str, event_id: str) -> Event | None:
    """One event of the tenant by its id, of whatever kind."""
    row = connection.execute(select(events).where(events.c.tenant == tenant, events.c.event_id == event_id)).first()
    return None if row is None else from_row(row, cipher_of(connection))


def document(connection: Connection, tenant: str, document_id: str) -> StoredDocument:
    """One document. Raises NotFoundError, ErasedError."""
    query = select(events).where(events.c.tenant == tenant, events.c.kind == str(Kind.DOCUMENT), events.c.event_id == document_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError("no document with this id in this tenant")
    found = from_row(row, cipher_of(connection))
    if found.payload is None:
        raise ErasedError(f"this document was erased (erasure {found.erasure_id})")
    state, _ = consent_states(connection, tenant, [document_id])[document_id]
    return StoredDocument(document_id, found.doc_type, found.created_at, tuple(found.payload["images"]), state)


def log(connection: Connection, tenant: str, kind: Kind | None = None, after: int = 0, page: int = 1000) -> Iterator[Event]:
    """The tenant's events by position."""
    while True:
        query = select(events).where(events.c.tenant == tenant, events.c.position > after)
        if kind is not None:
            query = query.where(events.c.kind == str(kind))
        rows = connection.execute(query.order_by(events.c.position).limit(page)).all()
        if not rows:
            return
        yield from (from_row(row, cipher_of(connection)) for row in rows)
        after = rows[-1].position
