"""What can go wrong in the store. Each class has its own stable code; messages hold ids and counts, never content.

StoreError                  store_error           base
├── StoreUrlError           store_url_invalid     a database or blob address that makes no sense
├── StoreUnavailableError   store_unavailable     no connection, no driver, no permission
│   └── StoreDamagedError   store_damaged         a database file that is damaged, or is none
├── StoreBusyError          store_busy            another writer held the database longer than the busy timeout
├── StoreRoleError          store_role            a Postgres role that row level security does not bind
├── StoreSchemaError        store_schema          written by a newer release
├── StoreKeyError           store_key             no key, another key, or a sealed payload that was changed
├── TenantError             tenant_invalid        a tenant name that is not well formed
├── NotFoundError           not_found             no such id in this tenant (a foreign id is answered alike)
├── ErasedError             erased                the subject was erased; nothing more can be stored or read about it
├── EventError              event_invalid         an event that cannot be stored
├── DuplicateEventError     event_duplicate       an id that is already stored
├── ConsentError            consent_missing       the document's consent does not cover this use
├── BlobMissingError        blob_missing          a blob that should be there is not
├── BlobCorruptError        blob_corrupt          a blob whose bytes no longer have its hash
├── SnapshotError           snapshot_invalid      a snapshot without manifest, with changed files, or not of this tenant
├── SnapshotErasedError     snapshot_erased       a snapshot over erased subjects
├── BackupError             backup_invalid        a backup that is incomplete, changed, or has nowhere to go
└── ExportError             export_invalid        a trajectory that cannot become a row of the wanted kind
"""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class StoreError(CertloopError):
    """Base of the store's errors."""

    code = "store_error"


class StoreUrlError(StoreError, ValueError):
    code = "store_url_invalid"


class StoreUnavailableError(StoreError, OSError):
    code = "store_unavailable"


class StoreDamagedError(StoreUnavailableError):
    code = "store_damaged"


class StoreBusyError(StoreError, TimeoutError):
    code = "store_busy"


class StoreRoleError(StoreError, PermissionError):
    code = "store_role"


class StoreSchemaError(StoreError, RuntimeError):
    code = "store_schema"


class StoreKeyError(StoreError, ValueError):
    code = "store_key"


class TenantError(StoreError, ValueError):
    code = "tenant_invalid"


class NotFoundError(StoreError, LookupError):
    code = "not_found"


class ErasedError(StoreError, LookupError):
    code = "erased"


class EventError(StoreError, ValueError):
    code = "event_invalid"


class DuplicateEventError(StoreError, ValueError):
    code = "event_duplicate"


class ConsentError(StoreError, PermissionError):
    code = "consent_missing"


class BlobMissingError(StoreError, LookupError):
    code = "blob_missing"


class BlobCorruptError(StoreError, ValueError):
    code = "blob_corrupt"


class SnapshotError(StoreError, ValueError):
    code = "snapshot_invalid"


class SnapshotErasedError(StoreError, PermissionError):
    code = "snapshot_erased"


class BackupError(StoreError, ValueError):
    code = "backup_invalid"


class ExportError(StoreError, ValueError):
    code = "export_invalid"
