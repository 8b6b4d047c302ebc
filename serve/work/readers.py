"""Reader processes that live as long as the service: a hang, a crash or a bug while reading costs one try of one document.

Each reader is a worker of ``extract.batch`` (a spawned process with a pipe of its own) whose answer carries the pages, too. A
reader that exceeds its time is killed; the next document gets a new one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from threading import Condition
from typing import TYPE_CHECKING, Protocol, cast

from certloop.agentrl.errors import CertloopError
from certloop.extract.batch import Job, ReaderFactory, Started, Worker
from certloop.extract.config import ExtractConfig
from certloop.extract.result import FileStatus, Result
from certloop.serve.errors import ReaderCrashedError, ReaderFailedError, ReaderStoppedError, ReadTimeoutError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from certloop.extract.guidance import Guidance

START_TIMEOUT_S = 120.0
NICER = 5
"""Readers take what the API leaves of the processor: answers stay quick while documents are read."""
_PR_SET_PDEATHSIG = 1
_WARMING = "warming"
"""Who holds a seat while its process is started before there is a document."""


@dataclass(frozen=True, slots=True)
class PagesRead:
    """What one try gave: the result, the pages as PNG by their number in the file, and the reader's seconds."""

    result: Result
    pages: Mapping[int, bytes] = field(default_factory=dict)
    cpu_s: float = 0.0
    wall_s: float = 0.0


class PageReader(Protocol):
    """What runs in a reader process. It answers with an error instead of raising it, so that the process lives on."""

    def read(
        self,
        source: Path | bytes,
        *,
        name: str | None = None,
        doc_type: str | None = None,
        guidance: Guidance | None = None,
    ) -> PagesRead | CertloopError: ...


OpenPageReader = Callable[[ExtractConfig], AbstractContextManager[PageReader]]


@contextmanager
def open_page_reader(config: ExtractConfig) -> Iterator[PageReader]:
    """The reader of the product, inside the child process."""
    from certloop.extract import Extractor

    die_with_parent()
    os.nice(NICER)
    with Extractor(config) as extractor:
        yield _ExtractorWithPages(extractor.read_with_pages)


