"""Fictional certificates to try the desk with: the files of ``examples/`` in a checkout, drawn from their seeds anywhere else."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from certloop.agentrl.store import NotFoundError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LISTING = Path(__file__).parent / "samples.toml"
"""The same as ``examples/examples.toml``; a wheel has only this one."""
_drawing = Lock()


def names() -> list[str]:
    """File names, in the order of the listing."""
    return list(_entries())


def content(name: str) -> bytes:
    """The file of a sample; drawing one takes a second or two, the first time. Raises NotFoundError."""
    if name not in _entries():
        raise NotFoundError("no such sample")
    file = EXAMPLES / name
    if file.is_file():
        return file.read_bytes()
    with _drawing:
        return _drawn(name)


@cache
def _entries() -> dict[str, dict[str, Any]]:
    return {entry["file"]: entry for entry in tomllib.loads(LISTING.read_text(encoding="utf-8"))["examples"]}


@cache
def _drawn(name: str) -> bytes:
    from certloop.synth.examples import write_examples

    lines = "\n".join(f"{key} = {_toml(value)}" for key, value in _entries()[name].items())
    with TemporaryDirectory(prefix="certloop-sample-") as place:
        folder = Path(place)
        (folder / "examples.toml").write_text(f"[[examples]]\n{lines}\n", encoding="utf-8")
        return write_examples(folder)[0].read_bytes()


def _toml(value: object) -> str:
    """Names, numbers and lists of names, as the listing has them."""
    return (
        f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else f'"{value}"' if isinstance(value, str) else str(value)
    )
