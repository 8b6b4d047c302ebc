"""Sessions of the desk: a login and a password become a cookie. The cookie's secret is kept as its SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select

from certloop.agentrl.store import TenantError
from certloop.agentrl.store.blobs import check_tenant
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import sessions, tenants, users
from certloop.serve.errors import LoginError, RequestError, UnauthenticatedError
from certloop.serve.people.actor import Actor
from certloop.serve.people.keys import Known, sha256
from certloop.serve.people.passwords import NOBODY, Backoff, matches
from certloop.serve.people.place import Place, audit, written
from certloop.serve.people.roles import Role
from certloop.serve.people.tenants import DEFAULTS, TenantSettings
from certloop.serve.people.users import check_login

LIFETIME = timedelta(hours=12)
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_WRONG = "no user with this login and password in this tenant"


@dataclass(frozen=True, slots=True)
class Session:
    """``secret`` goes into the cookie and nowhere else; ``csrf_token`` must come back in a header with every write."""

    actor: Actor
    secret: str
    csrf_token: str
    expires_at: datetime


def log_in(place: Place, tenant: str, login: str, password: str, client: str, backoff: Backoff) -> Session:
    """Raises LoginError, alike for everything that may be wrong, and LockedOutError after too many failures of a login from one
    address (``client``)."""
    who = (tenant, login, client)
    backoff.check(who)
    user_id, role = _user_with(place, tenant, login, password) or (None, None)
    if user_id is None or role is None:
        backoff.failed(who)
        raise LoginError(_WRONG)
    backoff.passed(who)
    secret, now = secrets.token_urlsafe(32), place.clock()
    values = {
        "sha256": sha256(secret),
        "tenant": tenant,
        "user_id": user_id,
        "created_at": written(now),
        "expires_at": written(now + LIFETIME),
    }
    actor = Actor.of(tenant, user_id, role)
    with writing(place.engine, tenant) as connection:
        connection.execute(delete(sessions).where(sessions.c.tenant == tenant, sessions.c.expires_at <= written(now)))
        connection.execute(insert(sessions), [values])
        audit(connection, actor, "session.open")
    return Session(actor, secret, csrf_token(secret), now + LIFETIME)


def log_out(place: Place, actor: Actor, secret: str) -> None:
    """The cookie is worth nothing from now on."""
    with writing(place.engine, actor.tenant) as connection:
        gone = connection.execute(delete(sessions).where(sessions.c.sha256 == sha256(secret), sessions.c.tenant == actor.tenant))
        if gone.rowcount:
            audit(connection, actor, "session.close")


def authenticate(place: Place, secret: str) -> Known:
    """Who holds this cookie. Raises UnauthenticatedError."""
    if not _SECRET.fullmatch(secret):
        raise UnauthenticatedError("this is no session; log in again")
    joined = sessions.outerjoin(tenants, tenants.c.tenant == sessions.c.tenant)
    query = select(sessions, tenants.c.settings, tenants.c.disabled_at).select_from(joined)
    with reading(place.engine, None) as connection:
        row = connection.execute(query.where(sessions.c.sha256 == sha256(secret))).first()
    if row is None or datetime.fromisoformat(row.expires_at) <= place.clock():
        raise UnauthenticatedError("this session is over; log in again")
    if row.disabled_at is not None:
        raise UnauthenticatedError("this tenant is disabled")
    mine = select(users.c.role, users.c.disabled_at).where(users.c.tenant == row.tenant, users.c.user_id == row.user_id)
    with reading(place.engine, row.tenant) as connection:
        user = connection.execute(mine).first()
    if user is None or user.disabled_at is not None:
        raise UnauthenticatedError("this user is disabled")
    settings = DEFAULTS if row.settings is None else TenantSettings.model_validate_json(row.settings)
    return Known(Actor.of(row.tenant, row.user_id, Role(user.role)), settings)


def csrf_token(secret: str) -> str:
    """Derived from the cookie's secret, so that another site, which cannot read the cookie, cannot know it."""
    return hmac.new(secret.encode(), b"certloop csrf", hashlib.sha256).hexdigest()


def csrf_matches(secret: str, token: str) -> bool:
    return hmac.compare_digest(csrf_token(secret).encode(), token.encode("utf-8", "surrogatepass"))


def _user_with(place: Place, tenant: str, login: str, password: str) -> tuple[str, Role] | None:
    """Takes as long for a login that nobody has as for a wrong password."""
    row = None
    try:
        check_tenant(tenant)
        check_login(login)
    except (TenantError, RequestError):
        pass
    else:
        with reading(place.engine, tenant) as connection:
            shut = connection.execute(select(tenants.c.disabled_at).where(tenants.c.tenant == tenant)).scalar()
            if shut is None:
                row = connection.execute(select(users).where(users.c.tenant == tenant, users.c.login == login)).first()
    right = matches(password, row.password if row is not None and row.password is not None else NOBODY)
    if not right or row is None or row.disabled_at is not None:
        return None
    return row.user_id, Role(row.role)
