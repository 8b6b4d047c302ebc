"""Is the store what was written? Pages, the audit chain, every event's hash, every blob, every erasure."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select, text

from certloop.agentrl.store.batch import BLOB
from certloop.agentrl.store.blobs import SHA256
from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.engine import cipher_of, reading
from certloop.agentrl.store.erase import undone, unfinished
from certloop.agentrl.store.errors import BlobCorruptError, BlobMissingError, StoreError
from certloop.agentrl.store.events import Event, Kind, from_row, payload_sha256, row_sha256
from certloop.agentrl.store.log import GENESIS, audit_hash, events_digest
from certloop.agentrl.store.schema import audit, erased, events, links
from certloop.agentrl.store.store import Store
from certloop.agentrl.store.tenant import TenantStore

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written. ``what`` names the row or blob, ``problem`` is a stable word."""

    tenant: str | None
    problem: str
    what: str
    message: str

    def to_json(self) -> dict[str, str | None]:
        return {"tenant": self.tenant, "problem": self.problem, "what": self.what, "message": self.message}


@dataclass(frozen=True, slots=True)
class Report:
    """``heads`` are the last hash of each tenant's audit chain: keep them elsewhere and a later cut of the chain shows, too."""

    findings: tuple[Finding, ...]
    heads: dict[str, str]
    events: int
    blobs: int
    orphans: int

    @property
    def clean(self) -> bool:
        return not self.findings


ERASURE_S = 1.0
"""Seconds after which an erasure that has begun is looked for again."""


def verify(store: Store, heads: dict[str, str] | None = None, tenants: Collection[str] | None = None) -> Report:
    """Check everything, or the pages and these ``tenants``. ``heads`` are those of an earlier report: each must still be in its
    tenant's chain."""
    state, known = _State(), store.tenants()
    findings = list(_pages(store))
    if tenants is None:
        findings += _vanished(store, {*known}, {*(heads or {})})
    for tenant in known if tenants is None else tenants:
        handle = store.for_tenant(tenant)
        try:
            with reading(store.engine, tenant) as connection:
                findings += _chain(connection, tenant, state, (heads or {}).get(tenant))
                findings += _blobs(connection, handle, state)
            findings += _unfinished(handle)
            findings += _undone(handle)
        except StoreError as error:
            findings.append(Finding(tenant, "unreadable", "database", f"rows cannot be read: {error.message}"))
    return Report(tuple(findings), state.heads, state.events, state.blobs, state.orphans)


class _State:
    def __init__(self) -> None:
        self.heads: dict[str, str] = {}
        self.events = self.blobs = self.orphans = 0


def _pages(store: Store) -> Iterator[Finding]:
    if store.engine.dialect.name != "sqlite":
        return
    try:
        with reading(store.engine, None) as connection:
            lines = connection.execute(text("PRAGMA integrity_check(10)")).scalars().all()
    except StoreError as error:
        yield Finding(None, "page_damaged", "database", error.message)
        return
    if lines != ["ok"]:
        yield Finding(None, "page_damaged", "database", f"SQLite reports {len(lines)} damaged places; restore a backup")


def _vanished(store: Store, known: set[str], pinned: set[str]) -> Iterator[Finding]:
    """Tenants whose rows are there and whose name is not: nobody would look at them. Postgres shows rows to their tenant only, so
    there it takes pinned heads to miss one."""
    if store.engine.dialect.name == "sqlite":
        with suppress(StoreError), reading(store.engine, None) as connection:  # damaged pages are found already
            pinned = pinned | set(connection.execute(select(audit.c.tenant).distinct()).scalars())
    for tenant in sorted(pinned - known):
        yield Finding(tenant, "tenant_missing", f"tenant {tenant}", "the tenant is no longer in the store's list of tenants")


