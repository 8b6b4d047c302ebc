"""Who calls, and may they: every route has exactly one ``allowed(permission)`` or is named ``public()``. Default deny."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from certloop.serve.errors import UnauthenticatedError
from certloop.serve.people.actor import Actor
from certloop.serve.people.roles import Permission

SESSION_COOKIE = "certloop_session"
_bearer = HTTPBearer(auto_error=False, scheme_name="key", description="An API key: `Authorization: Bearer ck_...`")
_cookie = APIKeyCookie(name=SESSION_COOKIE, auto_error=False, scheme_name="session", description="The desk's session")


class Allowed:
    """The dependency that answers who calls. Made by :func:`allowed` only."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    def __call__(
        self,
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None,
        cookie: Annotated[str | None, Depends(_cookie)] = None,
    ) -> Actor:
        actor = authenticate(request, bearer.credentials if bearer else None, cookie)
        actor.require(self.permission)
        return actor


def allowed(permission: Permission) -> Allowed:
    """``actor: Annotated[Actor, Depends(allowed(Permission.DOCUMENTS_READ))]``."""
    return Allowed(permission)


def public() -> None:
    """The dependency of the few routes that anybody may call: ``dependencies=[Depends(public)]``."""


def authenticate(request: Request, key: str | None, session: str | None) -> Actor:
    """The actor of a request. Raises UnauthenticatedError."""
    if request.app.state.service.config.demo and not key and not session:
        return Actor.demo()
    raise UnauthenticatedError("send an API key: Authorization: Bearer ck_...")


def install(app: FastAPI) -> None:
    """What ``create_app`` calls first; ``app.state.service`` must be set."""
