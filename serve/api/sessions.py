"""Logging in to the desk, logging out, and who am I."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from certloop.serve.api.security import SESSION_COOKIE, Door, public, signed_in
from certloop.serve.api.shapes import Body
from certloop.serve.context import Service
from certloop.serve.people import sessions
from certloop.serve.people.actor import Actor
from certloop.serve.people.place import written
from certloop.serve.people.roles import Permission, Role

router = APIRouter(prefix="/v1", tags=["sessions"])
LOGINS_PER_S, LOGINS_AT_ONCE = 1.0, 20.0
"""From one address, whatever the login: hashing a password costs a fifth of a second."""


class LoginIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"tenant": "acme", "login": "auditor-7", "password": "a long sentence is best"}}
    )
    tenant: str = Field(max_length=64)
    login: str = Field(max_length=64)
    password: SecretStr = Field(max_length=256)


class MeOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "tenant": "acme",
                "actor": "usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
                "role": "auditor",
                "permissions": ["documents:read", "feedback:write", "outcomes:write", "reviews:decide", "reviews:read"],
            }
        }
    )
    tenant: str
    actor: str = Field(description="the id of the key or the user, as in the audit trail")
    role: Role
    permissions: list[Permission]


class SessionOut(MeOut):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "tenant": "acme",
                "actor": "usr_18c0f3a2b4d5e6f708192a3b4c5d6e7f",
                "role": "auditor",
                "permissions": ["documents:read", "reviews:decide", "reviews:read"],
                "csrf_token": "5d41" * 16,
                "expires_at": "2026-03-01T20:00:00.000000+00:00",
            }
        }
    )
    csrf_token: str = Field(description="send it back as X-CSRF-Token with every write by cookie")
    expires_at: str


@router.post("/login", summary="Log in to the desk", dependencies=[Depends(public)], responses={401: {}, 429: {}})
def log_in(request: Request, response: Response, body: LoginIn) -> SessionOut:
    """Sets the session's cookie. After five wrong passwords for a login from one address there is a wait, which doubles."""
    service: Service = request.app.state.service
    door: Door = request.app.state.door
    client = request.client.host if request.client else ""
    door.buckets.take(f"login {client}", LOGINS_PER_S, LOGINS_AT_ONCE)
    session = sessions.log_in(service, body.tenant, body.login, body.password.get_secret_value(), client, door.backoff)
    response.set_cookie(
        SESSION_COOKIE,
        session.secret,
        max_age=int(sessions.LIFETIME.total_seconds()),
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="lax",
        path="/",
    )
    me = me_of(session.actor)
    return SessionOut(**me.model_dump(), csrf_token=session.csrf_token, expires_at=written(session.expires_at))


@router.post("/logout", status_code=204, summary="Log out of the desk")
def log_out(request: Request, response: Response, actor: Annotated[Actor, Depends(signed_in())]) -> None:
    """Ends the session of the cookie; a key cannot be logged out, only revoked."""
    secret = request.cookies.get(SESSION_COOKIE)
    if secret:
        sessions.log_out(request.app.state.service, actor, secret)
    response.delete_cookie(SESSION_COOKIE, path="/")


@router.get("/me", summary="Who am I")
def me(actor: Annotated[Actor, Depends(signed_in())]) -> MeOut:
    """The caller's tenant, id, role and permissions."""
    return me_of(actor)


def me_of(actor: Actor) -> MeOut:
    return MeOut(tenant=actor.tenant, actor=actor.actor_id, role=actor.role, permissions=sorted(actor.scopes))
