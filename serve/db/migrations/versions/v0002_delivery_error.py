"""Why the last attempt of a delivery brought no answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("serve_deliveries", sa.Column("last_error", sa.Text))


def downgrade() -> None:
    raise NotImplementedError("a store of documents is never taken apart; restore a backup instead")
