"""Who calls, and may they: every route has exactly one ``allowed(permission)``, or is ``public``. Default deny.

A caller is known by an API key (``Authorization: Bearer ck_...``), by the desk's session cookie (writes then need the header
``X-CSRF-Token`` as well), or, in demo mode on a loopback address only, by being there.
"""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from certloop.serve.errors import CsrfError, DemoError, ForbiddenError, UnauthenticatedError
from certloop.serve.people import keys, sessions
from certloop.serve.people.actor import DEMO_TENANT, Actor
from certloop.serve.people.keys import Known
from certloop.serve.people.passwords import Backoff
from certloop.serve.people.roles import Permission
from certloop.serve.people.tenants import settings_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from certloop.serve.api.limits import TokenBuckets
    from certloop.serve.context import Service

SESSION_COOKIE = "certloop_session"
CSRF_HEADER = "X-CSRF-Token"
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
STRANGERS_PER_S, STRANGERS_AT_ONCE = 10.0, 50.0
_bearer = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: `Authorization: Bearer ck_...`")
_cookie = APIKeyCookie(name=SESSION_COOKIE, auto_error=False, scheme_name="session", description="A session of the desk")


@dataclass(slots=True)
class Door:
    """What the door remembers between requests, in this process: rates, wrong passwords, and which keys were used."""

    buckets: TokenBuckets
    backoff: Backoff
    used: dict[str, datetime] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, key_id: str, at: datetime) -> None:
        with self.lock:
            self.used[key_id] = at

    def flush(self, service: Service) -> None:
        """Write when keys were last used, to the minute."""
        with self.lock:
            used, self.used = self.used, {}
        by_minute: dict[datetime, list[str]] = {}
        for key_id, at in used.items():
            by_minute.setdefault(at.replace(second=0, microsecond=0), []).append(key_id)
        for at, key_ids in by_minute.items():
            keys.note_used(service, key_ids, at)


BearerHeader = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
SessionCookie = Annotated[str | None, Depends(_cookie)]


class Allowed:
    """The dependency of a route: answers who calls, or refuses. Made by :func:`allowed` and :func:`signed_in`."""

    def __init__(self, permission: Permission | None) -> None:
        self.permission = permission

    def __call__(self, request: Request, _key: BearerHeader = None, _session: SessionCookie = None) -> Actor | None:
        actor = identify(request).actor
        if self.permission is not None:
            actor.require(self.permission)
        return actor


def allowed(permission: Permission) -> Allowed:
    """``actor: Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_READ))]``."""
    return Allowed(permission)


def signed_in() -> Allowed:
    """For the few routes that every known caller may call."""
    return Allowed(None)


def public() -> None:
    """The dependency of the few routes that anybody may call: ``dependencies=[Depends(public)]``."""


def identify(request: Request) -> Known:
    """The caller of a request, asked for once. Raises UnauthenticatedError, CsrfError, LimitedError."""
    state: dict[str, Any] = request.scope.setdefault("state", {})
    if "known" not in state:
        service: Service = request.app.state.service
        door: Door = request.app.state.door
        try:
            known = _identify(request, service, door)
        except UnauthenticatedError:
            if request.headers.get("authorization") or SESSION_COOKIE in request.cookies:
                door.buckets.take(f"stranger {_address(request)}", STRANGERS_PER_S, STRANGERS_AT_ONCE)
            raise
        door.buckets.take(known.actor.actor_id, known.settings.rate_per_s, known.settings.burst)
        state["known"] = known
    result: Known = state["known"]
    return result


def _identify(request: Request, service: Service, door: Door) -> Known:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        known = keys.authenticate(service, key.strip())
        door.note(known.actor.actor_id, service.clock())
        return known
    session = request.cookies.get(SESSION_COOKIE)
    if session:
        known = sessions.authenticate(service, session)
        if request.method not in SAFE_METHODS:
            check_same_site(request)
            if not sessions.csrf_matches(session, request.headers.get(CSRF_HEADER, "")):
                raise CsrfError(f"a write by cookie needs the header {CSRF_HEADER} with the session's token")
        return known
    if service.config.demo:
        check_demo_request(request)
        return Known(Actor.demo(), settings_of(service, DEMO_TENANT))
    raise UnauthenticatedError("send an API key: Authorization: Bearer ck_...")


def known_at_desk(request: Request) -> Known | None:
    """The caller of a page of the desk, None for a stranger. The desk's own requests carry no token; their site is checked."""
    service: Service = request.app.state.service
    session = request.cookies.get(SESSION_COOKIE)
    try:
        if request.method not in SAFE_METHODS:
            check_same_site(request)
        if session:
            return sessions.authenticate(service, session)
        if service.config.demo:
            check_demo_request(request)
            return Known(Actor.demo(), settings_of(service, DEMO_TENANT))
    except (UnauthenticatedError, ForbiddenError):
        return None
    return None


def check_same_site(request: Request) -> None:
    """Raises CsrfError for a request that a page of another site sent, as far as the browser says so."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    elsewhere = site is not None and site not in ("same-origin", "none")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        elsewhere = True
    if elsewhere:
        raise CsrfError("a page of another site sent this request")


def check_demo_request(request: Request) -> None:
    """Demo mode lets everybody in, therefore only from this machine, under its own names, and from no other site's pages.

    Raises ForbiddenError. The name is checked because another site's name may be made to lead to 127.0.0.1.
    """
    if any(name in request.headers for name in FORWARDED):
        raise ForbiddenError("demo mode does not work behind a proxy: make API keys with `certloop admin key create`")
    if not is_loopback(_address(request)):
        raise ForbiddenError("demo mode answers this machine only: make API keys with `certloop admin key create`")
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not is_loopback(host):
        raise ForbiddenError("demo mode answers to localhost and 127.0.0.1 only")
    check_same_site(request)


def check_demo_bind(host: str) -> None:
    """Raises DemoError unless the server will listen on a loopback address only."""
    if not is_loopback(host):
        raise DemoError("demo mode asks nobody for a key, so it listens on a loopback address only, such as 127.0.0.1")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def install(app: FastAPI) -> None:
    from certloop.serve.api.limits import TokenBuckets

    app.state.door = Door(TokenBuckets(), Backoff())
