"""Accepting documents: rows, consent and jobs in one transaction. Once it is durable the caller may be answered 202."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, select

from certloop.agentrl.store import Batch
from certloop.agentrl.store.events import new_id
from certloop.agentrl.trajectory import Consent
from certloop.extract.ingest.errors import FileEmptyError
from certloop.serve.db.access import seal_json, writing
from certloop.serve.db.schema import batches, uploads
from certloop.serve.dossier.compare import check_expected
from certloop.serve.errors import QueueFullError, RequestError, TooLargeError
from certloop.serve.feedback.reupload import note_reupload
from certloop.serve.intake.fetch import fetch
from certloop.serve.intake.idempotency import Answer, Key, remember, replay
from certloop.serve.people.roles import Permission
from certloop.serve.people.tenants import settings_in
from certloop.serve.work.record import EXPECTED, FILE_NAME
from certloop.serve.work.states import OPEN, Status
from certloop.serve.work.verdict import has_field

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor
    from certloop.serve.people.tenants import TenantSettings

PRIORITIES = {"high": 1, "normal": 5, "low": 9}
MAX_NAME_CHARS = 255
BUSY_S = 30.0
_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Handed:
    """One file whose bytes are stored already. ``name`` is what its sender calls it; it is never used as a path."""

    name: str
    sha256: str
    size_bytes: int
    expected: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wishes:
    """How documents are to be read; ``consent`` and ``purpose`` None: what the tenant's settings say."""

    doc_type: str | None = None
    priority: str = "normal"
    consent: Consent | None = None
    purpose: str | None = None


@dataclass(frozen=True, slots=True)
class NewBatch:
    name: str = ""
    dossier: bool = False


def put_file(service: Service, actor: Actor, name: str, content: bytes, expected: Mapping[str, str] | None = None) -> Handed:
    """Store the bytes of one file; nothing is accepted yet. Raises TooLargeError, and the store's errors."""
    actor.require(Permission.DOCUMENTS_WRITE)
    limit = service.config.intake.file_bytes
    if len(content) > limit:
        raise TooLargeError(f"a file may have {limit} bytes at most")
    sha256 = service.tenant(actor.tenant).put_blob(content)
    return Handed(cleaned_name(name), sha256, len(content), dict(expected or {}))


def stored_file(service: Service, actor: Actor, sha256: str, name: str, expected: Mapping[str, str] | None = None) -> Handed:
    """A file that this tenant handed in before, by its hash. Raises NotFoundError."""
    actor.require(Permission.DOCUMENTS_WRITE)
    content = service.tenant(actor.tenant).get_blob(sha256)
    return Handed(cleaned_name(name or f"{sha256[:12]}"), sha256, len(content), dict(expected or {}))


def referred_file(
    service: Service,
    actor: Actor,
    sha256: str | None,
    url: str | None,
    name: str | None,
    expected: Mapping[str, str] | None = None,
) -> Handed:
    """A file that is somewhere already: a ``sha256`` or a ``url``. Raises RequestError, NotFoundError, those of ``fetch``."""
    if (sha256 is None) == (url is None):
        raise RequestError("a reference is either a sha256 or a url", [{"loc": ["sha256"], "message": "exactly one of both"}])
    if sha256 is not None:
        return stored_file(service, actor, sha256, name or "", expected)
    actor.require(Permission.DOCUMENTS_WRITE)
    found, content = fetch(str(url), service.config.intake)
    return put_file(service, actor, name or found, content, expected)


def cleaned_name(name: str) -> str:
    """The last part of a name, without control characters: what people see in lists and tables."""
    last = name.replace("\\", "/").rpartition("/")[2]
    shown = "".join(c if c.isprintable() else "\ufffd" for c in last).strip()
    return shown[:MAX_NAME_CHARS] or "document"


def accept(
    service: Service,
    actor: Actor,
    files: Sequence[Handed],
    wishes: Wishes,
    *,
    batch: NewBatch | None = None,
    key: Key | None = None,
) -> Answer:
    """Accept files, all or none, as single documents or as one batch; the same ``key`` again gives the same answer.

    A file without a byte is refused when it comes alone; in a batch it is the one that fails, by the reader's word.
    Raises QueueFullError, RequestError, FileEmptyError, UnknownTypeError, and the store's errors; then nothing is accepted.
    """
    actor.require(Permission.DOCUMENTS_WRITE)
    _check(service, files, wishes)
    if batch is None and not all(file.size_bytes for file in files):
        raise FileEmptyError("this file has 0 bytes; was it uploaded whole?")
    tenant = actor.tenant
    with writing(service, tenant) as connection:
        if key is not None and (known := replay(connection, tenant, key)) is not None:
            return known
        settings = settings_in(connection, tenant)
        _check_room(service, connection, tenant, settings, len(files))
        batch_id = None if batch is None else _open_batch(service, connection, actor, batch, len(files))
        document_ids = _rows(service, connection, actor, files, wishes, settings, batch_id)
        for document_id in document_ids:
            service.jobs.enqueue(connection, tenant, document_id, PRIORITIES[wishes.priority])
        where = f"/v1/documents/{document_ids[0]}" if batch_id is None else f"/v1/batches/{batch_id}"
        body: dict[str, object] = {"id": batch_id or document_ids[0], "status": str(Status.QUEUED), "location": where}
        if batch_id is not None:
            body["total"] = len(files)
        answer = Answer(202, {"Location": where}, body)
        if key is not None:
            remember(connection, tenant, key, answer, service.now())
        return answer


