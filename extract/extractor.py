"""The verb of the product: ``Extractor.read(file) -> Result``. A bad file is a failed Result, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from certloop.agentrl.errors import CertloopError
from certloop.extract.config import ENGINES, ExtractConfig
from certloop.extract.engine.contract import Engine
from certloop.extract.engine.errors import ModelError
from certloop.extract.engine.open import open_engine
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import Decoder, IngestError, Page, ingest
from certloop.extract.join import join_parts
from certloop.extract.result import FileStatus, Result
from certloop.templates import Registry, load_types

Source = str | PathLike[str] | bytes


class UnknownEngineError(CertloopError, ValueError):
    """The configuration names an engine that does not exist."""

    code = "unknown_engine"


class Extractor:
    """Reads files one after another; holds the models and one decoding process. Use as a context manager, one per process."""

    def __init__(self, config: ExtractConfig | None = None) -> None:
        self.config = config or ExtractConfig()
        if self.config.engine not in ENGINES:
            raise UnknownEngineError(f"unknown engine {self.config.engine!r}; known engines: {', '.join(ENGINES)}")
        self._decoder = Decoder()
        self._opened: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._decoder.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @cached_property
    def registry(self) -> Registry:
        return load_types(self.config.template_path)

    @property
    def engine(self) -> Engine:
        """What reads the pages; a model is loaded on first use. Raises ModelError where there is none."""
        if self._opened is None:
            self._opened = open_engine(self.config, self.registry)
        return self._opened

    def read(
        self,
        source: Source,
        *,
        name: str | None = None,
        doc_type: str | None = None,
        guidance: Guidance | None = None,
    ) -> Result:
        """Read every certificate in a file.

        ``name`` is what ``Result.file`` says (default: the path, ``-`` for bytes); ``doc_type`` skips classification;
        ``guidance`` replaces the configuration's for this file. Raises
        UnknownTypeError for a type nobody knows; whatever is wrong with the *file* comes back as a failed Result.
        """
        return self.read_with_pages(source, name=name, doc_type=doc_type, guidance=guidance)[0]

    def read_with_pages(
        self,
        source: Source,
        *,
        name: str | None = None,
        doc_type: str | None = None,
        guidance: Guidance | None = None,
    ) -> tuple[Result, tuple[Page, ...]]:
        """As ``read``, with the pages that were read (none where the file failed), for whoever stores them. ``guidance`` replaces
        the configuration's for this file."""
        if doc_type is not None:
            self.registry.get(doc_type)
        label = name or ("-" if isinstance(source, bytes) else str(source))
        try:
            pages = ingest(source if isinstance(source, bytes) else Path(source), self.config.limits, decoder=self._decoder)
        except IngestError as error:
            return Result(label, FileStatus.FAILED, error=error.to_json()), ()
        warnings: list[Mapping[str, str]] = [{key: str(value) for key, value in w.to_json().items()} for w in pages.warnings]
        try:
            reading = self.engine.read(pages.pages, doc_type, self.config.guidance if guidance is None else guidance)
        except ModelError as error:
            return Result(label, FileStatus.FAILED, error=error.to_json(), warnings=tuple(warnings)), ()
        warnings += reading.warnings
        documents = join_parts([replace(d, release=self.config.release) for d in reading.documents], self.registry)
        status = FileStatus.PARTIAL if warnings else FileStatus.OK
        return Result(label, status, tuple(documents), warnings=tuple(warnings)), pages.pages
