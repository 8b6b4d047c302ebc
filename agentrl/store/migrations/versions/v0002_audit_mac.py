"""A keyed mark on each audit row of a sealed store: who may write to the database but has no key cannot write a chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("store_audit", sa.Column("mac", sa.Text))


def downgrade() -> None:
    raise NotImplementedError("a store of documents is never taken apart; restore a backup instead")
