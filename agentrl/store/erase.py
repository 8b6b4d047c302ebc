"""Erasing a subject: events are emptied, blobs and snapshots removed, and a tombstone says that it happened.

One transaction empties the events and writes the tombstone; files follow in a second step that may be repeated after a crash
(``finish_erasures``). A journal beside the blobs keeps the erased ids, so that restoring an older backup erases them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text, update
from sqlalchemy.exc import OperationalError

from certloop.agentrl.store import snapshots
from certloop.agentrl.store.batch import BLOB, SUBJECT, subject_key
from certloop.agentrl.store.blobs import BlobStore
from certloop.agentrl.store.engine import cipher_of, guarded, reading, writing
from certloop.agentrl.store.errors import EventError, NotFoundError
from certloop.agentrl.store.events import Kind, NewEvent, canonical, new_id, now, unseal_text
from certloop.agentrl.store.log import add_audit, append
from certloop.agentrl.store.schema import audit, erased, events, links
from certloop.agentrl.store.tenant import TenantStore

JOURNAL = "erasure-journal"
FINISHED = "erase.finished"
MIN_MENTION = 2
MAX_KEEP_DAYS = 36_500
CHECKPOINT_WAIT_MS = 500
REWRITE_MAX_BYTES = 64 * 1024**2
ORPHAN_AGE_S = 24 * 3600.0
_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure reached. ``unreachable`` are folders of snapshots that this machine does not see: they are refused when
    somebody loads them, but must be deleted where they are."""

    erasure_id: str
    documents: tuple[str, ...]
    events: int
    blobs: int
    snapshots: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()


def find_documents(
    store: TenantStore,
    *,
    subject: str | None = None,
    document_id: str | None = None,
    traj_id: str | None = None,
    mentions: bool = False,
) -> tuple[str, ...]:
    """The documents that an erasure would reach, those that share an image among them.

    ``subject`` is a name or number; with ``mentions`` every event that holds it as text counts as well, not only what was stored
    under this subject. Raises NotFoundError for an id that is not there, EventError for a subject too short to look for.
    """
    found: set[str] = set()
    with reading(store.engine, store.tenant) as connection:
        if document_id is not None:
            found.add(_document_of(connection, store.tenant, events.c.event_id == document_id, Kind.DOCUMENT))
        if traj_id is not None:
            found.add(_document_of(connection, store.tenant, events.c.traj_id == traj_id, Kind.TRAJECTORY))
        if subject is not None:
            key = subject_key(store.subject_salt, subject)
            query = select(links.c.document_id).where(links.c.tenant == store.tenant, links.c.kind == SUBJECT, links.c.key == key)
            found |= set(connection.execute(query).scalars())
            if mentions:
                found |= _mentioning(connection, store.tenant, subject)
        return tuple(sorted(_closed(connection, store.tenant, found)))


def erase(store: TenantStore, document_ids: Iterable[str], *, actor: str, reason: str) -> Erasure:
    """Erase documents with everything known about them. ``reason`` is a word or two and names nobody.

    Repeating it for documents already erased reaches nothing more. Raises NotFoundError for an id that is not there.
    """
    wanted = sorted(set(document_ids))
    erasure_id, at = new_id(), now()
    with writing(store.engine, store.tenant) as connection:
        for document_id in wanted:
            _document_of(connection, store.tenant, events.c.event_id == document_id, Kind.DOCUMENT)
        reached = sorted(_closed(connection, store.tenant, set(wanted)) - _already(connection, store.tenant, wanted))
        blobs = _blobs_of(connection, store.tenant, reached)
        count = _empty(connection, store.tenant, reached, erasure_id)
        tombstone = {"documents": reached, "blobs": blobs, "events": count, "reason": reason}
        if reached:
            rows = [{"tenant": store.tenant, "document_id": d, "erasure_id": erasure_id, "at": at} for d in reached]
            connection.execute(insert(erased), rows)
        append(connection, store.tenant, [NewEvent(erasure_id, Kind.ERASURE, tombstone, at)], actor, "erase", erasure=erasure_id)
    return _finish(store, erasure_id, tombstone, actor)


def finish_erasures(store: TenantStore, actor: str, *, older_than_s: float = 0.0) -> tuple[str, ...]:
    """Do what a crash kept an earlier erasure from doing; returns the erasures that were finished. One begun less than
    ``older_than_s`` ago may still be under way."""
    open_ids = unfinished(store)
    begun = (datetime.now(UTC) - timedelta(seconds=older_than_s)).isoformat(timespec="microseconds")
    done = []
    for event in list(store.events(Kind.ERASURE)) if open_ids else []:
        if event.event_id in open_ids and event.payload is not None and event.created_at <= begun:
            _finish(store, event.event_id, event.payload, actor)
            done.append(event.event_id)
    return tuple(done)


