"""What happened to the items of each tenant's memory: append-only, and under row level security on Postgres."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memory_events",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("item_id", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("memory_events_item", "memory_events", ["tenant", "item_id"])
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER memory_events_no_{verb.lower()} BEFORE {verb} ON memory_events "
                "BEGIN SELECT RAISE(ABORT, 'memory_events is append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION memory_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for verb, each in (("UPDATE", "ROW"), ("DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER memory_events_no_{verb.lower()} BEFORE {verb} ON memory_events FOR EACH {each} "
            "EXECUTE FUNCTION memory_append_only()"
        )
    op.execute("ALTER TABLE memory_events ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE memory_events FORCE ROW LEVEL SECURITY")
    op.execute(
        "CREATE POLICY memory_events_tenant ON memory_events USING (tenant = current_setting('certloop.tenant', true)) "
        "WITH CHECK (tenant = current_setting('certloop.tenant', true))"
    )


def downgrade() -> None:
    raise NotImplementedError("memory is never taken apart; restore a backup instead")
