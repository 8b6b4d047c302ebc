"""The right to settle an upload: whoever claims last has it, and only he. This is what keeps results single."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select, update

from certloop.agentrl.errors import CertloopError
from certloop.serve.db.access import writing
from certloop.serve.db.schema import uploads
from certloop.serve.work.states import OPEN, Status

if TYPE_CHECKING:
    from certloop.serve.context import Service


@dataclass(frozen=True, slots=True)
class Claim:
    """``attempt`` counts the tries from 1 and is the fence: a later claim has a higher one. Since the ``before`` that a person
    started anew from, ``failures`` of them said why they failed; the others vanished with their process."""

    tenant: str
    document_id: str
    attempt: int
    failures: int
    priority: int
    before: int = 0
    accepted_at: str = ""

    @property
    def vanished(self) -> int:
        return self.attempt - 1 - self.before - self.failures


def claim(service: Service, tenant: str, document_id: str) -> Claim | None:
    """Begin a try; None for an upload that is settled, cancelled or gone."""
    with writing(service, tenant) as connection:
        row = connection.execute(select(uploads).where(*still_open(tenant, document_id))).first()
        if row is None:
            return None
        note = {} if row.error is None else json.loads(row.error)
        failures, before = int(note.get("failures", 0)), int(note.get("before", 0))
        mine = Claim(tenant, document_id, row.attempts + 1, failures, row.priority, before, row.accepted_at)
        values = {"status": Status.RUNNING, "attempts": mine.attempt, "started_at": service.now()}
        connection.execute(update(uploads).where(*still_open(tenant, document_id)).values(**values))
        return mine


def note_of(mine: Claim, error: CertloopError) -> str:
    """What stands in the upload about its last failure, and how often it failed."""
    counts = {"failures": mine.failures, "before": mine.before}
    return json.dumps(error.to_json() | counts, ensure_ascii=False)


def still_open(tenant: str, document_id: str) -> tuple[Any, ...]:
    return (
        uploads.c.tenant == tenant,
        uploads.c.document_id == document_id,
        uploads.c.status.in_(OPEN),
        uploads.c.deleted_at.is_(None),
    )


def settle(connection: Connection, mine: Claim, values: dict[str, Any]) -> bool:
    """Change the upload if the claim still stands; False where somebody else has it, or it was cancelled or deleted."""
    fence = (uploads.c.status == Status.RUNNING, uploads.c.attempts == mine.attempt)
    changed = connection.execute(update(uploads).where(*still_open(mine.tenant, mine.document_id), *fence).values(**values))
    return changed.rowcount == 1
