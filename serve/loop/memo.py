"""An engine that looks at the same pixels once: several systems read the same page, and only their rules differ.

With a file, looks outlive the process: a simulation that is run again, or goes on after it was killed, sees every page at once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from certloop.extract.engine.lines import Quad, TextLine
from certloop.extract.engine.ocr import Image, OcrConfig, OcrEngine

Seen = TypeVar("Seen")


class MemoEngine(OcrEngine):
    """Keeps everything it saw, by a hash of the pixels and of how they were looked at. Answers are those of ``OcrEngine``."""

    def __init__(self, config: OcrConfig | None = None, kept: Path | None = None) -> None:
        """``kept`` is a file (SQLite) of earlier looks; it is made where there is none."""
        super().__init__(config)
        self._seen: dict[bytes, Any] = {}
        self._file = None if kept is None else _Kept(kept)
        self._within = False

    def read(self, image: Image) -> list[TextLine]:
        return list(self._once(_key("read", image), lambda: super(MemoEngine, self).read(image), _lines, _as_lines))

    def detect(self, image: Image, *, zoom: float = 1.0, enlarge: bool = True) -> list[Quad]:
        key = _key("detect", image, repr((zoom, enlarge)).encode())
        look = lambda: super(MemoEngine, self).detect(image, zoom=zoom, enlarge=enlarge)  # noqa: E731
        return list(self._once(key, look, _quads, _as_quads))

    def recognise(self, image: Image, quads: list[Quad]) -> list[TextLine]:
        key = _key("recognise", image, *(np.asarray(quad, np.float32).tobytes() for quad in quads))
        return list(self._once(key, lambda: super(MemoEngine, self).recognise(image, quads), _lines, _as_lines))

    def recognise_crop(self, patch: Image, quad: Quad) -> TextLine:
        key = _key("crop", patch, np.asarray(quad, np.float32).tobytes())
        look = lambda: [super(MemoEngine, self).recognise_crop(patch, quad)]  # noqa: E731
        return self._once(key, look, _lines, _as_lines)[0]

    def _once(
        self,
        key: bytes,
        look: Callable[[], list[Seen]],
        pack: Callable[[list[Seen]], Any],
        unpack: Callable[[Any], list[Seen]],
    ) -> list[Seen]:
        """A look within a look (the lines of a page) is part of the outer one and not kept for itself."""
        if self._within:
            return look()
        if key in self._seen:
            found: list[Seen] = self._seen[key]
            return found
        data = None if self._file is None else self._file.get(key)
        if data is None:
            self._within = True
            try:
                seen = look()
            finally:
                self._within = False
            if self._file is not None:
                self._file.put(key, pack(seen))
        else:
            seen = unpack(data)
        self._seen[key] = seen
        return seen


class _Kept:
    """Looks on disk. Whatever is lost of it is looked at again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, timeout=60.0)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS looks (key BLOB PRIMARY KEY, seen BLOB NOT NULL)")

    def get(self, key: bytes) -> Any:
        row = self._db.execute("SELECT seen FROM looks WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(zlib.decompress(row[0]))

    def put(self, key: bytes, seen: Any) -> None:
        data = zlib.compress(json.dumps(seen, ensure_ascii=False, separators=(",", ":")).encode(), 6)
        self._db.execute("INSERT OR REPLACE INTO looks VALUES (?, ?)", (key, data))


def digest(image: Image) -> bytes:
    """A hash of an image's pixels and shape."""
    return hashlib.blake2b(np.ascontiguousarray(image).tobytes() + repr(image.shape).encode(), digest_size=16).digest()


def _key(what: str, image: Image, *more: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join((what.encode(), digest(image), *more)), digest_size=16).digest()


def _quads(quads: list[Quad]) -> list[Any]:
    return [[[float(x), float(y)] for x, y in quad] for quad in quads]


def _as_quads(data: Any) -> list[Quad]:
    return [np.asarray(quad, np.float32) for quad in data]


def _lines(lines: list[TextLine]) -> list[Any]:
    return [
        [*_quads([line.quad]), line.text, float(line.score), list(map(float, line.char_x)), list(map(float, line.char_scores))]
        for line in lines
    ]


def _as_lines(data: Any) -> list[TextLine]:
    return [TextLine(np.asarray(q, np.float32), text, score, tuple(x), tuple(s)) for q, text, score, x, s in data]
