"""Readers that misbehave in the way a test needs, around the real one. They stand in a module that reader processes can import.

What they do to which file is said by the first bytes of the file: ``hang``, ``die`` or ``exit``; anything else is really read.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certloop.agentrl.errors import CertloopError
from certloop.serve.work.readers import PageReader, PagesRead, open_page_reader


class Odd:
    def __init__(self, real: PageReader) -> None:
        self._real = real

    def read(self, source: Path | bytes, **how: Any) -> PagesRead | CertloopError:
        head = source[:5] if isinstance(source, bytes) else b""
        if head.startswith(b"hang"):
            while True:
                time.sleep(60)
        if head.startswith(b"die"):
            os.kill(os.getpid(), signal.SIGKILL)
        if head.startswith(b"exit"):
            os._exit(3)
        if head.startswith(b"slow"):
            time.sleep(float(source[4:8]))
            source = source[8:]
        return self._real.read(source, **how)


@contextmanager
def open_odd(config: Any) -> Iterator[PageReader]:
    with open_page_reader(config) as real:
        yield Odd(real)
