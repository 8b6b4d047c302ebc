"""What a dataset run is: one frozen, serialisable record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from certloop.synth.errors import WriterError

Weights = tuple[tuple[str, float], ...]
DEFAULT_SPLITS: Weights = (("train", 0.9), ("validation", 0.05), ("test", 0.05))


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """An OpenAI-compatible endpoint that writes the values instead of the grammar (``url`` ends before /chat/completions).

    Raises WriterError (code value_writer_failed) for a ``url`` that is not http or https.
    """

    url: str
    model: str
    api_key: str = ""
    attempts: int = 3
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise WriterError("the endpoint of the value writer must be an address with http:// or https://")


@dataclass(frozen=True, slots=True)
class MakeConfig:
    """``count`` samples over ``types`` in turn; ``profiles`` and ``splits`` are names with weights. ``layouts`` limits the
    layouts
    (``type/layout`` or ``layout``), ``drift`` adds that many drift editions of each layout. Everything but ``workers`` and
    ``parquet`` decides the bytes."""

    out: Path
    types: tuple[str, ...] = ("business_licence",)
    count: int = 100
    profiles: Weights = (("photo", 1.0),)
    seed: int = 0
    width_px: int = 1400
    splits: Weights = DEFAULT_SPLITS
    layouts: tuple[str, ...] = ()
    drift: int = 0
    misprint_rate: float = 0.01
    chunk: int = 32
    search_path: tuple[str, ...] = ()
    writer: WriterConfig | None = None
    workers: int = 1
    parquet: bool = False

    def recipe(self) -> dict[str, Any]:
        """What decides the bytes, without the place, the workers or any secret."""
        data = asdict(self)
        for key in ("out", "workers", "parquet"):
            del data[key]
        if data["writer"]:
            data["writer"] = {"url": data["writer"]["url"], "model": data["writer"]["model"]}
        return data

    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.recipe(), sort_keys=True).encode()).hexdigest()
