"""What two releases did side by side, from the service's own rows: the evidence of a canary."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from certloop.agentrl.release import ArmWindow, CanaryState, Pointer
from certloop.agentrl.signals import Scope, Signal, Source
from certloop.agentrl.store import StoreError
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, uploads
from certloop.serve.review import certificate as certs

if TYPE_CHECKING:
    from certloop.agentrl.store.reader import StoredTrajectory
    from certloop.serve.context import Service

LOOKED_AT = 2000
"""Certificates of an arm whose trajectories are looked at, the latest."""


def canary_state(
    service: Service, tenant: str, pointer: Pointer, since: datetime, *, better: int = 0, worse: int = 0
) -> CanaryState:
    """Both arms since then. ``better`` and ``worse`` are what shadow replay found, where there is one."""
    at = since.astimezone(UTC).isoformat(timespec="microseconds")
    new, old = (arm(service, tenant, release, at) for release in (pointer.candidate, pointer.active))
    return CanaryState(pointer.share, since, new, old, per_week(service, tenant), better=better, worse=worse)


def per_week(service: Service, tenant: str) -> float:
    """Documents a week, over the last four."""
    since = (service.clock() - timedelta(days=28)).isoformat(timespec="microseconds")
    with reading(service, tenant) as connection:
        query = select(func.count()).select_from(uploads).where(uploads.c.tenant == tenant, uploads.c.accepted_at >= since)
        return float(connection.execute(query).scalar_one()) / 4.0


def arm(service: Service, tenant: str, release: str, since: str) -> ArmWindow:
    """What a release did since: ``passed`` are certificates that were approved as they were read; judge scores are means a day,
    tool paths and outcomes those of the trajectories."""
    joined = certificates.join(
        uploads, (uploads.c.tenant == certificates.c.tenant) & (uploads.c.document_id == certificates.c.document_id)
    )
    query = select(certificates.c.certificate_id, certificates.c.state).select_from(joined)
    query = query.where(certificates.c.tenant == tenant, uploads.c.release == release, certificates.c.created_at >= since)
    with reading(service, tenant) as connection:
        rows = connection.execute(query.order_by(certificates.c.created_at.desc())).all()
        approved = [certs.load(connection, tenant, row.certificate_id) for row in rows if row.state == "approved"]
    decided = sum(row.state in ("approved", "rejected") for row in rows)
    untouched = sum(not any("edited" in fld for fld in one.fields.values()) for one in approved)
    seen = [found for row in rows[:LOOKED_AT] if (found := _trajectory(service, tenant, row.certificate_id)) is not None]
    paths = Counter(">".join(one.trajectory.path) for one in seen)
    failures = Counter(str(one.trajectory.outcome) for one in seen if str(one.trajectory.outcome) != "clean")
    return ArmWindow(len(rows), decided, untouched, _judged(seen), paths, failures)


def _trajectory(service: Service, tenant: str, certificate_id: str) -> StoredTrajectory | None:
    try:
        return service.tenant(tenant).trajectory(certificate_id)
    except StoreError:
        return None


def _judged(seen: list[StoredTrajectory]) -> list[float]:
    """Mean judge score a day, oldest first."""
    days: dict[str, list[float]] = {}
    for one in seen:
        for said in filter(_is_judge, one.signals):
            days.setdefault(said.at[:10], []).append(said.value)
    return [sum(values) / len(values) for _, values in sorted(days.items())]


def _is_judge(said: Signal) -> bool:
    return said.source is Source.JUDGE and said.scope is Scope.TRAJECTORY
