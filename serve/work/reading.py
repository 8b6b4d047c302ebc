"""One job: read one upload and settle it. Whatever goes wrong ends as a state of the upload, never as a lost document."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import select, update

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.release import ReleaseError
from certloop.agentrl.store import (
    BlobCorruptError,
    BlobMissingError,
    ErasedError,
    NotFoundError,
    StoreBusyError,
    StoreDamagedError,
    StoreUnavailableError,
)
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import uploads
from certloop.serve.errors import ReaderCrashedError, ReaderStoppedError
from certloop.serve.work.claims import Claim, claim, note_of, settle, still_open
from certloop.serve.work.count import count
from certloop.serve.work.record import fail, give_up, record
from certloop.serve.work.states import Status

if TYPE_CHECKING:
    from certloop.extract.guidance import Guidance
    from certloop.serve.context import Service
    from certloop.serve.loop.live import Steering
    from certloop.serve.work.readers import Readers

T = TypeVar("T")
MAX_VANISHED = 15
"""Tries that may end without a word (the whole service was killed) before the document is taken for the cause."""
AGAIN_AFTER_S = (2.0, 10.0, 60.0, 300.0)
REPAIR_S = 60.0
OUTAGE_WAIT_S = 0.5
MAX_OUTAGE_WAIT_S = 30.0
_log = logging.getLogger("certloop.serve.work")


class Work:
    """What an executor runs."""

    def __init__(self, service: Service, readers: Readers) -> None:
        self._service, self._readers = service, readers
        self._ending = threading.Event()

    def stop(self) -> None:
        """Wait no longer for a database or a disk that is away: what is open stays open for the next start."""
        self._ending.set()

    def run(self, tenant: str, document_id: str) -> None:
        """Read and settle one upload; does nothing for one that is settled, cancelled or gone."""
        try:
            source = self._patiently(lambda: self._source(tenant, document_id))
            if source is not None:
                self._try(tenant, document_id, *source)
        except ReaderStoppedError:
            self._patiently(lambda: self._give_back(tenant, document_id))
        except ErasedError:
            return

    def _source(self, tenant: str, document_id: str) -> tuple[bytes, str | None] | None:
        """The bytes to read and the type asked for; None where there is nothing to do."""
        with reading(self._service, tenant) as connection:
            query = select(uploads.c.sha256, uploads.c.doc_type).where(*still_open(tenant, document_id))
            row = connection.execute(query).first()
        if row is None:
            return None
        try:
            return self._service.tenant(tenant).get_blob(row.sha256), row.doc_type
        except (BlobMissingError, BlobCorruptError, NotFoundError) as error:
            mine = claim(self._service, tenant, document_id)
            if mine is not None:
                fail(self._service, mine, error)
            return None

    def _try(self, tenant: str, document_id: str, content: bytes, doc_type: str | None) -> None:
        claims: list[Claim] = []
        steering: list[Steering] = []

        def begin() -> bool:
            mine = self._patiently(lambda: claim(self._service, tenant, document_id))
            if mine is not None and mine.vanished >= MAX_VANISHED:
                gone = ReaderCrashedError("the service ended each time it read this document")
                self._patiently(lambda: give_up(self._service, mine, gone))
                return False
            claims.extend([mine] if mine is not None else [])
            return mine is not None

        def steer() -> Guidance | None:
            """Once a reader is free, not before: what was learned while the document waited counts."""
            steering.append(self._patiently(lambda: self._service.loop.steering(tenant, document_id)))
            routes.enter_context(self._service.loop.router.under(steering[0].route))
            return steering[0].guidance

        try:
            with ExitStack() as routes:
                timeout_s = self._service.config.jobs.timeout_s
                read = self._readers.read(document_id, content, doc_type, timeout_s, begin, steer)
                if read is not None:
                    began = time.monotonic()
                    if self._patiently(lambda: record(self._service, claims[0], read, steering[0])):
                        count(self._service, claims[0], read, time.monotonic() - began)
        except (ReaderStoppedError, ErasedError):
            raise
        except CertloopError as error:
            if not claims:
                raise
            self._failed(claims[0], error)

    def _failed(self, mine: Claim, error: CertloopError) -> None:
        """A try failed, and not by the file's own fault: try again later, or never. Damage to the releases is nobody's try: the
        document waits until somebody has mended them."""
        if isinstance(error, ReleaseError):
            _log.error("%s waits: %s", mine.document_id, error.code)
            self._patiently(lambda: self._again(replace(mine, before=mine.before + 1), error, REPAIR_S))
            return
        mine_now = replace(mine, failures=mine.failures + 1)
        _log.warning("try %d of %s failed: %s", mine.attempt, mine.document_id, error.code)
        if mine_now.failures >= self._service.config.jobs.attempts:
            self._patiently(lambda: give_up(self._service, mine_now, error))
        else:
            delay_s = AGAIN_AFTER_S[min(mine_now.failures, len(AGAIN_AFTER_S)) - 1]
            self._patiently(lambda: self._again(mine_now, error, delay_s))

    def _again(self, mine: Claim, error: CertloopError, delay_s: float) -> None:
        with writing(self._service, mine.tenant) as connection:
            if settle(connection, mine, {"status": Status.QUEUED, "error": note_of(mine, error)}):
                self._service.jobs.enqueue(connection, mine.tenant, mine.document_id, mine.priority, delay_s)

    def _give_back(self, tenant: str, document_id: str) -> None:
        """A new job for what this process will not finish; a cancelled upload stays cancelled."""
        with writing(self._service, tenant) as connection:
            row = connection.execute(select(uploads.c.priority).where(*still_open(tenant, document_id))).first()
            if row is not None:
                queued = update(uploads).where(*still_open(tenant, document_id)).values(status=Status.QUEUED)
                connection.execute(queued)
                self._service.jobs.enqueue(connection, tenant, document_id, row.priority)

    def _patiently(self, action: Callable[[], T]) -> T:
        """Do it once the database and the disk are there: an outage fails no document."""
        wait_s = OUTAGE_WAIT_S
        while True:
            try:
                return action()
            except StoreDamagedError:
                raise
            except (StoreUnavailableError, StoreBusyError) as error:
                _log.warning("waiting for the store: %s", error.code)
                if self._ending.wait(wait_s):
                    raise
                wait_s = min(MAX_OUTAGE_WAIT_S, wait_s * 2)
