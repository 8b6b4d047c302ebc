"""One certificate as it stands: the row, the answer as it was read, and the answer by printed label."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from certloop.agentrl.store import NotFoundError
from certloop.extract.result import FieldStatus
from certloop.serve.db.access import seal_json, unseal_json
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.errors import PreconditionError

FieldJson = Mapping[str, Any]
Fields = Mapping[str, FieldJson]
"""By field id, as ``FieldResult.to_json`` writes them; an edited one also has ``edited``: {"by", "at"}."""

_PRINTED = (FieldStatus.READ, FieldStatus.BLANK, FieldStatus.UNREADABLE)


@dataclass(frozen=True, slots=True)
class Certificate:
    """``revision`` is the ETag; ``fields`` are personal data."""

    tenant: str
    certificate_id: str
    document_id: str
    position: int
    trajectory_id: str | None
    doc_type: str
    state: str
    revision: int
    fields: Fields
    reasons: tuple[Mapping[str, Any], ...]
    created_at: str
    updated_at: str


def load(connection: Connection, tenant: str, certificate_id: str) -> Certificate:
    """Raises NotFoundError (another tenant's is not found either, nor one whose upload was deleted)."""
    gone = select(uploads.c.document_id).where(uploads.c.tenant == tenant, uploads.c.deleted_at.is_not(None))
    query = select(certificates).where(certificates.c.tenant == tenant, certificates.c.certificate_id == certificate_id)
    row = connection.execute(query.where(certificates.c.document_id.not_in(gone))).first()
    if row is None:
        raise NotFoundError("no certificate with this id in this tenant")
    return Certificate(
        tenant=tenant,
        certificate_id=row.certificate_id,
        document_id=row.document_id,
        position=row.position,
        trajectory_id=row.trajectory_id,
        doc_type=row.doc_type,
        state=row.state,
        revision=row.revision,
        fields=unseal_json(connection, tenant, _fields_name(row.certificate_id), row.fields),
        reasons=tuple(json.loads(row.reasons)),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def as_read(connection: Connection, certificate: Certificate) -> Mapping[str, Any]:
    """The document as it was read (``Document.to_json``): written once, never edited."""
    query = select(uploads.c.result).where(
        uploads.c.tenant == certificate.tenant, uploads.c.document_id == certificate.document_id
    )
    text = connection.execute(query).scalar()
    if text is None:
        raise NotFoundError("the result of this certificate is not stored (any more)")
    result = unseal_json(connection, certificate.tenant, f"serve_uploads.result/{certificate.document_id}", text)
    document: Mapping[str, Any] = result["documents"][certificate.position]
    return document


def save(
    connection: Connection,
    certificate: Certificate,
    *,
    at: str,
    state: str | None = None,
    fields: Fields | None = None,
    doc_type: str | None = None,
) -> int:
    """Write the next revision and return its number. Raises PreconditionError when another was written meanwhile."""
    values: dict[str, Any] = {"revision": certificate.revision + 1, "updated_at": at}
    if state is not None:
        values["state"] = state
    if fields is not None:
        values["fields"] = seal_json(connection, certificate.tenant, _fields_name(certificate.certificate_id), dict(fields))
    if doc_type is not None:
        values["doc_type"] = doc_type
    mine = (certificates.c.tenant == certificate.tenant, certificates.c.certificate_id == certificate.certificate_id)
    done = connection.execute(update(certificates).where(*mine, certificates.c.revision == certificate.revision).values(**values))
    if done.rowcount != 1:
        raise PreconditionError("the certificate was changed meanwhile; read it again")
    return certificate.revision + 1


def check_revision(certificate: Certificate, revision: int) -> None:
    """Raises PreconditionError unless the caller saw the certificate as it stands."""
    if certificate.revision != revision:
        raise PreconditionError(
            f"the certificate is at revision {certificate.revision}, not {revision}; read it again before changing it"
        )


def by_label(fields: Fields) -> dict[str, str | None]:
    """The answer as ``extract.recording.answer_of`` stores it: printed values by label, null for blank and unreadable ones."""
    return {str(f["label"]): f["value"] for f in fields.values() if f["status"] in _PRINTED}


def values_of(fields: Fields) -> dict[str, str | None]:
    return {name: field["value"] for name, field in fields.items()}


def _fields_name(certificate_id: str) -> str:
    return f"serve_certificates.fields/{certificate_id}"
