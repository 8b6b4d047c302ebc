"""The parent's side of decoding: one child process that decodes many files and is replaced when it dies or hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import certloop
from certloop.extract.ingest.decode import image_size
from certloop.extract.ingest.errors import (
    BY_CODE,
    DecodeCrashedError,
    DecodeMemoryError,
    DecodeTimeoutError,
    IngestError,
)
from certloop.extract.ingest.model import IngestLimits, IngestWarning, Page, Pages, TextRun
from certloop.extract.ingest.wire import LENGTHS, MAX_HEADER_BYTES, message_head, parse_header

if TYPE_CHECKING:
    import subprocess

START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 2.0
PIPE_BYTES = 1 << 20
_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "VIRTUAL_ENV", "SYSTEMROOT")


class Decoder:
    """A child process that decodes files one after another; use it as a context manager, one per worker.

    The child starts with the first file (about a twentieth of a CPU second) and again after a file that crashed it, took too long
    or needed too much memory. Threads may share a Decoder: they wait for each other. After a fork the new process starts a child
    of its own. ``close()`` waits for the child, so that its CPU seconds count in ``resource.RUSAGE_CHILDREN``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id of the child, None while there is none."""
        return self._child.process.pid if self._child is not None else None

    def decode(self, data: bytes, fmt: str, limits: IngestLimits) -> Pages:
        """Decode ``data``, whose format ``sniff`` found to be ``fmt``. Raises IngestError."""
        with self._lock:
            child = self._running_child()
            try:
                return child.exchange(data, fmt, limits)
            except (DecodeCrashedError, DecodeMemoryError, DecodeTimeoutError):
                self._discard()
                raise
            except IngestError:
                raise  # the child has answered in full and is ready for the next file
            except BaseException:  # KeyboardInterrupt and the like: half an answer may still be in the pipe
                self._discard()
                raise

    def close(self) -> None:
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.stop()

    def _running_child(self) -> _Child:
        if self._child is not None and self._child.owner != os.getpid():
            self._child = None  # it belongs to the process we were forked from
        if self._child is not None and self._child.process.poll() is not None:
            self._discard()
        if self._child is None:
            self._child = _Child()
        return self._child

    def _discard(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()


class _Child:
    def __init__(self) -> None:
        self.owner = os.getpid()
        self.process = _start()
        assert self.process.stdin is not None and self.process.stdout is not None
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._to, False)
        for descriptor in (self._to, self._from):
            with contextlib.suppress(OSError, AttributeError):  # a bigger pipe only saves context switches
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            self._receive(time.monotonic() + START_TIMEOUT_S)
        except BaseException as error:
            self.kill()
            if isinstance(error, (_Late, EOFError, OSError, ValueError)):
                raise DecodeCrashedError("the decoding process could not start: check the installation") from None
            raise

    def exchange(self, data: bytes, fmt: str, limits: IngestLimits) -> Pages:
        deadline = time.monotonic() + limits.timeout_s
        try:
            self._write(message_head({"format": fmt, "limits": asdict(limits)}, len(data)), deadline)
            self._write(data, deadline)
            return self._pages(limits, deadline)
        except _Late:
            raise _too_slow(limits) from None
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, IngestError):
                raise
            raise self._why_dead(limits) from None

    def _pages(self, limits: IngestLimits, deadline: float) -> Pages:
        pages: list[Page] = []
        total = 0
        while True:
            header, payload = self._receive(deadline, limits)
            if header["kind"] == "page":
                pages.append(_page(header, payload, limits))
                total += len(payload) // 3
                if len(pages) > limits.max_pages or total > limits.max_total_pixels:
                    raise ValueError("more pages than the limits allow")
            elif header["kind"] == "done":
                if not pages:
                    raise ValueError("no pages")
                return Pages(tuple(pages), tuple(IngestWarning(**item) for item in header["warnings"]))
            else:
                raise BY_CODE[header["code"]](str(header["message"]))

    def _receive(self, deadline: float, limits: IngestLimits | None = None) -> tuple[dict[str, Any], bytearray]:
        header_bytes, payload_bytes = LENGTHS.unpack(self._read(LENGTHS.size, deadline))
        longest = 0 if limits is None else 3 * limits.max_long_edge_px**2
        if header_bytes > MAX_HEADER_BYTES or payload_bytes > longest:
            raise ValueError("message too long")
        header = parse_header(self._read(header_bytes, deadline))
        return header, self._read(payload_bytes, deadline)

    def _read(self, count: int, deadline: float) -> bytearray:
        buffer = bytearray(count)
        rest = memoryview(buffer)
        while rest:
            _wait(self._from, select.POLLIN, deadline)
            got = os.readv(self._from, [rest])
            if not got:
                raise EOFError
            rest = rest[got:]
        return buffer

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._to, select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._to, rest) :]

    def _why_dead(self, limits: IngestLimits) -> IngestError:
        with contextlib.suppress(Exception):
            self.process.wait(CLOSE_TIMEOUT_S)
        if self.process.returncode == -signal.SIGXCPU:
            return _too_slow(limits)
        return DecodeCrashedError("decoding this file crashed, or needed far too much memory: save it again as JPEG, PNG or PDF")

    def stop(self) -> None:
        """Let the child end by itself, and wait for it."""
        if self.owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            os.set_blocking(self._to, True)
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        with contextlib.suppress(Exception):
            self.process.wait(CLOSE_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Late(Exception):
    """The deadline of a file has passed."""


def _too_slow(limits: IngestLimits) -> DecodeTimeoutError:
    return DecodeTimeoutError(f"decoding took longer than {limits.timeout_s:g} s: save the file again at a lower resolution")


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(descriptor, event)
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0 or not poller.poll(max(1, remaining_s * 1000)):
        raise _Late


def _start() -> subprocess.Popen[bytes]:
    import subprocess

    # -P: the working folder is not on the child's path; its own folder is given by PYTHONPATH, for checkouts and installs alike
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    environment["PYTHONPATH"] = str(Path(certloop.__file__).parent.parent)
    environment["MALLOC_ARENA_MAX"] = "1"  # each arena takes 64 MiB of the limited address space
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "certloop.extract.ingest.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # decoders quote bytes of the file in what they print
        env=environment,
        cwd="/",
        bufsize=0,
        start_new_session=True,  # Ctrl-C reaches the parent, which ends the child in order
    )


def _page(header: dict[str, Any], rgb: bytearray, limits: IngestLimits) -> Page:
    """A page as the child describes it. The child reads hostile files, so its words are checked, too."""
    import numpy as np

    width, height = int(header["width"]), int(header["height"])
    shape = int(header["image_height"]), int(header["image_width"]), 3
    if width * height > limits.max_pixels or (shape[1], shape[0]) != image_size(width, height, limits):
        raise ValueError("a page of another size than the limits allow")
    return Page(
        image=np.frombuffer(rgb, dtype=np.uint8).reshape(shape),
        index=int(header["index"]),
        width=width,
        height=height,
        scale=float(header["scale"]),
        format=str(header["format"]),
        dpi=None if header["dpi"] is None else float(header["dpi"]),
        text=tuple(TextRun(str(text), (float(x0), float(y0), float(x1), float(y1))) for text, x0, y0, x1, y1 in header["text"]),
        grayscale=bool(header["grayscale"]),
    )
