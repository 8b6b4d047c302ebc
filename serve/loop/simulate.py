"""A month of the loop's life on one machine: documents arrive, auditors answer some and err, forms drift, rules are learned,
releases are judged and tried out, and a bad candidate is caught.

Three systems read the same pages: one that never learns (*frozen*), one that learns (*learning*), and one that hears the same
auditors with their answers dealt to other documents (*control*: if it gains, the gain is an artefact). Every document is scored
as it was read when it arrived, before anybody answered it: nothing is scored that was learned from. Auditors answer first what
needs a person (a required field is missing), as in the review queue; which documents they answer, all systems share.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from certloop.agentrl.memory import Memory, MemoryConfig, write_snapshot
from certloop.agentrl.release import (
    CanaryAction,
    CanaryPolicy,
    CanaryState,
    Evidence,
    GateConfig,
    Pair,
    Registry,
    Release,
    Verdict,
    decide,
    judge,
    report_json,
)
from certloop.agentrl.release.guards import ArmWindow
from certloop.agentrl.store import Store
from certloop.extract.config import ExtractConfig
from certloop.extract.ingest import Page
from certloop.extract.learning import KINDS, Case, case_of
from certloop.serve.loop.auditor import Auditor
from certloop.serve.loop.memo import MemoEngine
from certloop.serve.loop.stream import Arrival, StreamConfig, documents
from certloop.serve.loop.systems import Learner, Reader, Rules, right_fields, shuffled
from certloop.templates import load_types

START = datetime(2026, 3, 1, tzinfo=UTC)
SYSTEMS = ("frozen", "learning", "control")
POISON = (("label", "business_licence", {"field": "address", "label": "经营范围"}),)
"""A candidate's rule that reads one field from another's label: what the gate must catch."""


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """``audited`` of the documents at most get an answer, whose fields are wrong with ``auditor_error``. Every ``gate_days`` days
    the rules learned since the last release are judged as a candidate; on ``poison_day`` a bad candidate is."""

    stream: StreamConfig = field(default_factory=StreamConfig)
    audited: float = 0.25
    auditor_error: float = 0.03
    gate_days: int = 4
    poison_day: int = 20
    second_reads: int = 4
    gate: GateConfig = field(default_factory=lambda: GateConfig(draws=1000, min_discordant=6))
    canary: CanaryPolicy = field(default_factory=CanaryPolicy)


@dataclass(slots=True)
class Scored:
    """One document as it arrived: how many of its fields each system read right."""

    day: int
    number: int
    drifted: bool
    fields: int
    right: dict[str, int]


@dataclass(slots=True)
class Decision:
    """What the loop decided on a day, and why."""

    day: int
    what: str
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Life:
    """Everything that happened."""

    config: SimulationConfig
    scored: list[Scored] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    answered: int = 0
    rules: list[dict[str, Any]] = field(default_factory=list)
    control_rules: int = 0
    gates: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answered:
    """An answered document, kept for the gate and the canary."""

    arrival: Arrival
    page: Page
    answer: Mapping[str, str]


def simulate(config: SimulationConfig, progress: Callable[[int, int], None] | None = None, looks: Path | None = None) -> Life:
    """Live through ``config.stream.days`` days. ``progress`` hears (documents done, of how many). In the file ``looks``
    stays what OCR saw: a life that is begun again reads the same pages in a fraction of the time."""
    with tempfile.TemporaryDirectory(prefix="certloop-life-") as folder:
        root = Path(folder)
        with Store.open(f"sqlite:///{root}/store.db") as store:
            return _World(config, store, root, looks).run(progress)


class _World:
    def __init__(self, config: SimulationConfig, store: Store, root: Path, looks: Path | None = None) -> None:
        self.config, self.root = config, root
        self.now = START
        self.types = load_types()
        self.reader = Reader(MemoEngine(kept=looks), self.types, ExtractConfig(second_reads=config.second_reads))
        memory = Memory.open(store.engine, MemoryConfig(KINDS), lambda: self.now)
        self.learner, self.control = (Learner(name, memory, self.types) for name in ("learning", "control"))
        self.registry = Registry.open(store.engine, root / "artefacts", lambda: self.now)
        self.registry.register(Release("v1", "ocr", notes="the released reader, no rules"))
        self.registry.adopt("v1", actor="loop", reason="first release")
        self.released: dict[str, Rules] = {"v1": ()}
        self.auditor = Auditor(config.audited, config.auditor_error, config.stream.seed)
        self.answers: list[_Answered] = []
        self.by_type: dict[str, list[dict[str, str]]] = {}
        self.life = Life(config)
        self.poisoned = False

    def run(self, progress: Callable[[int, int], None] | None) -> Life:
        total, day = self.config.stream.days * self.config.stream.per_day, 0
        for arrival in documents(self.config.stream):
            if arrival.day != day:
                self._night(day)
                day = arrival.day
            self.now = START + timedelta(days=arrival.day, minutes=arrival.number % self.config.stream.per_day)
            self._arrive(arrival)
            if progress is not None:
                progress(arrival.number + 1, total)
        self._night(day)
        items = self.learner.memory.items("learning")
        self.life.rules = [
            {"type": i.key, **i.body, "state": str(i.state), "passed": i.passed, "failed": i.failed, "evidence": list(i.evidence)}
            for i in items
        ]
        self.life.control_rules = self.control.learned
        return self.life

    def _arrive(self, arrival: Arrival) -> None:
        image = arrival.sample.image
        page = Page(image, 0, image.shape[1], image.shape[0], 1.0, "png")
        doc_type = self.types.get(arrival.doc_type)
        rules = {"frozen": (), "learning": self.learner.rules(), "control": self.control.rules()}
        read = {name: self._read(page, rules[name], arrival.doc_type) for name in SYSTEMS}
        right = {name: len(right_fields(arrival.truth, read[name], doc_type)) for name in SYSTEMS}
        self.life.scored.append(Scored(arrival.day, arrival.number, "~d" in arrival.layout, len(arrival.truth), right))
        missing = {doc_type.fields[name].label for name in doc_type.required} - set(read["learning"])
        if not self.auditor.answers(bool(missing)):
            return
        self.life.answered += 1
        answer = self.auditor.answer(arrival.truth)
        self.answers.append(_Answered(arrival, page, answer))
        others = self.by_type.setdefault(arrival.doc_type, [])
        self._hear(self.learner, arrival, answer, read["learning"], "auditor")
        self._hear(self.control, arrival, shuffled(others, answer), read["control"], "auditor")
        others.append(dict(answer))

    def _read(self, page: Page, rules: Rules, doc_type: str) -> dict[str, str]:
        found, values = self.reader.read(page, tuple(rule for rule in rules if rule[1] == doc_type))
        return values if found == doc_type else {}

    def _hear(self, learner: Learner, arrival: Arrival, answer: Mapping[str, str], read: Mapping[str, str], actor: str) -> None:
        doc_type = self.types.get(arrival.doc_type)
        ids = {spec.label: spec.id for spec in doc_type.fields.values()}
        truth = {ids[label]: value for label, value in answer.items() if label in ids}
        case = case_of(arrival.document_id, arrival.sample.image, self.reader.engine, arrival.doc_type, truth)
        learner.hear(case, {ids[label]: value for label, value in read.items()}, actor)

    # --- nights: gate, canary, release -----------------------------------------------------------------------------------------

    def _night(self, day: int) -> None:
        pointer = self.registry.pointer()
        if pointer.candidate:
            self._canary(day)
        elif day >= self.config.poison_day and not self.poisoned:  # a trial under way ends first
            self.poisoned = True
            self._judge(day, self.released[pointer.active] + POISON, "a candidate with a wrong rule")
        elif (day + 1) % self.config.gate_days == 0 and self.learner.memory.in_use("learning"):
            self._judge(day, self.learner.rules(), "the rules learned since the last release")

    def _judge(self, day: int, rules: Rules, about: str) -> None:
        """Judge a candidate on answered documents that none of its new rules was learned from."""
        active = self.registry.pointer().active
        evidence = {event for item in self.learner.memory.in_use("learning") for event in item.evidence}
        pairs = [self._pair(one, self.released[active], rules) for one in self.answers if one.arrival.document_id not in evidence]
        target = [pair for one, pair in pairs if "~d" in one.arrival.layout]
        retained = [pair for one, pair in pairs if "~d" not in one.arrival.layout]
        if not target:
            self.life.decisions.append(Decision(day, "wait", (f"{about}: no answered document to judge it on yet",)))
            return
        found = Evidence(target, retained)
        result = judge(found, self.config.gate)
        name = f"v{len(self.released) + 1}"
        self.life.gates.append({"day": day} | report_json(name, active, found, result, self.config.gate))
        self.life.decisions.append(Decision(day, f"gate: {result.verdict}", (about, *result.reasons)))
        if result.verdict is Verdict.PROMOTE:
            self._stage(day, name, rules)

    def _pair(self, one: _Answered, before: Rules, after: Rules) -> tuple[_Answered, Pair]:
        doc_type = self.types.get(one.arrival.doc_type)
        reads = [right_fields(one.answer, self._read(one.page, rules, doc_type.id), doc_type) for rules in (before, after)]
        scores = [len(right) / max(1, len(one.answer)) for right in reads]
        parts = {label: (float(label in reads[0]), float(label in reads[1])) for label in one.answer}
        return one, Pair(one.arrival.document_id, doc_type.id, scores[0], scores[1], parts=parts)

    def _stage(self, day: int, name: str, rules: Rules) -> None:
        folder = self.root / f"{name}-memory"
        write_snapshot(folder, (), before=[{"kind": kind, "key": key, "body": dict(body)} for kind, key, body in rules])
        digest = self.registry.artefacts.add(folder)
        active = self.registry.pointer().active
        self.registry.register(Release(name, "ocr", artefacts={"guidance": digest}, memory_snapshot=digest, parent=active))
        share = self.config.canary.first_share(7.0 * self.config.stream.per_day)
        self.registry.stage(name, share, actor="loop", reason="gate passed")
        self.released[name] = rules
        self.life.decisions.append(Decision(day, f"canary: {name} at {share:.0%}", ("gate passed",)))

    def _canary(self, day: int) -> None:
        """At this traffic both releases read every answered document (shadow replay) and a sequential test decides."""
        pointer = self.registry.pointer()
        since = datetime.fromisoformat(pointer.since)
        better = worse = 0
        for one in self.answers:
            if START + timedelta(days=one.arrival.day) <= since - timedelta(days=7):
                continue
            _, pair = self._pair(one, self.released[pointer.active], self.released[pointer.candidate])
            better += pair.gain > 0
            worse += pair.gain < 0
        idle = ArmWindow(0, 0, 0)
        state = CanaryState(pointer.share, since, idle, idle, 7.0 * self.config.stream.per_day, better, worse)
        decision = decide(state, self.now + timedelta(hours=12), self.config.canary)
        if decision.action is CanaryAction.PROMOTE:
            self.registry.promote(actor="loop", reason=decision.reasons[0])
            self._released(pointer.candidate)
        elif decision.action is CanaryAction.ROLL_BACK:
            self.registry.roll_back(actor="loop", reason=decision.reasons[0])
        else:
            return
        self.life.decisions.append(Decision(day, f"canary: {decision.action} {pointer.candidate}", decision.reasons))

    def _released(self, name: str) -> None:
        """The release's snapshot holds these rules now: the overlay lets them go."""
        self.learner.released = self.released[name]
        held = {(kind, key, repr(sorted(body.items()))) for kind, key, body in self.released[name]}
        for item in self.learner.memory.in_use("learning"):
            if (item.kind, item.key, repr(sorted(item.body.items()))) in held:
                self.learner.memory.remove("learning", item.item_id, actor="loop", reason=f"released in {name}")


__all__ = ["Case", "Decision", "Life", "Scored", "SimulationConfig", "simulate"]
