"""``Idempotency-Key``: a request that is sent again (its answer was lost) gets the same answer and changes nothing.

Key and answer stand in the transaction of the change itself, so that a crash between commit and answer loses neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from certloop.serve.db.access import seal_json, unseal_json
from certloop.serve.db.schema import idempotency
from certloop.serve.errors import IdempotencyError, RequestError

RESPONSE = "serve_idempotency.response"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Key:
    """The caller's key and the fingerprint of what came with it."""

    key: str
    body_sha256: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller is told. ``replayed``: it was told before."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    replayed: bool = False


def parse_key(header: str | None, body_sha256: str) -> Key | None:
    """Raises RequestError for a key that is none."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise RequestError("Idempotency-Key has 1 to 255 printable ASCII characters without spaces")
    return Key(header, body_sha256)


def replay(connection: Connection, tenant: str, key: Key) -> Answer | None:
    """The answer given before, if any. Raises IdempotencyError where the key came with another request."""
    query = select(idempotency).where(idempotency.c.tenant == tenant, idempotency.c.key == key.key)
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.body_sha256 != key.body_sha256:
        raise IdempotencyError("this Idempotency-Key was used with another request; take a new key for a new request")
    stored = unseal_json(connection, tenant, f"{RESPONSE}/{key.key}", row.response)
    return Answer(row.status, stored["headers"], stored["body"], replayed=True)


def remember(connection: Connection, tenant: str, key: Key, answer: Answer, at: str) -> None:
    response = seal_json(
        connection, tenant, f"{RESPONSE}/{key.key}", {"headers": dict(answer.headers), "body": dict(answer.body)}
    )
    row = {"tenant": tenant, "key": key.key, "body_sha256": key.body_sha256, "status": answer.status, "created_at": at}
    connection.execute(insert(idempotency), [row | {"response": response}])


def forget_before(connection: Connection, tenant: str, at: str) -> int:
    """Remove keys older than ``at``; returns how many."""
    old = delete(idempotency).where(idempotency.c.tenant == tenant, idempotency.c.created_at < at)
    return connection.execute(old).rowcount
