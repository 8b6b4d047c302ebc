"""Users of the desk: a login, one role, a password. What leaves this module names them by their id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from certloop.agentrl.store import NotFoundError
from certloop.agentrl.store.events import new_id
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import sessions, users
from certloop.serve.errors import ConflictError, RequestError
from certloop.serve.people.actor import Actor
from certloop.serve.people.passwords import hash_password
from certloop.serve.people.place import Place, audit, written
from certloop.serve.people.roles import Permission, Role

LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


@dataclass(frozen=True, slots=True)
class User:
    user_id: str
    tenant: str
    login: str
    role: Role
    has_password: bool
    created_at: str
    disabled_at: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "login": self.login,
            "role": self.role.value,
            "has_password": self.has_password,
            "created_at": self.created_at,
            "disabled_at": self.disabled_at,
        }


def create(place: Place, actor: Actor, login: str, role: Role, password: str | None = None) -> User:
    """A new user of the actor's tenant. Without a password nobody can log in as them. Raises RequestError, ConflictError."""
    actor.require(Permission.ADMIN)
    check_login(login)
    hashed = None if password is None else hash_password(password)
    user = User(f"usr_{new_id()}", actor.tenant, login, role, hashed is not None, written(place.clock()), None)
    with writing(place.engine, actor.tenant) as connection:
        taken = select(users.c.user_id).where(users.c.tenant == actor.tenant, users.c.login == login)
        if connection.execute(taken).first() is not None:
            raise ConflictError("this login is taken")
        values = {
            "tenant": actor.tenant,
            "user_id": user.user_id,
            "login": login,
            "role": role.value,
            "password": hashed,
            "created_at": user.created_at,
        }
        connection.execute(insert(users), [values])
        audit(connection, actor, "user.create", user_id=user.user_id, role=role.value)
    return user


def every(place: Place, actor: Actor) -> tuple[User, ...]:
    """The users of the actor's tenant, oldest first."""
    actor.require(Permission.ADMIN)
    with reading(place.engine, actor.tenant) as connection:
        query = select(users).where(users.c.tenant == actor.tenant).order_by(users.c.user_id)
        return tuple(_user(row) for row in connection.execute(query))


def get(place: Place, actor: Actor, user_id: str) -> User:
    actor.require(Permission.ADMIN)
    with reading(place.engine, actor.tenant) as connection:
        return _user(_row(connection, actor.tenant, user_id))


def change(
    place: Place,
    actor: Actor,
    user_id: str,
    *,
    role: Role | None = None,
    disabled: bool | None = None,
    password: str | None = None,
) -> User:
    """Give another role or password, shut out or let in again. Any of these ends the user's sessions; none changes nothing."""
    actor.require(Permission.ADMIN)
    if actor.actor_id == user_id and (disabled or (role is not None and role is not Role.ADMIN)):
        raise ConflictError("nobody takes their own rights away: another admin has to do it")
    values: dict[str, Any] = {}
    if role is not None:
        values["role"] = role.value
    if password is not None:
        values["password"] = hash_password(password)
    if disabled is not None:
        values["disabled_at"] = written(place.clock()) if disabled else None
    if not values:
        return get(place, actor, user_id)
    with writing(place.engine, actor.tenant) as connection:
        _row(connection, actor.tenant, user_id)
        connection.execute(update(users).where(users.c.tenant == actor.tenant, users.c.user_id == user_id).values(**values))
        connection.execute(delete(sessions).where(sessions.c.tenant == actor.tenant, sessions.c.user_id == user_id))
        audit(connection, actor, "user.change", user_id=user_id, changed=sorted(values), role=values.get("role"))
        return _user(_row(connection, actor.tenant, user_id))


def check_login(login: str) -> None:
    if not LOGIN.fullmatch(login):
        raise RequestError("a login has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit")


def _row(connection: Connection, tenant: str, user_id: str) -> Row[Any]:
    row = connection.execute(select(users).where(users.c.tenant == tenant, users.c.user_id == user_id)).first()
    if row is None:
        raise NotFoundError("no user by this id in this tenant")
    return row


def _user(row: Row[Any]) -> User:
    has_password = row.password is not None
    return User(row.user_id, row.tenant, row.login, Role(row.role), has_password, row.created_at, row.disabled_at)