def _chain(connection: Connection, tenant: str, state: _State, pinned: str | None) -> Iterator[Finding]:
    """Walk the audit rows and, beside them, the events that each of them covers."""
    walker, marks = _Events(connection, tenant), _Marks(cipher_of(connection), tenant)
    previous, position, seen_pin = GENESIS, 0, pinned is None
    for row in connection.execute(select(audit).where(audit.c.tenant == tenant).order_by(audit.c.position)).yield_per(_PAGE):
        position += 1
        if row.position != position:
            yield Finding(tenant, "audit_gap", f"audit row {position}", "an audit row is missing")
            position = row.position
        values = row._asdict()
        if row.prev_hash != previous or row.hash != audit_hash(values):
            yield Finding(tenant, "audit_edited", f"audit row {row.position}", "the row or the one before it was changed")
        yield from marks.checked(row)
        previous = row.hash
        seen_pin = seen_pin or row.hash == pinned
        yield from walker.covered(row)
    yield from walker.uncovered()
    yield from marks.missing()
    if not seen_pin:
        yield Finding(tenant, "audit_cut", "audit chain", "the pinned head is no longer in the chain: rows were removed")
    if previous != GENESIS:
        state.heads[tenant] = previous
    state.events += walker.count


class _Marks:
    """The keyed marks of a sealed store's audit rows. Rows of before marks were known bear none, but the first marked row covers
    them; after it, every row must bear its own."""

    def __init__(self, cipher: Cipher, tenant: str) -> None:
        self._cipher, self._tenant = cipher, tenant
        self._rows = self._marked = 0

    def checked(self, row: Any) -> Iterator[Finding]:
        if not self._cipher.key_id:
            return
        self._rows += 1
        if row.mac is None and not self._marked:
            return
        self._marked += 1
        if row.mac is None or not hmac.compare_digest(row.mac, str(self._cipher.mark(self._tenant, row.hash))):
            yield Finding(self._tenant, "audit_forged", f"audit row {row.position}", "somebody without the store's key wrote it")

    def missing(self) -> Iterator[Finding]:
        if self._rows and not self._marked:
            yield Finding(self._tenant, "audit_forged", "audit chain", "no row bears the mark of the store's key")


