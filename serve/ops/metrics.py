"""Numbers for Prometheus. What flows is counted in this process; what stands in the database is asked for at each scrape.

No label holds anything of a document, a person or a tenant: routes are templates, fields and rules are the templates' words.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import Column, Connection, Table, func, select

from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates, deliveries, executors, reviews, uploads
from certloop.serve.people.place import written

if TYPE_CHECKING:
    from certloop.agentrl.signals.schema import Signal
    from certloop.serve.context import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FAST = (0.005, 0.01, 0.025, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 900, 3600)


class Metrics:
    """One a process, at ``service.metrics``. The names are those of the README."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "certloop_http_requests", "Answers by route and status.", ["method", "route", "status"], registry=self.registry
        )
        self._request_s = Histogram(
            "certloop_http_request_seconds", "Time to answer.", ["route"], buckets=_FAST, registry=self.registry
        )
        self._stage_s = Histogram(
            "certloop_stage_seconds",
            "Time a document spends in a stage: wait, read, check, store, total.",
            ["stage"],
            buckets=_SLOW,
            registry=self.registry,
        )
        self._fails = Counter(
            "certloop_validator_fails", "Rules that failed on what was read.", ["doc_type", "rule"], registry=self.registry
        )
        self._signals = Counter("certloop_signals", "Signals written, by source.", ["source"], registry=self.registry)
        self._attempts = Counter(
            "certloop_webhook_attempts",
            "Attempts to deliver a webhook.",
            ["result"],
            registry=self.registry,
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def stage(self, stage: str, seconds: float) -> None:
        self._stage_s.labels(stage).observe(seconds)

    def validator_fail(self, doc_type: str, rule: str) -> None:
        self._fails.labels(doc_type, rule).inc()

    def signals(self, written_signals: Iterable[Signal]) -> None:
        for signal in written_signals:
            self._signals.labels(str(signal.source)).inc()

    def webhook_attempt(self, result: str) -> None:
        self._attempts.labels(result).inc()

    def flows(self) -> bytes:
        """What this process counted."""
        return generate_latest(self.registry)


def state(service: Service, tenants: Iterable[str]) -> bytes:
    """What stands in the database, summed over ``tenants``."""
    registry = CollectorRegistry()
    queue = Gauge("certloop_documents", "Documents by status.", ["status"], registry=registry)
    oldest = Gauge("certloop_queue_oldest_seconds", "How long the oldest waiting document waits.", registry=registry)
    certs = Gauge("certloop_certificates", "Certificates by state.", ["state"], registry=registry)
    straight = Gauge(
        "certloop_straight_through_ratio", "Share of the certificates that passed without a person.", registry=registry
    )
    open_reviews = Gauge("certloop_reviews", "Reviews by state.", ["state"], registry=registry)
    sent = Gauge("certloop_deliveries", "Webhook deliveries by state.", ["state"], registry=registry)
    alive = Gauge("certloop_executors_alive", "Processes that read documents and hold their lease.", registry=registry)
    totals: dict[str, dict[str, int]] = {"uploads": {}, "certificates": {}, "reviews": {}, "deliveries": {}}
    waiting: list[str] = []
    for tenant in tenants:
        with reading(service, tenant) as connection:
            _add(totals["uploads"], connection, uploads, uploads.c.status, tenant)
            _add(totals["certificates"], connection, certificates, certificates.c.state, tenant)
            _add(totals["reviews"], connection, reviews, reviews.c.state, tenant)
            _add(totals["deliveries"], connection, deliveries, deliveries.c.state, tenant)
            first = select(func.min(uploads.c.accepted_at)).where(uploads.c.tenant == tenant, uploads.c.status == "queued")
            waiting += [at for at in connection.execute(first).scalars() if at is not None]
    for gauge, name in ((queue, "uploads"), (certs, "certificates"), (open_reviews, "reviews"), (sent, "deliveries")):
        for label, count in totals[name].items():
            gauge.labels(label).set(count)
    everything = sum(totals["certificates"].values())
    straight.set(totals["certificates"].get("passed", 0) / everything if everything else float("nan"))
    now = service.clock()
    oldest.set((now - datetime.fromisoformat(min(waiting))).total_seconds() if waiting else 0.0)
    with reading(service, None) as connection:
        held = select(func.count()).select_from(executors).where(executors.c.lease_until > written(now))
        alive.set(connection.execute(held).scalar_one())
    return generate_latest(registry)


def _add(totals: dict[str, int], connection: Connection, table: Table, column: Column[str], tenant: str) -> None:
    query = select(column, func.count()).where(table.c.tenant == tenant).group_by(column)
    for label, count in connection.execute(query):
        totals[label] = totals.get(label, 0) + count
