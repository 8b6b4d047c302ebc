"""Brings the service's tables to this release, inside one transaction, whoever else opens the database at the same time."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from certloop.agentrl.store.migrate import run_revisions
from certloop.serve.db.access import writing
from certloop.serve.db.schema import metadata

VERSION_TABLE = "serve_version"


def upgrade(engine: Engine) -> str:
    """Run the missing revisions; returns the version that the tables now have.

    Raises StoreSchemaError when a newer release has been here.
    """
    with writing(engine, None) as connection:
        return run_revisions(connection, Path(__file__).parent / "migrations", VERSION_TABLE, metadata)[1]
