"""Immutable training sets: Parquet parts first, the manifest last, every row with the ids of the events it comes from."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from certloop.agentrl.signals import schema as signal_schema
from certloop.agentrl.signals.schema import Signal
from certloop.agentrl.store import reader
from certloop.agentrl.store.blobs import replace_synced
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.errors import (
    ConsentError,
    ErasedError,
    SnapshotErasedError,
    SnapshotError,
    StoreError,
    StoreUnavailableError,
)
from certloop.agentrl.store.events import Kind, NewEvent, canonical, new_id, now
from certloop.agentrl.store.exporters.answers import approved_answer
from certloop.agentrl.store.log import append
from certloop.agentrl.store.parquet import Part, document_ids, read_rows, write_parts
from certloop.agentrl.store.reader import EVERYTHING, Filters, RewardOf, StoredTrajectory
from certloop.agentrl.store.schema import erased
from certloop.agentrl.store.tenant import TenantStore
from certloop.agentrl.trajectory import Consent, Trajectory, codec

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = "certloop.snapshot/1"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One training example: ``event_ids`` is its lineage."""

    trajectory: Trajectory
    signals: tuple[Signal, ...]
    reward: float | None
    document_id: str
    consent: Consent
    purpose: str
    event_ids: tuple[str, ...]

    @property
    def ground_truth(self) -> str | None:
        """The approved answer (with the auditor's edits), None while nobody has approved one. Also a column of the Parquet."""
        return approved_answer(self.trajectory, self.signals)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished snapshot whose files were compared with its manifest."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def snapshot_id(self) -> str:
        return str(self.manifest["snapshot_id"])

    @property
    def manifest_sha256(self) -> str:
        return hashlib.sha256((self.folder / MANIFEST).read_bytes()).hexdigest()

    @property
    def parts(self) -> tuple[Path, ...]:
        return tuple(self.folder / part["name"] for part in self.manifest["parts"])

    def rows(self) -> Iterator[SnapshotRow]:
        """Stream the rows; memory stays flat."""
        return (_row(values) for part in self.parts for values in read_rows(part))

    def duckdb(self) -> DuckDBPyConnection:
        """An in-memory DuckDB connection with the view ``snapshot``."""
        import duckdb

        connection = duckdb.connect()
        names = ", ".join("'" + str(part).replace("'", "''") + "'" for part in self.parts)
        source = f"read_parquet([{names}])" if names else "(SELECT 1 WHERE false)"
        connection.execute(f"CREATE VIEW snapshot AS SELECT * FROM {source}")  # noqa: S608 - file names of ours, quoted
        return connection


def create_snapshot(
    store: TenantStore,
    folder: Path,
    filters: Filters = EVERYTHING,
    *,
    actor: str,
    reward_of: RewardOf | None = None,
    reward_name: str = "",
) -> Snapshot:
    """Write the trajectories that the filters let through into ``folder/SNAPSHOT_ID`` and register it.

    Only documents that consent to training now enter (``filters.consent`` may ask for more). ``reward_name`` says in the manifest
    which fold ``reward_of`` is. A crash leaves a folder without manifest, which nobody loads. Raises SnapshotErasedError and
    ConsentError when ``filters.traj_ids`` names a trajectory that was erased or is not consented, or when an erasure reached it
    meanwhile; NotFoundError for one that is not there.
    """
    if filters.consent is Consent.NONE:
        filters = replace(filters, consent=Consent.TENANT)
    _check_named(store, filters)
    snapshot_id = new_id()
    target = (folder / snapshot_id).absolute()
    begun = NewEvent(f"{snapshot_id}/begun", Kind.SNAPSHOT, {"snapshot_id": snapshot_id, "folder": str(target)}, now())
    with writing(store.engine, store.tenant) as connection:
        append(connection, store.tenant, [begun], actor, "snapshot.begun", snapshot=snapshot_id)
    try:
        target.mkdir(mode=0o700, parents=True)
        with reading(store.engine, store.tenant) as connection:
            stream = reader.stream(connection, store.tenant, filters, reward_of)
            parts = write_parts(target, (_values(stored, reward_of) for stored in stream))
        manifest = _manifest(store, snapshot_id, filters, reward_name, parts)
        _register(store, target, manifest, actor)
    except BaseException as error:
        erased_meanwhile, gone = _take_away(target)
        if gone:
            _unregister(store, snapshot_id, target, actor)
        if isinstance(error, StoreError) or not isinstance(error, OSError):  # some of ours are OSErrors, too
            raise
        if erased_meanwhile:  # an erasure took the file that was being written
            raise SnapshotErasedError("a subject was erased while the snapshot was written; make it again") from None
        raise SnapshotError(f"the snapshot cannot be written: {error.strerror or type(error).__name__}") from None
    return Snapshot(target, manifest)


def _take_away(folder: Path) -> tuple[bool, bool]:
    """Remove an unfinished snapshot; returns whether an erasure had left its tombstone there, and whether nothing is left."""
    try:
        tombstone = (folder / MANIFEST).exists()
        shutil.rmtree(folder, ignore_errors=True)
        return tombstone, not folder.exists()
    except OSError:  # a folder that may not be looked into
        return False, False


