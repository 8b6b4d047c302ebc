"""Where a run is trained: ``local`` (TRL on this machine), ``swift`` (files and commands for ms-swift), ``tinker`` (cloud API).

All follow ``certloop.agentrl.backend.TrainBackend``; the recipe of a spec is a run configuration as JSON.
"""

from __future__ import annotations

from pathlib import Path

from certloop.agentrl.backend import TrainBackend, TrainSpec
from certloop.train.config import RunConfig, parse_config
from certloop.train.errors import TrainDataError
from certloop.train.rows import data_sha256, read_rows

__all__ = ["make_backend", "make_spec", "recipe_of"]


def make_backend(kind: str, root: Path) -> TrainBackend:
    """The backend of that name, whose runs stand in folders below ``root``."""
    if kind == "swift":
        from certloop.train.backends.swift import SwiftBackend

        return SwiftBackend(root)
    if kind == "tinker":
        from certloop.train.backends.tinker import TinkerBackend

        return TinkerBackend(root)
    from certloop.train.backends.local import LocalBackend

    return LocalBackend(root)


def make_spec(config: RunConfig) -> TrainSpec:
    """A spec of the run, with the hash of its rows (empty where there are none yet: such a run can only be planned)."""
    folder = Path(config.data.train)
    digest = data_sha256(folder) if config.data.train and folder.is_dir() else ""
    return TrainSpec(config.name, config.to_dict(), config.data.train, digest)


def recipe_of(spec: TrainSpec) -> RunConfig:
    """The run of a spec that is to be started. Raises TrainConfigError for a recipe that makes no sense, TrainDataError when the
    rows are missing or not those of the spec."""
    config = parse_config(dict(spec.recipe))
    read_rows(Path(spec.data))
    if spec.data_sha256 and data_sha256(Path(spec.data)) != spec.data_sha256:
        raise TrainDataError(f"the rows of {spec.name} changed since the run was specified")
    return config.with_(data=config.data.model_dump(exclude_none=True) | {"train": spec.data})
