"""The end of a try, in one transaction: the upload's state, its certificates, trajectories, signals, reviews and events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, update

from certloop import __version__
from certloop.agentrl.errors import CertloopError
from certloop.agentrl.store import Batch
from certloop.agentrl.store import reader as stored
from certloop.agentrl.trajectory.bridge import Provenance, trajectory_from_steps
from certloop.extract.recording import check_signals, episode_of, subjects_of
from certloop.extract.result import FileStatus
from certloop.serve.db.access import seal_json, unseal_json, writing
from certloop.serve.db.schema import batches, certificates, uploads
from certloop.serve.dossier.check import check_batch
from certloop.serve.loop.live import Steering, pack_lines
from certloop.serve.review.queue import open_review
from certloop.serve.webhooks.outbox import Event, enqueue
from certloop.serve.work.claims import Claim, note_of, settle
from certloop.serve.work.states import ENDED, Status
from certloop.serve.work.verdict import reasons_for

if TYPE_CHECKING:
    from certloop.extract.result import Document, Result
    from certloop.serve.confidence.calibration import Calibration
    from certloop.serve.context import Service
    from certloop.serve.work.readers import PagesRead

ACTOR = "serve:reader"
FIELDS, RESULT, EXPECTED, FILE_NAME = (
    "serve_certificates.fields", "serve_uploads.result", "serve_uploads.expected", "serve_uploads.file_name",
)  # fmt: skip
"""Names that sealed columns are bound to, followed by "/" and the row's id."""


def record(service: Service, mine: Claim, read: PagesRead, steering: Steering) -> bool:
    """Write everything that reading under ``steering`` gave; False where the claim no longer stood: then nothing is written.

    Raises the store's errors; then nothing but blobs is written either.
    """
    result = replace(read.result, documents=tuple(replace(d, release=steering.release_id) for d in read.result.documents))
    if result.status is FileStatus.FAILED:
        error = dict(result.error or {"code": "read_failed", "message": "nothing could be read"})
        return _ended(service, mine, Status.FAILED, json.dumps(error, ensure_ascii=False), read)
    tenant = service.tenant(mine.tenant)
    blobs = {number: tenant.put_blob(image) for number, image in read.pages.items()}
    seen = [tenant.put_blob(pack_lines(d.seen)) if d.seen and d.steps else None for d in result.documents]
    with writing(service, mine.tenant) as connection:
        at = service.now()
        if not settle(connection, mine, _ended_values(connection, mine, Status.DONE, at, result, read.cpu_s)):
            return False
        _store_certificates(service, connection, mine, result, _Kept(blobs, seen, steering), at)
        _announce(service, connection, mine, Event.DOCUMENT_DONE, Status.DONE)
        return True


def give_up(service: Service, mine: Claim, error: CertloopError) -> bool:
    """The upload is dead: tried as often as allowed."""
    return _ended(service, mine, Status.DEAD, note_of(mine, error), None)


def fail(service: Service, mine: Claim, error: CertloopError) -> bool:
    """The upload failed for good, by what it is."""
    return _ended(service, mine, Status.FAILED, note_of(mine, error), None)


def _ended(service: Service, mine: Claim, status: Status, note: str, read: PagesRead | None) -> bool:
    with writing(service, mine.tenant) as connection:
        result, cpu_s = (None, 0.0) if read is None else (read.result, read.cpu_s)
        values = _ended_values(connection, mine, status, service.now(), result, cpu_s)
        if not settle(connection, mine, values | {"error": note}):
            return False
        _announce(service, connection, mine, Event.DOCUMENT_FAILED, status)
        return True


def _ended_values(
    connection: Connection, mine: Claim, status: Status, at: str, result: Result | None, cpu_s: float
) -> dict[str, Any]:
    values: dict[str, Any] = {"status": status, "finished_at": at, "error": None, "cpu_ms": round(cpu_s * 1000, 3)}
    if result is not None:
        values["result"] = seal_json(connection, mine.tenant, f"{RESULT}/{mine.document_id}", result.to_json())
        values["release"] = next((document.release for document in result.documents), None)
    return values


@dataclass(frozen=True, slots=True)
class _Kept:
    """Put aside before the transaction: blobs of pages by number, of each document's lines, and what it was read under."""

    pages: Mapping[int, str]
    lines: Sequence[str | None]
    steering: Steering


def _with_lines(steps: Sequence[Mapping[str, Any]], blob: str | None) -> Sequence[Mapping[str, Any]]:
    """The first look names the lines it saw: a correction is learned from them."""
    return steps if blob is None else ({**steps[0], "payload_ref": blob}, *steps[1:])


