"""The endpoints of a tenant: where events go, which ones, and the secret that signs them."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from certloop.agentrl.store import NotFoundError
from certloop.agentrl.store.events import new_id
from certloop.serve.db.access import reading, seal_json, unseal_json, writing
from certloop.serve.db.schema import deliveries, webhooks
from certloop.serve.errors import ConflictError
from certloop.serve.people.place import audit, written
from certloop.serve.people.roles import Permission
from certloop.serve.webhooks.outbox import Event
from certloop.serve.webhooks.targets import check_url

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

MAX_ENDPOINTS = 50
OVERLAP = timedelta(hours=24)
"""How long deliveries are signed with the old secret too, after a new one was made."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    webhook_id: str
    url: str
    events: tuple[Event, ...]
    created_at: str
    disabled_at: str | None
    disabled_reason: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "webhook_id": self.webhook_id,
            "url": self.url,
            "events": [event.value for event in self.events],
            "created_at": self.created_at,
            "disabled_at": self.disabled_at,
            "disabled_reason": self.disabled_reason,
        }


def create(service: Service, actor: Actor, url: str, events: Sequence[Event]) -> tuple[Endpoint, str]:
    """A new endpoint and its secret, which is shown once. Raises TargetError, ConflictError."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    check_url(url, private=service.config.edge.webhook_private)
    webhook_id, secret = f"whk_{new_id()}", new_secret()
    with writing(service, actor.tenant) as connection:
        mine = select(webhooks.c.webhook_id).where(webhooks.c.tenant == actor.tenant)
        if len(connection.execute(mine).all()) >= MAX_ENDPOINTS:
            raise ConflictError(f"a tenant has at most {MAX_ENDPOINTS} webhooks; delete one")
        values = {
            "tenant": actor.tenant,
            "webhook_id": webhook_id,
            "url": url,
            "secret": _sealed(connection, actor.tenant, webhook_id, {"current": secret}),
            "events": json.dumps(sorted({event.value for event in events})),
            "created_at": written(service.clock()),
        }
        connection.execute(insert(webhooks), [values])
        audit(connection, actor, "webhook.create", webhook_id=webhook_id)
        return _endpoint(row_of(connection, actor.tenant, webhook_id)), secret


def every(service: Service, actor: Actor) -> tuple[Endpoint, ...]:
    actor.require(Permission.WEBHOOKS_MANAGE)
    with reading(service, actor.tenant) as connection:
        query = select(webhooks).where(webhooks.c.tenant == actor.tenant).order_by(webhooks.c.webhook_id)
        return tuple(_endpoint(row) for row in connection.execute(query))


def get(service: Service, actor: Actor, webhook_id: str) -> Endpoint:
    actor.require(Permission.WEBHOOKS_MANAGE)
    with reading(service, actor.tenant) as connection:
        return _endpoint(row_of(connection, actor.tenant, webhook_id))


def change(
    service: Service,
    actor: Actor,
    webhook_id: str,
    *,
    url: str | None = None,
    events: Sequence[Event] | None = None,
    disabled: bool | None = None,
) -> Endpoint:
    """Another address or other events, off or on again. Raises TargetError, NotFoundError."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    values: dict[str, Any] = {}
    if url is not None:
        check_url(url, private=service.config.edge.webhook_private)
        values["url"] = url
    if events is not None:
        values["events"] = json.dumps(sorted({event.value for event in events}))
    if disabled is not None:
        values["disabled_at"] = written(service.clock()) if disabled else None
        values["disabled_reason"] = "switched off" if disabled else None
    with writing(service, actor.tenant) as connection:
        row_of(connection, actor.tenant, webhook_id)
        if values:
            connection.execute(update(webhooks).where(*_this(actor.tenant, webhook_id)).values(**values))
            audit(connection, actor, "webhook.change", webhook_id=webhook_id, changed=sorted(values))
        return _endpoint(row_of(connection, actor.tenant, webhook_id))


def rotate_secret(service: Service, actor: Actor, webhook_id: str) -> tuple[Endpoint, str]:
    """A new secret; for a day deliveries carry a signature of each, the newer first."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    secret = new_secret()
    with writing(service, actor.tenant) as connection:
        row = row_of(connection, actor.tenant, webhook_id)
        old = _unsealed(connection, row)
        until = written(service.clock() + OVERLAP)
        both = {"current": secret, "previous": old["current"], "previous_until": until}
        sealed = _sealed(connection, actor.tenant, webhook_id, both)
        connection.execute(update(webhooks).where(*_this(actor.tenant, webhook_id)).values(secret=sealed))
        audit(connection, actor, "webhook.rotate", webhook_id=webhook_id)
        return _endpoint(row), secret


def remove(service: Service, actor: Actor, webhook_id: str) -> None:
    """The endpoint and its deliveries, sent or not."""
    actor.require(Permission.WEBHOOKS_MANAGE)
    with writing(service, actor.tenant) as connection:
        row_of(connection, actor.tenant, webhook_id)
        connection.execute(delete(deliveries).where(deliveries.c.tenant == actor.tenant, deliveries.c.webhook_id == webhook_id))
        connection.execute(delete(webhooks).where(*_this(actor.tenant, webhook_id)))
        audit(connection, actor, "webhook.delete", webhook_id=webhook_id)


def new_secret() -> str:
    """256 random bits, written as Standard Webhooks wants them."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def secrets_of(connection: Connection, row: Row[Any], now: datetime) -> tuple[str, ...]:
    """The secrets that sign at this time, the newest first."""
    known = _unsealed(connection, row)
    out = [known["current"]]
    if "previous" in known and known["previous_until"] > written(now):
        out.append(known["previous"])
    return tuple(out)


def row_of(connection: Connection, tenant: str, webhook_id: str) -> Row[Any]:
    row = connection.execute(select(webhooks).where(*_this(tenant, webhook_id))).first()
    if row is None:
        raise NotFoundError("no webhook by this id in this tenant")
    return row


def _this(tenant: str, webhook_id: str) -> tuple[Any, Any]:
    return webhooks.c.tenant == tenant, webhooks.c.webhook_id == webhook_id


def _sealed(connection: Connection, tenant: str, webhook_id: str, value: dict[str, str]) -> str:
    return seal_json(connection, tenant, f"serve_webhooks.secret/{webhook_id}", value)


def _unsealed(connection: Connection, row: Row[Any]) -> dict[str, str]:
    value: dict[str, str] = unseal_json(connection, row.tenant, f"serve_webhooks.secret/{row.webhook_id}", row.secret)
    return value


def _endpoint(row: Row[Any]) -> Endpoint:
    return Endpoint(
        webhook_id=row.webhook_id,
        url=row.url,
        events=tuple(Event(word) for word in json.loads(row.events)),
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
    )
