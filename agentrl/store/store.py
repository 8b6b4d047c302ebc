"""Opening a store, and handing out its tenants."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, select, text

from certloop.agentrl.store.blobs import BlobStore, check_tenant, open_blobs
from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.engine import BUSY_TIMEOUT_S, PLAIN, cipher_of, make_engine, parse_url, reading, sealed_with, writing
from certloop.agentrl.store.erase import JOURNAL
from certloop.agentrl.store.errors import StoreKeyError, StoreUnavailableError, StoreUrlError, TenantError
from certloop.agentrl.store.events import now
from certloop.agentrl.store.migrate import upgrade
from certloop.agentrl.store.schema import meta, tenants
from certloop.agentrl.store.tenant import TenantStore


def beside(sqlite_file: Path) -> Path:
    """A folder of its own for each database file: two that shared one would sweep each other's images."""
    return sqlite_file.parent / ("blobs" if sqlite_file.name == "store.db" else f"{sqlite_file.name}.blobs")


class Store:
    """Events in SQLite or Postgres and blobs beside them. Open one a process, after a fork if there is one; close it at the end.

        with Store.open("sqlite:///data/store.db") as store:
            acme = store.for_tenant("acme")
            with acme.batch(actor="extract") as batch:
                traj_id = batch.add_trajectory(trajectory)

    There is no way to a row but through a tenant's handle.
    """

    def __init__(self, engine: Engine, blobs: BlobStore, subject_salt: str, store_id: str, version: str) -> None:
        self.engine = engine
        self.blobs = blobs
        self.store_id = store_id
        self.version = version
        self._salt = subject_salt

    @classmethod
    def open(
        cls,
        url: str,
        blob_url: str = "",
        *,
        cipher: Cipher | None = None,
        create: bool = True,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> Self:
        """Open a store and bring it to this release's schema. Without ``blob_url``, SQLite keeps blobs beside it:
        ``blobs/`` for store.db, ``NAME.blobs/`` for a file of another name.

        ``cipher`` seals payloads and blobs; a store is sealed from its first day on or never. ``create=False`` refuses an SQLite
        file that is not there. Raises StoreKeyError, StoreUrlError, StoreUnavailableError, StoreBusyError, StoreRoleError,
        StoreSchemaError.
        """
        parsed = parse_url(url)
        sqlite_file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None
        if sqlite_file is not None and not create and not os.path.exists(sqlite_file):  # noqa: PTH110 - Path's raises where it may not look
            raise StoreUnavailableError("there is no store at this address yet; `certloop extract --store URL` makes one")
        if not blob_url:
            if sqlite_file is None:
                raise StoreUrlError("a Postgres store needs a place for its blobs; set CERTLOOP_BLOB_URL")
            blob_url = str(beside(sqlite_file))
        engine = make_engine(parsed, busy_timeout_s)
        try:
            cipher = cipher or PLAIN
            blobs = open_blobs(blob_url, cipher)
            with writing(engine, None) as connection:
                version = upgrade(connection, cipher)
                known = {row.key: row.value for row in connection.execute(select(meta))}
                check_key(known["key_id"], cipher)  # in here: who has another key changes nothing
            blobs.sweep()
        except BaseException:
            engine.dispose()
            raise
        return cls(sealed_with(engine, cipher), blobs, known["subject_salt"], known["store_id"], version)

    def for_tenant(self, tenant: str) -> TenantStore:
        """The handle of one tenant; a new name makes a new, empty tenant. Raises TenantError for a name not well formed."""
        if check_tenant(tenant) == JOURNAL:
            raise TenantError(f"{JOURNAL} is the name of the store's own journal of erasures; take another")
        if tenant not in self.tenants():
            insert = text("INSERT INTO store_tenants (tenant, created_at) VALUES (:t, :at) ON CONFLICT DO NOTHING")
            with writing(self.engine, None) as connection:
                connection.execute(insert, {"t": tenant, "at": now()})
        return TenantStore(self.engine, self.blobs, tenant, self._salt)

    def tenants(self) -> tuple[str, ...]:
        with reading(self.engine, None) as connection:
            return tuple(connection.execute(select(tenants.c.tenant).order_by(tenants.c.tenant)).scalars())

    @property
    def cipher(self) -> Cipher:
        with self.engine.connect() as connection:
            return cipher_of(connection)

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_key(key_id: str, cipher: Cipher) -> None:
    """Raises StoreKeyError unless the cipher is the one that a store (or its backup) was sealed with."""
    if key_id == cipher.key_id:
        return
    if not key_id:
        raise StoreKeyError("this store is not sealed, but a key was given; unset CERTLOOP_STORE_KEY_FILE")
    if not cipher.key_id:
        raise StoreKeyError("this store is sealed; set CERTLOOP_STORE_KEY_FILE to the file of its key")
    raise StoreKeyError("this store is sealed with another key; set CERTLOOP_STORE_KEY_FILE to the file of its key")
