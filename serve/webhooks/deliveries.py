"""Deliveries as rows: what is due, what became of an attempt, the list, and sending one again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, select, update

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import deliveries, tenants, webhooks
from certloop.serve.errors import ConflictError
from certloop.serve.people.place import audit, written
from certloop.serve.people.roles import Permission
from certloop.serve.webhooks.endpoints import row_of, secrets_of

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

MAX_ATTEMPTS = 12
FIRST_WAIT_S, LONGEST_WAIT_S, JITTER = 5.0, 12 * 3600.0, 0.2
"""5 s, 20 s, 80 s, 5 min, 21 min, 1.4 h, 5.7 h, then every 12 h: twelve attempts over about two and a half days."""
OFF = {"gone": "it answered 410 Gone", "refused": "its name led to an address that webhooks are not sent to"}
"""What switches an endpoint off, and the reason that is shown."""
LEASE = timedelta(seconds=60)
"""How long an attempt may take before another process may make it: longer than an attempt can."""


class Failure(StrEnum):
    """Why the last attempt brought no answer. A closed list: what a receiver or its network says is not repeated."""

    UNRESOLVED = "unresolved"  # its name leads nowhere just now
    REFUSED = "refused"  # its address is one that webhooks are not sent to
    UNREACHABLE = "unreachable"  # nobody took the connection
    TLS = "tls"  # its certificate is not valid for its name, or no TLS is spoken
    TIMEOUT = "timeout"  # no answer in time
    BROKEN = "broken"  # the connection ended before an answer, or what came was no HTTP
    SWITCHED_OFF = "switched_off"  # the webhook was off, or gone, when the attempt was due


@dataclass(frozen=True, slots=True)
class Delivery:
    delivery_id: str
    webhook_id: str
    event: str
    payload: str
    state: str
    attempts: int
    next_at: str
    last_status: int | None
    last_error: str | None
    created_at: str
    delivered_at: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "delivery_id": self.delivery_id,
            "webhook_id": self.webhook_id,
            "event": self.event,
            "state": self.state,
            "attempts": self.attempts,
            "next_at": self.next_at if self.state == "pending" else None,
            "last_status": self.last_status,
            "last_error": self.last_error,
            "created_at": self.created_at,
            "delivered_at": self.delivered_at,
        }


@dataclass(frozen=True, slots=True)
class Due:
    """One attempt to make. ``attempt`` counts from 1."""

    tenant: str
    delivery: Delivery
    url: str
    secrets: tuple[str, ...]
    attempt: int


def tenants_with_due(service: Service) -> tuple[str, ...]:
    """The tenants that are not disabled: whose deliveries are looked for."""
    with reading(service, None) as connection:
        disabled = set(connection.execute(select(tenants.c.tenant).where(tenants.c.disabled_at.is_not(None))).scalars())
    return tuple(tenant for tenant in service.store.tenants() if tenant not in disabled)


def claim(service: Service, tenant: str, limit: int) -> tuple[Due, ...]:
    """Attempts that are due, kept from other processes for the time of a lease. A delivery whose endpoint is off fails."""
    now = service.clock()
    due = (deliveries.c.tenant == tenant, deliveries.c.state == "pending", deliveries.c.next_at <= written(now))
    with reading(service, tenant) as connection:
        if connection.execute(select(deliveries.c.delivery_id).where(*due).limit(1)).first() is None:
            return ()
    out: list[Due] = []
    with writing(service, tenant) as connection:
        query = select(deliveries).where(*due).order_by(deliveries.c.next_at, deliveries.c.delivery_id).limit(limit)
        for row in connection.execute(query).all():
            try:
                endpoint = row_of(connection, tenant, row.webhook_id)
            except NotFoundError:
                endpoint = None
            this = update(deliveries).where(deliveries.c.tenant == tenant, deliveries.c.delivery_id == row.delivery_id)
            if endpoint is None or endpoint.disabled_at is not None:
                connection.execute(this.values(state="failed", last_error=Failure.SWITCHED_OFF.value))
                continue
            connection.execute(this.values(attempts=row.attempts + 1, next_at=written(now + LEASE)))
            signing = secrets_of(connection, endpoint, now)
            out.append(Due(tenant, _delivery(row), endpoint.url, signing, row.attempts + 1))
    return tuple(out)


def settle(
    service: Service,
    due: Due,
    status: int | None,
    *,
    retry_after_s: float | None = None,
    failure: Failure | None = None,
    rng: random.Random | None = None,
) -> str:
    """Write what an attempt brought: ``status`` of the answer, or why none came. 2xx: delivered. 410, or an address that is
    refused: the endpoint is switched off. Anything else is tried again, later and later.

    Returns delivered | gone | refused | again | failed.
    """
    now = service.clock()
    values: dict[str, Any] = {"last_status": status, "last_error": failure.value if failure is not None else None}
    if status is not None and 200 <= status < 300:
        result = "delivered"
        values |= {"state": "delivered", "delivered_at": written(now)}
    elif failure is Failure.REFUSED or status == 410:
        result = "refused" if failure is Failure.REFUSED else "gone"
        values |= {"state": "failed"}
    elif due.attempt >= MAX_ATTEMPTS:
        result = "failed"
        values |= {"state": "failed"}
    else:
        result = "again"
        wait = wait_s(due.attempt, rng or random.Random())
        if retry_after_s is not None:
            wait = max(wait, min(retry_after_s, LONGEST_WAIT_S))
        values |= {"next_at": written(now + timedelta(seconds=wait))}
    with writing(service, due.tenant) as connection:
        this = (deliveries.c.tenant == due.tenant, deliveries.c.delivery_id == due.delivery.delivery_id)
        connection.execute(update(deliveries).where(*this, deliveries.c.state == "pending").values(**values))
        if result in OFF:
            endpoint = (webhooks.c.tenant == due.tenant, webhooks.c.webhook_id == due.delivery.webhook_id)
            off = {"disabled_at": written(now), "disabled_reason": OFF[result]}
            connection.execute(update(webhooks).where(*endpoint, webhooks.c.disabled_at.is_(None)).values(**off))
    return result


def wait_s(attempt: int, rng: random.Random) -> float:
    """Seconds after the ``attempt``-th failure, spread by a fifth either way so that many endpoints are not asked at once."""
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 4.0 ** (attempt - 1))
    return wait * rng.uniform(1 - JITTER, 1 + JITTER)


def page(
    service: Service, actor: Actor, webhook_id: str, *, state: str | None, before: str | None, limit: int
) -> tuple[Delivery, ...]:
    """Deliveries of an endpoint, newest first; ``before`` is the id of the last one of the page before."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    with reading(service, actor.tenant) as connection:
        row_of(connection, actor.tenant, webhook_id)
        query = select(deliveries).where(deliveries.c.tenant == actor.tenant, deliveries.c.webhook_id == webhook_id)
        if state is not None:
            query = query.where(deliveries.c.state == state)
        if before is not None:
            query = query.where(deliveries.c.delivery_id < before)
        return tuple(map(_delivery, connection.execute(query.order_by(deliveries.c.delivery_id.desc()).limit(limit))))


