"""Files of the commands: what cannot be written is one sentence that names it."""

from __future__ import annotations

from pathlib import Path

from certloop.synth.errors import OutputError


def write_file(path: Path, data: bytes) -> None:
    """Write a file, its folder with it. Raises OutputError (code output_failed)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise OutputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
