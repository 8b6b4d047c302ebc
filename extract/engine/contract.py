"""What every engine offers, and what every model behind a model engine offers.

An ``Engine`` turns pages into documents; ``ocr`` does it by layout, model engines ask an ``AnswerModel`` about each document. The
conformance suite in ``tests/extract/test_engine_conformance.py`` runs over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from certloop.extract.engine.view import View
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import Page
from certloop.extract.result import Document

Image = NDArray[np.uint8]
LEAST_LOGPROB = -1e4
"""Log-probabilities below this, minus infinity among them, are kept as this: what is stored must be finite."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The documents of some pages, page by page, with their fields, boxes, confidences and steps.

    ``warnings`` are what went wrong on single pages (``code``, ``message``): a reading with warnings is a partial one.
    """

    documents: tuple[Document, ...] = ()
    warnings: tuple[Mapping[str, str], ...] = ()


class Engine(Protocol):
    """Reads pages. Not thread-safe; one per process."""

    def read(self, pages: Sequence[Page], doc_type: str | None, guidance: Guidance) -> Reading:
        """Read every document on the pages, of the given type or of whatever type each is found to be.

        ``guidance`` is the only door by which memory, skills and notes reach an engine. Raises ModelError when no page at all
        could be read because the model gave no answer.
        """
        ...

    def close(self) -> None: ...


class Finish(StrEnum):
    """Why a model stopped: it was done, its tokens ran out, or it was stopped in a repetition loop."""

    STOP = "stop"
    LENGTH = "length"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class Question:
    """One document for a model: (H, W, 3) RGB images as it shall see them, the user's text, and the labels it may answer.

    ``adapter`` names a loaded adapter, None the engine's own; rows of one batch may name different ones.
    """

    images: tuple[Image, ...]
    prompt: str
    labels: tuple[str, ...] = ()
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model wrote. ``token_ids`` are the sampled tokens (the end mark included), ``logprobs`` theirs, ``offsets`` the
    characters of ``text`` each covers; all three are empty where a server does not tell. ``prompt_ids`` are the ids before them.

    ``temperature`` is the sampling temperature; the log-probabilities are those of that distribution, at temperature 0 (always
    the likeliest token) those of temperature 1. ``constraint`` names the grammar that bound the answer, if any.
    """

    text: str
    finish: Finish
    model: str
    adapter: str | None = None
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()
    temperature: float = 0.0
    constraint: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)


class AnswerModel(Protocol):
    """A vision-language model: images and text in, text out."""

    name: str

    @property
    def view(self) -> View: ...

    def answer(self, questions: Sequence[Question]) -> list[ModelAnswer]:
        """Answer every question, in order. Raises ModelError."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class HoldsAdapters(Protocol):
    """A model in this process: adapters are loaded into it by name, beside each other."""

    @property
    def adapters(self) -> tuple[str, ...]: ...

    def load_adapter(self, name: str, folder: Path) -> None:
        """Raises AdapterRefusedError."""
        ...
