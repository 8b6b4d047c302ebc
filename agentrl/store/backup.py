"""Backup while the store is in use, and restore into an empty place.

Two kinds: ``sqlite`` copies the database page by page through SQLite's own online backup; ``portable`` writes each table as JSON
Lines and can be restored into either database. Both copy the blobs and write their manifest last. A backup holds personal data.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Table, insert, select, update

from certloop.agentrl.store.batch import BLOB
from certloop.agentrl.store.blobs import (
    BlobStore,
    LocalBlobs,
    check_tenant,
    open_blobs,
    replace_synced,
    sync_folder,
    write_synced,
)
from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.engine import PLAIN, parse_url, reading, set_tenant, writing
from certloop.agentrl.store.erase import JOURNAL, finish_erasures, replay_journal
from certloop.agentrl.store.errors import BackupError, BlobCorruptError, BlobMissingError, StoreError
from certloop.agentrl.store.events import now
from certloop.agentrl.store.schema import TENANT_TABLES, audit, links, meta, tenants
from certloop.agentrl.store.store import Store, beside, check_key
from certloop.agentrl.store.verify import verify

SCHEMA = "certloop.backup/1"
MANIFEST = "manifest.json"
_PAGE = 1000
_ORDER = {"store_events": "position", "store_audit": "position", "store_links": "key", "store_erased": "document_id"}


class BackupKind(StrEnum):
    SQLITE = "sqlite"
    PORTABLE = "portable"


@dataclass(frozen=True, slots=True)
class Restored:
    """What came back. ``erased_again`` counts documents that the journal says were erased after the backup was made."""

    tenants: tuple[str, ...]
    events: int
    blobs: int
    erased_again: int


def backup(store: Store, folder: Path, *, actor: str, kind: BackupKind | None = None) -> dict[str, Any]:
    """Write a backup into an empty or new folder and return its manifest. Default: ``sqlite`` for SQLite, else ``portable``.

    Every blob is compared with its hash on the way. Raises BackupError (the folder is not empty or cannot be written, or the kind
    does not fit), BlobMissingError, BlobCorruptError.
    """
    with _said(folder):
        return _backup(store, folder, actor, kind)


def _backup(store: Store, folder: Path, actor: str, kind: BackupKind | None) -> dict[str, Any]:
    kind = kind or (BackupKind.SQLITE if store.engine.dialect.name == "sqlite" else BackupKind.PORTABLE)
    if kind is BackupKind.SQLITE and store.engine.dialect.name != "sqlite":
        raise BackupError("only an SQLite store has an SQLite backup; leave the kind out, or say portable")
    if folder.exists() and any(folder.iterdir()):
        raise BackupError("the folder of a backup must be empty or new")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    heads = {tenant: _head(store, tenant) for tenant in store.tenants()}
    files = _copy_sqlite(store, folder) if kind is BackupKind.SQLITE else _write_tables(store, folder)
    manifest = {
        "schema": SCHEMA,
        "kind": str(kind),
        "created_at": now(),
        "store_id": store.store_id,
        "store_version": store.version,
        "key_id": store.cipher.key_id,
        "heads": {tenant: head for tenant, head in heads.items() if head},
        "blobs": _copy_blobs(store, folder),
        "files": {name: _file_sha256(folder / name) for name in files},
    }
    replace_synced(folder / MANIFEST, (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode())
    for tenant in store.tenants():
        store.for_tenant(tenant).note(actor, "backup", backup_kind=str(kind))
    return manifest


def restore(
    folder: Path, url: str, blob_url: str = "", *, actor: str, journal_url: str = "", cipher: Cipher | None = None
) -> Restored:
    """Put a backup into a store that is still empty, erase again what was erased since, and verify it.

    The journals of erasures are that of the backup, that of the blobs where the store goes and, with ``journal_url``, that of the
    blobs it had before. A backup of a sealed store is sealed, too: ``cipher`` must be the same. Raises StoreKeyError for another
    one, BackupError when the backup is incomplete, damaged or changed, or the target is not empty: then no store is made. One
    that was damaged before its backup is there all the same; the BackupError says what does not verify.
    """
    with _said(folder):
        return _restore(folder, url, blob_url, actor, journal_url, cipher)


def _restore(folder: Path, url: str, blob_url: str, actor: str, journal_url: str, cipher: Cipher | None) -> Restored:
    manifest, cipher = _checked(folder), cipher or PLAIN
    check_key(manifest["key_id"], cipher)
    parsed, source = parse_url(url), LocalBlobs(folder / "blobs", cipher)
    journal = open_blobs(journal_url, cipher) if journal_url else None
    if parsed.get_backend_name() != "sqlite":
        if manifest["kind"] == BackupKind.SQLITE:
            raise BackupError("this backup is an SQLite file; make a portable one to move to Postgres")
        with Store.open(url, blob_url, cipher=cipher) as store:
            _refuse_used(store)
            blobs = _put_blobs(source, store.blobs, manifest, journal)
            _read_tables(store, folder)
        again = _erase_again(url, blob_url, cipher, actor)
    else:
        target = _free(Path(str(parsed.database)))
        aside = target.with_name(f".{target.name}.restoring")
        blob_url, building = blob_url or str(beside(target)), parsed.set(database=str(aside)).render_as_string()
        blobs = _put_blobs(source, open_blobs(blob_url, cipher), manifest, journal)
        try:
            _remove_database(aside)  # of a restore that was killed
            if manifest["kind"] == BackupKind.SQLITE:
                shutil.copyfile(folder / "store.db", aside)
                aside.chmod(0o600)
            else:
                with Store.open(building, blob_url, cipher=cipher) as store:
                    _read_tables(store, folder)
            again = _erase_again(building, blob_url, cipher, actor)
            _sync(aside)
            _free(target)
            aside.replace(target)  # here the store begins to be: whole, or not at all
            sync_folder(target.parent)
        finally:
            _remove_database(aside)
    with Store.open(url, blob_url, cipher=cipher) as store:
        report, names = verify(store, manifest["heads"]), store.tenants()
    if not report.clean:
        first = report.findings[0]
        raise BackupError(
            f"restored, but it does not verify: {first.problem} at {first.what}, {len(report.findings)} in all; "
            "`certloop store verify` lists them"
        )
    return Restored(names, report.events, blobs, again)


def _free(target: Path) -> Path:
    """The target when nothing is there. SQLite would read the log of a lost database into the one that is put beside it."""
    if target.exists():
        raise BackupError("there is a store at the target already; restore into an empty place")
    left = [p.name for end in ("-wal", "-journal") if (p := target.with_name(target.name + end)).exists()]
    if left:
        raise BackupError(f"{left[0]} of a lost database lies at the target; move it away first")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return target


def _refuse_used(store: Store) -> None:
    if store.tenants():
        raise BackupError("there is a store at the target already; restore into an empty place")


def _remove_database(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _put_blobs(source: LocalBlobs, target: BlobStore, manifest: dict[str, Any], journal: BlobStore | None) -> int:
    """Blobs before rows: a backup with a damaged or missing one is refused while nothing names them. What was erased is known
    before the rows come, too. Returns how many blobs of tenants there are."""
    for entries in (source, *([journal] if journal is not None else [])):
        for sha256 in entries.list(JOURNAL):
            target.put(JOURNAL, entries.get(JOURNAL, sha256))
    total = 0
    for tenant, expected in manifest["blobs"].items():
        count = 0
        for sha256 in source.list(tenant):
            try:
                target.put(tenant, source.get(tenant, sha256))
            except BlobCorruptError:
                raise BackupError(f"blob {sha256} of this backup is damaged; use another backup") from None
            count += 1
        if count < expected:
            raise BackupError(f"{expected - count} blobs of tenant {tenant} are missing in this backup; use another backup")
        total += count
    return total


def _erase_again(url: str, blob_url: str, cipher: Cipher, actor: str) -> int:
    """What the journal says was erased after the backup was made. The store is opened anew: its salt is the backup's now."""
    again = 0
    with Store.open(url, blob_url, cipher=cipher) as store:
        for tenant in store.tenants():
            handle = store.for_tenant(tenant)
            finish_erasures(handle, actor)
            again += (count := replay_journal(handle, store.blobs, actor))
            handle.note(actor, "restore", erased_again=count)
    return again


