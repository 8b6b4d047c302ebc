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
from sqlalchemy import Connection, MetaData, text

from certloop.agentrl.store.errors import StoreSchemaError
from certloop.agentrl.store.schema import meta, metadata

VERSION_TABLE = "store_version"
_LOCK = 0x63657274  # any number, the same for every opener


def upgrade(connection: Connection, key_id: str = "") -> str:
    """Run the missing revisions on a connection inside a write transaction; returns the version that the store now has.
    ``key_id`` is noted in a new store.

    Raises StoreSchemaError when a newer release has written the store.
    """
    before, head = run_revisions(connection, Path(__file__).parent / "migrations", VERSION_TABLE, metadata)
    if before is None:
        rows = [{"key": "store_id", "value": uuid.uuid4().hex}, {"key": "subject_salt", "value": secrets.token_hex(32)}]
        rows.append({"key": "key_id", "value": key_id})
        connection.execute(meta.insert(), rows)
    return head


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
