"""The same file handed in again: its sender was not content with the answer (METHODS §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from certloop.agentrl.signals import Origin, upload_signal
from certloop.agentrl.store import ErasedError
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.feedback.signals import write_signals

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.serve.context import Service

UPLOADS = "uploads"


def note_reupload(
    service: Service, connection: Connection, tenant: str, *, document_id: str, sha256: str, accepted_at: str
) -> tuple[str, ...]:
    """Call when an upload is accepted, in its transaction: -1 on each answer of the last upload of the same bytes.

    Only an answer that was there before counts (a file twice in one batch says nothing), and never a deleted one. Calling it
    again for the same upload adds nothing. Returns the signals' ids.
    """
    query = (
        select(uploads.c.document_id)
        .where(uploads.c.tenant == tenant, uploads.c.sha256 == sha256, uploads.c.document_id != document_id)
        .where(uploads.c.status == "done", uploads.c.deleted_at.is_(None), uploads.c.finished_at < accepted_at)
        .order_by(uploads.c.finished_at.desc())
        .limit(1)
    )
    before = connection.execute(query).scalar()
    if before is None:
        return ()
    asked = select(certificates.c.trajectory_id).where(certificates.c.tenant == tenant, certificates.c.document_id == before)
    trajectories = [traj_id for traj_id in connection.execute(asked).scalars() if traj_id is not None]
    signals = [upload_signal(Origin(traj_id, UPLOADS, accepted_at), same_document=True) for traj_id in trajectories]
    try:
        return write_signals(service, connection, tenant, signals, UPLOADS)
    except ErasedError:  # erased in the store, and the service has not heard of it yet
        return ()
