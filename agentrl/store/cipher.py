"""Personal payloads at rest: sealed per tenant with AES-256-GCM, or as they are.

The key is the operator's: 32 random bytes, base64, in a file that only the service can read. Each tenant's key is derived from it
(HKDF-SHA256), and every text and blob is bound to its tenant and id, so that a sealed payload cannot be moved to another row.
Ids, times, types, hashes and the audit trail stay readable: they hold no content. Losing the key loses the store.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from certloop.agentrl.store.errors import StoreKeyError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES, NONCE_BYTES = 32, 12


class Cipher(Protocol):
    """The port. The contract: ``unseal(t, n, seal(t, n, x)) == x``; anything else that is unsealed raises StoreKeyError.
    ``key_id`` names the key without telling it; it is empty for a store that seals nothing. ``mark`` is a keyed mark of a text
    that nobody without the key can make, None without a key."""

    @property
    def key_id(self) -> str: ...

    def seal(self, tenant: str, name: str, data: bytes) -> bytes: ...

    def unseal(self, tenant: str, name: str, data: bytes) -> bytes: ...

    def mark(self, tenant: str, text: str) -> str | None: ...


class Plain:
    """Seals nothing: for disks that are encrypted below the file system, and for tests."""

    key_id = ""

    def seal(self, tenant: str, name: str, data: bytes) -> bytes:
        return data

    def unseal(self, tenant: str, name: str, data: bytes) -> bytes:
        return data

    def mark(self, tenant: str, text: str) -> str | None:
        return None


class AesGcm:
    """AES-256-GCM with a random nonce in front of each sealed text (good for 2^32 of them a tenant, NIST SP 800-38D)."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise StoreKeyError(f"the store's key must be {KEY_BYTES} bytes")
        self._key = key
        self._of = cache(self._derive)
        self._marking = cache(lambda tenant: self._derived(b"certloop audit of " + tenant.encode()))

    @property
    def key_id(self) -> str:
        return hashlib.sha256(b"certloop store key id" + self._key).hexdigest()[:16]

    def seal(self, tenant: str, name: str, data: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._of(tenant).encrypt(nonce, data, name.encode())

    def unseal(self, tenant: str, name: str, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._of(tenant).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise StoreKeyError("a sealed payload cannot be opened: it was changed, moved, or sealed with another key") from None

    def mark(self, tenant: str, text: str) -> str | None:
        return hmac.new(self._marking(tenant), text.encode(), hashlib.sha256).hexdigest()

    def _derive(self, tenant: str) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._derived(b"certloop tenant " + tenant.encode()))

    def _derived(self, info: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self._key)


def read_key(path: Path) -> AesGcm:
    """The cipher of a key file. Raises StoreKeyError when it cannot be read or is no such key."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoreKeyError(f"the key file {path.name} cannot be read: {error.strerror}") from None
    try:
        return AesGcm(base64.b64decode(text, validate=False))
    except ValueError:
        raise StoreKeyError(
            f"the key file must hold {KEY_BYTES} random bytes as base64: `head -c 32 /dev/urandom | base64`"
        ) from None
