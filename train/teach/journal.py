"""An append-only file of annotations: one JSON object a line, safe against a kill at any moment."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from certloop.train.errors import TrainDataError

KEPT, DROPPED, FAILED = "kept", "dropped", "failed"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What became of one page. ``status`` is kept, dropped (the teacher disagreed with the label every time) or failed (no
    answer could be had; it is asked again when annotation resumes). ``reasons`` are words about the last try, never values."""

    id: str
    mode: str
    status: str
    teacher: str
    reasoning: str = ""
    attempts: int = 0
    reasons: tuple[str, ...] = ()
    quoted: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Journal:
    """Appends annotations from several threads; every line is on disk before ``add`` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _cut_torn_line(path)
            self._file = path.open("ab")
        except OSError as error:
            raise TrainDataError(
                f"annotations cannot be written to {path.name}: {error.strerror or type(error).__name__}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, annotation: Annotation) -> None:
        """Raises TrainDataError when the disk refuses."""
        line = (json.dumps(asdict(annotation), ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        try:
            with self._lock:
                self._file.write(line)
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise TrainDataError(f"annotations cannot be written to {self._path.name}: {error.strerror}") from None


def read_annotations(path: Path) -> dict[str, Annotation]:
    """The last word on every page; a file that is not there holds none. Raises TrainDataError for a line that is no
    annotation."""
    return {entry.id: entry for entry in _entries(path)}


def _entries(path: Path) -> Iterator[Annotation]:
    if not path.exists():
        return
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise TrainDataError(f"the annotations {path.name} cannot be read: {type(error).__name__}") from None
    whole, _, _ = text.rpartition("\n")
    for number, line in enumerate(whole.split("\n") if whole else (), 1):  # a thought may hold a U+2028
        try:
            data: Mapping[str, Any] = json.loads(line)
            yield Annotation(**{**data, "reasons": tuple(data.get("reasons") or ())})
        except (ValueError, TypeError, RecursionError):
            raise TrainDataError(f"{path.name}, line {number}: not an annotation") from None


def _cut_torn_line(path: Path) -> None:
    """A kill can leave half a line at the end: it was never acknowledged, so it goes."""
    if not path.exists():
        return
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)


@dataclass(slots=True)
class Tally:
    """What annotation did, counted. ``cost`` is in the currency of the prices given."""

    pages: int = 0
    kept: int = 0
    dropped: int = 0
    failed: int = 0
    resumed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    modes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"cost": round(self.cost, 6)}
