"""Why a certificate that was just read needs a person: the tenant's policy, the calibration in force, and what was declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from certloop.serve.confidence.versions import active
from certloop.serve.dossier.compare import Comparison, check_expected, compare
from certloop.serve.errors import RequestError
from certloop.serve.review.policy import policy_of
from certloop.serve.review.triage import Reason, triage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.extract.result import Document
    from certloop.serve.confidence.calibration import Calibration
    from certloop.serve.context import Service
    from certloop.templates import DocumentType


def reasons_for(
    service: Service,
    connection: Connection,
    tenant: str,
    certificate_id: str,
    document: Document,
    expected: Mapping[str, str] | None,
    calibration: Calibration | None = None,
) -> tuple[Reason, ...]:
    """Empty when the certificate may pass unseen. ``calibration`` is that of the release which read it, where it has one."""
    return triage(
        document,
        policy_of(connection, tenant),
        doc_type=service.registry.types.get(document.doc_type),
        calibration=calibration or active(connection, tenant),
        certificate_id=certificate_id,
        comparisons=comparisons_for(service, document, expected),
    )


def comparisons_for(service: Service, document: Document, expected: Mapping[str, str] | None) -> tuple[Comparison, ...]:
    """Audit mode: the declared fields that this type of certificate has; a file may hold certificates of several types."""
    if not expected:
        return ()
    doc_type = service.registry.types.get(document.doc_type)
    if doc_type is None:
        return compare(expected, document, None)
    try:
        return compare({name: value for name, value in expected.items() if has_field(doc_type, name)}, document, doc_type)
    except RequestError:  # one field declared under two of its names: only its type could tell
        return ()


def has_field(doc_type: DocumentType, name: str) -> bool:
    """Whether a type has a field of this id or printed label."""
    try:
        check_expected({name: "?"}, doc_type)
    except RequestError:
        return False
    return True
