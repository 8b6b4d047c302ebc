"""Where a model comes from, a folder or a hub name, and in words why it could not be had."""

from __future__ import annotations

import re
from pathlib import Path

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def model_folder(source: str) -> str:
    """The source as it is, with ``~`` for the home folder written out."""
    return str(Path(source).expanduser()) if source.startswith("~") else source


def is_bare_name(source: str) -> bool:
    """Whether a source can be neither a folder nor a model of the hub (OWNER/NAME): a slip that no network is asked about."""
    return "/" not in source and not Path(source).exists()


def why_not(source: str, error: Exception) -> str:
    """Why loading from ``source`` ended with ``error``: nothing is there, or what is there is not what it should be."""
    path = Path(source)
    if path.is_dir() and (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        return "the folder holds an adapter, not a model; give the folder of its base model"
    if path.is_dir():
        missing = [
            name for name in ("config.json", "tokenizer_config.json", "processor_config.json") if not (path / name).is_file()
        ]
        return f"the folder lacks {missing[0]}" if missing else f"a file in the folder is damaged ({type(error).__name__})"
    if path.exists():
        return "it is a file, not a folder"
    if is_bare_name(source):
        return "there is no such folder, and a name on the hub is OWNER/NAME"
    if not _HUB_NAME.fullmatch(source):
        return "there is no such folder"
    return "there is no such folder, and no model of that name was found in the local cache or on the hub"