def redeliver(service: Service, actor: Actor, webhook_id: str, delivery_id: str) -> Delivery:
    """Send it again, with the same id, from the first attempt on. Raises NotFoundError; ConflictError while it is pending or its
    endpoint is off."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    this = (
        deliveries.c.tenant == actor.tenant,
        deliveries.c.webhook_id == webhook_id,
        deliveries.c.delivery_id == delivery_id,
    )
    with writing(service, actor.tenant) as connection:
        endpoint = row_of(connection, actor.tenant, webhook_id)
        row = connection.execute(select(deliveries).where(*this)).first()
        if row is None:
            raise NotFoundError("no delivery by this id of this webhook")
        if row.state == "pending":
            raise ConflictError("this delivery is on its way already")
        if endpoint.disabled_at is not None:
            raise ConflictError("this webhook is switched off; switch it on first")
        values: Mapping[str, Any] = {"state": "pending", "attempts": 0, "next_at": written(service.clock()), "delivered_at": None}
        connection.execute(update(deliveries).where(*this).values(**values))
        audit(connection, actor, "webhook.redeliver", webhook_id=webhook_id, delivery_id=delivery_id)
        return _delivery(connection.execute(select(deliveries).where(*this)).one())


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header, which may be a date (RFC 9110); None for one that cannot be read."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment - now).total_seconds()) if moment.tzinfo is not None else None


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        delivery_id=row.delivery_id,
        webhook_id=row.webhook_id,
        event=row.event,
        payload=row.payload,
        state=row.state,
        attempts=row.attempts,
        next_at=row.next_at,
        last_status=row.last_status,
        last_error=row.last_error,
        created_at=row.created_at,
        delivered_at=row.delivered_at,
    )
