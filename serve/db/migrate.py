"""Brings the service's tables to this release, inside one transaction, whoever else opens the database at the same time."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from certloop.serve.db.access import writing
from certloop.serve.db.schema import TENANT_TABLES, metadata

_LOCK = 0x73657276  # any number, the same for every opener


def upgrade(engine: Engine) -> None:
    with writing(engine, None) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        metadata.create_all(connection)
        if connection.dialect.name == "postgresql":
            _row_level_security(connection)


def _row_level_security(connection: Connection) -> None:
    known = set(connection.execute(text("SELECT policyname FROM pg_policies")).scalars())
    for table in TENANT_TABLES:
        if f"{table.name}_tenant" in known:
            continue
        connection.execute(text(f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY"))
        connection.execute(text(f"ALTER TABLE {table.name} FORCE ROW LEVEL SECURITY"))
        mine = "tenant = current_setting('certloop.tenant', true)"
        connection.execute(text(f"CREATE POLICY {table.name}_tenant ON {table.name} USING ({mine}) WITH CHECK ({mine})"))
