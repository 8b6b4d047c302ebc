"""What the learning tab shows, as numbers: signals by day, exact rates from audited certificates, gate reports, synthetic scores.

Each function authorises its caller; nothing here holds a value of a document.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from certloop.agentrl.rewards import fold
from certloop.agentrl.signals import Source
from certloop.agentrl.store import Kind
from certloop.agentrl.store.schema import events
from certloop.serve.confidence.versions import builtin
from certloop.serve.db.access import reading, unseal_json
from certloop.serve.db.schema import certificates, reviews, uploads
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

LAST_EVENTS, LAST_CERTIFICATES, DAYS = 5000, 300, 14
SOURCES = tuple(str(source) for source in Source)


@dataclass(frozen=True, slots=True)
class Signals:
    """``days``: the latest with signals, oldest first, each with a count by source. ``events``: how far back was looked."""

    days: tuple[tuple[str, Mapping[str, int]], ...]
    total: int
    events: int


@dataclass(frozen=True, slots=True)
class FieldRate:
    """One field of one type. ``days``: (day, exact, audited), oldest first."""

    doc_type: str
    field: str
    label: str
    days: tuple[tuple[str, int, int], ...]

    @property
    def exact(self) -> int:
        return sum(day[1] for day in self.days)

    @property
    def audited(self) -> int:
        return sum(day[2] for day in self.days)


def signals_by_day(service: Service, actor: Actor) -> Signals:
    """Signals among the tenant's ``LAST_EVENTS`` latest events, by UTC day and source."""
    actor.require(Permission.LEARNING_READ)
    with reading(service, actor.tenant) as connection:
        last = connection.execute(select(func.max(events.c.position)).where(events.c.tenant == actor.tenant)).scalar() or 0
    counts: dict[str, Counter[str]] = {}
    for event in service.tenant(actor.tenant).events(Kind.SIGNAL, max(0, last - LAST_EVENTS)):
        if event.payload is not None:
            counts.setdefault(event.created_at[:10], Counter())[str(event.payload.get("source", ""))] += 1
    days = tuple((day, dict(counts[day])) for day in sorted(counts)[-DAYS:])
    return Signals(days, sum(sum(count.values()) for _, count in days), min(last, LAST_EVENTS))


def exact_rates(service: Service, actor: Actor) -> tuple[FieldRate, ...]:
    """How often a field was read as an auditor left it, over the latest approved certificates; the least exact first.

    A field counts where either the reader or the auditor has a value. The comparison folds width and spaces.
    """
    actor.require(Permission.LEARNING_READ)
    tenant = actor.tenant
    query = (
        select(certificates.c.certificate_id, certificates.c.position, certificates.c.doc_type, certificates.c.fields)
        .add_columns(uploads.c.document_id, uploads.c.result, reviews.c.decided_at)
        .join(reviews, (reviews.c.tenant == tenant) & (reviews.c.certificate_id == certificates.c.certificate_id))
        .join(uploads, (uploads.c.tenant == tenant) & (uploads.c.document_id == certificates.c.document_id))
        .where(certificates.c.tenant == tenant, reviews.c.state == "approved", uploads.c.result.is_not(None))
        .order_by(reviews.c.decided_at.desc())
        .limit(LAST_CERTIFICATES)
    )
    cells: dict[tuple[str, str], dict[str, list[int]]] = {}
    with reading(service, tenant) as connection:
        for row in connection.execute(query):
            result = unseal_json(connection, tenant, f"serve_uploads.result/{row.document_id}", row.result)
            final = unseal_json(connection, tenant, f"serve_certificates.fields/{row.certificate_id}", row.fields)
            read, kind = result["documents"][row.position], service.registry.types.get(row.doc_type)
            if kind is None or read["doc_type"] != row.doc_type:
                continue
            for name in kind.fields:
                was, now = ((part.get(name) or {}).get("value") or "" for part in (read["fields"], final))
                if was or now:
                    cell = cells.setdefault((row.doc_type, name), {}).setdefault(str(row.decided_at)[:10], [0, 0])
                    cell[0] += fold(was) == fold(now)
                    cell[1] += 1
    rates = [
        FieldRate(kind_id, name, service.registry.types[kind_id].fields[name].label, _latest(days))
        for (kind_id, name), days in cells.items()
    ]
    return tuple(sorted(rates, key=lambda rate: (rate.exact / rate.audited, -rate.audited, rate.doc_type, rate.field)))


def _latest(days: Mapping[str, list[int]]) -> tuple[tuple[str, int, int], ...]:
    return tuple((day, days[day][0], days[day][1]) for day in sorted(days)[-DAYS:])


def gate_report(service: Service, actor: Actor, release_id: str) -> Mapping[str, Any] | None:
    """The report with which a release passed its gate; None for one that came without (the first). Its file is verified.

    Raises UnknownReleaseError (also for another tenant's), ArtefactError.
    """
    actor.require(Permission.LEARNING_READ)
    registry = service.loop.registry
    digest = registry.release(release_id, scope=actor.tenant).artefacts.get("gate", "")
    if not digest:
        return None
    report: Mapping[str, Any] = json.loads((registry.artefacts.path(digest) / "gate.json").read_text(encoding="utf-8"))
    return report


def synthetic_scores(actor: Actor) -> Mapping[str, Any]:
    """What the built-in calibration was measured at, on synthetic fields that it was not fitted on."""
    actor.require(Permission.LEARNING_READ)
    return builtin().report
