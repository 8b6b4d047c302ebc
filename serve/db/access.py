"""Transactions on the service's tables, always for one tenant, and the sealing of columns that hold personal data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine

from certloop.agentrl.store import engine as store_engine
from certloop.agentrl.store.cipher import Cipher
from certloop.agentrl.store.engine import cipher_of
from certloop.agentrl.store.events import canonical, seal_text, unseal_text

if TYPE_CHECKING:
    from certloop.serve.context import Service


@contextmanager
def reading(where: Service | Engine, tenant: str | None) -> Iterator[Connection]:
    """One consistent view for one tenant (None: only tables without tenants). Raises the store's errors."""
    with store_engine.reading(_engine(where), tenant) as connection:
        yield connection


@contextmanager
def writing(where: Service | Engine, tenant: str | None) -> Iterator[Connection]:
    """One transaction for one tenant, durable when the block ends; ``agentrl.store.Batch.write`` may take part in it."""
    with store_engine.writing(_engine(where), tenant) as connection:
        yield connection


def _engine(where: Service | Engine) -> Engine:
    return where if isinstance(where, Engine) else where.engine


def seal_json(connection: Connection, tenant: str, name: str, value: Any) -> str:
    """JSON for a sealed column; ``name`` is "<table>.<column>/<row id>", so that a text cannot be moved to another row."""
    return seal_with(cipher_of(connection), tenant, name, value)


def unseal_json(connection: Connection, tenant: str, name: str, text: str) -> Any:
    """Raises StoreKeyError for a text that this tenant's key did not seal under this name."""
    return unseal_with(cipher_of(connection), tenant, name, text)


def seal_with(cipher: Cipher, tenant: str, name: str, value: Any) -> str:
    return seal_text(cipher, tenant, name, _as_given(value))


def unseal_with(cipher: Cipher, tenant: str, name: str, text: str) -> Any:
    return json.loads(unseal_text(cipher, tenant, name, text))


def _as_given(value: Any) -> str:
    """JSON in the order given: the order of fields is that of the form."""
    canonical(value)  # raises EventError for what is not JSON
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character: only its escape can be stored
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text
