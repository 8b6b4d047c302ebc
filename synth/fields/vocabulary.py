"""The word lists of ``synth/data``, read once; they are data that people may edit."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"


@lru_cache(maxsize=16)
def read_data(name: str) -> dict[str, Any]:
    """Return ``synth/data/<name>.toml``."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


def words(section: str, key: str) -> list[str]:
    """Return one list of ``words.toml`` (a string counts as a list of its characters)."""
    return list(read_data("words")[section][key])
