"""A tenant whose certificates nano reads: pages with approvals in a store, held-out pages, and an online round over them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from certloop.agentrl.backend import TrainBackend
from certloop.agentrl.loop import Run, Runs, TriggerConfig
from certloop.agentrl.release import ArmWindow, CanaryPolicy, CanaryState, GateConfig, Pointer, Registry, Release
from certloop.agentrl.signals import Origin, review_signals
from certloop.agentrl.store import Store, add_signals, record_result
from certloop.agentrl.trajectory import Consent, Provenance
from certloop.serve.loop.examine import ModelExaminer
from certloop.serve.loop.online import KIND, OnlineConfig, OnlineRound
from certloop.train.backends.local import LocalBackend
from certloop.train.config import RunConfig, parse_config
from certloop.train.nano import NanoPage
from certloop.train.nano.vocabulary import nano_type
from certloop.train.nano_data import nano_rows

TENANT = "acme"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def recipe(*, path: str = "nano:early", lora: bool = False, **stage: Any) -> RunConfig:
    student: dict[str, Any] = {"path": path, "dtype": "float32"}
    if lora:
        student["lora"] = {"rank": 8, "alpha": 16}
    sft = {"kind": "sft", "learning_rate": 2e-4, "batch_size": 16, "steps": 30, "warmup_steps": 3, "beta2": 0.99}
    return parse_config(
        {
            "name": "online", "student": student, "data": {"max_length": 1024}, "hardware": {"device": "cpu"},
            "checkpoint_every": 1000, "stages": [sft | stage],
        }
    )  # fmt: skip


def approve(
    store: Store, pages: Sequence[NanoPage], answers: Sequence[Mapping[str, str | None]], *, auditor: str = "ann",
    read: Sequence[Mapping[str, str | None]] | None = None, consent: Consent = Consent.TENANT,
) -> list[str]:  # fmt: skip
    """Store each page as a reading of ``read`` (nothing was read where None) that an auditor approved as ``answers``."""
    ids = []
    for page, answer, said in zip(pages, answers, read or [{}] * len(pages), strict=True):
        image = BytesIO()
        page.image.save(image, "PNG")
        where = Provenance(TENANT, consent=consent, purpose="training")
        traj_id = record_result(
            store, provenance=where, doc_type="nano_licence", final=dict(said), steps=[], images=[image.getvalue()], actor="test"
        )
        signals = review_signals(Origin(traj_id, auditor, "2026-03-01T08:00:00+00:00"), said, answer)
        add_signals(store.for_tenant(TENANT), signals, auditor)
        ids.append(traj_id)
    return ids


class Place:
    """One store with its registry, and rounds over it."""

    def __init__(self, root: Path, held_out: tuple[Path, Path]) -> None:
        self.root, self.held_out, self.clock = root, held_out, Clock()
        self.store = Store.open(f"sqlite:///{root}/store.db")
        self.registry = Registry.open(self.store.engine, root / "artefacts", self.clock)
        self.alarms: list[str] = []
        self.arms: tuple[ArmWindow, ArmWindow] = (ArmWindow(0, 0, 0), ArmWindow(0, 0, 0))

    def serve(self, path: str = "nano:early") -> None:
        self.registry.register(Release("first", "qwen-vl", path))
        self.registry.adopt("first", actor="test", reason="first")

    def round(self, config: RunConfig, backend: TrainBackend | None = None, **changes: Any) -> OnlineRound:
        settings = OnlineConfig(
            config, trigger=TriggerConfig(min_new=32), min_rows=32, timeout_s=3600.0, poll_s=1.0, retry_s=1.0,
            gate=GateConfig(draws=1000, retained_margin=0.02), canary=CanaryPolicy(low_traffic_per_week=0.0),
        )  # fmt: skip
        examine = changes.pop("examine", None) or ModelExaminer(config.student, *self.held_out)
        return OnlineRound(
            self.store, self.registry, backend or LocalBackend(self.root / "runs"), replace(settings, **changes),
            self.root / "rounds", lambda doc_type: nano_type(), examine, self._state, self.clock, per_week=lambda scope: 1000.0,
        )  # fmt: skip

    def runs(self, online: OnlineRound) -> Runs:
        return Runs.open(
            self.store.engine,
            [online.plan()],
            owner="test",
            clock=self.clock,
            alarm=lambda run: self.alarms.append(str(run.error)),
        )

    def _state(self, scope: str, pointer: Pointer, since: datetime) -> CanaryState:
        return CanaryState(pointer.share, since, *self.arms, documents_per_week=1000.0)


def advance(place: Place, runs: Runs, run: Run, until: Callable[[Run], bool]) -> Run:
    """Go on, step by step; a training process is waited for, and the clock moves so that polls are due."""
    import time
    from datetime import timedelta

    while not until(run := runs.run(run.run_id)):
        if runs.advance() is None:
            time.sleep(0.2)
        place.clock.now += timedelta(seconds=1)
    return run


def held_out(folder: Path, seed: int, target: int, retained: int) -> tuple[Path, Path]:
    nano_rows(folder / "target", seed, target)
    nano_rows(folder / "retained", seed + 1, retained, layouts="unseen")
    return folder / "target", folder / "retained"


def answers_of(texts: Sequence[str]) -> list[dict[str, str | None]]:
    out = []
    for text in texts:
        try:
            said = json.loads(text)
        except ValueError:
            said = {}
        out.append(said if isinstance(said, dict) else {})
    return out


__all__ = ["KIND", "TENANT", "Place", "advance", "answers_of", "approve", "held_out", "recipe"]