def unfinished(store: TenantStore) -> frozenset[str]:
    """Erasures whose files may still be there."""
    with reading(store.engine, store.tenant) as connection:
        query = select(events.c.event_id).where(events.c.tenant == store.tenant, events.c.kind == str(Kind.ERASURE))
        begun = frozenset(connection.execute(query).scalars())
        if not begun:
            return begun
        query = select(audit.c.details).where(audit.c.tenant == store.tenant, audit.c.action == FINISHED)
        return begun - {json.loads(details)["erasure"] for details in connection.execute(query).scalars()}


def expired_documents(store: TenantStore, *, keep_days: float, today: datetime | None = None) -> tuple[str, ...]:
    """The documents handed in more than ``keep_days`` ago that are still there. Raises EventError for less than 0 days,
    or more than 100 years."""
    if not 0 <= keep_days <= MAX_KEEP_DAYS:
        raise EventError(f"documents are kept for 0 to {MAX_KEEP_DAYS} days")
    limit = ((today or datetime.now(UTC)) - timedelta(days=keep_days)).astimezone(UTC).isoformat(timespec="microseconds")
    with reading(store.engine, store.tenant) as connection:
        query = select(events.c.event_id).where(
            events.c.tenant == store.tenant,
            events.c.kind == str(Kind.DOCUMENT),
            events.c.created_at < limit,
            events.c.payload.is_not(None),
        )
        return tuple(connection.execute(query).scalars())


def apply_retention(store: TenantStore, *, keep_days: float, actor: str, today: datetime | None = None) -> Erasure | None:
    """Erase every document handed in more than ``keep_days`` ago; None when there is none. Run it daily."""
    old = expired_documents(store, keep_days=keep_days, today=today)
    return erase(store, old, actor=actor, reason="retention") if old else None


def replay_journal(store: TenantStore, journal: BlobStore, actor: str) -> int:
    """Erase again what the journal says was erased after this store's backup was made; returns how many documents."""
    here = undone(store, journal)
    if here:
        erase(store, here, actor=actor, reason="restored backup")
    return len(here)


def undone(store: TenantStore, journal: BlobStore) -> tuple[str, ...]:
    """The documents that the journal says were erased and that are there all the same."""
    gone: set[str] = set()
    for sha256 in journal.list(JOURNAL):
        entry = json.loads(journal.get(JOURNAL, sha256))
        if entry["tenant"] == store.tenant:
            gone |= set(entry["documents"])
    here: set[str] = set()
    with reading(store.engine, store.tenant) as connection:
        for part in _parts(sorted(gone)):
            query = select(events.c.event_id).where(
                events.c.tenant == store.tenant, events.c.event_id.in_(part), events.c.payload.is_not(None)
            )
            here |= set(connection.execute(query).scalars())
    return tuple(sorted(here))


def remove_orphans(store: TenantStore, *, actor: str, older_than_s: float = ORPHAN_AGE_S) -> int:
    """Remove blobs that no document names (a crash between blob and rows leaves them); returns how many.

    A writer whose blob was taken all the same, because it waited longer than ``older_than_s``, gets BlobMissingError: it never
    stores a row without its blob.
    """
    old = [sha for sha in store.blobs.list(store.tenant) if store.blobs.age_s(store.tenant, sha) >= older_than_s]
    total = 0
    for part in _parts(old):  # the write lock keeps a row from naming one meanwhile; nobody waits for it longer than a part takes
        with writing(store.engine, store.tenant) as connection:
            query = select(links.c.key).where(links.c.tenant == store.tenant, links.c.kind == BLOB, links.c.key.in_(part))
            named = set(connection.execute(query.distinct()).scalars())
            nameless = [sha for sha in part if sha not in named and store.blobs.age_s(store.tenant, sha) >= older_than_s]
            count = sum(store.blobs.delete(store.tenant, sha) for sha in nameless)
            if count:
                add_audit(connection, store.tenant, actor, "sweep", {"blobs": count})
        total += count
    return total


def _finish(store: TenantStore, erasure_id: str, tombstone: Any, actor: str) -> Erasure:
    """Remove files, then say so. Holding the write lock keeps a new upload of the same image from losing its blob."""
    documents: list[str] = tombstone["documents"]
    entry = {"tenant": store.tenant, "erasure": erasure_id, "documents": documents}
    store.blobs.put(JOURNAL, canonical(entry).encode())
    withdrawn, unreachable = snapshots.withdraw(store, set(documents), erasure_id)
    with writing(store.engine, store.tenant) as connection:
        removed = 0
        for sha256 in tombstone["blobs"]:
            query = select(links.c.document_id).where(links.c.tenant == store.tenant, links.c.kind == BLOB, links.c.key == sha256)
            if connection.execute(query.limit(1)).first() is None:
                removed += store.blobs.delete(store.tenant, sha256)
        details = {"erasure": erasure_id, "blobs": removed, "snapshots": list(withdrawn), "unreachable": len(unreachable)}
        add_audit(connection, store.tenant, actor, FINISHED, details)
    forget_pages(store)
    return Erasure(erasure_id, tuple(documents), tombstone["events"], removed, withdrawn, unreachable)


