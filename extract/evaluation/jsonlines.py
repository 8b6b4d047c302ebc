"""Reads a file of JSON objects, one a line, with errors that name the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from certloop.extract.evaluation.errors import EvaluationError


def read_objects(path: Path | str, error: type[EvaluationError]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, object) for every line that is not blank; ``where`` names file and line. Raises ``error``."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as cause:
        raise error(f"{path}: cannot be read: not UTF-8 (byte {cause.start})") from cause
    except (OSError, ValueError) as cause:  # ValueError: a NUL in the name
        raise error(f"{path}: cannot be read: {getattr(cause, 'strerror', None) or cause}") from cause
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as cause:
            raise error(
                f"{where}: not JSON ({getattr(cause, 'msg', 'nested too deeply')}); every line must be one object"
            ) from cause
        if not isinstance(data, dict):
            raise error(f"{where}: a JSON object was expected, found {type(data).__name__}")
        yield where, data
