"""The verb of the product: ``Extractor.read(file) -> Result``. A bad file is a failed Result, never an exception."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from certloop.agentrl.errors import CertloopError
from certloop.extract.answer import answer_documents
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.engine.stock import StockOcrEngine
from certloop.extract.episode import read_page
from certloop.extract.ingest import Decoder, IngestError, Page, ingest
from certloop.extract.join import join_parts
from certloop.extract.result import Document, FileStatus, Result
from certloop.templates import Registry, load_types

Source = str | PathLike[str] | bytes


class UnknownEngineError(CertloopError, ValueError):
    """The configuration names an engine that does not exist."""

    code = "unknown_engine"


class Extractor:
    """Reads files one after another; holds the models and one decoding process. Use as a context manager, one per process."""

    def __init__(self, config: ExtractConfig | None = None) -> None:
        self.config = config or ExtractConfig()
        engines = {"ocr": OcrEngine, "ocr-stock": StockOcrEngine}
        if self.config.engine not in engines:
            raise UnknownEngineError(f"unknown engine {self.config.engine!r}; known engines: {', '.join(engines)}")
        self._engine = engines[self.config.engine](self.config.ocr)
        self._decoder = Decoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._decoder.close()

    @cached_property
    def registry(self) -> Registry:
        return load_types(self.config.template_path)

    def read(self, source: Source, *, name: str | None = None, doc_type: str | None = None) -> Result:
        """Read every certificate in a file.

        ``name`` is what ``Result.file`` says (default: the path, ``-`` for bytes); ``doc_type`` skips classification. Raises
        UnknownTypeError for a type nobody knows; whatever is wrong with the *file* comes back as a failed Result.
        """
        return self.read_with_pages(source, name=name, doc_type=doc_type)[0]

    def read_with_pages(
        self, source: Source, *, name: str | None = None, doc_type: str | None = None
    ) -> tuple[Result, tuple[Page, ...]]:
        """As ``read``, with the pages that were read (none where the file failed), for whoever stores them."""
        if doc_type is not None:
            self.registry.get(doc_type)
        label = name or ("-" if isinstance(source, bytes) else str(source))
        try:
            pages = ingest(source if isinstance(source, bytes) else Path(source), self.config.limits, decoder=self._decoder)
        except IngestError as error:
            return Result(label, FileStatus.FAILED, error=error.to_json()), ()
        warnings = [{key: str(value) for key, value in w.to_json().items()} for w in pages.warnings]
        documents = join_parts([d for page in pages.pages for d in self._read_page(page, doc_type)], self.registry)
        status = FileStatus.PARTIAL if warnings else FileStatus.OK
        return Result(label, status, tuple(documents), warnings=tuple(warnings)), pages.pages

    def _read_page(self, page: Page, doc_type: str | None) -> Sequence[Document]:
        readings, around = read_page(page.image, self._engine, self.registry, self.config, doc_type=doc_type)
        documents = answer_documents(page, readings, around)
        return [replace(d, release=self.config.release) for d in documents]
