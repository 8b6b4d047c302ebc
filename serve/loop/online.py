"""The middle speed: approved answers -> a training run -> a candidate -> the gate -> a canary. Durable, step by step.

A round is one run of ``agentrl.loop``: whatever dies in between goes on with the step that was not finished. It trains on
approved answers only, with the consent of the moment: what is withdrawn while a round is under way ends it, and what was packed
and trained is thrown away. The backend is asked, never waited for."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from certloop.agentrl.backend import Candidate, Discards, RunState, Status, TrainBackend, TrainSpec
from certloop.agentrl.loop import (
    NotReadyError,
    Plan,
    Run,
    Runs,
    Selection,
    SelectionConfig,
    StepTimeout,
    Stop,
    Trigger,
    TriggerConfig,
    choose,
    look,
)
from certloop.agentrl.release import (
    ArtefactError,
    CanaryPolicy,
    CanaryState,
    Evidence,
    GateConfig,
    Pointer,
    Registry,
    Release,
    Verdict,
    judge,
    report_html,
    report_json,
)
from certloop.agentrl.store import Store
from certloop.serve.loop import ground_truth
from certloop.serve.loop.trial import Trial
from certloop.train.backends import make_spec
from certloop.train.config import RunConfig
from certloop.train.errors import AdapterBaseError, BackendError, ModelLoadError

KIND = "online"
ATTEMPTS = 3
Examine = Callable[[Path | None, Path], Evidence]
"""Read held-out documents with the weights that serve (None: the base model) and with the candidate's."""
StateOf = Callable[[str, Pointer, datetime], CanaryState]
"""What both arms of a canary did since then: scope, pointer, since."""


