"""The fast loop of the running service: which rules the next document is read under, and what a decision teaches.

An approval whose fields were edited is learned from at once: the lines of the page were kept when it was read, so a rule is
found, replayed on the latest approved certificates of its type and in use within the second. What a process that died did not
learn from is caught up with by ``catch_up``; learning from the same decision twice adds nothing."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from certloop.agentrl.errors import CertloopError
from certloop.agentrl.memory import Item, Memory, MemoryConfig, QuotaError, read_snapshot
from certloop.agentrl.release import Registry, RegistryDamagedError, Release, Router, UnknownReleaseError
from certloop.agentrl.release.router import Route
from certloop.extract.evaluation.normalise import same_value
from certloop.extract.guidance import Adapter
from certloop.extract.learning import KINDS, Case, guidance_of, learn
from certloop.serve.confidence.calibration import Calibration, from_json
from certloop.serve.db.access import reading
from certloop.serve.db.schema import certificates
from certloop.serve.loop.replicas import adapter_name
from certloop.serve.people.roles import Permission
from certloop.serve.review import certificate as certs
from certloop.templates import DocumentType, squash

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from certloop.extract.engine.lines import TextLine
    from certloop.extract.guidance import Guidance
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

FIRST = "embedded"
CASES = 30
"""Approved certificates of the same type that a rule is replayed on, the latest."""
ACTOR = "serve:loop"
_log = logging.getLogger("certloop.serve.loop")

Rule = tuple[str, str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Steering:
    """What one document is read under: its release, the release's rules and the tenant's own. ``overlay`` are the ids of the
    latter; all of it stands in the trajectory. ``calibration`` is the release's, None where it has none of its own."""

    route: Route
    snapshot: str = ""
    rules: tuple[Rule, ...] = ()
    overlay: tuple[str, ...] = ()
    calibration: Calibration | None = None
    adapter: Adapter | None = None

    @property
    def release_id(self) -> str:
        return self.route.release_id

    @property
    def guidance(self) -> Guidance | None:
        """None where there are neither rules nor weights of a release: the configuration's own guidance holds."""
        if not self.rules and self.adapter is None:
            return None
        return replace(guidance_of(self.rules), adapter=self.adapter)


