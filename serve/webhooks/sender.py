"""Sends what is due: a loop in a thread of its own, many attempts at a time, each with one deadline over everything it does."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
from standardwebhooks import Webhook

from certloop.agentrl.errors import CertloopError
from certloop.serve.errors import TargetError
from certloop.serve.webhooks.deliveries import Due, Failure, claim, parse_retry_after, settle, tenants_with_due
from certloop.serve.webhooks.targets import Resolve, resolve

if TYPE_CHECKING:
    from certloop.serve.context import Service

DEADLINE_S = 20.0
TIMEOUT = httpx.Timeout(10.0, connect=5.0)
AT_ONCE = 16
_log = logging.getLogger("certloop.serve.webhooks")


class Sender:
    """``run`` until ``stop``. Several processes may each have one: an attempt is claimed before it is made.

    At least once: a process that dies between sending and noting sends again after the lease, with the same id.
    """

    def __init__(
        self, service: Service, *, every_s: float = 1.0, lookup: Resolve | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """``lookup`` and ``tls`` (what certificates are compared with) stand in for the system's own in tests."""
        self._service, self._every_s, self._lookup = service, every_s, lookup
        self._tls = tls
        self._stop = threading.Event()
        self._tenants = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="certloop-webhooks", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = DEADLINE_S + 5) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def send_due(self) -> int:
        """Make every attempt that is due now; returns how many those were."""
        return asyncio.run(self._send_due())

    def _run(self) -> None:
        while not self._stop.is_set():
            busy = 0
            try:
                busy = self.send_due()
            except CertloopError as error:  # a busy or unreachable database: the outbox keeps
                _log.warning("deliveries wait", exc_info=error)
            except Exception as error:  # noqa: BLE001  the loop outlives a bug; the log has it
                _log.error("deliveries wait", exc_info=error)
            if not busy:
                self._stop.wait(max(self._every_s, self._tenants * 0.01))

    async def _send_due(self) -> int:
        tenants = await asyncio.to_thread(tenants_with_due, self._service)
        self._tenants, count = len(tenants), 0
        for tenant in tenants:
            due = await asyncio.to_thread(claim, self._service, tenant, AT_ONCE)
            if due:
                count += len(due)
                await self._attempts(due)
            if self._stop.is_set():
                break
        return count

    async def _attempts(self, due: Sequence[Due]) -> None:
        self._tls = self._tls or httpx.create_ssl_context()  # reading the authorities takes a while: once
        async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False, follow_redirects=False, verify=self._tls) as client:
            for outcome in await asyncio.gather(*(self._attempt(client, one) for one in due), return_exceptions=True):
                if isinstance(outcome, Exception):  # not noted: the lease runs out and it is sent again
                    _log.warning("a delivery could not be noted", exc_info=outcome)

    async def _attempt(self, client: httpx.AsyncClient, due: Due) -> None:
        status, retry_after, failure = None, None, None
        try:
            async with asyncio.timeout(DEADLINE_S):
                status, retry_after = await self._post(client, due)
        except TargetError as error:
            failure = Failure.REFUSED if error.lasting else Failure.UNRESOLVED
            _log.warning("webhook refused", exc_info=error, extra={"facts": _facts(due)})
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            failure = failure_of(error)
            facts = _facts(due) | {"class": type(error).__name__}
            _log.info("webhook attempt failed", extra={"facts": facts})
        result = await asyncio.to_thread(settle, self._service, due, status, retry_after_s=retry_after, failure=failure)
        self._service.metrics.webhook_attempt(result)

    async def _post(self, client: httpx.AsyncClient, due: Due) -> tuple[int, float | None]:
        private = self._service.config.edge.webhook_private
        target = await asyncio.to_thread(resolve, due.url, private=private, lookup=self._lookup)
        now = datetime.now(UTC)  # receivers compare with their own clock
        body = due.delivery.payload
        headers = {
            "Host": target.authority,
            "Content-Type": "application/json",
            "User-Agent": "certloop-webhooks",
            "webhook-id": due.delivery.delivery_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": sign(due.secrets, due.delivery.delivery_id, now, body),
        }
        extensions = {"sni_hostname": target.host}
        request = client.build_request("POST", target.connect, content=body.encode(), headers=headers, extensions=extensions)
        answer = await client.send(request, stream=True)
        try:  # what it says beyond its status is of no interest, and may have no end
            return answer.status_code, parse_retry_after(answer.headers.get("retry-after"), now)
        finally:
            await answer.aclose()


def failure_of(error: BaseException) -> Failure:
    """What kept an answer from coming, told from what the client raised and what that came from."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return Failure.TLS
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return Failure.TIMEOUT
    if isinstance(error, httpx.ConnectError | OSError):
        return Failure.UNREACHABLE
    return Failure.BROKEN


def sign(secrets: Iterable[str], delivery_id: str, at: datetime, body: str) -> str:
    """One signature a secret, as Standard Webhooks writes them."""
    return " ".join(Webhook(secret).sign(delivery_id, at, body) for secret in secrets)


def _facts(due: Due) -> dict[str, object]:
    return {"tenant": due.tenant, "delivery_id": due.delivery.delivery_id, "attempt": due.attempt}
