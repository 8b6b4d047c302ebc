"""The tables of the service, with row level security on Postgres.

They are written out here, not taken from ``schema``: a revision must stay what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None

_UNDER_RLS = (
    "serve_users",
    "serve_batches",
    "serve_uploads",
    "serve_certificates",
    "serve_idempotency",
    "serve_reviews",
    "serve_history",
    "serve_reliability",
    "serve_calibrations",
    "serve_outcomes",
    "serve_webhooks",
    "serve_deliveries",
)


def upgrade() -> None:
    _people()
    _documents()
    _work()
    _review()
    _webhooks()
    if op.get_bind().dialect.name == "postgresql":
        _row_level_security()


def _people() -> None:
    op.create_table(
        "serve_tenants",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("disabled_at", sa.Text),
    )
    op.create_table(
        "serve_users",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("login", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("disabled_at", sa.Text),
    )
    op.create_index("serve_users_login", "serve_users", ["tenant", "login"], unique=True)
    op.create_table(
        "serve_keys",
        sa.Column("key_id", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False, unique=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text),
        sa.Column("revoked_at", sa.Text),
        sa.Column("rotated_to", sa.Text),
        sa.Column("last_used_at", sa.Text),
    )
    op.create_index("serve_keys_tenant", "serve_keys", ["tenant", "key_id"])
    op.create_table(
        "serve_sessions",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
    )


def _documents() -> None:
    op.create_table(
        "serve_batches",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("batch_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("dossier", sa.Boolean, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("cancelled_at", sa.Text),
        sa.Column("finished_at", sa.Text),
        sa.Column("checks", sa.Text),
    )
    op.create_index("serve_batches_time", "serve_batches", ["tenant", "created_at", "batch_id"])
    op.create_table(
        "serve_uploads",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("document_id", sa.Text, primary_key=True),
        sa.Column("batch_id", sa.Text),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("store_document_id", sa.Text, nullable=False),
        sa.Column("file_name", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("doc_type", sa.Text),
        sa.Column("expected", sa.Text),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("release", sa.Text),
        sa.Column("cpu_ms", sa.Float),
        sa.Column("accepted_at", sa.Text, nullable=False),
        sa.Column("accepted_by", sa.Text, nullable=False),
        sa.Column("started_at", sa.Text),
        sa.Column("finished_at", sa.Text),
        sa.Column("deleted_at", sa.Text),
    )
    op.create_index("serve_uploads_batch", "serve_uploads", ["tenant", "batch_id", "position"])
    op.create_index("serve_uploads_sha256", "serve_uploads", ["tenant", "sha256"])
    op.create_index("serve_uploads_status", "serve_uploads", ["tenant", "status", "accepted_at"])
    op.create_index("serve_uploads_time", "serve_uploads", ["tenant", "accepted_at", "document_id"])
    op.create_table(
        "serve_certificates",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("certificate_id", sa.Text, primary_key=True),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("trajectory_id", sa.Text),
        sa.Column("doc_type", sa.Text, nullable=False),
        sa.Column("layout", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("fields", sa.Text, nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
    )
    op.create_index("serve_certificates_document", "serve_certificates", ["tenant", "document_id", "position"])
    op.create_index("serve_certificates_state", "serve_certificates", ["tenant", "state", "created_at"])


def _work() -> None:
    op.create_table(
        "serve_idempotency",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body_sha256", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("response", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "serve_executors",
        sa.Column("executor_id", sa.Text, primary_key=True),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("lease_until", sa.Text, nullable=False),
        sa.Column("recovered_at", sa.Text),
    )


def _review() -> None:
    op.create_table(
        "serve_reviews",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("certificate_id", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("priority", sa.Float, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
        sa.Column("lease_until", sa.Text),
        sa.Column("decided_by", sa.Text),
        sa.Column("decided_at", sa.Text),
        sa.Column("double_check", sa.Boolean, nullable=False),
    )
    op.create_index("serve_reviews_open", "serve_reviews", ["tenant", "state", "priority", "created_at"])
    op.create_table(
        "serve_history",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("certificate_id", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("field", sa.Text),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_table(
        "serve_reliability",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("auditor", sa.Text, primary_key=True),
        sa.Column("certificate_id", sa.Text, primary_key=True),
        sa.Column("agreed", sa.Integer, nullable=False),
        sa.Column("checked", sa.Integer, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )
    op.create_table(
        "serve_calibrations",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("curves", sa.Text, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
    )
    op.create_table(
        "serve_outcomes",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("outcome_id", sa.Text, primary_key=True),
        sa.Column("trajectory_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("good", sa.Boolean, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )


def _webhooks() -> None:
    op.create_table(
        "serve_webhooks",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("webhook_id", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("disabled_at", sa.Text),
        sa.Column("disabled_reason", sa.Text),
    )
    op.create_table(
        "serve_deliveries",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("webhook_id", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Text, nullable=False),
        sa.Column("last_status", sa.Integer),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("delivered_at", sa.Text),
    )
    op.create_index("serve_deliveries_due", "serve_deliveries", ["state", "next_at"])


def _row_level_security() -> None:
    mine = "tenant = current_setting('certloop.tenant', true)"
    for table in _UNDER_RLS:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY {table}_tenant ON {table} USING ({mine}) WITH CHECK ({mine})")


def downgrade() -> None:
    raise NotImplementedError("a service's documents are never taken apart; restore a backup instead")
