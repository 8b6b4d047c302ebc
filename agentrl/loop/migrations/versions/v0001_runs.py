"""Runs of the loop, and one row for each step that was finished."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "loop_runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("active", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.Text),
        sa.Column("not_before", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_index("loop_runs_active", "loop_runs", ["active"], unique=True)
    op.create_table(
        "loop_steps",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("the history of runs is never taken apart; restore a backup instead")
