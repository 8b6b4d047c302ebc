"""Webhooks: endpoints, their secrets, what was delivered, and delivering it again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Bool, Cursor, DeliveryId, Limit, Open, WebhookId
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission
from certloop.serve.webhooks import deliveries, endpoints
from certloop.serve.webhooks.deliveries import Failure
from certloop.serve.webhooks.outbox import Event

router = APIRouter(prefix="/v1", tags=["webhooks"])
Manager = Annotated[Actor, Depends(allowed(Permission.WEBHOOKS_MANAGE))]
_WEBHOOK: dict[str, JsonValue] = {
    "webhook_id": "whk_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "url": "https://erp.example.com/certloop",
    "events": ["batch.done", "document.done"],
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "disabled_at": None,
    "disabled_reason": None,
}
_DELIVERY: dict[str, JsonValue] = {
    "delivery_id": "dlv_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "webhook_id": "whk_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "event": "document.done",
    "state": "pending",
    "attempts": 2,
    "next_at": "2026-03-01T08:00:25.000000+00:00",
    "last_status": 502,
    "last_error": None,
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "delivered_at": None,
}
Url = Annotated[
    str,
    Field(
        min_length=9,
        max_length=2000,
        description="https; no user, no fragment; not a private address",
        json_schema_extra={"format": "uri"},
    ),
]
Events = Annotated[list[Event], Field(min_length=1, max_length=len(Event))]


class State(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _WEBHOOK})
    webhook_id: str
    url: str
    events: list[Event]
    created_at: str
    disabled_at: str | None
    disabled_reason: str | None = Field(
        description="switched off by somebody, by an answer 410, or for leading to a private address"
    )


class NewWebhookOut(WebhookOut):
    model_config = ConfigDict(json_schema_extra={"example": _WEBHOOK | {"secret": "whsec_" + "A" * 43 + "="}})
    secret: str = Field(description="signs deliveries (Standard Webhooks); it is shown this once")


class WebhooksOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_WEBHOOK]}})
    items: list[WebhookOut]


class DeliveryOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _DELIVERY})
    delivery_id: str = Field(description="the header `webhook-id`: the same on every attempt")
    webhook_id: str
    event: Event
    state: State
    attempts: int
    next_at: str | None
    last_status: int | None = Field(description="of the last answer; null: none came")
    last_error: Failure | None = Field(description="why the last attempt brought no answer; null: one came, or none was made")
    created_at: str
    delivered_at: str | None


class DeliveryPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_DELIVERY], "next_cursor": None}})
    items: list[DeliveryOut]
    next_cursor: str | None


class WebhookIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"url": "https://erp.example.com/certloop", "events": ["document.done", "batch.done"]}}
    )
    url: Url
    events: Events


class WebhookChange(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"disabled": False}})
    url: Url | None = None
    events: Events | None = None
    disabled: Bool | None = None


@router.post("/webhooks", status_code=201, summary="Add a webhook", responses={409: {}})
def create_webhook(service: Open, actor: Manager, body: WebhookIn) -> NewWebhookOut:
    """Events go there, signed, at least once, with ids and states only. The answer holds the secret, which is shown this once."""
    endpoint, secret = endpoints.create(service, actor, body.url, body.events)
    return NewWebhookOut.model_validate(endpoint.to_json() | {"secret": secret})


@router.get("/webhooks", summary="Webhooks")
def list_webhooks(service: Open, actor: Manager) -> WebhooksOut:
    """All webhooks of the tenant, oldest first, without their secrets."""
    return WebhooksOut(items=[WebhookOut.model_validate(one.to_json()) for one in endpoints.every(service, actor)])


@router.get("/webhooks/{webhook_id}", summary="One webhook")
def get_webhook(service: Open, actor: Manager, webhook_id: WebhookId) -> WebhookOut:
    """Where it goes, for what, and whether it is switched off."""
    return WebhookOut.model_validate(endpoints.get(service, actor, webhook_id).to_json())


@router.patch("/webhooks/{webhook_id}", summary="Change a webhook")
def change_webhook(service: Open, actor: Manager, webhook_id: WebhookId, body: WebhookChange) -> WebhookOut:
    """Another address, other events, off or on again."""
    changed = endpoints.change(service, actor, webhook_id, url=body.url, events=body.events, disabled=body.disabled)
    return WebhookOut.model_validate(changed.to_json())


@router.delete("/webhooks/{webhook_id}", status_code=204, summary="Delete a webhook")
def delete_webhook(service: Open, actor: Manager, webhook_id: WebhookId) -> None:
    """The webhook and its deliveries, sent or not."""
    endpoints.remove(service, actor, webhook_id)


@router.post("/webhooks/{webhook_id}/secret", status_code=201, summary="Make a new secret")
def rotate_secret(service: Open, actor: Manager, webhook_id: WebhookId) -> NewWebhookOut:
    """For a day deliveries carry a signature of the old secret as well, so that receivers can change over."""
    endpoint, secret = endpoints.rotate_secret(service, actor, webhook_id)
    return NewWebhookOut.model_validate(endpoint.to_json() | {"secret": secret})


@router.get("/webhooks/{webhook_id}/deliveries", summary="Deliveries of a webhook")
def list_deliveries(
    service: Open,
    actor: Manager,
    webhook_id: WebhookId,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[State | None, Query(description="only these")] = None,
) -> DeliveryPage:
    """Newest first: what was sent, how often it was tried, and what the endpoint answered."""
    listing = f"deliveries {webhook_id}"
    before = None if cursor is None else read_cursor(cursor, actor.tenant, listing)[0]
    rows = deliveries.page(service, actor, webhook_id, state=state, before=before, limit=limit + 1)
    more = write_cursor(actor.tenant, listing, rows[limit - 1].delivery_id) if len(rows) > limit else None
    return DeliveryPage(items=[DeliveryOut.model_validate(row.to_json()) for row in rows[:limit]], next_cursor=more)


@router.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202, summary="Deliver again", responses={409: {}}
)
def redeliver(service: Open, actor: Manager, webhook_id: WebhookId, delivery_id: DeliveryId) -> DeliveryOut:
    """Sent again with the same id, at once and then with the usual waits."""
    return DeliveryOut.model_validate(deliveries.redeliver(service, actor, webhook_id, delivery_id).to_json())