@contextmanager
def _said(folder: Path) -> Iterator[None]:
    """Turns what the disk refuses into a BackupError that names the place."""
    try:
        yield
    except StoreError:  # some are OSErrors, too
        raise
    except OSError as error:
        raise BackupError(
            f"{error.filename2 or error.filename or folder} cannot be used: {error.strerror or type(error).__name__}"
        ) from None
    except sqlite3.Error as error:
        raise BackupError(f"the database cannot be copied ({type(error).__name__}); is there room in {folder}?") from None


def _checked(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise BackupError("this folder holds no complete backup: its manifest is missing or unreadable") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise BackupError(f"this manifest is of another kind; this release reads {SCHEMA}")
    for name, sha256 in manifest["files"].items():
        if not (folder / name).is_file() or _file_sha256(folder / name) != sha256:
            raise BackupError(f"{name} of this backup is missing or was changed; use another backup")
    return manifest


def _copy_sqlite(store: Store, folder: Path) -> list[str]:
    """SQLite's online backup: writers go on, and the copy is one consistent state."""
    target = folder / "store.db"
    write_synced(target, b"")
    raw = store.engine.raw_connection()
    try:
        source = raw.driver_connection
        assert isinstance(source, sqlite3.Connection)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    finally:
        raw.close()
    _sync(target)
    return ["store.db"]


def _write_tables(store: Store, folder: Path) -> list[str]:
    names = ["meta.jsonl"]
    with reading(store.engine, None) as connection:
        lines = [dict(row._mapping) for row in connection.execute(select(meta))]
    write_synced(folder / "meta.jsonl", _lines(lines))
    for tenant in store.tenants():
        (folder / "tenants" / tenant).mkdir(mode=0o700, parents=True)
        with reading(store.engine, tenant) as connection:
            for table in TENANT_TABLES:
                name = f"tenants/{tenant}/{table.name}.jsonl"
                query = select(table).where(table.c.tenant == tenant).order_by(table.c[_ORDER[table.name]])
                with (folder / name).open("xb") as file:
                    for rows in connection.execution_options(yield_per=_PAGE).execute(query).partitions():
                        file.write(_lines([dict(row._mapping) for row in rows]))
                    file.flush()
                    os.fsync(file.fileno())
                names.append(name)
        sync_folder(folder / "tenants" / tenant)
    return names


def _read_tables(store: Store, folder: Path) -> None:
    """All rows of all tenants in one transaction: a restore that is killed leaves none."""
    _refuse_used(store)
    with writing(store.engine, None) as connection:
        for row in _rows(folder / "meta.jsonl"):
            connection.execute(update(meta).where(meta.c.key == row["key"]).values(value=row["value"]))
        for path in sorted((folder / "tenants").iterdir()) if (folder / "tenants").is_dir() else []:
            connection.execute(insert(tenants), {"tenant": check_tenant(path.name), "created_at": now()})
            set_tenant(connection, path.name)
            for table in TENANT_TABLES:
                for page in _pages(path / f"{table.name}.jsonl", table):
                    connection.execute(insert(table), page)


def _copy_blobs(store: Store, folder: Path) -> dict[str, int]:
    """Blobs after rows: what a row of the copy names is there, unless it was erased meanwhile (the journal says so)."""
    copy, counts = LocalBlobs(folder / "blobs", store.cipher), {}
    for tenant in store.tenants():
        with reading(store.engine, tenant) as connection:
            query = select(links.c.key).where(links.c.tenant == tenant, links.c.kind == BLOB).distinct()
            wanted = connection.execute(query).scalars().all()
        counts[tenant] = 0
        for sha256 in wanted:
            try:
                copy.put(tenant, store.blobs.get(tenant, sha256))
                counts[tenant] += 1
            except BlobMissingError:
                with reading(store.engine, tenant) as connection:
                    if connection.execute(query.where(links.c.key == sha256)).first() is not None:
                        raise
    for sha256 in store.blobs.list(JOURNAL):
        copy.put(JOURNAL, store.blobs.get(JOURNAL, sha256))
    return counts


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _head(store: Store, tenant: str) -> str | None:
    with reading(store.engine, tenant) as connection:
        query = select(audit.c.hash).where(audit.c.tenant == tenant).order_by(audit.c.position.desc()).limit(1)
        return connection.execute(query).scalar()


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n" for row in rows).encode()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="ascii") as file:
        for line in file:
            yield json.loads(line)


def _pages(path: Path, table: Table) -> Iterator[list[dict[str, Any]]]:
    page: list[dict[str, Any]] = []
    for row in _rows(path):
        page.append({column.name: row.get(column.name) for column in table.columns})
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
