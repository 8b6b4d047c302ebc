"""The only door to a tenant's rows and blobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, select

from certloop.agentrl.store import reader
from certloop.agentrl.store.batch import BLOB, Batch
from certloop.agentrl.store.blobs import BlobStore, check_tenant
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.errors import EventError, NotFoundError
from certloop.agentrl.store.events import Event, Kind
from certloop.agentrl.store.log import AuditRow, add_audit, audit_from_row
from certloop.agentrl.store.reader import EVERYTHING, Filters, RewardOf, StoredDocument, StoredTrajectory
from certloop.agentrl.store.schema import audit, links


class TenantStore:
    """What one tenant may see and add. Made by ``Store.for_tenant`` only.

    An id of another tenant is answered like an id that does not exist: NotFoundError. Methods raise the errors of
    ``agentrl.store.errors``; what was returned or left a ``with`` block without an exception is durable.
    """

    def __init__(self, engine: Engine, blobs: BlobStore, tenant: str, subject_salt: str) -> None:
        self.tenant = check_tenant(tenant)
        self.engine = engine
        self.blobs = blobs
        self.subject_salt = subject_salt

    @contextmanager
    def batch(self, actor: str) -> Iterator[Batch]:
        """Collect events and write them in one transaction when the block ends. ``actor`` is who or what writes: an account,
        a program; it stands in the audit trail, so never a person's name out of a document."""
        if not actor:
            raise EventError("every write names its actor")
        batch = Batch(self.tenant, self.subject_salt)
        yield batch
        with writing(self.engine, self.tenant) as connection:
            batch.write(connection, self.blobs, actor)

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256. Put blobs first, then the events that name them."""
        return self.blobs.put(self.tenant, data)

    def get_blob(self, sha256: str) -> bytes:
        """The bytes of a blob that a document of this tenant names. Raises NotFoundError, BlobMissingError, BlobCorruptError."""
        with reading(self.engine, self.tenant) as connection:
            query = select(links.c.document_id).where(links.c.tenant == self.tenant, links.c.kind == BLOB, links.c.key == sha256)
            if connection.execute(query.limit(1)).first() is None:
                raise NotFoundError("no blob with this hash belongs to a document of this tenant")
        return self.blobs.get(self.tenant, sha256)

    def trajectory(self, traj_id: str) -> StoredTrajectory:
        with reading(self.engine, self.tenant) as connection:
            return reader.one(connection, self.tenant, traj_id)

    def trajectories(self, filters: Filters = EVERYTHING, reward_of: RewardOf | None = None) -> Iterator[StoredTrajectory]:
        """Stream trajectories, oldest first, from one consistent view. Close the iterator (or exhaust it) to end the view."""
        with reading(self.engine, self.tenant) as connection:
            yield from reader.stream(connection, self.tenant, filters, reward_of)

    def document(self, document_id: str) -> StoredDocument:
        with reading(self.engine, self.tenant) as connection:
            return reader.document(connection, self.tenant, document_id)

    def events(self, kind: Kind | None = None, after: int = 0) -> Iterator[Event]:
        """The raw log by position."""
        with reading(self.engine, self.tenant) as connection:
            yield from reader.log(connection, self.tenant, kind, after)

    def audit_rows(self) -> Iterator[AuditRow]:
        with reading(self.engine, self.tenant) as connection:
            query = select(audit).where(audit.c.tenant == self.tenant).order_by(audit.c.position)
            yield from map(audit_from_row, connection.execute(query))

    def note(self, actor: str, action: str, **details: object) -> None:
        """Write an audit row about something that is not an event: a reading of personal data, an export, a backup."""
        with writing(self.engine, self.tenant) as connection:
            add_audit(connection, self.tenant, actor, action, details)