def forget_pages(store: TenantStore) -> None:
    """Old content must not survive in SQLite's write-ahead log or in Postgres' dead rows.

    A reader that is still at work keeps SQLite's log alive; it is then emptied by the next erasure, or when the last process
    closes it. Postgres keeps the bytes of dead rows in the table's pages until somebody needs the room, so a table of up to
    ``REWRITE_MAX_BYTES`` is written anew, unless a reader holds it; from a larger one they go with ``VACUUM FULL store_events``
    at a quiet hour. Its write-ahead log and the operator's archives of it have their own time.
    """
    if store.engine.dialect.name == "sqlite":
        raw = store.engine.raw_connection()
        try:
            cursor = raw.cursor()
            (usual,) = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute(f"PRAGMA busy_timeout={CHECKPOINT_WAIT_MS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.execute(f"PRAGMA busy_timeout={usual}")
        finally:
            raw.close()
    else:
        with guarded(), store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            size = connection.execute(text("SELECT pg_total_relation_size('store_events')")).scalar_one()
            if size > REWRITE_MAX_BYTES or not _rewritten(connection):
                connection.execute(text("VACUUM store_events"))


def _rewritten(connection: Connection) -> bool:
    connection.execute(text(f"SET lock_timeout = '{CHECKPOINT_WAIT_MS}ms'"))
    try:
        connection.execute(text("VACUUM (FULL) store_events"))
    except OperationalError:  # somebody is reading
        return False
    finally:
        connection.execute(text("RESET lock_timeout"))
    return True


def _document_of(connection: Connection, tenant: str, condition: Any, kind: Kind) -> str:
    query = select(events.c.document_id).where(events.c.tenant == tenant, events.c.kind == str(kind), condition)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"no {kind} with this id in this tenant")
    return str(row.document_id)


def _mentioning(connection: Connection, tenant: str, words: str) -> set[str]:
    if len(words.strip()) < MIN_MENTION:
        raise EventError(f"a text to look for needs at least {MIN_MENTION} characters")
    inside_json, cipher = canonical(words.strip())[1:-1], cipher_of(connection)
    live = (events.c.tenant == tenant, events.c.document_id.is_not(None), events.c.payload.is_not(None))
    if cipher.key_id:  # only opened texts can be searched
        rows = connection.execute(select(events.c.document_id, events.c.event_id, events.c.payload).where(*live)).yield_per(1000)
        return {r.document_id for r in rows if inside_json in unseal_text(cipher, tenant, r.event_id, r.payload)}
    query = select(events.c.document_id).where(*live, events.c.payload.contains(inside_json, autoescape=True))
    return set(connection.execute(query.distinct()).scalars())


def _closed(connection: Connection, tenant: str, document_ids: set[str]) -> set[str]:
    """With every document that shares an image with one of them: the image shows the same subject."""
    reached, fresh = set(document_ids), set(document_ids)
    while fresh:
        found: set[str] = set()
        for part in _parts(_blobs_of(connection, tenant, sorted(fresh))):
            query = select(links.c.document_id).where(links.c.tenant == tenant, links.c.kind == BLOB, links.c.key.in_(part))
            found |= set(connection.execute(query).scalars())
        fresh = found - reached
        reached |= fresh
    return reached


def _blobs_of(connection: Connection, tenant: str, document_ids: Sequence[str]) -> list[str]:
    out: set[str] = set()
    for part in _parts(document_ids):
        query = select(links.c.key).where(links.c.tenant == tenant, links.c.kind == BLOB, links.c.document_id.in_(part))
        out |= set(connection.execute(query).scalars())
    return sorted(out)


def _already(connection: Connection, tenant: str, document_ids: Sequence[str]) -> set[str]:
    out: set[str] = set()
    for part in _parts(document_ids):
        query = select(erased.c.document_id).where(erased.c.tenant == tenant, erased.c.document_id.in_(part))
        out |= set(connection.execute(query).scalars())
    return out


def _empty(connection: Connection, tenant: str, document_ids: Sequence[str], erasure_id: str) -> int:
    count = 0
    for part in _parts(document_ids):
        mine = (events.c.tenant == tenant, events.c.document_id.in_(part), events.c.erasure_id.is_(None))
        count += connection.execute(select(func.count()).select_from(events).where(*mine)).scalar_one()
        connection.execute(update(events).where(*mine).values(payload=None, salt=None, erasure_id=erasure_id))
        connection.execute(delete(links).where(links.c.tenant == tenant, links.c.document_id.in_(part)))
    return count


def _parts(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
