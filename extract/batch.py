"""Many files, in input order, on several worker processes.

Each worker builds one ``Extractor`` and reads one file at a time, so that a worker that dies (a crash inside a native library,
the kernel's out-of-memory killer) takes exactly one file with it: that file fails with code ``worker_crashed`` and a new worker
goes on.
Workers are spawned, not forked: OCR sessions and their threads do not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from certloop.agentrl.errors import CertloopError
from certloop.extract.result import FileStatus, Result

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from certloop.extract import ExtractConfig
    from certloop.extract.guidance import Guidance

Source = Path | bytes
Progress = Callable[[int, int], None]
AHEAD = 8  # files per worker that may be finished before the caller took the first one
MAX_FAILED_STARTS = 2


class WorkerStartError(CertloopError, RuntimeError):
    """Workers cannot even start: no file is to blame, so the whole batch stops."""

    code = "worker_start_failed"


class Reader(Protocol):
    """What a worker needs of an ``Extractor``."""

    def read(
        self,
        source: Source,
        *,
        name: str | None = None,
        doc_type: str | None = None,
        guidance: Guidance | None = None,
    ) -> Result: ...


ReaderFactory = Callable[["ExtractConfig"], AbstractContextManager[Reader]]


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is given: one file. ``guidance`` is for readers that take it file by file."""

    index: int
    source: Source
    name: str
    doc_type: str | None
    guidance: Guidance | None = None


def open_extractor(config: ExtractConfig) -> AbstractContextManager[Reader]:
    """The reader of the product. (Tests pass another factory.)"""
    from certloop.extract import Extractor

    return Extractor(config)


def read_many(
    sources: Sequence[Source],
    config: ExtractConfig,
    *,
    workers: int = 1,
    doc_type: str | None = None,
    on_progress: Progress | None = None,
    open_reader: ReaderFactory = open_extractor,
) -> Iterator[Result]:
    """Read every source and yield one ``Result`` each, in input order, while later files are still being read.

    ``Result.file`` is the path as given (``-`` for bytes). ``on_progress(done, total)`` is called after each file, in the order
    in which they finish. ``open_reader`` must be importable by name in a new process. With ``workers=1`` everything happens in
    this process. Raises ValueError for fewer than one worker, WorkerStartError when workers cannot start.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    jobs = [
        Job(index, source, "-" if isinstance(source, bytes) else str(source), doc_type) for index, source in enumerate(sources)
    ]
    workers = min(workers, len(jobs))
    if workers <= 1:
        return _read_here(jobs, config, on_progress, open_reader)
    return _read_in_pool(jobs, config, workers, on_progress, open_reader)


def _read_here(
    jobs: Sequence[Job], config: ExtractConfig, on_progress: Progress | None, open_reader: ReaderFactory
) -> Iterator[Result]:
    if not jobs:
        return
    with open_reader(config) as reader:
        for done, job in enumerate(jobs, start=1):
            result = reader.read(job.source, name=job.name, doc_type=job.doc_type)
            if on_progress is not None:
                on_progress(done, len(jobs))
            yield result


def _read_in_pool(
    jobs: Sequence[Job], config: ExtractConfig, workers: int, on_progress: Progress | None, open_reader: ReaderFactory
) -> Iterator[Result]:
    finished: dict[int, Result] = {}
    next_job, next_out, done = 0, 0, 0
    with _Pool(config, workers, open_reader) as pool:
        while next_out < len(jobs):
            while next_job < min(len(jobs), next_out + workers * AHEAD) and pool.submit(jobs[next_job]):
                next_job += 1
            for index, result in pool.wait():
                finished[index] = result
                done += 1
                if on_progress is not None:
                    on_progress(done, len(jobs))
            while next_out in finished:
                yield finished.pop(next_out)
                next_out += 1


class _Pool:
    """Worker processes with one pipe each. Results come back as (job index, Result)."""

    def __init__(self, config: ExtractConfig, size: int, open_reader: ReaderFactory) -> None:
        self._config = config
        self._size = size
        self._open_reader = open_reader
        self._workers: list[Worker] = []
        self._failed_starts = 0

    def __enter__(self) -> _Pool:
        self._workers = [Worker(self._config, self._open_reader) for _ in range(self._size)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def submit(self, job: Job) -> bool:
        """Give ``job`` to an idle worker; False when all are busy."""
        worker = next((w for w in self._workers if w.job is None), None)
        if worker is None:
            return False
        worker.give(job)
        return True

    def wait(self) -> list[tuple[int, Result]]:
        """Wait until at least one worker said something; return what was finished."""
        finished = []
        for ready in wait([w.pipe for w in self._workers]):
            worker = next(w for w in self._workers if w.pipe is ready)
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                finished += self._replace(worker)
                continue
            if isinstance(message, Started):
                worker.started, self._failed_starts = True, 0
            elif isinstance(message, CertloopError):
                raise message
            else:
                finished.append((worker.take().index, message))
        return finished

    def _replace(self, dead: Worker) -> list[tuple[int, Result]]:
        lost = dead.take() if dead.job is not None else None
        exit_code = dead.stop()
        self._workers.remove(dead)
        replacement = Worker(self._config, self._open_reader)
        self._workers.append(replacement)
        if not dead.started:  # it never looked at its file: the next worker gets it
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise WorkerStartError(
                    f"worker processes end before they are ready (exit code {exit_code}); run `certloop doctor`, try one worker, "
                    'and in a script of your own call read_many under `if __name__ == "__main__":`'
                )
            if lost is not None:
                replacement.give(lost)
            return []
        return [] if lost is None else [(lost.index, _crashed(lost, exit_code))]


def _crashed(job: Job, exit_code: int | None) -> Result:
    message = f"the worker process ended while reading this file (exit code {exit_code}); the other files were not affected"
    return Result(file=job.name, status=FileStatus.FAILED, error={"code": "worker_crashed", "message": message})


@dataclass(frozen=True, slots=True)
class Started:
    """A worker's first message: its reader stands."""


class Worker:
    """One spawned process, seen from the parent. (The service keeps such workers for as long as it runs.)"""

    def __init__(self, config: ExtractConfig, open_reader: ReaderFactory) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        # Not a daemon: ingest decodes in a child process of its own, which daemons may not have. The pipe's end stops the worker.
        self.process: SpawnProcess = context.Process(target=serve_reader, args=(theirs, config, open_reader))
        # A Ctrl-C while the worker still imports would print its traceback: it is born with SIGINT blocked, then ignores it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        self.job: Job | None = None
        self.started = False

    def give(self, job: Job) -> None:
        self.job = job
        try:
            self.pipe.send(job)
        except (BrokenPipeError, ConnectionResetError):
            return  # it died while idle; wait() sees the closed pipe and deals with the job

    def take(self) -> Job:
        job = self.job
        assert job is not None, "a worker answered without having a job"
        self.job = None
        return job

    def stop(self) -> int | None:
        """End the process and return its exit code (negative: the signal)."""
        self.pipe.close()
        if self.job is None:
            self.process.join(timeout=2)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


def serve_reader(pipe: Connection, config: ExtractConfig, open_reader: ReaderFactory) -> None:
    """A worker's whole life. It ends when its pipe closes, which is also how it learns that the parent died."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        with open_reader(config) as reader:
            pipe.send(Started())
            while True:
                job: Job = pipe.recv()
                steered: dict[str, Any] = {} if job.guidance is None else {"guidance": job.guidance}
                pipe.send(reader.read(job.source, name=job.name, doc_type=job.doc_type, **steered))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except CertloopError as error:
        pipe.send(error)
