"""What every process of the service does beside its work: webhooks go out, and the house is kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import delete

from certloop.agentrl.errors import CertloopError
from certloop.serve.db.access import writing
from certloop.serve.db.schema import sessions
from certloop.serve.people.place import written
from certloop.serve.webhooks.sender import Sender

if TYPE_CHECKING:
    from certloop.serve.context import Service

EVERY_S = 30.0
_log = logging.getLogger("certloop.serve")


class Background(AbstractContextManager["Background"]):
    """Runs from ``with`` to its end. ``chores`` are called twice a minute and at the end; one that fails is tried again."""

    def __init__(self, service: Service, *chores: Callable[[], None], every_s: float = EVERY_S) -> None:
        self._service = service
        self._chores = (*chores, self._sweep_sessions)
        self._every_s = every_s
        self._sender = Sender(service)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certloop-chores", daemon=True)

    def __enter__(self) -> Self:
        self._sender.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(self._every_s)
        self._sender.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.do_chores()
        self.do_chores()

    def do_chores(self) -> None:
        for chore in self._chores:
            try:
                chore()
            except CertloopError as error:
                _log.warning("a chore waits", exc_info=error)
            except Exception as error:  # noqa: BLE001  the loop outlives a bug; the log has it
                _log.error("a chore waits", exc_info=error)

    def _sweep_sessions(self) -> None:
        with writing(self._service, None) as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= written(self._service.clock())))
