"""The desk's first result comes soon: a reader is there before somebody uploads."""

from __future__ import annotations

from contextlib import closing

from live import small_page

from certloop.extract.config import ExtractConfig
from certloop.serve.work.readers import Readers


def test_a_reader_started_ahead_reads_the_first_document() -> None:
    with closing(Readers(ExtractConfig(), 1)) as readers:
        assert readers.pids() == ()
        readers.warm()
        readers.warm()
        (pid,) = readers.pids()
        read = readers.read("doc_1", small_page(1), None, 300, lambda: True)
        assert readers.pids() == (pid,)
    assert read is not None and read.result.documents[0].doc_type == "business_licence"