def _check(service: Service, files: Sequence[Handed], wishes: Wishes) -> None:
    if not files:
        raise RequestError("there is no file to read")
    if wishes.priority not in PRIORITIES:
        raise RequestError(f"priority is one of {', '.join(PRIORITIES)}")
    if len(files) > service.config.intake.batch_files:
        raise TooLargeError(f"a batch may hold {service.config.intake.batch_files} files at most")
    doc_type = None if wishes.doc_type is None else service.registry.get(wishes.doc_type)
    for file in files:
        if file.expected and doc_type is not None:
            check_expected(file.expected, doc_type)
        elif file.expected:
            _check_declared(service, file.expected)


def _check_declared(service: Service, expected: Mapping[str, str]) -> None:
    """Without a type asked for, each declared field must be one of some type's."""
    for name, value in expected.items():
        doc_type = next((one for one in service.registry.types.values() if has_field(one, name)), None)
        if doc_type is None:
            place = {"loc": ["expected", name[:64]], "message": "unknown field"}
            raise RequestError("no type of certificate has a field of that name", [place])
        check_expected({name: value}, doc_type)


def _check_room(service: Service, connection: Connection, tenant: str, settings: TenantSettings, more: int) -> None:
    limit = settings.queue_limit or service.config.jobs.queue_limit
    query = select(func.count()).select_from(uploads).where(uploads.c.tenant == tenant, uploads.c.status.in_(OPEN))
    waiting = connection.execute(query).scalar_one()
    if waiting + more > limit:
        raise QueueFullError(f"{waiting} documents wait already and {limit} may; try again later", retry_after_s=BUSY_S)


def _open_batch(service: Service, connection: Connection, actor: Actor, batch: NewBatch, total: int) -> str:
    batch_id = f"bat_{new_id()}"
    row = {
        "tenant": actor.tenant,
        "batch_id": batch_id,
        "name": cleaned_name(batch.name) if batch.name else "",
        "dossier": batch.dossier,
        "total": total,
        "created_at": service.now(),
        "created_by": actor.actor_id,
    }
    connection.execute(insert(batches), [row])
    return batch_id


def _rows(
    service: Service,
    connection: Connection,
    actor: Actor,
    files: Sequence[Handed],
    wishes: Wishes,
    settings: TenantSettings,
    batch_id: str | None,
) -> list[str]:
    """Store documents (the unit of consent and erasure) and uploads; returns the uploads' ids."""
    tenant, at = actor.tenant, service.now()
    handle = service.tenant(tenant)
    events = Batch(tenant, handle.subject_salt)
    rows = []
    for position, file in enumerate(files):
        document_id = f"doc_{new_id()}"
        stored = events.add_document(
            images=[file.sha256],
            doc_type=wishes.doc_type,
            consent=settings.consent if wishes.consent is None else wishes.consent,
            purpose=settings.purpose if wishes.purpose is None else wishes.purpose,
            origin="api",
        )
        expected = None
        if file.expected:
            expected = seal_json(connection, tenant, f"{EXPECTED}/{document_id}", dict(file.expected))
        rows.append(
            {
                "tenant": tenant,
                "document_id": document_id,
                "batch_id": batch_id,
                "position": position,
                "store_document_id": stored,
                "file_name": seal_json(connection, tenant, f"{FILE_NAME}/{document_id}", file.name),
                "sha256": file.sha256,
                "size_bytes": file.size_bytes,
                "doc_type": wishes.doc_type,
                "expected": expected,
                "priority": PRIORITIES[wishes.priority],
                "status": Status.QUEUED,
                "attempts": 0,
                "accepted_at": at,
                "accepted_by": actor.actor_id,
            }
        )
    events.write(connection, handle.blobs, actor.actor_id)
    connection.execute(insert(uploads), rows)
    again = _read_before(connection, tenant, sorted({file.sha256 for file in files}))
    for row in rows:
        if row["sha256"] in again:
            document_id, sha256 = str(row["document_id"]), str(row["sha256"])
            note_reupload(service, connection, tenant, document_id=document_id, sha256=sha256, accepted_at=at)
    return [str(row["document_id"]) for row in rows]


def _read_before(connection: Connection, tenant: str, hashes: Sequence[str]) -> set[str]:
    """Which of these files were read before: mostly none, and then nobody need be asked about each."""
    found: set[str] = set()
    for start in range(0, len(hashes), _CHUNK):
        part = hashes[start : start + _CHUNK]
        query = select(uploads.c.sha256).where(uploads.c.tenant == tenant, uploads.c.sha256.in_(part))
        found |= set(connection.execute(query.where(uploads.c.status == Status.DONE).distinct()).scalars())
    return found


def fingerprint(*parts: object) -> str:
    """The hash of a request's method, path and content, whatever its transport (a multipart boundary differs each time)."""
    digest = hashlib.sha256()
    for part in parts:
        text = repr(part).encode()
        digest.update(f"{len(text)}:".encode() + text)
    return digest.hexdigest()