def _unregister(store: TenantStore, snapshot_id: str, folder: Path, actor: str) -> None:
    """Note that nothing is left of a snapshot that failed, or every later erasure would look for its folder."""
    payload = {"snapshot_id": snapshot_id, "folder": str(folder), "removed": True}
    event = NewEvent(f"{snapshot_id}/removed", Kind.SNAPSHOT, payload, now())
    with suppress(StoreError), writing(store.engine, store.tenant) as connection:
        append(connection, store.tenant, [event], actor, "snapshot.removed", snapshot=snapshot_id)


def load_snapshot(store: TenantStore, folder: Path) -> Snapshot:
    """Open a snapshot of this tenant. Raises SnapshotError (no manifest, changed files, another tenant's or store's),
    SnapshotErasedError (over a subject erased since) and ConsentError (over a document whose consent was withdrawn since)."""
    manifest = read_manifest(folder)
    if manifest.get("tenant") != store.tenant:
        raise SnapshotError("this snapshot belongs to another tenant")
    if "withdrawn" in manifest:
        raise SnapshotErasedError("this snapshot was withdrawn because a subject in it was erased; make a new one")
    try:
        parts = {folder / str(part["name"]): str(part["sha256"]) for part in manifest["parts"]}
        consent = Consent(manifest["filters"]["consent"])
    except (KeyError, TypeError, ValueError):
        raise SnapshotError("the manifest of this snapshot was changed; make a new one") from None
    for path, sha256 in parts.items():
        try:
            found = _file_sha256(path)
        except OSError as error:
            raise SnapshotError(f"{path.name} of this snapshot cannot be read: {error.strerror}; make a new one") from None
        if found != sha256:
            raise SnapshotError(f"{path.name} of this snapshot was changed; make a new one")
    _refuse_changed(store, folder, manifest)
    _refuse_withdrawn(store, list(parts), consent)
    return Snapshot(folder, manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise SnapshotError("this folder holds no finished snapshot: its manifest is missing or unreadable") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise SnapshotError(f"this manifest is of another kind; this release reads {SCHEMA}")
    return manifest


def withdraw(store: TenantStore, gone: set[str], erasure_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Empty every snapshot of the tenant that holds one of these documents, half-written ones too.

    Returns the ids of those emptied and the folders of those that this machine does not see. Raises StoreUnavailableError for one
    that it sees and may not change.
    """
    made = [e.payload for e in store.events(Kind.SNAPSHOT) if e.payload]
    removed = {str(payload["snapshot_id"]) for payload in made if payload.get("removed")}
    folders = {i: Path(payload["folder"]) for payload in made if (i := str(payload["snapshot_id"])) not in removed}
    emptied, unseen = [], []
    for snapshot_id, folder in folders.items():
        try:
            if not folder.is_dir():
                unseen.append(str(folder))
            elif _emptied(store, snapshot_id, folder, gone, erasure_id):
                emptied.append(snapshot_id)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not folder.is_dir():
                continue  # its writer failed just now and took everything away
            raise StoreUnavailableError(
                f"the snapshot in {folder} cannot be emptied: {error.strerror}; then run `certloop store erase --resume`"
            ) from None
    return tuple(emptied), tuple(unseen)


def _emptied(store: TenantStore, snapshot_id: str, folder: Path, gone: set[str], erasure_id: str) -> bool:
    parts, partials = sorted(folder.glob("*.parquet")), list(folder.glob("*.partial"))
    if _is_withdrawn(folder):
        if not parts and not partials:
            return False  # emptied by an earlier erasure; a writer that was killed later may have left parts after that
    elif (folder / MANIFEST).is_file() and not _may_hold(parts, gone):
        return False
    tombstone = {
        "schema": SCHEMA,
        "snapshot_id": snapshot_id,
        "tenant": store.tenant,
        "withdrawn": {"erasure": erasure_id, "at": now()},
    }
    replace_synced(folder / MANIFEST, (canonical(tombstone) + "\n").encode())
    for part in [*parts, *partials]:
        part.unlink(missing_ok=True)
    return True


def _is_withdrawn(folder: Path) -> bool:
    try:
        return "withdrawn" in read_manifest(folder)
    except SnapshotError:
        return False


def _may_hold(parts: Iterable[Path], gone: set[str]) -> bool:
    """Whether one of these documents is in the parts, or a part is damaged and nobody can say."""
    try:
        return any(set(ids) & gone for part in parts for ids in document_ids(part))
    except SnapshotError:
        return True


def _check_named(store: TenantStore, filters: Filters) -> None:
    for traj_id in filters.traj_ids:
        try:
            stored = store.trajectory(traj_id)
        except ErasedError:
            raise SnapshotErasedError("a trajectory asked for was erased; leave it out") from None
        if not stored.state.covers(filters.consent):
            raise ConsentError("a trajectory asked for is not consented for training; leave it out")


def _manifest(store: TenantStore, snapshot_id: str, filters: Filters, reward: str, parts: list[Part]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "snapshot_id": snapshot_id,
        "tenant": store.tenant,
        "created_at": now(),
        "filters": filters.to_json(),
        "reward": reward,
        "rows": sum(part.rows for part in parts),
        "parts": [{"name": p.name, "rows": p.rows, "bytes": p.n_bytes, "sha256": p.sha256} for p in parts],
    }


def _register(store: TenantStore, folder: Path, manifest: dict[str, Any], actor: str) -> None:
    """Under the tenant's write lock: no erasure can slip in between the look and the manifest."""
    data = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    payload = {
        "snapshot_id": manifest["snapshot_id"],
        "folder": str(folder),
        "rows": manifest["rows"],
        "manifest_sha256": hashlib.sha256(data).hexdigest(),
    }
    event = NewEvent(manifest["snapshot_id"], Kind.SNAPSHOT, payload, now())
    with writing(store.engine, store.tenant) as connection:
        if (folder / MANIFEST).exists():
            raise SnapshotErasedError("a subject was erased while the snapshot was written; make it again")
        query = select(erased.c.document_id).where(erased.c.tenant == store.tenant)
        _intersect(set(connection.execute(query).scalars()), [folder / part["name"] for part in manifest["parts"]])
        append(connection, store.tenant, [event], actor, "snapshot", snapshot=manifest["snapshot_id"])
        replace_synced(folder / MANIFEST, data)


def _refuse_changed(store: TenantStore, folder: Path, manifest: Mapping[str, Any]) -> None:
    """The log knows the hash of every registered manifest: a part and its hash that were changed together are seen, too."""
    with reading(store.engine, store.tenant) as connection:
        event = reader.event(connection, store.tenant, str(manifest.get("snapshot_id")))
    known = None if event is None or event.kind is not Kind.SNAPSHOT or event.payload is None else event.payload
    if known is not None and known.get("manifest_sha256") != _file_sha256(folder / MANIFEST):
        raise SnapshotError("the manifest of this snapshot was changed; make a new one")


def _refuse_withdrawn(store: TenantStore, parts: list[Path], consent: Consent) -> None:
    """A snapshot is good for what its subjects allow now, not for what they allowed when it was made."""
    with reading(store.engine, store.tenant) as connection:
        _intersect(set(connection.execute(select(erased.c.document_id).where(erased.c.tenant == store.tenant)).scalars()), parts)
        for ids in (ids for part in parts for ids in document_ids(part)):
            states = reader.consent_states(connection, store.tenant, ids)
            if len(states) != len(set(ids)):
                raise SnapshotError("this snapshot was made from another store: it holds documents that are not here")
            if not all(state.covers(consent) for state, _ in states.values()):
                raise ConsentError("the consent to documents of this snapshot was withdrawn since; make a new one")


def _intersect(gone: set[str], parts: Iterable[Path]) -> None:
    count = sum(len(set(ids) & gone) for part in parts for ids in document_ids(part)) if gone else 0
    if count:
        raise SnapshotErasedError(f"{count} rows of this snapshot are about subjects that were erased; make a new one")


def _values(stored: StoredTrajectory, reward_of: RewardOf | None) -> dict[str, Any]:
    trajectory = stored.trajectory
    rest = codec.to_json(trajectory)
    tokens = {name: rest.pop(name) for name in ("token_ids", "logprobs", "loss_mask")}
    return tokens | {
        "event_id": stored.event_ids[0],
        "event_ids": list(stored.event_ids),
        "document_id": stored.document_id,
        "traj_id": trajectory.traj_id,
        "doc_type": trajectory.doc_type,
        "created_at": trajectory.created_at,
        "outcome": str(trajectory.outcome),
        "consent": str(stored.state.consent),
        "purpose": stored.state.purpose,
        "policy_version": trajectory.policy_version,
        "prompt_version": trajectory.prompt_version,
        "harness_version": trajectory.harness_version,
        "memory_snapshot_id": trajectory.memory_snapshot_id,
        "group_id": trajectory.group_id,
        "image_sha256": list(trajectory.image_sha256),
        "n_steps": len(trajectory.steps),
        "final_json": trajectory.final_json,
        "ground_truth": approved_answer(trajectory, stored.signals),
        "reward": None if reward_of is None else _finite(reward_of(trajectory, stored.signals)),
        "trajectory": canonical(rest),
        "signals": canonical([signal_schema.to_json(signal) for signal in stored.signals]),
    }


def _finite(reward: float | None) -> float | None:
    if reward is not None and not math.isfinite(reward):
        raise SnapshotError("a reward must be finite: the fold gave none that is; nothing was written")
    return reward


def _row(values: Mapping[str, Any]) -> SnapshotRow:
    tokens = {name: values[name] for name in ("token_ids", "logprobs", "loss_mask")}
    return SnapshotRow(
        trajectory=codec.from_json(json.loads(values["trajectory"]) | tokens),
        signals=tuple(signal_schema.from_json(item) for item in json.loads(values["signals"])),
        reward=values["reward"],
        document_id=values["document_id"],
        consent=Consent(values["consent"]),
        purpose=values["purpose"],
        event_ids=tuple(values["event_ids"]),
    )


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
