"""Passwords of desk users: scrypt (RFC 7914) with a salt each, and waiting times for those who guess."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from certloop.serve.errors import LimitedError, LockedOutError, RequestError

MIN_LENGTH, MAX_LENGTH = 12, 256
_LOG_N, _R, _P = 15, 8, 3  # 32 MiB and about a fifth of a second; OWASP's table names this combination
_AT_ONCE = threading.BoundedSemaphore(2)
"""Every hash takes 32 MiB: more than two at a time would let logins exhaust the memory."""
_WAITING = threading.BoundedSemaphore(10)
_WRITTEN = re.compile(r"scrypt\$(\d{1,2})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)")


def hash_password(password: str) -> str:
    """Raises RequestError for a password that is too short or too long (NIST SP 800-63B asks for length, not for digits)."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise RequestError(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters")
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _LOG_N, _R, _P)
    return f"scrypt${_LOG_N}${_R}${_P}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


NOBODY = f"scrypt${_LOG_N}${_R}${_P}${base64.b64encode(bytes(16)).decode()}${base64.b64encode(bytes(32)).decode()}"
"""What an unknown login is compared with, so that it takes as long as a known one. No password has this hash."""


def matches(password: str, hashed: str) -> bool:
    """Whether ``password`` is the one, in constant time for equal parameters."""
    parts = _WRITTEN.fullmatch(hashed)
    if parts is None or len(password) > MAX_LENGTH:
        return False
    log_n, r, p = (int(part) for part in parts.groups()[:3])
    salt, digest = (base64.b64decode(part) for part in parts.groups()[3:])
    return hmac.compare_digest(_scrypt(password, salt, log_n, r, p), digest)


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    """Raises LimitedError when too many wait already: every waiting login holds a thread that others need."""
    if not _WAITING.acquire(blocking=False):
        raise LimitedError("too many logins at once; try again in a moment")
    try:
        with _AT_ONCE:
            data = password.encode("utf-8", "surrogatepass")
            return hashlib.scrypt(data, salt=salt, n=1 << log_n, r=r, p=p, maxmem=256 * r << log_n, dklen=32)
    finally:
        _WAITING.release()


class Backoff:
    """Waiting times after wrong passwords: none for the first ``free`` failures, then doubling up to ``longest_s``.

    Kept in this process only: a restart forgets, and each API process counts for itself. ``clock`` is monotonic seconds.
    """

    def __init__(
        self, free: int = 5, longest_s: float = 900.0, size: int = 50_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._free, self._longest, self._size, self._clock = free, longest_s, size, clock
        self._failures: OrderedDict[tuple[str, ...], tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, who: tuple[str, ...]) -> None:
        """Raises LockedOutError while it is too early to try again."""
        with self._lock:
            count, last = self._failures.get(who, (0, 0.0))
        wait = self._wait(count) - (self._clock() - last)
        if wait > 0:
            raise LockedOutError("too many wrong passwords; wait before the next try", wait)

    def failed(self, who: tuple[str, ...]) -> None:
        with self._lock:
            count, last = self._failures.pop(who, (0, 0.0))
            if count and self._clock() - last > 2 * self._longest:
                count = 0
            self._failures[who] = (count + 1, self._clock())
            if len(self._failures) > self._size:
                self._failures.popitem(last=False)

    def passed(self, who: tuple[str, ...]) -> None:
        with self._lock:
            self._failures.pop(who, None)

    def _wait(self, count: int) -> float:
        return 0.0 if count < self._free else float(min(self._longest, 2.0 ** min(count - self._free, 20)))
