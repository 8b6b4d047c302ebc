"""What to call the people and keys of a tenant, for those who read reviews there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from certloop.serve.db.access import reading
from certloop.serve.db.schema import keys, users
from certloop.serve.people.roles import Permission

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


def names(service: Service, actor: Actor) -> dict[str, str]:
    """Logins of users and names of keys by id, those that are disabled or revoked by now included."""
    actor.require(Permission.REVIEWS_READ)
    with reading(service, actor.tenant) as connection:
        logins = connection.execute(select(users.c.user_id, users.c.login).where(users.c.tenant == actor.tenant))
        named = connection.execute(select(keys.c.key_id, keys.c.name).where(keys.c.tenant == actor.tenant))
        return {row[0]: row[1] for row in [*logins, *named]}
