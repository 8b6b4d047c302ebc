"""The ``ocr`` engine behind the engines' contract: text lines, layout, second looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from certloop.extract.answer import answer_documents
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.contract import Reading
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.episode import read_page
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import Page
from certloop.templates import Registry


class OcrReader:
    """Reads pages by their layout, with the tools of ``extract.tools`` for second looks."""

    def __init__(self, ocr: OcrEngine, registry: Registry, config: ExtractConfig) -> None:
        self._ocr, self._registry, self._config = ocr, registry, config

    def read(self, pages: Sequence[Page], doc_type: str | None, guidance: Guidance) -> Reading:
        config = replace(self._config, guidance=guidance)
        documents = []
        for page in pages:
            readings, around = read_page(page.image, self._ocr, self._registry, config, doc_type=doc_type)
            documents += answer_documents(page, readings, around)
        return Reading(tuple(documents))

    def close(self) -> None:
        """Nothing is held but sessions, which go with the object."""
