"""What a tenant's admin does: settings, API keys, users, and the audit trail. Tenants themselves are made by commands only."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, SecretStr
from sqlalchemy import select

from certloop.agentrl.store.log import audit_from_row
from certloop.agentrl.store.schema import audit as audit_table
from certloop.agentrl.trajectory import Consent
from certloop.serve.api.cursors import read_cursor, write_cursor
from certloop.serve.api.security import allowed
from certloop.serve.api.shapes import Body, Bool, Cursor, KeyId, Limit, Name, Number, Open, UserId
from certloop.serve.db.access import reading
from certloop.serve.errors import CursorError
from certloop.serve.people import keys, tenants, users
from certloop.serve.people.actor import Actor
from certloop.serve.people.passwords import MAX_LENGTH, MIN_LENGTH
from certloop.serve.people.roles import Permission, Role
from certloop.serve.people.tenants import (
    AcceptedError,
    Burst,
    LeaseSeconds,
    Purpose,
    QueueLimit,
    Rate,
    Retention,
    Share,
    TenantSettings,
    whole,
)

router = APIRouter(prefix="/v1", tags=["administration"])
Days = Annotated[int, Field(strict=True, ge=1, le=3650), BeforeValidator(whole)]
Admin = Annotated[Actor, Depends(allowed(Permission.ADMIN))]
_KEY: dict[str, JsonValue] = {
    "key_id": "key_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "name": "uploads of the purchasing department",
    "role": "operator",
    "scopes": ["documents:write", "documents:read"],
    "user_id": None,
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "expires_at": "2027-03-01T08:00:00.000000+00:00",
    "revoked_at": None,
    "rotated_to": None,
    "last_used_at": "2026-03-02T09:30:00.000000+00:00",
}
_USER: dict[str, JsonValue] = {
    "user_id": "usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
    "login": "auditor-7",
    "role": "auditor",
    "has_password": True,
    "created_at": "2026-03-01T08:00:00.000000+00:00",
    "disabled_at": None,
}


class TenantOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "tenant": "acme",
                "name": "Acme purchasing",
                "settings": TenantSettings(purpose="supplier onboarding").model_dump(mode="json"),
                "created_at": "2026-03-01T08:00:00.000000+00:00",
                "disabled_at": None,
            }
        }
    )
    tenant: str
    name: str
    settings: TenantSettings
    created_at: str | None
    disabled_at: str | None


class KeyOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _KEY})
    key_id: str
    name: str
    role: Role
    scopes: list[Permission] = Field(description="empty: all that the role may")
    user_id: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    rotated_to: str | None
    last_used_at: str | None = Field(description="to the minute, and up to a minute late")


class NewKeyOut(KeyOut):
    model_config = ConfigDict(json_schema_extra={"example": _KEY | {"key": "ck_" + "x" * 43, "last_used_at": None}})
    key: str = Field(description="the key itself; it is shown this once")


class KeysOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_KEY]}})
    items: list[KeyOut]


class UserOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": _USER})
    user_id: str
    login: str
    role: Role
    has_password: bool
    created_at: str
    disabled_at: str | None


class UsersOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": {"items": [_USER]}})
    items: list[UserOut]


class AuditOut(BaseModel):
    position: int
    at: str
    actor: str
    action: str
    details: dict[str, Any]
    hash: str = Field(description="covers this row and the hash of the row before")


class AuditPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "items": [
                    {
                        "position": 12,
                        "at": "2026-03-01T08:00:00.000000+00:00",
                        "actor": "key_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
                        "action": "key.revoke",
                        "details": {"key_id": "key_18c0f3a2b4d5e6f708192a3b4c5d6e80"},
                        "hash": "9f2b" * 16,
                    }
                ],
                "next_cursor": None,
            }
        }
    )
    items: list[AuditOut]
    next_cursor: str | None


class ReviewChange(Body):
    accepted_error: AcceptedError | None = None
    all_fields: Bool | None = None
    sampling: Share | None = None
    lease_s: LeaseSeconds | None = None
    double_check: Share | None = None


class SettingsChange(Body):
    consent: Consent | None = None
    purpose: Purpose | None = None
    queue_limit: QueueLimit | None = None
    rate_per_s: Rate | None = None
    burst: Burst | None = None
    retention_days: Retention | None = None
    review: ReviewChange | None = None


class SettingsIn(Body):
    """Only the settings that are named change; null gives a setting its default back."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"settings": {"consent": "tenant", "rate_per_s": 20, "review": {"sampling": 0.05}}}}
    )
    settings: SettingsChange


class KeyIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "uploads", "role": "operator", "scopes": ["documents:write"], "lifetime_days": 365}
        }
    )
    name: Name
    role: Role
    scopes: list[Permission] = Field([], max_length=len(Permission), description="only narrow the role; empty: all of it")
    lifetime_days: Days | None = Field(None, description="null: until it is revoked")
    user_id: str | None = Field(None, pattern=r"^usr_[0-9a-f]{32}$", description="the key ends with this user")


class RotateIn(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"overlap_hours": 24}})
    overlap_hours: Number = Field(24.0, ge=0, le=720, allow_inf_nan=False, description="how long the old key works on")
    lifetime_days: Days | None = Field(None, description="null: as long as the old one was made for")


class UserIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"login": "auditor-7", "role": "auditor", "password": "a long sentence is best"}}
    )
    login: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$")
    role: Role
    password: SecretStr | None = Field(None, min_length=MIN_LENGTH, max_length=MAX_LENGTH, description="null: keys only")


class UserChange(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"disabled": True}})
    role: Role | None = None
    disabled: Bool | None = None
    password: SecretStr | None = Field(None, min_length=MIN_LENGTH, max_length=MAX_LENGTH)


