"""API keys: 256 random bits behind ``ck_``, shown once, kept as their SHA-256, scoped, expiring, rotated with an overlap.

SHA-256 without salt is right for keys of full entropy (there is nothing to guess); passwords are another matter (``users``).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from certloop.agentrl.store import NotFoundError
from certloop.agentrl.store.events import new_id
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import keys, tenants, users
from certloop.serve.errors import ConflictError, RequestError, UnauthenticatedError
from certloop.serve.people.actor import Actor
from certloop.serve.people.place import Place, audit, written
from certloop.serve.people.roles import GRANTS, Permission, Role
from certloop.serve.people.tenants import DEFAULTS, TenantSettings

PREFIX = "ck_"
_SECRET = re.compile(r"ck_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
MAX_OVERLAP = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """All that is known of a key; the key itself is not. Times as the tables write them."""

    key_id: str
    tenant: str
    name: str
    role: Role
    scopes: tuple[Permission, ...]
    user_id: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    rotated_to: str | None
    last_used_at: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "key_id": self.key_id,
            "name": self.name,
            "role": self.role.value,
            "scopes": [scope.value for scope in self.scopes],
            "user_id": self.user_id,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
            "rotated_to": self.rotated_to,
            "last_used_at": self.last_used_at,
        }


@dataclass(frozen=True, slots=True)
class Known:
    """A caller whose credentials hold: the actor, and the settings of its tenant."""

    actor: Actor
    settings: TenantSettings


def sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def create(
    place: Place,
    actor: Actor,
    name: str,
    role: Role,
    *,
    scopes: Collection[Permission] = (),
    expires_at: datetime | None = None,
    user_id: str | None = None,
) -> tuple[ApiKey, str]:
    """A new key of the actor's tenant, and its secret, which nobody can ask for again.

    Raises RequestError for a scope that the role does not have or a time that is over, NotFoundError for an unknown user.
    """
    actor.require(Permission.ADMIN)
    if not _NAME.fullmatch(name):
        raise RequestError("a key's name has 1 to 100 characters and no control characters")
    foreign = sorted(set(scopes) - GRANTS[role])
    if foreign:
        raise RequestError(f"the role {role} does not have: {', '.join(foreign)}; scopes only narrow a role")
    if expires_at is not None and expires_at <= place.clock():
        raise RequestError("expires_at is over already")
    with writing(place.engine, actor.tenant) as connection:
        if user_id is not None:
            _check_user(connection, actor.tenant, user_id)
        key, secret = _insert(connection, place, actor.tenant, name, role, tuple(sorted(set(scopes))), expires_at, user_id)
        audit(connection, actor, "key.create", key_id=key.key_id, role=role.value, user_id=user_id)
    return key, secret


def every(place: Place, actor: Actor) -> tuple[ApiKey, ...]:
    """The keys of the actor's tenant, oldest first."""
    actor.require(Permission.ADMIN)
    with reading(place.engine, actor.tenant) as connection:
        query = select(keys).where(keys.c.tenant == actor.tenant).order_by(keys.c.key_id)
        return tuple(_key(row) for row in connection.execute(query))


def get(place: Place, actor: Actor, key_id: str) -> ApiKey:
    actor.require(Permission.ADMIN)
    with reading(place.engine, actor.tenant) as connection:
        return _key(_row(connection, actor.tenant, key_id))