@dataclass(slots=True)
class Loop:
    """One a process. Everything it knows stands in the database."""

    service: Service
    memory: Memory
    registry: Registry
    router: Router
    _snapshots: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    _calibrations: dict[str, Calibration] = field(default_factory=dict)
    _adapters: dict[str, Path] = field(default_factory=dict)
    _caught: dict[str, set[str]] = field(default_factory=dict)
    _learner: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="learner"))

    @classmethod
    def open(cls, service: Service, artefacts: Path) -> Loop:
        """Bring the tables to this release; the reader as it comes is the first release."""
        registry = Registry.open(service.engine, artefacts, service.clock)
        try:
            registry.pointer()
        except UnknownReleaseError:
            registry.register(Release(FIRST, "ocr", notes="the embedded reader, without rules"))
            registry.adopt(FIRST, actor=ACTOR, reason="the first release of this service")
        except RegistryDamagedError as error:  # the service starts and is not ready: documents wait, everything else is there
            _log.error("releases: %s", error.message)
        memory = Memory.open(service.engine, MemoryConfig(KINDS), service.clock)
        return cls(service, memory, registry, Router(registry.pointer))

    # --- reading ----------------------------------------------------------------------------------------------------------------

    def steering(self, tenant: str, document_id: str) -> Steering:
        """What the next reading of this document follows; what was learned a moment ago is in it."""
        route = self.router.route(tenant, document_id)
        snapshot, released = self.released(tenant, route.release_id)
        items = self.memory.in_use(tenant)
        own = tuple((item.kind, item.key, item.body) for item in items)
        return Steering(
            route, snapshot, released + own, tuple(item.item_id for item in items),
            self.calibration(tenant, route.release_id), self.adapter(tenant, route.release_id),
        )  # fmt: skip

    def released(self, tenant: str, release_id: str) -> tuple[str, tuple[Rule, ...]]:
        """The rules of a release's memory snapshot, its files verified when they are first read."""
        digest = self.registry.release(release_id, scope=tenant).artefacts.get("guidance", "")
        if digest and digest not in self._snapshots:
            rules = read_snapshot(self.registry.artefacts.path(digest))
            self._snapshots[digest] = tuple((r["kind"], r["key"], r["body"]) for r in rules)
        return digest, self._snapshots.get(digest, ())

    def calibration(self, tenant: str, release_id: str) -> Calibration | None:
        """What a release says confidences are worth; None where it says nothing and the tenant's own fit holds."""
        digest = self.registry.release(release_id, scope=tenant).artefacts.get("calibration", "")
        if digest and digest not in self._calibrations:
            body = json.loads((self.registry.artefacts.path(digest) / "calibration.json").read_text("utf-8"))
            self._calibrations[digest] = from_json(body)
        return self._calibrations.get(digest)

    def adapter(self, tenant: str, release_id: str) -> Adapter | None:
        """The weights of a release, verified by hash before they are first used; they go by the release's own name."""
        digest = self.registry.release(release_id, scope=tenant).artefacts.get("adapter", "")
        if digest and digest not in self._adapters:
            self._adapters[digest] = self.registry.artefacts.path(digest)
        return Adapter(adapter_name(release_id), str(self._adapters[digest])) if digest else None

    # --- learning ---------------------------------------------------------------------------------------------------------------

    def learn_from(self, tenant: str, certificate_id: str, actor: str) -> tuple[Item, ...]:
        """Learn from an approved certificate whose fields were edited; records which rules in use were right or wrong there."""
        with reading(self.service, tenant) as connection:
            one = certs.load(connection, tenant, certificate_id)
            doc_type = self.service.registry.types.get(one.doc_type)
            if one.state != "approved" or doc_type is None:
                return ()
            read = certs.values_of(certs.as_read(connection, one)["fields"])
            approved = self._approved(connection, tenant, one.doc_type, but=certificate_id)
        case = self.case_of(tenant, one)
        if case is None:
            return ()
        wrong = _wrong(case, read, doc_type)
        self._record(tenant, case, set(wrong), doc_type)
        if not wrong:
            return ()
        others = [other for row in approved if (other := self.case_of(tenant, row)) is not None]
        rules = self.steering(tenant, one.document_id).rules
        hints = guidance_of(rule for rule in rules if rule[1] == doc_type.id).hints
        added: list[Item] = []
        for _, (kind, body) in learn(case, wrong, others, doc_type, hints):
            try:  # `learn` has replayed it on the same cases
                added.append(
                    self.memory.add(tenant, kind, doc_type.id, body, evidence=[certificate_id], actor=actor, replay=_replayed)
                )
            except QuotaError as error:
                _log.warning("a rule was not kept: %s", error.code)
        if added:
            self.service.tenant(tenant).note(actor, "rules learned", certificate=certificate_id, rules=[i.item_id for i in added])
        return tuple(added)

    def soon(self, tenant: str, certificate_id: str, actor: str) -> Future[None]:
        """Learn from a decision in the background, one after another; what fails is caught up with."""
        return self._learner.submit(self._quietly, tenant, certificate_id, actor)

    def close(self) -> None:
        self._learner.shutdown(wait=True, cancel_futures=True)

    def catch_up(self) -> None:
        """Learn from the approvals of the last day that nothing was learned from: a process may have died in between."""
        since = (self.service.clock() - timedelta(days=1)).isoformat(timespec="microseconds")
        for tenant in self.service.store.tenants():
            seen = {event for item in self.memory.items(tenant) for event in item.evidence} | self._caught.get(tenant, set())
            with reading(self.service, tenant) as connection:
                mine = (certificates.c.tenant == tenant, certificates.c.state == "approved", certificates.c.updated_at >= since)
                rows = connection.execute(select(certificates.c.certificate_id).where(*mine)).scalars().all()
            for certificate_id in rows:
                if certificate_id not in seen:
                    self._quietly(tenant, certificate_id, ACTOR)

    def _quietly(self, tenant: str, certificate_id: str, actor: str) -> None:
        try:
            self.learn_from(tenant, certificate_id, actor)
        except CertloopError as error:
            _log.warning("nothing learned from %s: %s", certificate_id, error.code)
        self._caught.setdefault(tenant, set()).add(certificate_id)

    def _approved(self, connection: Connection, tenant: str, doc_type: str, *, but: str) -> Sequence[certs.Certificate]:
        mine = (certificates.c.tenant == tenant, certificates.c.state == "approved", certificates.c.doc_type == doc_type)
        query = select(certificates.c.certificate_id).where(*mine, certificates.c.certificate_id != but)
        ids = connection.execute(query.order_by(certificates.c.updated_at.desc()).limit(CASES)).scalars().all()
        return [certs.load(connection, tenant, certificate_id) for certificate_id in ids]

    def case_of(self, tenant: str, one: certs.Certificate) -> Case | None:
        """The certificate's lines with its approved values; None where its lines were not kept (another engine)."""
        if one.trajectory_id is None:
            return None
        try:
            steps = self.service.tenant(tenant).trajectory(one.trajectory_id).trajectory.steps
            reference = steps[0].tool_result.payload_ref if steps and steps[0].tool_result is not None else None
            if reference is None:
                return None
            lines = unpack_lines(self.service.tenant(tenant).get_blob(reference))
        except CertloopError:
            return None
        truth = {name: value for name, value in certs.values_of(one.fields).items() if value}
        return Case(one.certificate_id, one.doc_type, lines, truth)

    def _record(self, tenant: str, case: Case, wrong: set[str], doc_type: DocumentType) -> None:
        text = squash("".join(line.text for line in case.lines))
        for item in self.memory.in_use(tenant, doc_type.id):
            name, label = str(item.body["field"]), item.body.get("label")
            printed = label is not None and squash(str(label)) in text and bool(case.truth.get(name))
            if printed and case.case_id not in item.evidence:
                self.memory.record(tenant, item.item_id, passed=name not in wrong, actor=ACTOR, evidence=case.case_id)

    # --- people -----------------------------------------------------------------------------------------------------------------

    def rules(self, actor: Actor) -> tuple[Item, ...]:
        """What this tenant's documents taught, with evidence and record."""
        actor.require(Permission.LEARNING_READ)
        return self.memory.items(actor.tenant)

    def remove_rule(self, actor: Actor, item_id: str, reason: str) -> Item:
        """Take a rule out of use."""
        actor.require(Permission.RELEASES_MANAGE)
        item = self.memory.remove(actor.tenant, item_id, actor=actor.actor_id, reason=reason)
        self.service.tenant(actor.tenant).note(actor.actor_id, "rule removed", rule=item_id)
        return item


def pack_lines(lines: Sequence[TextLine]) -> bytes:
    """Lines as they are stored beside the pages: personal data like them."""
    body = Case("", "", tuple(lines), {}).to_json()["lines"]
    return zlib.compress(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), 6)


def unpack_lines(data: bytes) -> tuple[TextLine, ...]:
    return Case.from_json({"case_id": "", "doc_type": "", "truth": {}, "lines": json.loads(zlib.decompress(data))}).lines


def _wrong(case: Case, read: Mapping[str, str | None], doc_type: DocumentType) -> list[str]:
    return [
        name
        for name, truth in case.truth.items()
        if truth
        and name in doc_type.fields
        and not same_value(doc_type.fields[name].label, truth, read.get(name), kind=doc_type.fields[name].kind.value)
    ]


def _replayed(_body: Mapping[str, Any]) -> None: ...
