"""A reader that really reads a page once, and answers with what it read when the same bytes come again under the same rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certloop.agentrl.errors import CertloopError
from certloop.serve.work.readers import PageReader, PagesRead, open_page_reader


class Cached:
    def __init__(self, real: PageReader) -> None:
        self._real = real
        self._known: dict[tuple[Any, ...], PagesRead] = {}

    def read(self, source: Path | bytes, **how: Any) -> PagesRead | CertloopError:
        key = (source, how.get("doc_type"), repr(how.get("guidance")))
        if key not in self._known:
            read = self._real.read(source, **how)
            if isinstance(read, CertloopError):
                return read
            self._known[key] = read
        return self._known[key]


@contextmanager
def open_cached(config: Any) -> Iterator[PageReader]:
    with open_page_reader(config) as real:
        yield Cached(real)
