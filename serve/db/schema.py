"""The tables of the service. Trajectories, signals, consent and audit rows are the store's (``certloop.agentrl.store``).

Every table of ``TENANT_TABLES`` has the tenant first in its key and is under row level security on Postgres. Times are UTC,
ISO 8601 with microseconds, so that text order is time order. JSON columns named in ``SEALED`` hold personal data: they are sealed
with the store's cipher (when there is one) and never logged.

An *upload* is one file that somebody handed in (``documents`` in the API); one upload holds one or more *certificates*.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text

metadata = MetaData()


def _tenant() -> Column[str]:
    return Column("tenant", Text, primary_key=True)


# --- people ---------------------------------------------------------------------------------------------------------------------

tenants = Table(
    "serve_tenants",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("settings", Text, nullable=False),  # JSON: consent, purpose, queue_limit, rate_per_s, review thresholds, sampling
    Column("created_at", Text, nullable=False),
    Column("disabled_at", Text),
)

users = Table(
    "serve_users",
    metadata,
    _tenant(),
    Column("user_id", Text, primary_key=True),
    Column("login", Text, nullable=False),
    Column("role", Text, nullable=False),  # operator | auditor | engineer | admin
    Column("password", Text),  # scrypt, for the desk; None: keys only
    Column("created_at", Text, nullable=False),
    Column("disabled_at", Text),
    Index("serve_users_login", "tenant", "login", unique=True),
)

keys = Table(
    "serve_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("sha256", Text, nullable=False, unique=True),  # of the whole secret; keys carry 256 random bits
    Column("tenant", Text, nullable=False),
    Column("user_id", Text),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # JSON list; [] means all that the role may
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    Column("rotated_to", Text),
    Column("last_used_at", Text),
    Index("serve_keys_tenant", "tenant", "key_id"),
)
"""Looked up by hash before the tenant is known, therefore not under row level security."""

sessions = Table(
    "serve_sessions",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
)

# --- what was handed in and what was read --------------------------------------------------------------------------------------

batches = Table(
    "serve_batches",
    metadata,
    _tenant(),
    Column("batch_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("dossier", Boolean, nullable=False),  # the files of one supplier: check them against each other
    Column("total", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("cancelled_at", Text),
    Column("finished_at", Text),
    Column("checks", Text),  # JSON: verdicts of the dossier, once every file is done (sealed)
    Index("serve_batches_time", "tenant", "created_at", "batch_id"),
)

uploads = Table(
    "serve_uploads",
    metadata,
    _tenant(),
    Column("document_id", Text, primary_key=True),
    Column("batch_id", Text),
    Column("position", Integer, nullable=False),  # place in its batch, from 0
    Column("store_document_id", Text, nullable=False),  # the store's document: consent, images, erasure
    Column("file_name", Text, nullable=False),  # sealed
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("doc_type", Text),  # asked for by the caller; None: classify
    Column("expected", Text),  # JSON {field: declared value}: audit mode (sealed)
    Column("priority", Integer, nullable=False),
    Column("status", Text, nullable=False),  # queued | running | done | failed | cancelled | dead
    Column("attempts", Integer, nullable=False),
    Column("error", Text),  # JSON {code, message}
    Column("result", Text),  # JSON of extract.Result, as read (sealed); written once
    Column("release", Text),
    Column("cpu_ms", Float),
    Column("accepted_at", Text, nullable=False),
    Column("accepted_by", Text, nullable=False),
    Column("started_at", Text),
    Column("finished_at", Text),
    Column("deleted_at", Text),
    Index("serve_uploads_batch", "tenant", "batch_id", "position"),
    Index("serve_uploads_status", "tenant", "status", "accepted_at"),
    Index("serve_uploads_time", "tenant", "accepted_at", "document_id"),
    Index("serve_uploads_sha256", "tenant", "sha256"),
)

certificates = Table(
    "serve_certificates",
    metadata,
    _tenant(),
    Column("certificate_id", Text, primary_key=True),  # "<document_id>.<index>"
    Column("document_id", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("trajectory_id", Text),
    Column("doc_type", Text, nullable=False),
    Column("layout", Text),  # the layout signature that fresh guidance is keyed by
    Column("state", Text, nullable=False),  # passed | review | approved | rejected
    Column("revision", Integer, nullable=False),  # the ETag: grows with every change
    Column("fields", Text, nullable=False),  # JSON of the fields as they stand now, edits included (sealed)
    Column("reasons", Text, nullable=False),  # JSON list of why it went to review
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Index("serve_certificates_document", "tenant", "document_id", "position"),
    Index("serve_certificates_state", "tenant", "state", "created_at"),
)

idempotency = Table(
    "serve_idempotency",
    metadata,
    _tenant(),
    Column("key", Text, primary_key=True),
    Column("body_sha256", Text, nullable=False),  # of method, path and body
    Column("status", Integer, nullable=False),
    Column("response", Text, nullable=False),  # JSON {headers, body} (sealed)
    Column("created_at", Text, nullable=False),
)

executors = Table(
    "serve_executors",
    metadata,
    Column("executor_id", Text, primary_key=True),
    Column("started_at", Text, nullable=False),
    Column("lease_until", Text, nullable=False),
    Column("recovered_at", Text),
)

# --- review ---------------------------------------------------------------------------------------------------------------------

reviews = Table(
    "serve_reviews",
    metadata,
    _tenant(),
    Column("certificate_id", Text, primary_key=True),
    Column("state", Text, nullable=False),  # open | approved | rejected | withdrawn
    Column("priority", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("claimed_by", Text),
    Column("lease_until", Text),
    Column("decided_by", Text),
    Column("decided_at", Text),
    Column("double_check", Boolean, nullable=False),  # decided before by somebody else: measures reliability, changes nothing
    Index("serve_reviews_open", "tenant", "state", "priority", "created_at"),
)

history = Table(
    "serve_history",
    metadata,
    _tenant(),
    Column("certificate_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),  # opened | claimed | released | edited | approved | rejected | undone | commented
    Column("field", Text),
    Column("details", Text, nullable=False),  # JSON: old, new, reason, comment, signal ids (sealed)
)

reliability = Table(
    "serve_reliability",
    metadata,
    _tenant(),
    Column("auditor", Text, primary_key=True),
    Column("certificate_id", Text, primary_key=True),
    Column("agreed", Integer, nullable=False),  # fields on which both answers agree
    Column("checked", Integer, nullable=False),
    Column("at", Text, nullable=False),
)

calibrations = Table(
    "serve_calibrations",
    metadata,
    _tenant(),
    Column("version", Text, primary_key=True),
    Column("curves", Text, nullable=False),  # JSON {kind: [[confidence, probability], ...]}
    Column("n", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("active", Boolean, nullable=False),
)

outcomes = Table(
    "serve_outcomes",
    metadata,
    _tenant(),
    Column("outcome_id", Text, primary_key=True),
    Column("trajectory_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("good", Boolean, nullable=False),
    Column("at", Text, nullable=False),
)

# --- webhooks -------------------------------------------------------------------------------------------------------------------

webhooks = Table(
    "serve_webhooks",
    metadata,
    _tenant(),
    Column("webhook_id", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # sealed
    Column("events", Text, nullable=False),  # JSON list
    Column("created_at", Text, nullable=False),
    Column("disabled_at", Text),
    Column("disabled_reason", Text),
)

deliveries = Table(
    "serve_deliveries",
    metadata,
    _tenant(),
    Column("delivery_id", Text, primary_key=True),  # the webhook-id header: the same on every attempt
    Column("webhook_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: ids and states, no values
    Column("state", Text, nullable=False),  # pending | delivered | failed
    Column("attempts", Integer, nullable=False),
    Column("next_at", Text, nullable=False),
    Column("last_status", Integer),
    Column("last_error", Text),  # why no answer came: a code of webhooks.deliveries.Failure
    Column("created_at", Text, nullable=False),
    Column("delivered_at", Text),
    Index("serve_deliveries_due", "state", "next_at"),
)

TENANT_TABLES = (
    users, batches, uploads, certificates, idempotency,
    reviews, history, reliability, calibrations, outcomes, webhooks, deliveries,
)  # fmt: skip
SEALED = {
    "serve_batches": ("checks",),
    "serve_uploads": ("file_name", "expected", "result"),
    "serve_certificates": ("fields",),
    "serve_idempotency": ("response",),
    "serve_history": ("details",),
    "serve_webhooks": ("secret",),
}