@dataclass(frozen=True, slots=True)
class OnlineConfig:
    """``recipe`` is the run without its rows. A training run that is not done after ``timeout_s`` ends the round with an alarm;
    it is asked for every ``poll_s`` seconds. ``min_rows`` left after selection are worth a round."""

    recipe: RunConfig
    trigger: TriggerConfig = field(default_factory=TriggerConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    gate: GateConfig = field(default_factory=GateConfig)
    canary: CanaryPolicy = field(default_factory=CanaryPolicy)
    min_rows: int = 32
    timeout_s: float = 24 * 3600.0
    poll_s: float = 60.0
    retry_s: float = 60.0


@dataclass(frozen=True, slots=True)
class OnlineRound:
    """The steps of a round. The scope of a run is a tenant, or ``*`` for a model that all share."""

    store: Store
    registry: Registry
    backend: TrainBackend
    config: OnlineConfig
    folder: Path
    type_of: ground_truth.TypeOf
    examine: Examine
    state_of: StateOf
    clock: Callable[[], datetime]
    per_week: Callable[[str], float] = lambda scope: 0.0
    reliability: ground_truth.ReliabilityOf = lambda tenant, auditor: 1.0
    forget: Callable[[], None] = lambda: None
    deploy: Callable[[Release], object] = lambda release: None
    """Brings the weights to where they serve (``replicas.Replicas.load``), before the first document meets them."""

    def plan(self) -> Plan:
        steps = [
            ("select", self.select),
            ("pack", self.pack),
            ("train", self.train),
            ("judge", self.judge),
            ("register", self.register),
            ("stage", self.stage),
            ("watch", self.watch),
        ]
        return Plan(KIND, steps, attempts=ATTEMPTS, retry_s=self.config.retry_s, wait_s=60 * 86400.0)

    def due(self, runs: Runs, scope: str) -> Trigger:
        """Whether a round is worth it now, and the sentence why or why not."""
        rounds = [run for run in runs.every(scope) if run.kind == KIND]
        used = {row for run in rounds for row in run.results.get("select", {}).get("rows", {})}
        last = datetime.fromisoformat(rounds[-1].created_at) if rounds else None
        return look(ground_truth.learned(ground_truth.truths(self.store, scope), last, used), self.clock(), self.config.trigger)

    # --- steps ------------------------------------------------------------------------------------------------------------------

    def select(self, run: Run) -> Mapping[str, Any] | Stop:
        """Which approved answers are trained on, with weights, and why every other one is not."""
        rows = ground_truth.truths(self.store, run.scope)
        chosen = self._choose(rows, run.scope)
        result = {"rows": dict(chosen.rows), "approved": len(rows), "left_out": chosen.reasons}
        if len(chosen.rows) < self.config.min_rows:
            return Stop(_too_few(len(rows), chosen, self.config.min_rows), result)
        return result

    def pack(self, run: Run) -> Mapping[str, Any] | Stop:
        """Rows and images for the trainer, of what is consented now."""
        weights: Mapping[str, float] = run.results["select"]["rows"]
        if (stop := self._consented(run)) is not None:
            return stop
        rows = [(t, weights[t.row_id]) for t in ground_truth.truths(self.store, run.scope) if t.row_id in weights]
        shutil.rmtree(self._rows(run), ignore_errors=True)
        return ground_truth.pack(self.store, rows, self.type_of, self._rows(run)) | {"at": self.clock().isoformat()}

    def train(self, run: Run) -> Mapping[str, Any] | Stop:
        """Hand over once, then ask. A run that failed is handed over again, so long as attempts are left."""
        if (stop := self._consented(run)) is not None:
            return stop
        spec, began = self._spec(run), datetime.fromisoformat(str(run.results["pack"]["at"]))
        status = self._status(spec)
        if status is not None and status.state is RunState.DONE:
            return {"training_run": spec.run_id, "metrics": dict(status.metrics)}
        if status is None or status.state is RunState.WAITING:
            self.backend.submit(spec)
        if self.clock() - began > timedelta(seconds=self.config.timeout_s):
            self._discard(spec)
            raise StepTimeout(f"training was not done after {self.config.timeout_s / 3600:.1f} hours; it is given up")
        if status is not None and status.state is RunState.FAILED:
            if run.attempts + 1 < ATTEMPTS:
                self.backend.submit(spec)
            why = status.error or {"code": "unknown", "message": "it gave no reason"}
            raise BackendError(f"training failed, {why['code']}: {why['message']}")
        where = "" if status is None else f", {status.stage} at step {status.step}"
        raise NotReadyError(f"{spec.run_id} trains{where}", self.config.poll_s)

    def judge(self, run: Run) -> Mapping[str, Any] | Stop:
        """Weights that are whole and belong to the base, then the gate."""
        if (stop := self._consented(run)) is not None:
            return stop
        pointer = self.registry.pointer(run.scope)
        try:
            candidate = self.backend.fetch(self._spec(run).run_id)
            digest = self._weights(candidate)
            evidence = self.examine(self._serving(run, pointer.active), self.registry.artefacts.path(digest))
        except (ArtefactError, AdapterBaseError, ModelLoadError) as error:
            return Stop(f"the candidate was refused: {error.message}", {"verdict": "refused", "code": error.code})
        result = judge(evidence, self.config.gate)
        report = report_json(self._name(run), pointer.active, evidence, result, self.config.gate)
        kept = self._keep({"gate.json": json.dumps(report, ensure_ascii=False), "gate.html": report_html(report)})
        said = {
            "verdict": str(result.verdict),
            "reasons": list(result.reasons),
            "report": kept,
            "report_sha256": report["sha256"],
        }
        if result.verdict is not Verdict.PROMOTE:
            return Stop(f"the gate said {result.verdict}: " + "; ".join(result.reasons), said)
        return said | {"weights": digest, "kind": candidate.kind}

    def register(self, run: Run) -> Mapping[str, Any] | Stop:
        """An immutable release: today's, with the candidate's weights, their data and their report."""
        if (stop := self._consented(run)) is not None:
            return stop
        active = self.registry.release(self.registry.pointer(run.scope).active, scope=run.scope)
        judged = run.results["judge"]
        rows = self._keep({"rows.json": json.dumps(run.results["select"]["rows"], sort_keys=True)})
        kept = {name: digest for name, digest in active.artefacts.items() if name not in ("adapter", "model")}
        release = Release(
            self._name(run), "qwen-vl", self.config.recipe.student.path,
            artefacts={**kept, str(judged["kind"]): str(judged["weights"]), "gate": str(judged["report"]), "rows": rows},
            prompt_version=active.prompt_version, harness_version=active.harness_version,
            memory_snapshot=active.memory_snapshot, data_manifest_sha256=str(run.results["pack"]["data_sha256"]),
            gate_report_sha256=str(judged["report_sha256"]), parent=active.release_id,
            notes=f"trained on {len(run.results['select']['rows'])} approved answers",
        )  # fmt: skip
        return {"release": self.registry.register(release, scope=run.scope)}

    def stage(self, run: Run) -> Mapping[str, Any]:
        name = str(run.results["register"]["release"])
        self.deploy(self.registry.release(name, scope=run.scope))
        pointer = self._trial.stage(run.scope, name, self.per_week(run.scope), f"gate passed, run {run.run_id}")
        return {"share": pointer.share, "since": pointer.since}

    def watch(self, run: Run) -> Mapping[str, Any] | Stop:
        name = str(run.results["register"]["release"])
        trial = self._trial
        done, why = trial.watch(run.scope, name, lambda p: self.state_of(run.scope, p, trial.since(run.scope)))
        return {"promoted": name} if done else Stop(why, {"rolled_back": name})

    # --- what the steps stand on ------------------------------------------------------------------------------------------------

    @property
    def _trial(self) -> Trial:
        return Trial(self.registry, self.config.canary, self.clock, self.forget)

    def _choose(self, rows: Sequence[ground_truth.Truth], scope: str) -> Selection:
        suspect = self.registry.quarantined(scope)
        sources = self._sources(scope) if suspect else {}
        found = ground_truth.candidates(rows, scope, self.reliability, sources)
        hard = _often_wrong(rows)
        return choose(found, self.config.selection, hard_parts=hard, quarantined=suspect, shared=scope == ground_truth.SHARED)

    def _sources(self, scope: str) -> dict[str, str]:
        """Which data manifest a row stood in, of every release that kept its rows."""
        out: dict[str, str] = {}
        for release in self.registry.releases(scope):
            if digest := release.artefacts.get("rows"):
                for row_id in json.loads((self.registry.artefacts.path(digest) / "rows.json").read_text("utf-8")):
                    out[row_id] = release.data_manifest_sha256
        return out

    def _consented(self, run: Run) -> Stop | None:
        """Ends the round when a row may not be used any more, and throws away what was made of it."""
        gone = ground_truth.withdrawn(self.store, run.results["select"]["rows"], run.scope)
        if not gone:
            return None
        if "pack" in run.results:
            self._discard(self._spec(run))
        shutil.rmtree(self._rows(run), ignore_errors=True)
        return Stop(
            f"{len(gone)} of the documents it learns from may not be used any more; what was trained is thrown away, "
            "and the next round goes without them",
            {"withdrawn": len(gone)},
        )

    def _spec(self, run: Run) -> TrainSpec:
        recipe = self.config.recipe
        data = recipe.data.model_dump(exclude_none=True) | {"train": str(self._rows(run))}
        student = recipe.student.model_dump(exclude_none=True)
        if recipe.student.lora is None and (serving := self._serving(run, self.registry.pointer(run.scope).active)) is not None:
            student["path"] = str(serving)  # all weights: go on from those that serve
        spec = make_spec(recipe.with_(name=f"{recipe.name[:40]}-{run.run_id[:12]}", data=data, student=student))
        return TrainSpec(spec.name, spec.recipe, spec.data, str(run.results["pack"]["data_sha256"]))

    def _serving(self, run: Run, release_id: str) -> Path | None:
        artefacts = self.registry.release(release_id, scope=run.scope).artefacts
        digest = artefacts.get("adapter") or artefacts.get("model")
        return self.registry.artefacts.path(digest) if digest else None

    def _status(self, spec: TrainSpec) -> Status | None:
        try:
            return self.backend.status(spec.run_id)
        except BackendError:
            return None

    def _discard(self, spec: TrainSpec) -> None:
        if isinstance(self.backend, Discards):
            self.backend.discard(spec.run_id)

    def _weights(self, candidate: Candidate) -> str:
        """Keep the candidate's files; raises ArtefactError where they are not those that the backend named."""
        folder = Path(candidate.where)
        found = hashlib.sha256()
        for path in sorted(folder.glob("*.safetensors")):
            found.update(hashlib.sha256(path.read_bytes()).digest())
        if candidate.sha256 and found.hexdigest() != candidate.sha256:
            raise ArtefactError("its weights are not those that the backend named: a file was changed or is damaged")
        if candidate.base_model not in (self.config.recipe.student.path, str(folder)) and candidate.kind == "adapter":
            raise ArtefactError("its adapter belongs to another base model")
        return self.registry.artefacts.add(folder)

    def _keep(self, files: Mapping[str, str]) -> str:
        with tempfile.TemporaryDirectory(prefix="certloop-report-") as name:
            for file, text in files.items():
                (Path(name) / file).write_text(text, "utf-8")
            return self.registry.artefacts.add(Path(name))

    def _rows(self, run: Run) -> Path:
        return self.folder / f"rows-{run.run_id[:16]}"

    def _name(self, run: Run) -> str:
        return f"{'shared' if run.scope == ground_truth.SHARED else run.scope}-{run.run_id[:12]}"[:64]


def start_due(runs: Runs, online: OnlineRound, scope: str) -> str:
    """Begin a round where one is due; says in a sentence what was decided."""
    if any(run.kind == KIND and run.state in ("running", "waiting") for run in runs.every(scope)):
        return "a round is under way"
    trigger = online.due(runs, scope)
    if trigger.due:
        runs.start(KIND, scope, trigger.reason)
    return trigger.reason


def _often_wrong(rows: Sequence[ground_truth.Truth], share: float = 0.2) -> list[str]:
    """The labels that auditors had to change in more than this share of the answers."""
    counts: dict[str, int] = {}
    for row in rows:
        for label in row.edited:
            counts[label] = counts.get(label, 0) + 1
    return sorted(label for label, n in counts.items() if n > share * len(rows))


def _too_few(approved: int, chosen: Selection, least: int) -> str:
    if not approved:
        return "nothing was approved yet: there is nothing to learn from"
    left = ", ".join(f"{n} {reason}" for reason, n in chosen.reasons.items()) or "none left out"
    why = f"{len(chosen.rows)} of {approved} approved answers can be trained on ({left}); {least} are worth a round"
    return why + ("; auditors contradict each other" if chosen.reasons.get("contradicted", 0) * 2 > approved else "")


__all__ = ["KIND", "Examine", "OnlineConfig", "OnlineRound", "start_due"]
