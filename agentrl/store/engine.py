"""Connections and transactions: how SQLite and Postgres are opened so that writers queue and tenants stay apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, IntegrityError, NoSuchModuleError

from certloop.agentrl.store.blobs import check_tenant
from certloop.agentrl.store.cipher import Cipher, Plain
from certloop.agentrl.store.errors import (
    DuplicateEventError,
    EventError,
    NotFoundError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreRoleError,
    StoreUnavailableError,
    StoreUrlError,
)

BUSY_TIMEOUT_S = 60.0
WRITER_IDLE = "30s"
"""A process that goes to sleep in the middle of a write loses its transaction, not its tenant's other writers their patience."""
_WRITE_LOCK = text(
    "SELECT set_config('idle_in_transaction_session_timeout', :idle, true), pg_advisory_xact_lock(hashtextextended(:t, 0))"
)
PLAIN = Plain()


def parse_url(url: str) -> URL:
    """A ``sqlite:///path`` or ``postgresql://...`` address. ``~`` in a path is the home folder. Raises StoreUrlError."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreUrlError("a store's address looks like sqlite:///folder/store.db or postgresql://user@host/database") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise StoreUrlError("an SQLite store needs a file: sqlite:///folder/store.db")
        if parsed.query:
            raise StoreUrlError(
                "an SQLite store's address is a file and nothing else: sqlite:///folder/store.db, without ?options"
            )
        return parsed.set(database=str(Path(str(parsed.database)).expanduser()))
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreUrlError("a store is SQLite (sqlite:///...) or Postgres (postgresql://...)")


def make_engine(url: URL, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """An engine that hides parameters from every message. Raises StoreUrlError, StoreUnavailableError, StoreRoleError."""
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url, busy_timeout_s)
        return _postgres(url)
    except ImportError as error:
        raise StoreUnavailableError(f"this database needs a package: {error.name}; install certloop[scale]") from None
    except NoSuchModuleError:
        raise StoreUrlError("a store is SQLite (sqlite:///...) or Postgres (postgresql://...)") from None


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    path = Path(str(url.database))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        raise StoreUnavailableError(f"the folder of the database cannot be used: {error.strerror}") from None
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": busy_timeout_s})

    @event.listens_for(engine, "connect")
    def connected(raw: Any, _record: Any) -> None:
        raw.isolation_level = None  # we say BEGIN ourselves
        _switch_to_wal(raw, busy_timeout_s)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON", "trusted_schema=OFF"):
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # busy_timeout does not cover a read transaction that becomes a write transaction: writers say so at once.
        writes = connection.get_execution_options().get("store_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _switch_to_wal(raw: Any, timeout_s: float) -> None:
    """Only the first connection to a new file changes anything; SQLite does not wait for locks there, so we do."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            return
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgres(url: URL) -> Engine:
    engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, isolation_level="READ COMMITTED")
    with guarded(), engine.connect() as connection:
        powerful = connection.execute(
            text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        ).scalar_one()
    if powerful:
        engine.dispose()
        raise StoreRoleError(
            "row level security does not bind this Postgres role (superuser or BYPASSRLS); connect as a role without these rights"
        )
    return engine


def sealed_with(engine: Engine, cipher: Cipher) -> Engine:
    """The engine whose connections know the store's cipher."""
    return engine.execution_options(store_cipher=cipher)


def cipher_of(connection: Connection) -> Cipher:
    cipher: Cipher = connection.get_execution_options().get("store_cipher", PLAIN)
    return cipher


@contextmanager
def reading(engine: Engine, tenant: str | None) -> Iterator[Connection]:
    """One consistent view of the database for one tenant (None: only the tables without tenants). Never blocks a writer."""
    options: dict[str, Any] = {}
    if engine.dialect.name == "postgresql":
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    no_text = NotFoundError("the store holds nothing by a name that is no text (half a character or a NUL in it)")
    with guarded(), _texts(no_text), engine.connect().execution_options(**options) as connection, connection.begin():
        set_tenant(connection, tenant)
        yield connection


@contextmanager
def writing(engine: Engine, tenant: str | None) -> Iterator[Connection]:
    """One transaction; when the block ends it is durable. Writers of one tenant queue (SQLite: writers of one file)."""
    no_text = EventError("a text that is no text (half a character or a NUL in it) cannot be stored")
    with (
        guarded(),
        _texts(no_text),
        engine.connect().execution_options(store_writes=True) as connection,
        connection.begin(),
    ):
        set_tenant(connection, tenant)
        if tenant is not None and connection.dialect.name == "postgresql":
            connection.execute(_WRITE_LOCK, {"t": f"certloop:{tenant}", "idle": WRITER_IDLE})
        yield connection


@contextmanager
def _texts(otherwise: StoreError) -> Iterator[None]:
    """No database stores half a character, and Postgres no NUL either: nothing is found by such a name."""
    try:
        yield
    except UnicodeEncodeError:
        raise otherwise from None
    except DBAPIError as error:
        if "NUL (0x00)" in str(error.orig):
            raise otherwise from None
        raise


def set_tenant(connection: Connection, tenant: str | None) -> None:
    """What the row level security policies compare with; for this transaction only."""
    if tenant is not None:
        check_tenant(tenant)
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT set_config('certloop.tenant', :t, true)"), {"t": tenant or ""})


@contextmanager
def guarded() -> Iterator[None]:
    """Turns the driver's errors into ours. Their texts may quote rows, so none is repeated."""
    try:
        yield
    except DBAPIError as error:
        raise _translated(error) from None


def _translated(error: DBAPIError) -> StoreError:
    words = str(error.orig)
    kind = type(error.orig).__name__
    if "database is locked" in words or "database is busy" in words:
        return StoreBusyError("another process held the database longer than the busy timeout; try again")
    if "is full" in words or "No space left" in words:
        return StoreUnavailableError("the disk of the database is full; make room and try again")
    if "unable to open" in words or "readonly database" in words:
        return StoreUnavailableError(
            "the database file, its -wal file or their folder may not be read or written; see who owns them"
        )
    if "append-only" in words:
        return StoreError("events and audit rows are append-only")
    if "malformed" in words or "not a database" in words or "disk image" in words:
        return StoreDamagedError("the database file is damaged or no database; restore a backup (`certloop store restore`)")
    if isinstance(error, IntegrityError):
        return DuplicateEventError("an event with this id is already stored")
    if isinstance(error, DatabaseError):
        return StoreUnavailableError(f"the database refused ({kind}); is it running, reachable and writable?")
    return StoreUnavailableError(f"the database failed ({kind})")
