"""Events, audit, links and tombstones, with their triggers and (Postgres) row level security.

The tables are written out here, not taken from ``schema``: a revision must stay what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None

_UNDER_RLS = ("store_events", "store_audit", "store_links", "store_erased")
_KEPT = (
    "tenant", "position", "event_id", "kind", "document_id", "traj_id", "doc_type", "created_at", "payload_sha256", "row_sha256",
)  # fmt: skip


def upgrade() -> None:
    _tables()
    _event_tables()
    if op.get_bind().dialect.name == "sqlite":
        _sqlite_guards()
    else:
        _postgres_guards()


def _tables() -> None:
    op.create_table("store_meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    op.create_table(
        "store_tenants", sa.Column("tenant", sa.Text, primary_key=True), sa.Column("created_at", sa.Text, nullable=False)
    )
    op.create_table(
        "store_links",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("document_id", sa.Text, primary_key=True),
    )
    op.create_index("store_links_document", "store_links", ["tenant", "document_id"])
    op.create_table(
        "store_erased",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("document_id", sa.Text, primary_key=True),
        sa.Column("erasure_id", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )


def _event_tables() -> None:
    op.create_table(
        "store_events",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("document_id", sa.Text),
        sa.Column("traj_id", sa.Text),
        sa.Column("doc_type", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("payload", sa.Text),
        sa.Column("salt", sa.Text),
        sa.Column("payload_sha256", sa.Text, nullable=False),
        sa.Column("row_sha256", sa.Text, nullable=False),
        sa.Column("erasure_id", sa.Text),
    )
    op.create_index("store_events_id", "store_events", ["tenant", "event_id"], unique=True)
    op.create_index("store_events_kind", "store_events", ["tenant", "kind", "position"])
    op.create_index("store_events_traj", "store_events", ["tenant", "traj_id"])
    op.create_index("store_events_document", "store_events", ["tenant", "document_id"])
    op.create_table(
        "store_audit",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("prev_hash", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )


def _sqlite_guards() -> None:
    kept = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in _KEPT)
    allowed = f"OLD.erasure_id IS NULL AND NEW.erasure_id IS NOT NULL AND NEW.payload IS NULL AND NEW.salt IS NULL AND {kept}"
    guards = [
        ("store_events", "UPDATE", f"WHEN NOT ({allowed})"),
        ("store_events", "DELETE", ""),
        ("store_audit", "UPDATE", ""),
        ("store_audit", "DELETE", ""),
        ("store_erased", "UPDATE", ""),
        ("store_erased", "DELETE", ""),
    ]
    for table, verb, condition in guards:
        op.execute(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {condition} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )


def _postgres_guards() -> None:
    kept = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in _KEPT)
    allowed = f"OLD.erasure_id IS NULL AND NEW.erasure_id IS NOT NULL AND NEW.payload IS NULL AND NEW.salt IS NULL AND {kept}"
    op.execute(
        "CREATE FUNCTION store_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in ("store_events", "store_audit", "store_erased"):
        condition = f"WHEN (NOT ({allowed}))" if table == "store_events" else ""
        op.execute(
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} FOR EACH ROW {condition} "
            "EXECUTE FUNCTION store_append_only()"
        )
        op.execute(f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION store_append_only()")
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
            "EXECUTE FUNCTION store_append_only()"
        )
    for table in _UNDER_RLS:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY {table}_tenant ON {table} USING (tenant = current_setting('certloop.tenant', true)) "
            "WITH CHECK (tenant = current_setting('certloop.tenant', true))"
        )


def downgrade() -> None:
    raise NotImplementedError("a store of documents is never taken apart; restore a backup instead")
