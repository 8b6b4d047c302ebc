"""Why a certificate that was just read needs a person: the tenant's policy, the calibration in force, and what was declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from certloop.serve.confidence.versions import active
from certloop.serve.dossier.compare import Comparison, compare
from certloop.serve.errors import RequestError
from certloop.serve.review.policy import policy_of
from certloop.serve.review.triage import Reason, triage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.extract.result import Document
    from certloop.serve.context import Service


def reasons_for(
    service: Service,
    connection: Connection,
    tenant: str,
    certificate_id: str,
    document: Document,
    expected: Mapping[str, str] | None,
) -> tuple[Reason, ...]:
    """Empty when the certificate may pass unseen."""
    return triage(
        document,
        policy_of(connection, tenant),
        doc_type=service.registry.types.get(document.doc_type),
        calibration=active(connection, tenant),
        certificate_id=certificate_id,
        comparisons=comparisons_for(service, document, expected),
    )


def comparisons_for(service: Service, document: Document, expected: Mapping[str, str] | None) -> tuple[Comparison, ...]:
    """Audit mode. A certificate of another type than the declared fields belong to is not compared."""
    if not expected:
        return ()
    try:
        return compare(expected, document, service.registry.types.get(document.doc_type))
    except RequestError:
        return ()
