"""What ``certloop loop run`` does: look at every tenant, begin what is due, and say in a sentence why or why not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from certloop.agentrl.loop import Plan, Run, RunBusyError, Runs
from certloop.serve.confidence.fit import MIN_DOCUMENTS, MIN_FIELDS
from certloop.serve.confidence.versions import reviewed_samples
from certloop.serve.db.access import reading
from certloop.serve.loop import calibration_release, guidance_release, online
from certloop.serve.loop.arms import canary_state, per_week
from certloop.serve.loop.calibration_release import CalibrationRelease
from certloop.serve.loop.examine import ModelExaminer
from certloop.serve.loop.guidance_release import GuidanceRelease
from certloop.serve.loop.online import OnlineConfig, OnlineRound
from certloop.serve.loop.replicas import Replicas
from certloop.serve.review.double import auditor_records

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.train.config import RunConfig

A_DAY, A_WEEK = timedelta(days=1), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Training:
    """Weights are trained, too: the run without its rows, held-out rows of what is to improve and of what must stay, where rounds
    and runs work, and the model servers that get adapters (none: weights are loaded in process)."""

    recipe: RunConfig
    target: Path
    retained: Path
    folder: Path
    replicas: Sequence[str] = ()
    adapters: Path | None = None
    key: str = field(default="", repr=False)


class Watch:
    """One a process; any number of processes share the runs of a database. ``alarm`` hears of runs that failed."""

    def __init__(
        self, service: Service, alarm: Callable[[Run], None], *, calibrate: bool = False, training: Training | None = None
    ) -> None:
        self._service, self._calibrate = service, calibrate
        self._round = None if training is None else online_round(service, training)
        self._counted: dict[str, datetime] = {}
        self.runs = open_runs(service, alarm, [] if self._round is None else [self._round.plan()])

    def look(self, tenant: str) -> tuple[str, ...]:
        """Begin what is due for a tenant; one sentence for each kind of run."""
        said = [f"rules: {self._guidance(tenant)}"]
        said += [f"confidences: {self._calibration(tenant)}"] if self._calibrate else []
        said += [f"weights: {online.start_due(self.runs, self._round, tenant)}"] if self._round is not None else []
        return tuple(said)

    def _guidance(self, tenant: str) -> str:
        """A run where rules wait for one, and not these very rules were judged within the last day."""
        waiting = sorted(item.item_id for item in self._service.loop.memory.in_use(tenant))
        if not waiting:
            return "none wait for a release; one comes from every approval whose edit shows something about the form"
        last = self._last(tenant, guidance_release.KIND)
        same = last is not None and sorted(last.results.get("select", {}).get("rules", [])) == waiting
        if last is not None and same and self._age(last) < A_DAY:
            return f"these {len(waiting)} were judged within the last day ({last.error or last.state})"
        return self._begin(guidance_release.KIND, tenant, f"{len(waiting)} rules in the overlay")

    def _calibration(self, tenant: str) -> str:
        """A run a week, where enough was reviewed; counted once a day."""
        last = self._last(tenant, calibration_release.KIND)
        if last is not None and self._age(last) < A_WEEK:
            return f"fitted {self._age(last).days} days ago; once a week is enough"
        counted = self._counted.get(tenant)
        if counted is not None and self._service.clock() - counted < A_DAY:
            return "too few were reviewed when they were last counted, within a day"
        self._counted[tenant] = self._service.clock()
        with reading(self._service, tenant) as connection:
            samples = list(reviewed_samples(connection, tenant, self._service.registry))
        documents = len({sample.group for sample in samples})
        if len(samples) < MIN_FIELDS * 2 or documents < MIN_DOCUMENTS * 2:
            return (
                f"{len(samples)} reviewed fields of {documents} certificates; {MIN_FIELDS * 2} of {MIN_DOCUMENTS * 2} are needed"
            )
        return self._begin(calibration_release.KIND, tenant, f"{len(samples)} reviewed fields")

    def _begin(self, kind: str, tenant: str, reason: str) -> str:
        try:
            self.runs.start(kind, tenant, reason)
        except RunBusyError:
            return f"a run is under way ({reason})"
        return f"a run begins: {reason}"

    def _last(self, tenant: str, kind: str) -> Run | None:
        return next((run for run in reversed(self.runs.every(tenant)) if run.kind == kind), None)

    def _age(self, run: Run) -> timedelta:
        return max(timedelta(0), self._service.clock() - datetime.fromisoformat(run.created_at))


def open_runs(service: Service, alarm: Callable[[Run], None], more: Sequence[Plan] = ()) -> Runs:
    """The runs of a database with the plans that need nothing from outside, and ``more``."""
    plans = [GuidanceRelease(service).plan(), CalibrationRelease(service).plan(), *more]
    return Runs.open(service.engine, plans, owner=f"{socket.gethostname()}:{os.getpid()}", clock=service.clock, alarm=alarm)


def online_round(service: Service, training: Training) -> OnlineRound:
    """Rounds of a service: prompts of its types, auditors weighed by their record, canaries on its own rows."""
    from certloop.agentrl.signals import reliability_of
    from certloop.train.backends import make_backend

    loop, recipe = service.loop, training.recipe

    def reliability(tenant: str, auditor: str) -> float:
        with reading(service, tenant) as connection:
            return reliability_of(auditor_records(connection, tenant), auditor)

    deploy = (
        Replicas(training.replicas, training.adapters or training.folder / "adapters", loop.registry.artefacts, training.key).load
        if training.replicas
        else (lambda release: "")
    )
    return OnlineRound(
        service.store, loop.registry, make_backend(recipe.backend, training.folder / "runs"), OnlineConfig(recipe),
        training.folder / "rounds", service.registry.get, ModelExaminer(recipe.student, training.target, training.retained),
        lambda tenant, pointer, since: canary_state(service, tenant, pointer, since), service.clock,
        per_week=lambda tenant: per_week(service, tenant), reliability=reliability, forget=loop.router.forget, deploy=deploy,
    )  # fmt: skip
