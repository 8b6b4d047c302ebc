"""Recalibrated confidences go the way of everything that is learned: fitted, judged, tried out, promoted or taken back.

Judged is on certificates that the new curves were not fitted on. The target is how well probabilities fit what auditors found
(one minus the Brier score of a certificate's fields); what must not be lost is safety: the share of a certificate's fields that
do not pass unseen while they are wrong."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certloop.agentrl.loop import NotReadyError, Plan, Run, Stop
from certloop.agentrl.release import (
    CanaryPolicy,
    CanaryState,
    Evidence,
    GateConfig,
    Pair,
    Pointer,
    Release,
    Verdict,
    judge,
    report_html,
    report_json,
)
from certloop.agentrl.store.events import new_id
from certloop.serve.confidence.calibration import Calibration, from_json
from certloop.serve.confidence.fit import MIN_DOCUMENTS, Sample, fit
from certloop.serve.confidence.versions import active, builtin, reviewed_samples
from certloop.serve.db.access import reading
from certloop.serve.loop.arms import canary_state, per_week
from certloop.serve.loop.trial import ASK_AGAIN_S, Trial
from certloop.serve.review import certificate as certs
from certloop.serve.review.policy import policy_of

if TYPE_CHECKING:
    from certloop.serve.context import Service

KIND = "calibration"
ARTEFACT, FILE = "calibration", "calibration.json"


@dataclass(frozen=True, slots=True)
class CalibrationReleaseConfig:
    """``worthwhile`` of the gate is in one minus the Brier score."""

    gate: GateConfig = field(default_factory=lambda: GateConfig(worthwhile=0.001))
    canary: CanaryPolicy = field(default_factory=CanaryPolicy)


class CalibrationRelease:
    """The plan's steps, for one service. The scope of a run is a tenant."""

    def __init__(self, service: Service, config: CalibrationReleaseConfig | None = None) -> None:
        self._service, self._config = service, config or CalibrationReleaseConfig()

    def plan(self) -> Plan:
        steps = [("fit", self.fit), ("judge", self.judge), ("register", self.register), ("stage", self.stage)]
        return Plan(KIND, [*steps, ("watch", self.watch)], wait_s=60 * 86400.0)

    def fit(self, run: Run) -> Mapping[str, Any] | Stop:
        """Curves on one part of the reviewed certificates; the other part judges them. Raises CalibrationError for too few."""
        learned, _ = self._halves(run)
        made = fit(learned, version=f"cal_{new_id()}", source="reviewed fields", parent=builtin(), seed=run.scope)
        return {"calibration": made.to_json(), "fields": made.n}

    def judge(self, run: Run) -> Mapping[str, Any] | Stop:
        new = from_json(run.results["fit"]["calibration"])
        with reading(self._service, run.scope) as connection:
            accepted = policy_of(connection, run.scope).accepted_error
        old, (_, held_out) = self._today(run.scope), self._halves(run)
        target, retained = _pairs(held_out, old, new, accepted)
        if len(target) < MIN_DOCUMENTS // 2:
            raise NotReadyError(f"{len(target)} reviewed certificates are too few to judge on", ASK_AGAIN_S)
        evidence = Evidence(target, retained)
        result = judge(evidence, self._config.gate)
        if result.verdict is Verdict.INSUFFICIENT:
            raise NotReadyError("; ".join(result.reasons), ASK_AGAIN_S)
        report = report_json(self._name(run), self._active(run.scope).release_id, evidence, result, self._config.gate)
        digest = self._keep({"gate.json": json.dumps(report, ensure_ascii=False), "gate.html": report_html(report)})
        said = {"verdict": str(result.verdict), "reasons": list(result.reasons), "report": digest}
        if result.verdict is Verdict.REJECT:
            return Stop("the gate said no: " + "; ".join(result.reasons), said)
        return said | {"report_sha256": report["sha256"]}

    def register(self, run: Run) -> Mapping[str, Any]:
        registry, today = self._service.loop.registry, self._active(run.scope)
        digest = self._keep({FILE: json.dumps(run.results["fit"]["calibration"], sort_keys=True)})
        judged = run.results["judge"]
        release = replace(
            today, release_id=self._name(run), parent=today.release_id,
            notes=f"calibrated on {run.results['fit']['fields']} fields",
            artefacts={**today.artefacts, ARTEFACT: digest, "gate": str(judged["report"])},
            gate_report_sha256=str(judged["report_sha256"]),
        )  # fmt: skip
        return {"release": registry.register(release, scope=run.scope)}

    def stage(self, run: Run) -> Mapping[str, Any]:
        name, week = str(run.results["register"]["release"]), per_week(self._service, run.scope)
        pointer = self._trial.stage(run.scope, name, week, f"gate passed, run {run.run_id}")
        return {"share": pointer.share, "since": pointer.since}

    def watch(self, run: Run) -> Mapping[str, Any] | Stop:
        """At low traffic the certificates that came meanwhile are scored under both calibrations (shadow replay)."""
        name, trial = str(run.results["register"]["release"]), self._trial

        def state(pointer: Pointer) -> CanaryState:
            return canary_state(self._service, run.scope, pointer, trial.since(run.scope), **self._shadow(run))

        done, why = trial.watch(run.scope, name, state)
        return {"promoted": name} if done else Stop(why, {"rolled_back": name})

    def _shadow(self, run: Run) -> dict[str, int]:
        """Certificates that arrived since the trial began: of how many do the new probabilities fit better, of how many worse."""
        new, began = from_json(run.results["fit"]["calibration"]), str(run.results["stage"]["since"])
        with reading(self._service, run.scope) as connection:
            samples = list(reviewed_samples(connection, run.scope, self._service.registry))
            groups = {s.group for s in samples}
            late = {group for group in groups if certs.load(connection, run.scope, group).created_at >= began}
        target, _ = _pairs([s for s in samples if s.group in late], self._today(run.scope), new, 0.02)
        return {"better": sum(pair.gain > 0 for pair in target), "worse": sum(pair.gain < 0 for pair in target)}

    # --- what the steps stand on ------------------------------------------------------------------------------------------------

    @property
    def _trial(self) -> Trial:
        loop = self._service.loop
        return Trial(loop.registry, self._config.canary, self._service.clock, loop.router.forget)

    def _active(self, tenant: str) -> Release:
        registry = self._service.loop.registry
        return registry.release(registry.pointer(tenant).active, scope=tenant)

    def _today(self, tenant: str) -> Calibration:
        own = self._service.loop.calibration(tenant, self._active(tenant).release_id)
        if own is not None:
            return own
        with reading(self._service, tenant) as connection:
            return active(connection, tenant)

    def _halves(self, run: Run) -> tuple[list[Sample], list[Sample]]:
        """Two thirds of the certificates to fit on, one third to judge; by a hash, so that late ones do not mix them anew."""
        with reading(self._service, run.scope) as connection:
            samples = list(reviewed_samples(connection, run.scope, self._service.registry))
        return [s for s in samples if not _judges(s)], [s for s in samples if _judges(s)]

    def _name(self, run: Run) -> str:
        return f"{run.scope}-cal-{run.run_id[:12]}"[:64]

    def _keep(self, files: Mapping[str, str]) -> str:
        with tempfile.TemporaryDirectory(prefix="certloop-calibration-") as name:
            for file, text in files.items():
                (Path(name) / file).write_text(text, "utf-8")
            return self._service.loop.registry.artefacts.add(Path(name))


def _pairs(samples: Sequence[Sample], old: Calibration, new: Calibration, accepted_error: float) -> tuple[list[Pair], list[Pair]]:
    by_group: dict[str, list[Sample]] = {}
    for sample in samples:
        by_group.setdefault(sample.group, []).append(sample)
    target, retained = [], []
    for group, fields in sorted(by_group.items()):
        fits = [sum(1.0 - (c.probability(s.kind, s.confidence) - s.right) ** 2 for s in fields) / len(fields) for c in (old, new)]
        safe = [
            sum(s.right or not c.accepts(s.kind, s.confidence, accepted_error) for s in fields) / len(fields) for c in (old, new)
        ]
        target.append(Pair(group, "probabilities", fits[0], fits[1]))
        retained.append(Pair(group, "nothing wrong passes", safe[0], safe[1]))
    return target, retained


def _judges(sample: Sample) -> bool:
    return hashlib.sha256(f"judge/{sample.group}".encode()).digest()[0] < 85
