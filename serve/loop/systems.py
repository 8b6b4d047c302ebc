"""Systems that live side by side in a simulation: each reads with the rules it has, and may learn from what an auditor says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from certloop.agentrl.memory import Item, Memory, QuotaError
from certloop.extract.answer import answer_documents
from certloop.extract.config import ExtractConfig
from certloop.extract.engine.ocr import OcrEngine
from certloop.extract.episode import read_page
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.guidance import Guidance
from certloop.extract.ingest import Page
from certloop.extract.learning import Case, guidance_of, learn
from certloop.extract.result import Document
from certloop.extract.surroundings import Surroundings
from certloop.serve.loop.memo import digest
from certloop.templates import DocumentType, Registry, squash

Rules = tuple[tuple[str, str, Mapping[str, Any]], ...]
CASES = 30
"""Regression cases that a rule is replayed on, newest first, of its document type."""


PAGES = 120
"""Pages whose surroundings are remembered: seals and covered places are images, and large."""


@dataclass(slots=True)
class Reader:
    """Reads pages under rules. One engine for all systems: what OCR sees and what stands around the fields are the same for all
    of them, and a page under rules that it was read under before is not read again."""

    engine: OcrEngine
    registry: Registry
    config: ExtractConfig
    _around: dict[bytes, Surroundings] = field(default_factory=dict)
    _read: dict[tuple[bytes, str], tuple[str, dict[str, str]]] = field(default_factory=dict)

    def read(self, page: Page, rules: Rules) -> tuple[str, dict[str, str]]:
        """The type found and the values by printed label, of the page's largest document."""
        seen = digest(page.image)
        key = (seen, json.dumps([[kind, where, dict(body)] for kind, where, body in rules], sort_keys=True))
        if key not in self._read:
            config = replace(self.config, guidance=guidance_of(rules) if rules else Guidance())
            found, around = read_page(page.image, self.engine, self.registry, config, around=self._around.get(seen))
            self._around[seen] = around
            while len(self._around) > PAGES:
                del self._around[next(iter(self._around))]
            self._read[key] = _largest(answer_documents(page, found, around))
        return self._read[key]


def _largest(documents: Sequence[Document]) -> tuple[str, dict[str, str]]:
    if not documents:
        return "unknown", {}
    document = max(documents, key=lambda d: sum(f.value is not None for f in d.fields.values()))
    return document.doc_type, {f.label: f.value for f in document.fields.values() if f.value is not None}


def right_fields(truth: Mapping[str, str], values: Mapping[str, str], doc_type: DocumentType) -> set[str]:
    """The labels whose value was read strictly as printed."""
    kinds = {spec.label: spec.kind.value for spec in doc_type.fields.values()}
    return {label for label, value in truth.items() if same_value(label, value, values.get(label), kind=kinds.get(label))}


@dataclass(slots=True)
class Learner:
    """A tenant's memory, the rules of its release, and the cases that rules are replayed on."""

    tenant: str
    memory: Memory
    registry: Registry
    released: Rules = ()
    cases: dict[str, list[Case]] = field(default_factory=dict)
    learned: int = 0
    refused: int = 0

    def rules(self) -> Rules:
        """The release's rules, then the overlay's."""
        return self.released + tuple((item.kind, item.key, item.body) for item in self.memory.in_use(self.tenant))

    def hear(self, case: Case, values: Mapping[str, str], actor: str) -> tuple[Item, ...]:
        """Learn from one answered document; ``values`` is what was read, by field id. Rules that were followed are recorded."""
        doc_type = self.registry.get(case.doc_type)
        labels = {spec.label: name for name, spec in doc_type.fields.items()}
        truth = {doc_type.fields[name].label: value for name, value in case.truth.items() if value}
        read = {doc_type.fields[name].label: value for name, value in values.items()}
        wrong = [labels[label] for label in truth if label not in right_fields(truth, read, doc_type)]
        self._record(case, set(wrong), actor)
        others = self.cases.setdefault(case.doc_type, [])
        hints = guidance_of(rule for rule in self.rules() if rule[1] == case.doc_type).hints
        added = []
        for _, (kind, body) in learn(case, wrong, others[-CASES:], doc_type, hints):
            try:
                added.append(
                    self.memory.add(
                        self.tenant, kind, case.doc_type, body, evidence=[case.case_id], actor=actor, replay=lambda _body: None
                    )
                )
            except QuotaError:
                self.refused += 1
        self.learned += len(added)
        others.append(case)
        return tuple(added)

    def _record(self, case: Case, wrong: set[str], actor: str) -> None:
        text = squash("".join(line.text for line in case.lines))
        for item in self.memory.in_use(self.tenant, case.doc_type):
            field_id, label = str(item.body["field"]), item.body.get("label")
            if label is None or squash(str(label)) not in text or not case.truth.get(field_id):
                continue
            self.memory.record(self.tenant, item.item_id, passed=field_id not in wrong, actor=actor, evidence=case.case_id)


def shuffled(answers: Sequence[Mapping[str, str]], truth: Mapping[str, str]) -> dict[str, str]:
    """Other documents' answers in place of this one's (control): the same kinds of words, nothing to learn from them. A value
    that happens to be this document's own would be a true answer, so another one is dealt, or none."""
    out: dict[str, str] = {}
    order = [*answers[len(answers) // 2 :], *answers[: len(answers) // 2]]
    for label, value in truth.items():
        other = next((answer[label] for answer in order if answer.get(label, value) != value), None)
        if other is not None:
            out[label] = other
    return out
