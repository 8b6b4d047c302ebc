"""What every backend keeps in a run's folder, and how a candidate is described."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from certloop.agentrl.backend import Candidate, RunState, Status, TrainSpec
from certloop.train.errors import BackendError
from certloop.train.run import write_json

SPEC = "spec.json"


def keep_spec(folder: Path, spec: TrainSpec) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data = {"name": spec.name, "recipe": dict(spec.recipe), "data": spec.data, "data_sha256": spec.data_sha256}
    write_json(folder / SPEC, data)


def read_spec(folder: Path) -> TrainSpec:
    """Raises BackendError for a run that this backend does not know."""
    try:
        data = json.loads((folder / SPEC).read_text(encoding="utf-8"))
        return TrainSpec(data["name"], data["recipe"], data["data"], data["data_sha256"])
    except (OSError, ValueError, KeyError):
        raise BackendError(f"no run {folder.name!r} here") from None


def need_done(status: Status) -> None:
    """Raises BackendError unless the run is done."""
    if status.state is RunState.DONE:
        return
    why = f": {status.error['message']}" if status.error else ""
    raise BackendError(f"run {status.run_id} is {status.state}{why}; there is nothing to fetch yet")


def candidate(spec: TrainSpec, run_id: str, model: Path, base_model: str, metrics: dict[str, float]) -> Candidate:
    """Describe a model folder by its kind and the hash of its weights. Raises BackendError when it holds none."""
    weights = sorted(model.glob("*.safetensors"))
    if not weights:
        raise BackendError(f"run {run_id} left no safetensors in {model.name}")
    digest = hashlib.sha256()
    for path in weights:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    kind = "adapter" if (model / "adapter_config.json").exists() else "model"
    return Candidate(run_id, kind, str(model), base_model, digest.hexdigest(), spec.data_sha256, metrics)


def last_metrics(path: Path) -> dict[str, float]:
    """The numbers of the last line of a metrics file that has a loss or a reward."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            data: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # a line that is being written
        if "loss" in data or "reward" in data:
            return {key: float(value) for key, value in data.items() if isinstance(value, int | float)}
    return {}