@router.get("/tenant", summary="The tenant and its settings")
def get_tenant(service: Open, actor: Admin) -> TenantOut:
    """The caller's own tenant; there is no way to ask for another."""
    return TenantOut.model_validate(tenants.get(service, actor.tenant).to_json())


@router.patch("/tenant", summary="Change settings of the tenant")
def change_tenant(service: Open, actor: Admin, body: SettingsIn) -> TenantOut:
    """Consent, purpose, queue and rate limits, review thresholds, retention. What is not named stays."""
    changes = body.settings.model_dump(exclude_unset=True)
    return TenantOut.model_validate(tenants.change_settings(service, actor, actor.tenant, changes).to_json())


@router.get("/keys", summary="API keys")
def list_keys(service: Open, actor: Admin) -> KeysOut:
    """All keys of the tenant, revoked and expired ones among them, oldest first. A key itself is never shown again."""
    return KeysOut(items=[KeyOut.model_validate(key.to_json()) for key in keys.every(service, actor)])


@router.post("/keys", status_code=201, summary="Make an API key", responses={404: {}})
def create_key(service: Open, actor: Admin, body: KeyIn) -> NewKeyOut:
    """The answer holds the key itself: it is shown this once, and only its SHA-256 is kept."""
    ends = None if body.lifetime_days is None else service.clock() + timedelta(days=body.lifetime_days)
    key, secret = keys.create(service, actor, body.name, body.role, scopes=body.scopes, expires_at=ends, user_id=body.user_id)
    return NewKeyOut.model_validate(key.to_json() | {"key": secret})


@router.get("/keys/{key_id}", summary="One API key")
def get_key(service: Open, actor: Admin, key_id: KeyId) -> KeyOut:
    """What is known of a key: its role, scopes, times; never the key itself."""
    return KeyOut.model_validate(keys.get(service, actor, key_id).to_json())


@router.post("/keys/{key_id}/rotate", status_code=201, summary="Replace an API key", responses={409: {}})
def rotate_key(service: Open, actor: Admin, key_id: KeyId, body: RotateIn) -> NewKeyOut:
    """A new key with the same rights; the old one works on during the overlap, so that nobody is cut off."""
    ends = None if body.lifetime_days is None else service.clock() + timedelta(days=body.lifetime_days)
    key, secret = keys.rotate(service, actor, key_id, overlap=timedelta(hours=body.overlap_hours), expires_at=ends)
    return NewKeyOut.model_validate(key.to_json() | {"key": secret})


@router.delete("/keys/{key_id}", summary="Revoke an API key")
def revoke_key(service: Open, actor: Admin, key_id: KeyId) -> KeyOut:
    """The key works no more, from now on. Its row stays, because the audit trail names it."""
    return KeyOut.model_validate(keys.revoke(service, actor, key_id).to_json())


@router.get("/users", summary="Users of the desk")
def list_users(service: Open, actor: Admin) -> UsersOut:
    """All users of the tenant, oldest first."""
    return UsersOut(items=[UserOut.model_validate(user.to_json()) for user in users.every(service, actor)])


@router.post("/users", status_code=201, summary="Make a user", responses={409: {}})
def create_user(service: Open, actor: Admin, body: UserIn) -> UserOut:
    """A user has one role. With a password they can log in to the desk."""
    password = None if body.password is None else body.password.get_secret_value()
    return UserOut.model_validate(users.create(service, actor, body.login, body.role, password).to_json())


@router.get("/users/{user_id}", summary="One user")
def get_user(service: Open, actor: Admin, user_id: UserId) -> UserOut:
    """A user of the tenant; the password is never shown."""
    return UserOut.model_validate(users.get(service, actor, user_id).to_json())


@router.patch("/users/{user_id}", summary="Change a user", responses={409: {}})
def change_user(service: Open, actor: Admin, user_id: UserId, body: UserChange) -> UserOut:
    """Another role or password, or disabled. Each ends the user's sessions; disabling ends the user's keys as well."""
    password = None if body.password is None else body.password.get_secret_value()
    changed = users.change(service, actor, user_id, role=body.role, disabled=body.disabled, password=password)
    return UserOut.model_validate(changed.to_json())


@router.get("/audit", summary="The audit trail")
def list_audit(
    service: Open,
    actor: Admin,
    limit: Limit = 50,
    cursor: Cursor = None,
    action: Annotated[str | None, Query(max_length=64, pattern=r"^[a-z_.-]+$", description="only this action")] = None,
) -> AuditPage:
    """Who did what and when, newest first: ids and counts, no personal data. Each row's hash covers the row before it; the
    command `certloop store verify` recomputes the chain."""
    query = select(audit_table).where(audit_table.c.tenant == actor.tenant)
    if cursor is not None:
        (before,) = read_cursor(cursor, actor.tenant, "audit")
        query = query.where(audit_table.c.position < _position(before))
    if action is not None:
        query = query.where(audit_table.c.action == action)
    with reading(service, actor.tenant) as connection:
        rows = [audit_from_row(r) for r in connection.execute(query.order_by(audit_table.c.position.desc()).limit(limit + 1))]
    items = [
        AuditOut(position=r.position, at=r.at, actor=r.actor, action=r.action, details=dict(r.details), hash=r.hash)
        for r in rows[:limit]
    ]
    more = write_cursor(actor.tenant, "audit", str(items[-1].position)) if len(rows) > limit else None
    return AuditPage(items=items, next_cursor=more)


def _position(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise CursorError("this cursor was changed; begin without one")
    return int(text)
