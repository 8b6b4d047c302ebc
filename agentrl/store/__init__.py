"""The store: events that are only ever added, blobs by hash, tenants behind handles, audit rows in a chain.

    store.py      Store.open, for_tenant          record.py     record_result, add_signals, set_consent
    tenant.py     TenantStore: one tenant's door  batch.py      what one transaction writes
    reader.py     streams and filters             snapshots.py  Parquet training sets, DuckDB
    erase.py      erasure, retention              verify.py     is everything as it was written?
    backup.py     backup and restore              redact.py     what leaves to judges, memory and logs
    share.py      pseudonymised copies            exporters/    rows for TRL, ms-swift, tinker
    judging.py    a judge's word on each trajectory
    cipher.py, blobs.py, schema.py, migrations/, migrate.py, engine.py, events.py, log.py: what these stand on

Heavy libraries (pyarrow, duckdb, fsspec, psycopg) load when a function needs them.
"""

from certloop.agentrl.store.backup import BackupKind, Restored, backup, restore
from certloop.agentrl.store.batch import Batch
from certloop.agentrl.store.blobs import BlobStore, FsspecBlobs, LocalBlobs, open_blobs
from certloop.agentrl.store.cipher import AesGcm, Cipher, Plain, read_key
from certloop.agentrl.store.erase import (
    Erasure,
    apply_retention,
    erase,
    expired_documents,
    find_documents,
    finish_erasures,
    remove_orphans,
    replay_journal,
    unfinished,
)
from certloop.agentrl.store.errors import (
    BackupError,
    BlobCorruptError,
    BlobMissingError,
    ConsentError,
    DuplicateEventError,
    ErasedError,
    EventError,
    ExportError,
    NotFoundError,
    SnapshotErasedError,
    SnapshotError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreRoleError,
    StoreSchemaError,
    StoreUnavailableError,
    StoreUrlError,
    TenantError,
)
from certloop.agentrl.store.events import Event, Kind
from certloop.agentrl.store.judging import Judgement, judge_trajectories
from certloop.agentrl.store.log import AuditRow
from certloop.agentrl.store.reader import ConsentState, Filters, StoredDocument, StoredTrajectory
from certloop.agentrl.store.record import add_signals, record_result, set_consent
from certloop.agentrl.store.redact import (
    Pattern,
    PatternRedactor,
    Pseudonymiser,
    Redactor,
    own_redactor,
    redact_json,
    redact_signal,
    redact_trajectory,
)
from certloop.agentrl.store.share import share_trajectory
from certloop.agentrl.store.snapshots import Snapshot, SnapshotRow, create_snapshot, load_snapshot
from certloop.agentrl.store.store import Store
from certloop.agentrl.store.tenant import TenantStore
from certloop.agentrl.store.verify import Finding, Report, verify

__all__ = [
    "AesGcm", "AuditRow", "BackupError", "BackupKind", "Batch", "BlobCorruptError", "BlobMissingError", "BlobStore", "Cipher",
    "ConsentError", "ConsentState", "DuplicateEventError", "ErasedError", "Erasure", "Event", "EventError", "ExportError",
    "Filters", "Finding", "FsspecBlobs", "Judgement", "Kind", "LocalBlobs", "NotFoundError", "Pattern", "PatternRedactor",
    "Plain", "Pseudonymiser", "Redactor", "Report", "Restored", "Snapshot", "SnapshotErasedError", "SnapshotError",
    "SnapshotRow", "Store", "StoreBusyError", "StoreDamagedError", "StoreError", "StoreKeyError", "StoreRoleError",
    "StoreSchemaError", "StoreUnavailableError", "StoreUrlError", "StoredDocument", "StoredTrajectory", "TenantError",
    "TenantStore", "add_signals", "apply_retention", "backup", "create_snapshot", "erase", "expired_documents",
    "find_documents", "finish_erasures", "judge_trajectories", "load_snapshot", "open_blobs", "own_redactor", "read_key",
    "record_result", "redact_json", "redact_signal", "redact_trajectory", "remove_orphans", "replay_journal", "restore",
    "set_consent", "share_trajectory", "unfinished", "verify",
]  # fmt: skip
