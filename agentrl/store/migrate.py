"""Brings a database to this release's schema, inside one transaction, whoever else opens it at the same time."""

from __future__ import annotations

import secrets
import uuid
from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, MetaData, select, text

from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.engine import set_tenant
from certloop.agentrl.store.errors import StoreSchemaError
from certloop.agentrl.store.log import add_audit
from certloop.agentrl.store.schema import audit, meta, metadata, tenants

VERSION_TABLE = "store_version"
UNMARKED = "0001"
"""The last revision whose audit rows bore no mark."""
_LOCK = 0x63657274  # any number, the same for every opener


def upgrade(connection: Connection, cipher: Cipher) -> str:
    """Run the missing revisions on a connection inside a write transaction; returns the version that the store now has.
    The cipher's ``key_id`` is noted in a new store.

    Raises StoreSchemaError when a newer release has written the store.
    """
    before, head = run_revisions(connection, Path(__file__).parent / "migrations", VERSION_TABLE, metadata)
    if before is None:
        rows = [{"key": "store_id", "value": uuid.uuid4().hex}, {"key": "subject_salt", "value": secrets.token_hex(32)}]
        rows.append({"key": "key_id", "value": cipher.key_id})
        connection.execute(meta.insert(), rows)
    elif before == UNMARKED and cipher.key_id == _key_id(connection) != "":
        _begin_marks(connection, cipher)
    return head


def _key_id(connection: Connection) -> str:
    return str(connection.execute(select(meta.c.value).where(meta.c.key == "key_id")).scalar_one())


def _begin_marks(connection: Connection, cipher: Cipher) -> None:
    """One marked row a tenant: it covers the unmarked rows before it, and every row after it must be marked."""
    connection.execution_options(store_cipher=cipher)
    for tenant in connection.execute(select(tenants.c.tenant)).scalars().all():
        set_tenant(connection, tenant)
        if connection.execute(select(audit.c.position).where(audit.c.tenant == tenant).limit(1)).first() is not None:
            add_audit(connection, tenant, "certloop", "audit.marked", {})
    set_tenant(connection, None)


def run_revisions(connection: Connection, folder: Path, version_table: str, tables: MetaData) -> tuple[str | None, str]:
    """Bring the tables of one room to the head of the revisions in ``folder``; returns the version before and after.

    Rooms share a database and each keeps its own ``version_table``. Raises StoreSchemaError when a newer release was here.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    head = scripts.get_current_head()
    assert head is not None, "the package ships revisions"
    current = MigrationContext.configure(connection, opts={"version_table": version_table}).get_current_revision()
    if current == head:
        return current, head
    with EnvironmentContext(config, scripts, fn=lambda rev, _: scripts._upgrade_revs("head", rev)) as environment:
        environment.configure(connection=connection, target_metadata=tables, version_table=version_table)
        try:
            environment.run_migrations()
        except CommandError:
            raise StoreSchemaError("a newer release of certloop has written this store; upgrade certloop") from None
    return current, head