def _store_certificates(service: Service, connection: Connection, mine: Claim, result: Result, kept: _Kept, at: str) -> None:
    """Trajectories and rows of every certificate. Their ids follow from the upload's, so that none can exist twice."""
    upload = connection.execute(
        select(uploads.c.store_document_id, uploads.c.expected).where(
            uploads.c.tenant == mine.tenant, uploads.c.document_id == mine.document_id
        )
    ).one()
    handle = service.tenant(mine.tenant)
    terms = stored.document(connection, mine.tenant, upload.store_document_id).state
    batch = Batch(mine.tenant, handle.subject_salt)
    for number, document in enumerate(result.documents):
        certificate_id = f"{mine.document_id}.{number}"
        told = episode_of(document)
        trajectory = trajectory_from_steps(
            _with_lines(document.steps, kept.lines[number]),
            provenance=Provenance(
                mine.tenant,
                terms.consent,
                terms.purpose,
                policy_version=document.release,
                harness_version=__version__,
                prompt_version=told.prompt_version,
                type_version=document.type_version,
                memory_snapshot_id=kept.steering.snapshot or None,
                overlay_event_ids=kept.steering.overlay,
            ),
            traj_id=certificate_id,
            doc_type=document.doc_type,
            created_at=at,
            final=told.final,
            outcome=told.outcome,
            sampled=told.sampled,
            image_sha256=[kept.pages[page] for page in document.pages if page in kept.pages],
        )
        batch.add_trajectory(trajectory, upload.store_document_id, subjects_of(document, service.registry))
        for signal in check_signals(document, certificate_id):
            batch.add_signal(signal)
    batch.write(connection, handle.blobs, ACTOR)
    expected = None
    if upload.expected is not None:
        expected = unseal_json(connection, mine.tenant, f"{EXPECTED}/{mine.document_id}", upload.expected)
    for number, document in enumerate(result.documents):
        _store_certificate(service, connection, mine, number, document, expected, at, kept.steering.calibration)


def _store_certificate(
    service: Service,
    connection: Connection,
    mine: Claim,
    number: int,
    document: Document,
    expected: Mapping[str, str] | None,
    at: str,
    calibration: Calibration | None,
) -> None:
    certificate_id = f"{mine.document_id}.{number}"
    fields = {name: field.to_json() for name, field in document.fields.items()}
    row = {
        "tenant": mine.tenant,
        "certificate_id": certificate_id,
        "document_id": mine.document_id,
        "position": number,
        "trajectory_id": certificate_id,
        "doc_type": document.doc_type,
        "state": "passed",
        "revision": 1,
        "fields": seal_json(connection, mine.tenant, f"{FIELDS}/{certificate_id}", fields),
        "reasons": "[]",
        "created_at": at,
        "updated_at": at,
    }
    connection.execute(insert(certificates), [row])
    reasons = reasons_for(service, connection, mine.tenant, certificate_id, document, expected, calibration)
    open_review(connection, mine.tenant, certificate_id, reasons, at)


def _announce(service: Service, connection: Connection, mine: Claim, event: Event, status: Status) -> None:
    """Tell webhooks of the document and, when it was the last, of its batch."""
    batch_id = connection.execute(
        select(uploads.c.batch_id).where(uploads.c.tenant == mine.tenant, uploads.c.document_id == mine.document_id)
    ).scalar()
    payload = {"document_id": mine.document_id, "status": str(status), "batch_id": batch_id}
    enqueue(connection, mine.tenant, event, payload, service.clock())
    if batch_id is not None:
        finish_batch(service, connection, mine.tenant, batch_id)


def finish_batch(service: Service, connection: Connection, tenant: str, batch_id: str) -> bool:
    """Close a batch whose last upload has ended, once; the caller is in a write transaction of the tenant."""
    mine = (uploads.c.tenant == tenant, uploads.c.batch_id == batch_id)
    waiting = select(func.count()).select_from(uploads).where(*mine, uploads.c.status.not_in(ENDED))
    if connection.execute(waiting).scalar_one():
        return False
    this = (batches.c.tenant == tenant, batches.c.batch_id == batch_id, batches.c.finished_at.is_(None))
    if connection.execute(update(batches).where(*this).values(finished_at=service.now())).rowcount == 0:
        return False
    if connection.execute(select(batches.c.dossier).where(batches.c.tenant == tenant, batches.c.batch_id == batch_id)).scalar():
        check_batch(service, connection, tenant, batch_id, service.now())
    enqueue(connection, tenant, Event.BATCH_DONE, {"batch_id": batch_id, "status": "done"}, service.clock())
    return True
