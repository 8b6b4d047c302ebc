"""Limits on what callers may send: requests a second, and the size of a body, refused before it is read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

from certloop.agentrl.errors import CertloopError
from certloop.serve.api.problems import problem
from certloop.serve.api.security import identify
from certloop.serve.errors import LimitedError, TooLargeError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from certloop.serve.config import IntakeLimits

FORM_OVERHEAD = 1 << 20
"""Bytes for the other fields of a form and its boundaries."""
STRANGER_BYTES = 64 << 10
"""Largest body that is read before the caller is known: a login, not a file."""
BODY_WAIT_S = 60.0
"""Longest silence in the middle of a body: connections that only begin are not held for ever."""


class TokenBuckets:
    """One bucket a caller: ``rate`` tokens a second flow in, at most ``burst`` stay. Counted in this process only.

    ``clock`` is monotonic seconds.
    """

    def __init__(self, size: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = size, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str, rate: float, burst: float) -> None:
        """Raises LimitedError, which says when the next request will be answered."""
        now = self._clock()
        with self._lock:
            tokens, at = self._buckets.pop(who, (burst, now))
            tokens = min(burst, tokens + (now - at) * rate)
            enough = tokens >= 1
            self._buckets[who] = (tokens - 1 if enough else tokens, now)
            if len(self._buckets) > self._size:
                self._buckets.popitem(last=False)
        if not enough:
            raise LimitedError(f"more than {rate:g} requests a second", (1 - tokens) / rate)


class BodyLimit:
    """Refuses bodies over their route's limit, by their announced length or as they grow, and big ones of strangers unread."""

    def __init__(self, app: ASGIApp, limits: IntakeLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, request = Headers(scope=scope), Request(scope)
        limit = self._limit(scope["path"], headers.get("content-type", ""))
        announced = _announced(headers)
        try:
            if announced is not None and announced > limit:
                raise TooLargeError(f"the body has {announced} bytes, this route takes {limit}")
            # Bodies are read before the route's own check of the caller runs.
            if scope["path"].startswith("/v1/") and (announced is None or announced > STRANGER_BYTES):
                await to_thread.run_sync(identify, request)
        except CertloopError as error:
            await problem(error, request)(scope, receive, send)
            return
        await self.app(scope, _counted(receive, limit), send)

    def _limit(self, path: str, content_type: str) -> int:
        if content_type.partition(";")[0].strip().lower() == "multipart/form-data":
            if path.startswith("/v1/batches"):
                return self.limits.batch_bytes + FORM_OVERHEAD
            return self.limits.file_bytes + FORM_OVERHEAD
        return self.limits.json_bytes


def _announced(headers: Headers) -> int | None:
    """The length of the body; None when it comes in chunks of unknown number."""
    if "transfer-encoding" in headers:
        return None
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() else None


def _counted(receive: Receive, limit: int) -> Receive:
    seen, whole = 0, False

    async def counted() -> Message:
        nonlocal seen, whole
        if whole:  # what is awaited now is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout(BODY_WAIT_S):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"nothing of the body came for {BODY_WAIT_S:g} seconds") from None
        whole = not message.get("more_body", False)
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise HTTPException(413, f"the body has more bytes than the {limit} that this route takes")
        return message

    return counted


def install(app: FastAPI) -> None:
    app.add_middleware(BodyLimit, limits=app.state.service.config.intake)
