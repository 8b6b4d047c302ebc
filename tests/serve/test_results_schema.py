"""The revisions make exactly the tables that the code speaks of, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from callers import ACME, admin_of
from postgres_place import postgres_server
from sqlalchemy import inspect, select, text

from certloop.agentrl.store import StoreSchemaError
from certloop.serve.config import ServeConfig
from certloop.serve.context import Service
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import TENANT_TABLES, deliveries, metadata
from certloop.serve.people import tenants


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServeConfig]:
    if request.param == "sqlite":
        yield ServeConfig(f"sqlite:///{tmp_path}/store.db")
        return
    with postgres_server() as server:
        server.url()  # another service in the same database
        with Service.open(ServeConfig(server.url(), str(tmp_path / "other"))):
            yield ServeConfig(server.url(), str(tmp_path / "blobs"))


def test_the_revisions_make_the_tables_of_the_schema(config: ServeConfig) -> None:
    with Service.open(config) as service, service.engine.connect() as connection:

        def ours(_object: object, name: str | None, kind: str, _reflected: bool, _other: object) -> bool:
            return kind != "table" or str(name).startswith("serve_")

        context = MigrationContext.configure(connection, opts={"version_table": "serve_version", "include_object": ours})
        assert compare_metadata(context, metadata) == []
        names = set(inspect(connection).get_table_names())
        assert {table.name for table in metadata.sorted_tables} | {"serve_version"} == {
            n for n in names if n.startswith("serve_")
        }


def test_tables_of_the_first_revision_are_brought_up_and_keep_their_rows(config: ServeConfig) -> None:
    with Service.open(config) as service:
        tenants.create(service, admin_of(ACME), ACME)
        with writing(service, ACME) as connection:
            connection.execute(
                text(
                    "INSERT INTO serve_deliveries (tenant, delivery_id, webhook_id, event, payload, state, attempts, next_at, "
                    "created_at) VALUES (:tenant, 'dlv_1', 'whk_1', 'document.done', '{}', 'failed', 12, '', '')"
                ),
                {"tenant": ACME},
            )
        with writing(service, None) as connection:
            connection.execute(text("ALTER TABLE serve_deliveries DROP COLUMN last_error"))
            connection.execute(text("UPDATE serve_version SET version_num = '0001'"))
    with Service.open(config) as service, reading(service, ACME) as connection:
        row = connection.execute(select(deliveries)).one()
    assert (row.delivery_id, row.attempts, row.last_error) == ("dlv_1", 12, None)


def test_every_table_of_tenants_is_under_row_level_security(config: ServeConfig) -> None:
    with Service.open(config) as service, service.engine.connect() as connection:
        if connection.dialect.name != "postgresql":
            assert all("tenant" in table.c for table in TENANT_TABLES)
            return
        query = (
            "SELECT relname FROM pg_class "
            "WHERE relrowsecurity AND relforcerowsecurity AND relnamespace = current_schema()::regnamespace"
        )
        found = set(connection.execute(text(query)).scalars())
        assert {table.name for table in TENANT_TABLES} <= found


def test_tables_of_a_newer_release_are_left_alone(config: ServeConfig) -> None:
    with Service.open(config) as service, writing(service, None) as connection:
        connection.execute(text("UPDATE serve_version SET version_num = '9999'"))
    with pytest.raises(StoreSchemaError):
        Service.open(config)