def rotate(
    place: Place,
    actor: Actor,
    key_id: str,
    *,
    overlap: timedelta = timedelta(hours=24),
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key that may do the same; the old one works for ``overlap`` more. Without ``expires_at`` the new one lives as long as
    the old one was made to. Raises ConflictError for a key that is revoked, expired or rotated already."""
    actor.require(Permission.ADMIN)
    now = place.clock()
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise RequestError("the overlap of two keys is between nothing and 30 days")
    if expires_at is not None and expires_at <= now:
        raise RequestError("expires_at is over already")
    with writing(place.engine, actor.tenant) as connection:
        old = _key(_row(connection, actor.tenant, key_id))
        if old.revoked_at is not None or old.rotated_to is not None or _over(old.expires_at, now):
            raise ConflictError("only a key that still works and has no successor can be rotated")
        if expires_at is None and old.expires_at is not None:
            expires_at = now + (datetime.fromisoformat(old.expires_at) - datetime.fromisoformat(old.created_at))
        key, secret = _insert(connection, place, actor.tenant, old.name, old.role, old.scopes, expires_at, old.user_id)
        ends = min(filter(None, (old.expires_at, written(now + overlap))))
        connection.execute(update(keys).where(keys.c.key_id == key_id).values(rotated_to=key.key_id, expires_at=ends))
        audit(connection, actor, "key.rotate", key_id=key_id, rotated_to=key.key_id)
    return key, secret


def revoke(place: Place, actor: Actor, key_id: str) -> ApiKey:
    """The key works no more, from this moment on. Revoking it again changes nothing."""
    actor.require(Permission.ADMIN)
    with writing(place.engine, actor.tenant) as connection:
        key = _key(_row(connection, actor.tenant, key_id))
        if key.revoked_at is None:
            connection.execute(update(keys).where(keys.c.key_id == key_id).values(revoked_at=written(place.clock())))
            audit(connection, actor, "key.revoke", key_id=key_id)
        return _key(_row(connection, actor.tenant, key_id))


def authenticate(place: Place, secret: str) -> Known:
    """Who shows this key. Raises UnauthenticatedError; what is wrong with the key is told to its holder only."""
    if not _SECRET.fullmatch(secret):
        raise UnauthenticatedError("this is no API key: keys begin with ck_ and have 46 characters")
    joined = keys.outerjoin(tenants, tenants.c.tenant == keys.c.tenant)
    query = select(keys, tenants.c.settings, tenants.c.disabled_at.label("tenant_disabled_at")).select_from(joined)
    with reading(place.engine, None) as connection:
        row = connection.execute(query.where(keys.c.sha256 == sha256(secret))).first()
    if row is None:
        raise UnauthenticatedError("this API key is not known")
    if row.revoked_at is not None:
        raise UnauthenticatedError("this API key was revoked")
    if _over(row.expires_at, place.clock()):
        raise UnauthenticatedError("this API key has expired")
    if row.tenant_disabled_at is not None:
        raise UnauthenticatedError("this tenant is disabled")
    if row.user_id is not None:
        with reading(place.engine, row.tenant) as connection:
            _check_enabled(connection, row.tenant, row.user_id)
    actor = Actor.of(row.tenant, row.key_id, Role(row.role), [Permission(s) for s in json.loads(row.scopes)])
    return Known(actor, DEFAULTS if row.settings is None else TenantSettings.model_validate_json(row.settings))


def note_used(place: Place, key_ids: Collection[str], at: datetime) -> None:
    """Write when keys were last used; called now and then, not on every request."""
    if key_ids:
        with writing(place.engine, None) as connection:
            connection.execute(update(keys).where(keys.c.key_id.in_(sorted(key_ids))).values(last_used_at=written(at)))


def _insert(
    connection: Connection,
    place: Place,
    tenant: str,
    name: str,
    role: Role,
    scopes: tuple[Permission, ...],
    expires_at: datetime | None,
    user_id: str | None,
) -> tuple[ApiKey, str]:
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(
        key_id=f"key_{new_id()}",
        tenant=tenant,
        name=name,
        role=role,
        scopes=scopes,
        user_id=user_id,
        created_at=written(place.clock()),
        expires_at=None if expires_at is None else written(expires_at),
        revoked_at=None,
        rotated_to=None,
        last_used_at=None,
    )
    values = key.to_json() | {"tenant": tenant, "sha256": sha256(secret), "scopes": json.dumps([s.value for s in scopes])}
    connection.execute(insert(keys), [values])
    return key, secret


def _row(connection: Connection, tenant: str, key_id: str) -> Row[Any]:
    row = connection.execute(select(keys).where(keys.c.tenant == tenant, keys.c.key_id == key_id)).first()
    if row is None:
        raise NotFoundError("no key by this id in this tenant")
    return row


def _check_user(connection: Connection, tenant: str, user_id: str) -> None:
    if connection.execute(select(users.c.user_id).where(users.c.tenant == tenant, users.c.user_id == user_id)).first() is None:
        raise NotFoundError("no user by this id in this tenant")


def _check_enabled(connection: Connection, tenant: str, user_id: str) -> None:
    found = connection.execute(select(users.c.disabled_at).where(users.c.tenant == tenant, users.c.user_id == user_id)).first()
    if found is None or found.disabled_at is not None:
        raise UnauthenticatedError("the user of this API key is disabled")


def _over(expires_at: str | None, now: datetime) -> bool:
    return expires_at is not None and datetime.fromisoformat(expires_at) <= now


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        key_id=row.key_id,
        tenant=row.tenant,
        name=row.name,
        role=Role(row.role),
        scopes=tuple(Permission(s) for s in json.loads(row.scopes)),
        user_id=row.user_id,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        rotated_to=row.rotated_to,
        last_used_at=row.last_used_at,
    )
