"""The registry: immutable releases, a log of every move, and one pointer a scope that says who serves. METHODS §1.7."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, insert, select, update

from certloop.agentrl.release.artefacts import ArtefactStore
from certloop.agentrl.release.errors import RegistryDamagedError, ReleaseConflictError, ReleaseError, UnknownReleaseError
from certloop.agentrl.release.schema import SHARED, Release, canonical, log, metadata, pointers, records, sha256_text
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.migrate import run_revisions

GENESIS = "0" * 64


class Move(StrEnum):
    """What can happen to a scope. A quarantine moves no pointer: it marks what a release learned from as suspect."""

    ADOPTED = "adopted"
    STAGED = "staged"
    WIDENED = "widened"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Pointer:
    """Who serves a scope: ``active`` to everybody, but ``candidate`` to the ``share`` of documents below it. ``previous`` is
    where a rollback without a candidate goes. ``position`` grows with every move; ``since`` is the time of the last one."""

    active: str
    previous: str = ""
    candidate: str = ""
    share: float = 0.0
    position: int = 0
    since: str = ""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One move: who, when, why."""

    scope: str
    position: int
    at: str
    actor: str
    move: Move
    release_id: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Registry:
    """Releases of one database. Every move is one transaction: a log row and the pointer it leads to, or nothing."""

    def __init__(self, engine: Engine, artefacts: ArtefactStore, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self.artefacts = artefacts
        self._clock = clock

    @classmethod
    def open(cls, engine: Engine, artefacts: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Self:
        """Bring the registry's tables to this release's schema. ``engine`` is a store's (``Store.engine``)."""
        with writing(engine, None) as connection:
            run_revisions(connection, Path(__file__).parent / "migrations", "release_version", metadata)
        return cls(engine, ArtefactStore(artefacts), clock)

    # --- releases ---------------------------------------------------------------------------------------------------------------

    def register(self, release: Release, *, scope: str = SHARED) -> str:
        """Add a release; its artefacts must be there and whole. The same release twice is one.

        Raises ArtefactError, and ReleaseConflictError when the id is taken by another release.
        """
        for digest in release.artefacts.values():
            self.artefacts.path(digest)
        body = canonical(release.to_json())
        with writing(self._engine, None) as connection:
            row = connection.execute(select(records).where(records.c.release_id == release.release_id)).first()
            if row is not None:
                if (row.scope, row.body) != (scope, body):
                    raise ReleaseConflictError(f"{release.release_id} is another release already; a change needs a new id")
                return release.release_id
            if release.parent:
                _record(connection, release.parent, scope)
            values = {"release_id": release.release_id, "scope": scope, "body": body, "body_sha256": sha256_text(body)}
            connection.execute(insert(records), [values | {"created_at": self._now()}])
        return release.release_id

    def release(self, release_id: str, *, scope: str = SHARED) -> Release:
        """A release of the scope or a shared one. Raises UnknownReleaseError, RegistryDamagedError."""
        with reading(self._engine, None) as connection:
            return _record(connection, release_id, scope)

    def releases(self, scope: str = SHARED) -> tuple[Release, ...]:
        """Oldest first."""
        with reading(self._engine, None) as connection:
            query = (
                select(records.c.release_id).where(records.c.scope == scope).order_by(records.c.created_at, records.c.release_id)
            )
            return tuple(_record(connection, row.release_id, scope) for row in connection.execute(query))

    # --- who serves -------------------------------------------------------------------------------------------------------------

    def pointer(self, scope: str = SHARED) -> Pointer:
        """Where a scope's log leads, else the shared one's: a pointer that was changed by hand is passed over (``verify`` tells
        of it). Raises UnknownReleaseError when nothing was ever adopted."""
        with reading(self._engine, None) as connection:
            for name in dict.fromkeys((scope, SHARED)):
                found = _followed(connection, name)
                if found is not None:
                    return found
        raise UnknownReleaseError("no release serves yet; adopt one first")

    def adopt(self, release_id: str, *, actor: str, reason: str, scope: str = SHARED) -> Pointer:
        """Make a release the first one of a scope. Later ones come through a canary."""

        def move(old: Pointer | None) -> Pointer:
            if old is not None:
                raise ReleaseError("this scope has a release already; stage the next one as a canary")
            return Pointer(release_id)

        return self._move(scope, Move.ADOPTED, release_id, actor, {"reason": reason}, move)

    def stage(self, release_id: str, share: float, *, actor: str, reason: str, scope: str = SHARED) -> Pointer:
        """Give a candidate its first share of documents. A scope of its own starts from the shared release."""
        _check_share(share)

        def move(old: Pointer | None) -> Pointer:
            old = old or self.pointer(SHARED)
            if old.candidate and old.candidate != release_id:
                raise ReleaseError(f"{old.candidate} is on trial already; one canary at a time")
            if release_id == old.active:
                raise ReleaseError(f"{release_id} serves already")
            return replace(old, candidate=release_id, share=share)

        return self._move(scope, Move.STAGED, release_id, actor, {"reason": reason, "share": share}, move)

    def widen(self, share: float, *, actor: str, reason: str, scope: str = SHARED) -> Pointer:
        """Give the candidate a larger share."""
        _check_share(share)

        def move(old: Pointer | None) -> Pointer:
            pointer = _on_trial(old)
            if share <= pointer.share:
                raise ReleaseError(f"the candidate has {pointer.share:.0%} already")
            return replace(pointer, share=share)

        return self._move(scope, Move.WIDENED, None, actor, {"reason": reason, "share": share}, move)

    def promote(self, *, actor: str, reason: str, scope: str = SHARED) -> Pointer:
        """The candidate serves everybody; the release before it stays loaded as ``previous``."""

        def move(old: Pointer | None) -> Pointer:
            pointer = _on_trial(old)
            return Pointer(pointer.candidate, previous=pointer.active)

        return self._move(scope, Move.PROMOTED, None, actor, {"reason": reason}, move)

    def roll_back(self, *, actor: str, reason: str, scope: str = SHARED) -> Pointer:
        """Take the candidate back, or, without one, the active release: a swap of the pointer. Requests in flight finish where
        they started. What the release learned from is quarantined. Raises ReleaseError when there is nothing to go back to."""

        def move(old: Pointer | None) -> Pointer:
            old = old or (self.pointer(SHARED) if scope != SHARED else None)
            if old is None or not (old.candidate or old.previous):
                raise ReleaseError("there is no release to go back to")
            return replace(old, candidate="", share=0.0) if old.candidate else Pointer(old.previous)

        return self._move(scope, Move.ROLLED_BACK, None, actor, {"reason": reason}, move)

    def _move(
        self,
        scope: str,
        move: Move,
        release_id: str | None,
        actor: str,
        details: dict[str, Any],
        change: Callable[[Pointer | None], Pointer],
    ) -> Pointer:
        if not actor:
            raise ReleaseError("every move names who made it")
        with writing(self._engine, None) as connection:
            old = _followed(connection, scope)
            new = change(old)
            about = release_id or (old.candidate or old.active if old else "")
            for name in filter(None, (new.active, new.candidate)):
                for digest in _record(connection, name, scope).artefacts.values():
                    if move not in (Move.ROLLED_BACK,):  # going back must not wait for hashing, nor fail on it
                        self.artefacts.path(digest)
            details = details | {
                "active": new.active,
                "previous": new.previous,
                "candidate": new.candidate,
                "to_share": new.share,
            }
            new = self._write(connection, scope, move, about, actor, details, new)
            if move is Move.ROLLED_BACK:
                manifest = _record(connection, about, scope).data_manifest_sha256
                if manifest:
                    suspect = {"reason": details["reason"], "data_manifest_sha256": manifest}
                    new = self._write(connection, scope, Move.QUARANTINED, about, actor, suspect, new)
            return new

    def _write(
        self,
        connection: Connection,
        scope: str,
        move: Move,
        release_id: str,
        actor: str,
        details: Mapping[str, Any],
        new: Pointer,
    ) -> Pointer:
        last = connection.execute(
            select(log.c.position, log.c.hash).where(log.c.scope == scope).order_by(log.c.position.desc()).limit(1)
        ).first()
        values: dict[str, Any] = {
            "scope": scope,
            "position": 1 if last is None else last.position + 1,
            "at": self._now(),
            "actor": actor,
            "move": str(move),
            "release_id": release_id,
            "details": canonical(dict(details)),
            "prev_hash": GENESIS if last is None else last.hash,
        }
        values["hash"] = sha256_text(canonical(values))
        connection.execute(insert(log), [values])
        new = replace(new, position=values["position"], since=values["at"])
        body = {"position": new.position, "body": canonical(asdict(new))}
        changed = connection.execute(
            update(pointers).where(pointers.c.scope == scope, pointers.c.position == new.position - 1).values(body)
        ).rowcount
        if changed == 0:
            if last is not None:
                raise ReleaseConflictError("the pointer was moved by somebody else at the same time; look again and repeat")
            connection.execute(insert(pointers), [body | {"scope": scope}])
        return new

    # --- looking back -----------------------------------------------------------------------------------------------------------

    def history(self, scope: str = SHARED) -> tuple[LogRow, ...]:
        """Every move, oldest first."""
        with reading(self._engine, None) as connection:
            return tuple(_log_row(row) for row in _rows(connection, scope))

    def quarantined(self, scope: str = SHARED) -> frozenset[str]:
        """Data manifests whose releases were taken back: nothing trains on them until somebody looked."""
        rows = [row for row in self.history(scope) if row.move is Move.QUARANTINED]
        return frozenset(str(row.details["data_manifest_sha256"]) for row in rows)

    def verify(self) -> tuple[str, ...]:
        """Everything that was changed by hand or lost, a sentence each; empty when all is as it was written."""
        with reading(self._engine, None) as connection:
            return tuple(self._findings(connection))

    def verify_serving(self) -> tuple[str, ...]:
        """As :meth:`verify`, of what answers now alone: each scope's log and pointer, and the releases that these name."""
        with reading(self._engine, None) as connection:
            return tuple(self._serving(connection))

    def _serving(self, connection: Connection) -> Iterator[str]:
        for scope in sorted(connection.execute(select(log.c.scope).distinct()).scalars()):
            broken = list(_chain(connection, scope))
            yield from broken
            pointer = None if any(line.startswith("log ") for line in broken) else _followed(connection, scope)
            for release_id in filter(None, (pointer.active, pointer.candidate)) if pointer is not None else ():
                try:
                    for digest in _record(connection, release_id, scope).artefacts.values():
                        self.artefacts.path(digest)
                except ReleaseError as error:
                    yield f"release {release_id}: {error.message}"

    def _findings(self, connection: Connection) -> Iterator[str]:
        for row in connection.execute(select(records)):
            if sha256_text(row.body) != row.body_sha256:
                yield f"release {row.release_id}: its record was changed"
                continue
            for name, digest in Release.from_json(json.loads(row.body)).artefacts.items():
                try:
                    self.artefacts.path(digest)
                except ReleaseError as error:
                    yield f"release {row.release_id}, {name}: {error.message}"
        scopes = [row.scope for row in connection.execute(select(log.c.scope).distinct())]
        for scope in sorted({*scopes, *(row.scope for row in connection.execute(select(pointers.c.scope)))}):
            yield from _chain(connection, scope)

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")


def _chain(connection: Connection, scope: str) -> Iterator[str]:
    before, fold = GENESIS, None
    for expected, row in enumerate(_rows(connection, scope), 1):
        values = {key: value for key, value in row._mapping.items() if key != "hash"}
        if row.position != expected or row.prev_hash != before or sha256_text(canonical(values)) != row.hash:
            yield f"log of {scope}: row {expected} was changed or lost"
            return
        before = row.hash
        details = json.loads(row.details)
        if row.move != str(Move.QUARANTINED):
            fold = (details["active"], details["previous"], details["candidate"], details["to_share"])
    pointer = _pointer(connection, scope)
    if pointer is None or (pointer.active, pointer.previous, pointer.candidate, pointer.share) != fold:
        yield f"pointer of {scope}: it is not where the log leads"


def _rows(connection: Connection, scope: str) -> Iterator[Any]:
    yield from connection.execute(select(log).where(log.c.scope == scope).order_by(log.c.position))


def _log_row(row: Any) -> LogRow:
    return LogRow(row.scope, row.position, row.at, row.actor, Move(row.move), row.release_id, json.loads(row.details))


def _pointer(connection: Connection, scope: str) -> Pointer | None:
    row = connection.execute(select(pointers).where(pointers.c.scope == scope)).first()
    if row is None:
        return None
    try:
        pointer = Pointer(**json.loads(row.body))
    except (TypeError, ValueError):
        raise RegistryDamagedError(f"the pointer of {scope} was changed by hand; see `certloop loop releases`") from None
    return pointer


def _followed(connection: Connection, scope: str) -> Pointer | None:
    """The pointer if it stands where the last move put it, else what the last move says."""
    query = select(log).where(log.c.scope == scope, log.c.move != str(Move.QUARANTINED)).order_by(log.c.position.desc()).limit(1)
    last = connection.execute(query).first()
    if last is None:
        return None
    try:
        said = json.loads(last.details)
        where = Pointer(said["active"], said["previous"], said["candidate"], said["to_share"], last.position, last.at)
    except (TypeError, ValueError, KeyError):
        raise RegistryDamagedError(f"the log of {scope} was changed by hand; nothing of it is followed") from None
    try:
        found = _pointer(connection, scope)
    except RegistryDamagedError:
        found = None
    if found is not None and (found.active, found.candidate, found.share) == (where.active, where.candidate, where.share):
        return found
    return where


def _record(connection: Connection, release_id: str, scope: str) -> Release:
    query = select(records).where(records.c.release_id == release_id, records.c.scope.in_({scope, SHARED}))
    row = connection.execute(query).first()
    if row is None:
        raise UnknownReleaseError(f"no release {release_id[:64]} here")
    if sha256_text(row.body) != row.body_sha256:
        raise RegistryDamagedError(f"the record of {release_id} was changed by hand; nothing of it is loaded")
    return Release.from_json(json.loads(row.body))


def _on_trial(pointer: Pointer | None) -> Pointer:
    if pointer is None or not pointer.candidate:
        raise ReleaseError("no candidate is on trial")
    return pointer


def _check_share(share: float) -> None:
    if not 0.0 < share <= 1.0:
        raise ReleaseError("a share lies between 0 and 1")