class _Events:
    """The events of a tenant in order, each checked on its own and against the audit row that covers it."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection = connection
        self._tenant = tenant
        self._next = 1
        self.count = 0
        query = select(erased.c.document_id).where(erased.c.tenant == tenant)
        self._erased = set(connection.execute(query).scalars())
        query = select(events.c.event_id).where(events.c.tenant == tenant, events.c.kind == str(Kind.ERASURE))
        self._erasures = set(connection.execute(query).scalars())

    def covered(self, row: Any) -> Iterator[Finding]:
        try:
            details = json.loads(row.details)
            first, last, digest = details["first"], details["last"], details["digest"]
        except (ValueError, KeyError, TypeError):
            return  # an audit row without events, or one whose damage its hash has shown
        hashes = []
        for event in self._rows(first, last):
            hashes.append(event.row_sha256)
            yield from self._check(event)
        if len(hashes) != last - first + 1 or first != self._next:
            yield Finding(self._tenant, "event_missing", f"events {first} to {last}", "an event row is missing")
        elif events_digest(hashes) != digest:
            yield Finding(self._tenant, "event_edited", f"events {first} to {last}", "an event differs from its audit row")
        self._next = last + 1

    def uncovered(self) -> Iterator[Finding]:
        query = select(events.c.position).where(events.c.tenant == self._tenant, events.c.position >= self._next)
        extra = self._connection.execute(query.limit(1)).first()
        if extra is not None:
            where = f"event {extra.position} and later"
            yield Finding(self._tenant, "event_unaudited", where, "events without an audit row: the chain was cut or bypassed")

    def _rows(self, first: int, last: int) -> Iterator[Any]:
        for start in range(first, last + 1, _PAGE):
            query = select(events).where(
                events.c.tenant == self._tenant,
                events.c.position.between(start, min(start + _PAGE - 1, last)),
            )
            yield from self._connection.execute(query.order_by(events.c.position))

    def _check(self, event: Any) -> Iterator[Finding]:
        self.count += 1
        where = f"event {event.position} ({event.event_id})"
        if event.row_sha256 != row_sha256(event._asdict()):
            yield Finding(self._tenant, "event_edited", where, "a column of the row was changed")
        if event.payload is None:
            if event.erasure_id not in self._erasures or event.document_id not in self._erased:
                yield Finding(self._tenant, "event_emptied", where, "the payload is gone without an erasure")
        elif event.payload_sha256 != payload_sha256(event.salt or "", event.payload):
            yield Finding(self._tenant, "event_edited", where, "the payload was changed or damaged")
        elif event.document_id in self._erased:
            yield Finding(self._tenant, "erasure_incomplete", where, "the document was erased, this event was not")


def _blobs(connection: Connection, store: TenantStore, state: _State) -> Iterator[Finding]:
    """Every blob that a document names is there and whole; blobs that nobody names are counted (a crash leaves some)."""
    named: set[str] = set()
    query = select(links.c.key).where(links.c.tenant == store.tenant, links.c.kind == BLOB)
    named |= set(connection.execute(query.distinct()).scalars())
    for row in connection.execute(_naming(store, cipher_of(connection))).yield_per(_PAGE):
        try:
            wanted = _named_by(from_row(row, cipher_of(connection)))
        except (ValueError, KeyError, TypeError):  # a StoreKeyError is a ValueError
            continue  # shown as edited already
        for sha256 in wanted:
            if sha256 not in named:
                yield Finding(store.tenant, "link_missing", f"blob {sha256}", f"a {row.kind}'s blob is not linked to it any more")
                named.add(sha256)
    for sha256 in sorted(named):
        state.blobs += 1
        try:
            store.blobs.get(store.tenant, sha256)
        except (BlobMissingError, BlobCorruptError) as error:
            if isinstance(error, BlobMissingError) and not _still_named(store, sha256):
                continue  # erased since this view of the rows was taken
            yield Finding(store.tenant, error.code, f"blob {sha256}", error.message)
    state.orphans += sum(sha256 not in named for sha256 in store.blobs.list(store.tenant))


def _still_named(store: TenantStore, sha256: str) -> bool:
    with reading(store.engine, store.tenant) as connection:
        mine = (links.c.tenant == store.tenant, links.c.kind == BLOB, links.c.key == sha256)
        return connection.execute(select(links.c.document_id).where(*mine).limit(1)).first() is not None


def _naming(store: TenantStore, cipher: Cipher) -> Select[Any]:
    """The events that may name a blob. Steps that name none are left in the database where their text can be read there."""
    kinds = events.c.kind.in_([str(Kind.DOCUMENT), str(Kind.TRAJECTORY)])
    step = events.c.kind == str(Kind.STEP)
    if not cipher.key_id:
        step = and_(step, events.c.payload.contains('"payload_ref":"'))
    mine = (events.c.tenant == store.tenant, events.c.payload.is_not(None))
    return select(events).where(*mine, or_(kinds, step)).order_by(events.c.position)


def _named_by(event: Event) -> list[str]:
    payload = event.payload or {}
    if event.kind is Kind.STEP:
        reference = (payload["tool_result"] or {}).get("payload_ref")
        return [reference] if reference and SHA256.fullmatch(reference) else []
    return list(payload["images" if event.kind is Kind.DOCUMENT else "image_sha256"])


def _unfinished(store: TenantStore) -> Iterator[Finding]:
    found = unfinished(store)
    if found:  # one that is under way just now is no finding: the service may be at work
        time.sleep(ERASURE_S)
        found &= unfinished(store)
    for erasure_id in sorted(found):
        message = "files of an erasure may still be there; run `certloop store erase --resume`"
        yield Finding(store.tenant, "erasure_unfinished", f"erasure {erasure_id}", message)


def _undone(store: TenantStore) -> Iterator[Finding]:
    for document_id in undone(store, store.blobs):
        message = "erased once and here again: a backup was restored; run `certloop store erase --resume`"
        yield Finding(store.tenant, "erasure_undone", f"document {document_id}", message)
