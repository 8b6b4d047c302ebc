"""Readers for the tests of `read_many`. They stand in a module of their own because worker processes import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certloop.agentrl.errors import CertloopError
from certloop.extract.result import Document, FileStatus, Result


class ToyReader:
    """Does what the file's name says (slow, die, killed); the title of the document it reads is its process id."""

    def read(self, source: Path | bytes, *, name: str | None = None, doc_type: str | None = None) -> Result:
        text = source.decode() if isinstance(source, bytes) else source.name
        if text.startswith("die"):
            os._exit(7)
        if text.startswith("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if text.startswith("slow"):
            time.sleep(0.3)
        return Result(name or text, FileStatus.OK, (Document(doc_type or "unknown", 1.0, title=str(os.getpid())),))


@contextmanager
def open_toy(config: Any) -> Iterator[ToyReader]:
    yield ToyReader()


@contextmanager
def open_once(config: Path) -> Iterator[ToyReader]:
    """The first worker dies while it starts."""
    if not config.exists():
        config.touch()
        os._exit(3)
    yield ToyReader()


def open_never(config: Any) -> Any:
    os._exit(3)


def open_refused(config: Any) -> Any:
    raise CertloopError("the model is missing")
