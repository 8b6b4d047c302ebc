"""The shape of one stored event, and the hashes that let ``verify`` see any later change."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.errors import EventError, StoreKeyError


class Kind(StrEnum):
    """``document``: something a person handed in, the unit of consent and erasure."""

    DOCUMENT = "document"
    CONSENT = "consent"
    TRAJECTORY = "trajectory"
    STEP = "step"
    SIGNAL = "signal"
    SNAPSHOT = "snapshot"
    ERASURE = "erasure"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before it has its place. ``payload`` is a JSON object, ``created_at`` as :func:`instant` writes it."""

    event_id: str
    kind: Kind
    payload: Mapping[str, Any]
    created_at: str
    document_id: str | None = None
    traj_id: str | None = None
    doc_type: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event. ``payload`` is None once the subject was erased; ``erasure_id`` then names the erasure."""

    position: int
    event_id: str
    kind: Kind
    created_at: str
    document_id: str | None
    traj_id: str | None
    doc_type: str | None
    payload: Mapping[str, Any] | None
    erasure_id: str | None


def new_id() -> str:
    """32 hexadecimal digits that sort by the time they were made."""
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def instant(text: str) -> str:
    """The same instant in UTC, written so that text order is time order. Raises EventError without a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise EventError("an instant must be ISO 8601, such as 2026-01-31T08:00:00+00:00") from None
    if moment.tzinfo is None:
        raise EventError("an instant needs a time zone, such as 2026-01-31T08:00:00+00:00")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def canonical(value: Any) -> str:
    """One spelling per JSON value. Raises EventError for NaN, infinity and what is not JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be stored
        return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise EventError(f"an event must be JSON with finite numbers ({type(error).__name__})") from None
    return text


def row_values(cipher: Cipher, tenant: str, position: int, event: NewEvent) -> dict[str, Any]:
    """The columns of a new row. The salt keeps an erased payload's hash from being guessed; the row's hash outlives it."""
    if any("\0" in (word or "") for word in (event.event_id, event.document_id, event.traj_id, event.doc_type)):
        raise EventError("an id or a type must not hold a NUL character")  # Postgres takes none
    payload, salt = seal_text(cipher, tenant, event.event_id, canonical(event.payload)), secrets.token_hex(16)
    values: dict[str, Any] = {
        "tenant": tenant,
        "position": position,
        "event_id": event.event_id,
        "kind": str(event.kind),
        "document_id": event.document_id,
        "traj_id": event.traj_id,
        "doc_type": event.doc_type,
        "created_at": event.created_at,
        "payload": payload,
        "salt": salt,
        "payload_sha256": payload_sha256(salt, payload),
        "erasure_id": None,
    }
    values["row_sha256"] = row_sha256(values)
    return values


def payload_sha256(salt: str, payload: str) -> str:
    return hashlib.sha256(f"{salt}{payload}".encode()).hexdigest()


def row_sha256(values: Mapping[str, Any]) -> str:
    """The hash of everything about a row that never changes."""
    names = ("tenant", "position", "event_id", "kind", "document_id", "traj_id", "doc_type", "created_at", "payload_sha256")
    return hashlib.sha256(canonical([values[name] for name in names]).encode()).hexdigest()


def seal_text(cipher: Cipher, tenant: str, event_id: str, text: str) -> str:
    return text if not cipher.key_id else base64.b64encode(cipher.seal(tenant, event_id, text.encode())).decode()


def unseal_text(cipher: Cipher, tenant: str, event_id: str, text: str) -> str:
    """Raises StoreKeyError for a text that this tenant's key did not seal for this event."""
    if not cipher.key_id:
        return text
    try:
        sealed = base64.b64decode(text, validate=True)
    except ValueError:
        raise StoreKeyError("a payload of a sealed store is not sealed: it was changed") from None
    return cipher.unseal(tenant, event_id, sealed).decode()


def from_row(row: Any, cipher: Cipher) -> Event:
    return Event(
        position=row.position,
        event_id=row.event_id,
        kind=Kind(row.kind),
        created_at=row.created_at,
        document_id=row.document_id,
        traj_id=row.traj_id,
        doc_type=row.doc_type,
        payload=None if row.payload is None else json.loads(unseal_text(cipher, row.tenant, row.event_id, row.payload)),
        erasure_id=row.erasure_id,
    )