def die_with_parent() -> None:
    """A reader that hangs does not see its pipe close: the kernel ends it when the service is gone (Linux, prctl(2))."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class _ExtractorWithPages:
    def __init__(self, read: Callable[..., tuple[Result, tuple[object, ...]]]) -> None:
        self._read = read

    def read(
        self,
        source: Path | bytes,
        *,
        name: str | None = None,
        doc_type: str | None = None,
        guidance: Guidance | None = None,
    ) -> PagesRead | CertloopError:
        from certloop.extract.ingest import Page
        from certloop.extract.recording import png

        before, began = time.process_time(), time.monotonic()
        try:
            result, pages = self._read(source, name=name, doc_type=doc_type, guidance=guidance)
            if (outage := _outage(result)) is not None:
                return outage
            used = {index for document in result.documents for index in document.pages}
            images = {page.index: png(page) for page in cast("tuple[Page, ...]", pages) if page.index in used}
        except CertloopError as error:
            return error
        except Exception as error:  # noqa: BLE001 - its text may quote the document: only its kind leaves the process
            return ReaderFailedError(f"reading failed ({type(error).__name__}); the document stays and can be tried again")
        return PagesRead(result, images, time.process_time() - before, time.monotonic() - began)


def _outage(result: Result) -> CertloopError | None:
    """The typed error of a result that failed by its engine, not by its file: such a try is repeated later."""
    from certloop.extract.engine.errors import ModelError

    classes: list[type[ModelError]] = [ModelError, *ModelError.__subclasses__()]
    kinds = {kind.code: kind for kind in classes}
    error = result.error or {}
    kind = kinds.get(error.get("code", ""))
    return None if kind is None or result.status is not FileStatus.FAILED else kind(error["message"])


@dataclass(slots=True)
class _Seat:
    """One place for a reader; the process comes and goes."""

    worker: Worker | None = None
    generation: int = 0
    key: str | None = None
    stopped: bool = False


class Readers:
    """``size`` documents at a time. ``read`` may be called from any thread; it waits for a free reader."""

    def __init__(self, config: ExtractConfig, size: int, open_reader: OpenPageReader = open_page_reader) -> None:
        self._config = config
        self._open_reader = open_reader
        self._free = [_Seat() for _ in range(size)]
        self._busy: dict[str, _Seat] = {}
        self._changed = Condition()
        self._generation = 0
        self._closing = False
        # A child gets the parent's death signal when the *thread* that made it ends: one thread makes them all.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="reader-keeper")

    def read(
        self,
        key: str,
        source: bytes,
        doc_type: str | None,
        timeout_s: float,
        begin: Callable[[], bool],
        steer: Callable[[], Guidance | None] = lambda: None,
    ) -> PagesRead | None:
        """Read one document. ``begin`` is called once a reader is free; where it says False nothing is read (None). ``steer``
        then tells the guidance of this reading (None: the configuration's).

        Raises ReadTimeoutError, ReaderCrashedError, ReaderFailedError, ReaderStoppedError (``stop`` or ``close``), or the typed
        error of the reader itself (an engine that is not there).
        """
        seat = self._take(key)
        try:
            if not begin():
                return None
            return self._answer(self._started(seat), seat, Job(0, source, key, doc_type, steer()), timeout_s)
        finally:
            self._give_back(key, seat)

    def warm(self) -> None:
        """Start one reader's process, unless one is there: it loads its models while the rest of the service starts."""
        with self._changed:
            seat = self._free.pop() if self._free and not self._closing else None
            if seat is not None:
                seat.key, seat.stopped = _WARMING, False
                self._busy[_WARMING] = seat
        if seat is not None:
            try:
                self._started(seat)
            finally:
                self._give_back(_WARMING, seat)

    def stop(self, key: str) -> None:
        """End the reading of one document, if it is read here."""
        with self._changed:
            seat = self._busy.get(key)
            if seat is not None:
                seat.stopped = True
                _kill(seat.worker)

    def reload(self, config: ExtractConfig) -> None:
        """Read with another configuration from the next document on; what is being read ends as it began."""
        with self._changed:
            self._config = config
            self._generation += 1

    def stop_waiting(self) -> None:
        """Whoever waits for a reader gets ReaderStoppedError; whoever reads goes on."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        self.stop_waiting()
        with self._changed:
            for seat in self._busy.values():
                seat.stopped = True
                _kill(seat.worker)
            self._changed.wait_for(lambda: not self._busy, timeout=10)
            seats, self._free = self._free, []
        for seat in seats:
            if seat.worker is not None:
                seat.worker.stop()
        self._keeper.shutdown(wait=True)

    def pids(self) -> tuple[int, ...]:
        with self._changed:
            seats = [*self._free, *self._busy.values()]
        return tuple(seat.worker.process.pid or 0 for seat in seats if seat.worker is not None)

    def _take(self, key: str) -> _Seat:
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._closing)
            if self._closing:
                raise ReaderStoppedError("the service is ending; the document goes on elsewhere or after its restart")
            seat = self._free.pop()
            seat.key, seat.stopped = key, False
            self._busy[key] = seat
            return seat

    def _give_back(self, key: str, seat: _Seat) -> None:
        with self._changed:
            del self._busy[key]
            self._free.append(seat)
            self._changed.notify_all()

    def _started(self, seat: _Seat) -> Worker:
        """The seat's process, made or renewed where needed."""
        if seat.worker is not None and (seat.generation != self._generation or not seat.worker.process.is_alive()):
            seat.worker.stop()
            seat.worker = None
        if seat.worker is None:
            config, generation = self._config, self._generation
            # `extract.batch` hands whatever a reader answers through its pipe, unseen.
            opener = cast("ReaderFactory", self._open_reader)
            seat.worker, seat.generation = self._keeper.submit(Worker, config, opener).result(), generation
        return seat.worker

    def _answer(self, worker: Worker, seat: _Seat, job: Job, timeout_s: float) -> PagesRead:
        worker.give(job)
        try:
            while True:
                if not _heard(worker.pipe, timeout_s if worker.started else START_TIMEOUT_S):
                    raise ReadTimeoutError(f"reading took longer than {timeout_s:g} seconds")
                message = worker.pipe.recv()
                if isinstance(message, Started):
                    worker.started = True
                    continue
                break
        except (EOFError, OSError) as error:
            self._discard(seat)
            if isinstance(error, ReadTimeoutError):
                raise
            if seat.stopped:
                raise ReaderStoppedError("the reading of this document was ended") from None
            raise ReaderCrashedError("the process that read this document ended; other documents were not affected") from None
        if isinstance(message, CertloopError):
            if not worker.process.is_alive() or not worker.started:
                self._discard(seat)
            else:
                worker.take()
            raise message
        worker.take()
        assert isinstance(message, PagesRead), "a reader answers with pages or an error"
        return message

    def _discard(self, seat: _Seat) -> None:
        worker, seat.worker = seat.worker, None
        _kill(worker)
        if worker is not None:
            worker.stop()


def _heard(pipe: Connection, timeout_s: float) -> bool:
    return bool(wait([pipe], timeout_s))


def _kill(worker: Worker | None) -> None:
    if worker is not None and worker.process.pid is not None:
        worker.process.kill()
