"""From a tenant's overlay of rules to a release: select, judge, register, try out, promote or take back. Durable, step by step.

Judged is by approved certificates that none of the rules was learned from, read again from their kept lines under the rules of
today and under those of the candidate. Certificates on which a new rule speaks are the target; all others are what must not be
lost."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from certloop.agentrl.loop import NotReadyError, Plan, Run, Stop
from certloop.agentrl.memory import write_snapshot
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
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.learning import Case, guidance_of, read_case
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates
from certloop.serve.loop.arms import canary_state, per_week
from certloop.serve.loop.live import ACTOR, Rule
from certloop.serve.loop.trial import ASK_AGAIN_S, Trial
from certloop.serve.review import certificate as certs
from certloop.templates import squash

if TYPE_CHECKING:
    from certloop.serve.context import Service

KIND = "guidance"
JUDGED = 500
"""Approved certificates that a candidate is judged on, the latest."""


@dataclass(frozen=True, slots=True)
class GuidanceReleaseConfig:
    """``min_rules`` in the overlay before a release is worth it."""

    min_rules: int = 1
    gate: GateConfig = field(default_factory=GateConfig)
    canary: CanaryPolicy = field(default_factory=CanaryPolicy)


class GuidanceRelease:
    """The plan's steps, for one service. The scope of a run is a tenant."""

    def __init__(self, service: Service, config: GuidanceReleaseConfig | None = None) -> None:
        self._service, self._config = service, config or GuidanceReleaseConfig()

    def plan(self) -> Plan:
        steps = [
            ("select", self.select),
            ("judge", self.judge),
            ("register", self.register),
            ("stage", self.stage),
            ("watch", self.watch),
        ]
        return Plan(KIND, steps, wait_s=60 * 86400.0)

    def select(self, run: Run) -> Mapping[str, Any] | Stop:
        """The rules in use now: what is learned later waits for the next release."""
        items = self._service.loop.memory.in_use(run.scope)
        if len(items) < self._config.min_rules:
            return Stop(f"{len(items)} rules were learned; {self._config.min_rules} are worth a release")
        return {"rules": [item.item_id for item in items]}

    def judge(self, run: Run) -> Mapping[str, Any] | Stop:
        """The gate. Too little evidence waits for more; a candidate that is no better, or worse somewhere, ends the run."""
        old, new = self._rules(run)
        used = {item.item_id: set(item.evidence) for item in self._service.loop.memory.items(run.scope)}
        taught = set().union(*(used.get(item_id, set()) for item_id in run.results["select"]["rules"]))
        target, retained = self._pairs(run.scope, old, new, taught)
        if not target:
            raise NotReadyError(
                "no approved certificate yet on which a new rule speaks and that it was not learned from", ASK_AGAIN_S
            )
        evidence = Evidence(target, retained)
        result = judge(evidence, self._config.gate)
        if result.verdict is Verdict.INSUFFICIENT:
            raise NotReadyError("; ".join(result.reasons), ASK_AGAIN_S)
        active = self._service.loop.registry.pointer(run.scope).active
        report = report_json(self._name(run), active, evidence, result, self._config.gate)
        digest = self._keep({"gate.json": json.dumps(report, ensure_ascii=False), "gate.html": report_html(report)})
        if result.verdict is Verdict.REJECT:
            return Stop("the gate said no: " + "; ".join(result.reasons), {"verdict": "reject", "report": digest})
        return {"verdict": "promote", "reasons": list(result.reasons), "report": digest, "report_sha256": report["sha256"]}

    def register(self, run: Run) -> Mapping[str, Any]:
        """An immutable release: today's, with the rules in its memory snapshot."""
        registry = self._service.loop.registry
        active = registry.release(registry.pointer(run.scope).active, scope=run.scope)
        _, new = self._rules(run)
        with tempfile.TemporaryDirectory(prefix="certloop-memory-") as folder:
            write_snapshot(Path(folder), (), before=[{"kind": k, "key": key, "body": dict(body)} for k, key, body in new])
            digest = registry.artefacts.add(Path(folder))
        judged = run.results["judge"]
        release = Release(
            self._name(run), active.engine, active.base_model,
            artefacts={**active.artefacts, "guidance": digest, "gate": str(judged["report"])},
            prompt_version=active.prompt_version, harness_version=active.harness_version, memory_snapshot=digest,
            data_manifest_sha256=active.data_manifest_sha256, gate_report_sha256=str(judged["report_sha256"]),
            parent=active.release_id, notes=f"{len(new)} rules",
        )  # fmt: skip
        return {"release": registry.register(release, scope=run.scope)}

    def stage(self, run: Run) -> Mapping[str, Any]:
        """The first share."""
        name = str(run.results["register"]["release"])
        pointer = self._trial.stage(run.scope, name, per_week(self._service, run.scope), f"gate passed, run {run.run_id}")
        return {"share": pointer.share, "since": pointer.since}

    def watch(self, run: Run) -> Mapping[str, Any] | Stop:
        """Guards and stages, until the candidate serves everybody or nobody."""
        name = str(run.results["register"]["release"])
        promoted, why = self._trial.watch(run.scope, name, lambda pointer: self._state(run, pointer))
        return self._released(run, name) if promoted else Stop(why, {"rolled_back": name})

    # --- what the steps stand on ------------------------------------------------------------------------------------------------

    def _name(self, run: Run) -> str:
        return f"{run.scope}-{run.run_id[:12]}"[:64]

    def _rules(self, run: Run) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        """The active release's rules, and with those of this run."""
        loop = self._service.loop
        _, old = loop.released(run.scope, loop.registry.pointer(run.scope).active)
        wanted = set(run.results["select"]["rules"])
        items = [item for item in loop.memory.items(run.scope) if item.item_id in wanted and item.in_use]
        return old, old + tuple((item.kind, item.key, item.body) for item in items)

    def _pairs(self, tenant: str, old: Sequence[Rule], new: Sequence[Rule], taught: set[str]) -> tuple[list[Pair], list[Pair]]:
        target: list[Pair] = []
        retained: list[Pair] = []
        fresh = [rule for rule in new if rule not in old]
        for case in self._cases(tenant):
            if case.case_id in taught:
                continue
            labels = [squash(str(body["label"])) for _, key, body in fresh if key == case.doc_type and "label" in body]
            text = squash("".join(line.text for line in case.lines))
            speaks = any(label in text for label in labels)
            (target if speaks else retained).append(self._pair(case, old, new))
        return target, retained

    def _pair(self, case: Case, old: Sequence[Rule], new: Sequence[Rule]) -> Pair:
        before, after = self._right(case, old), self._right(case, new)
        n = max(1, len(case.truth))
        parts = {name: (float(name in before), float(name in after)) for name in case.truth}
        return Pair(case.case_id, case.doc_type, len(before) / n, len(after) / n, parts=parts)

    def _right(self, case: Case, rules: Sequence[Rule]) -> set[str]:
        doc_type = self._service.registry.get(case.doc_type)
        values, _ = read_case(case, doc_type, guidance_of(rule for rule in rules if rule[1] == case.doc_type).hints)
        return {
            name
            for name, truth in case.truth.items()
            if truth
            and name in doc_type.fields
            and same_value(doc_type.fields[name].label, truth, values.get(name), kind=doc_type.fields[name].kind.value)
        }

    def _cases(self, tenant: str) -> list[Case]:
        with reading(self._service, tenant) as connection:
            mine = (certificates.c.tenant == tenant, certificates.c.state == "approved")
            query = select(certificates.c.certificate_id).where(*mine).order_by(certificates.c.updated_at.desc()).limit(JUDGED)
            rows = [certs.load(connection, tenant, one) for one in connection.execute(query).scalars().all()]
        known = [row for row in rows if row.doc_type in self._service.registry.types]
        return [case for row in known if (case := self._service.loop.case_of(tenant, row)) is not None]

    @property
    def _trial(self) -> Trial:
        loop = self._service.loop
        return Trial(loop.registry, self._config.canary, self._service.clock, loop.router.forget)

    def _state(self, run: Run, pointer: Pointer) -> CanaryState:
        old, new = self._rules(run)
        cases = [
            case for case in self._cases(run.scope) if self._after(run.scope, case.case_id, str(run.results["stage"]["since"]))
        ]
        gains = [self._pair(case, old, new).gain for case in cases]
        better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        return canary_state(self._service, run.scope, pointer, self._trial.since(run.scope), better=better, worse=worse)

    def _after(self, tenant: str, certificate_id: str, since: str) -> bool:
        with reading(self._service, tenant) as connection:
            return certs.load(connection, tenant, certificate_id).created_at >= since

    def _released(self, run: Run, name: str) -> Mapping[str, Any]:
        """The snapshot holds the rules now; the overlay lets them go."""
        loop = self._service.loop
        for item in loop.memory.in_use(run.scope):
            if item.item_id in set(run.results["select"]["rules"]):
                loop.memory.remove(run.scope, item.item_id, actor=ACTOR, reason=f"released in {name}")
        return {"promoted": name}

    def _keep(self, files: Mapping[str, str]) -> str:
        folder = Path(tempfile.mkdtemp(prefix="certloop-gate-"))
        try:
            for name, text in files.items():
                (folder / name).write_text(text, "utf-8")
            return self._service.loop.registry.artefacts.add(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
