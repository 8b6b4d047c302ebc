"""The tables. Events and audit rows are only ever added: triggers enforce it (an erasure may empty a payload)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text

metadata = MetaData()

meta = Table(
    "store_meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""One row each for the id of the store and the salt of its subject keys."""

tenants = Table(
    "store_tenants",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("created_at", Text, nullable=False),
)

events = Table(
    "store_events",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("document_id", Text),
    Column("traj_id", Text),
    Column("doc_type", Text),
    Column("created_at", Text, nullable=False),
    Column("payload", Text),
    Column("salt", Text),
    Column("payload_sha256", Text, nullable=False),
    Column("row_sha256", Text, nullable=False),
    Column("erasure_id", Text),
    Index("store_events_id", "tenant", "event_id", unique=True),
    Index("store_events_kind", "tenant", "kind", "position"),
    Index("store_events_traj", "tenant", "traj_id"),
    Index("store_events_document", "tenant", "document_id"),
)
"""``position`` counts a tenant's events without gaps. An erased row has no payload and no salt, and names its erasure."""

audit = Table(
    "store_audit",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("mac", Text),
)
"""``mac`` is a keyed mark of ``hash`` where the store is sealed."""

links = Table(
    "store_links",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("document_id", Text, primary_key=True),
    Index("store_links_document", "tenant", "document_id"),
)
"""Which documents a blob (``kind`` blob) or a subject (``kind`` subject, a keyed hash) belongs to. Gone after an erasure."""

erased = Table(
    "store_erased",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("document_id", Text, primary_key=True),
    Column("erasure_id", Text, nullable=False),
    Column("at", Text, nullable=False),
)
"""The tombstones: ids only."""

TENANT_TABLES = (events, audit, links, erased)
"""Every one of these is under row level security on Postgres."""
