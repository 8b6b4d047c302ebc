"""The decoding child: ``python -m certloop.extract.ingest.child``, started by ``Decoder``, reads files from stdin until it ends.

Opens no file of the user, inherits no environment, and limits itself: address space and CPU seconds for each file, no file
writing, few descriptors, no core dumps.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
from dataclasses import asdict
from typing import BinaryIO

from PIL import Image

from certloop.extract.ingest.decode import RawPage, decode, out_of_memory
from certloop.extract.ingest.errors import DecodeMemoryError, IngestError
from certloop.extract.ingest.model import IngestLimits
from certloop.extract.ingest.wire import LENGTHS, message_head, parse_header

MAX_OPEN_FILES = 64
CPU_GRACE_S = 1


def main() -> None:
    requests, replies = _take_pipes()
    _limit_process()
    Image.MAX_IMAGE_PIXELS = None  # our own limit is checked before decoding, with its own error
    _send(replies, message_head({"kind": "ready"}))
    while len(lengths := requests.read(LENGTHS.size)) == LENGTHS.size:
        header_bytes, file_bytes = LENGTHS.unpack(lengths)
        header = parse_header(requests.read(header_bytes))
        limits = IngestLimits(**header["limits"])
        _limit_file(limits)
        try:
            _answer(replies, requests.read(file_bytes), header["format"], limits)
        except MemoryError as error:
            _send(replies, _error_head(error if isinstance(error, IngestError) else out_of_memory()))
            return  # the heap may be in any state: let the parent start a fresh child


def _answer(replies: BinaryIO, data: bytes, fmt: str, limits: IngestLimits) -> None:
    def emit(page: RawPage) -> None:
        fields = {name: getattr(page, name) for name in RawPage.__slots__ if name not in ("rgb", "text")}
        fields["text"] = [[run.text, *run.box] for run in page.text]
        _send(replies, message_head({"kind": "page", **fields}, len(page.rgb)), page.rgb)

    try:
        warnings = decode(data, fmt, limits, emit)
    except DecodeMemoryError:
        raise
    except IngestError as error:
        _send(replies, _error_head(error))
    else:
        _send(replies, message_head({"kind": "done", "warnings": [asdict(w) for w in warnings]}))


def _error_head(error: IngestError) -> bytes:
    return message_head({"kind": "error", "code": error.code, "message": error.message})


def _send(replies: BinaryIO, head: bytes, payload: bytes = b"") -> None:
    replies.write(head)
    if payload:
        replies.write(payload)
    replies.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the two pipes for ourselves: a native library that prints must not write into the protocol."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return requests, replies


def _limit_process() -> None:
    for kind, value in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, MAX_OPEN_FILES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _limit_file(limits: IngestLimits) -> None:
    """Soft limits, so that the next file can have others. macOS does not know RLIMIT_AS: there only the time is limited."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + limits.timeout_s) + CPU_GRACE_S
    for kind, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, limits.memory_bytes)):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, hard))
        except ValueError:
            if sys.platform != "darwin":
                raise


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the parent has gone: nobody is left to tell
        main()
