"""The one contract by which a learning loop has a model trained, wherever that happens.

    plan(spec)      what it would take, before anything starts
    submit(spec)    start it; the same spec gives the same run id and never starts a second run
    status(run_id)  how far it is
    fetch(run_id)   the candidate, once it is done

Backends raise the training room's typed errors: a spec that makes no sense is refused by ``plan`` and ``submit`` alike; an
unknown run id and a run that is not done are errors of ``status`` and ``fetch``. ``spec.recipe`` is the backend's own business.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class TrainSpec:
    """What is to be trained: a recipe (JSON), the folder of its rows, and the hash of what stands in it."""

    name: str
    recipe: Mapping[str, Any]
    data: str = ""
    data_sha256: str = ""

    @property
    def run_id(self) -> str:
        """A name that is the same for the same recipe and rows."""
        text = json.dumps([self.name, self.recipe, self.data_sha256], sort_keys=True, ensure_ascii=False)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage's share. ``memory_gib`` is the peak on each device, by part; ``hours`` on all devices together in wall time."""

    name: str
    memory_gib: Mapping[str, float]
    hours: float
    steps: int
    trained_parameters: int

    @property
    def peak_gib(self) -> float:
        return sum(self.memory_gib.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run takes. ``fits`` is None where the memory is not ours to know (a cloud API); ``notes`` are for people."""

    backend: str
    devices: str
    stages: tuple[StagePlan, ...]
    hours: float
    usd: float
    fits: bool | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        stages = [
            {
                "name": s.name,
                "peak_gib": round(s.peak_gib, 3),
                "memory_gib": {part: round(gib, 3) for part, gib in s.memory_gib.items()},
                "hours": round(s.hours, 4),
                "steps": s.steps,
                "trained_parameters": s.trained_parameters,
            }
            for s in self.stages
        ]
        return {
            "backend": self.backend,
            "devices": self.devices,
            "fits": self.fits,
            "hours": round(self.hours, 4),
            "usd": round(self.usd, 2),
            "stages": stages,
            "notes": list(self.notes),
        }


class RunState(StrEnum):
    """``waiting``: handed over, not begun (somebody has to start it); ``failed`` has an error; ``done`` can be fetched."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Status:
    """How far a run is. ``error`` is the code and message of what stopped it."""

    run_id: str
    state: RunState
    stage: str = ""
    step: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trained model that may become a release. ``where`` is a folder or a remote name; ``kind`` is adapter, model or remote;
    ``sha256`` covers its weights ('' where they stay remote); ``data_sha256`` the rows it was trained on."""

    run_id: str
    kind: str
    where: str
    base_model: str
    sha256: str
    data_sha256: str
    metrics: Mapping[str, float] = field(default_factory=dict)


class TrainBackend(Protocol):
    """See the module. One conformance suite (``tests/train/test_backends.py``) runs over all of them."""

    name: str

    def plan(self, spec: TrainSpec) -> Plan: ...

    def submit(self, spec: TrainSpec) -> str: ...

    def status(self, run_id: str) -> Status: ...

    def fetch(self, run_id: str) -> Candidate: ...


@runtime_checkable
class Discards(Protocol):
    """A backend that can end a run and throw away all it made of its rows. Not all can: a cluster's queue is its owner's."""

    def discard(self, run_id: str) -> None: ...
