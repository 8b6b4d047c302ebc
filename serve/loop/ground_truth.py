"""What a tenant's approvals make of its stored trajectories: rows that may be trained on, as data a person can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from certloop.agentrl.loop import Candidate, Learned
from certloop.agentrl.rewards import fold
from certloop.agentrl.signals import Reason, Signal, Source
from certloop.agentrl.store import Store, StoreError
from certloop.agentrl.store.exporters import approved_answer, write_images
from certloop.agentrl.store.reader import Filters, StoredTrajectory
from certloop.agentrl.trajectory import Consent
from certloop.extract.engine.prompt import answer_json, prompt_text
from certloop.templates import DocumentType
from certloop.train.rows import Row, data_sha256, write_rows

SHARED = "*"
TypeOf = Callable[[str], DocumentType]
ReliabilityOf = Callable[[str, str], float]
"""How far an auditor of a tenant can be believed, in (0, 1)."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One approved answer. ``edited`` are the labels that the auditor changed, ``auditors`` whoever spoke, ``at`` when last."""

    tenant: str
    stored: StoredTrajectory
    answer: Mapping[str, str | None]
    edited: tuple[str, ...]
    auditors: tuple[str, ...]
    at: datetime

    @property
    def row_id(self) -> str:
        return f"{self.tenant}/{self.stored.trajectory.traj_id}"


def truths(store: Store, scope: str) -> list[Truth]:
    """Approved answers of a tenant, or for a shared model of all tenants: there only what was made to be shared (a copy with
    other names on image and label) and is consented for it."""
    tenants = store.tenants() if scope == SHARED else (scope,)
    out = []
    for tenant in tenants:
        for stored in store.for_tenant(tenant).trajectories(Filters()):
            if scope == SHARED and str(stored.trajectory.redaction) != "pseudonymised":
                continue
            if (truth := _truth(tenant, stored)) is not None:
                out.append(truth)
    return out


def _truth(tenant: str, stored: StoredTrajectory) -> Truth | None:
    text = approved_answer(stored.trajectory, stored.signals)
    try:
        answer = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or not all(isinstance(v, str | None) for v in answer.values()):
        return None
    said = [s for s in stored.signals if s.source is Source.AUDITOR]
    edited = tuple(sorted({s.field for s in said if s.reason == Reason.EDIT and s.field}))
    return Truth(tenant, stored, answer, edited, tuple(sorted({s.actor for s in said})), max(map(_instant, said)))


def _instant(signal: Signal) -> datetime:
    return datetime.fromisoformat(signal.at)


def learned(rows: Iterable[Truth], last_run: datetime | None, used: Collection[str]) -> Learned:
    """What came in since the last run, for the trigger: approvals that no run has used, and by type how many needed no edit."""
    since: dict[str, tuple[int, int]] = {}
    before: dict[str, tuple[int, int]] = {}
    new = 0
    for row in rows:
        fresh = row.row_id not in used
        new += fresh
        counts = since if fresh else before
        right, answered = counts.get(row.stored.trajectory.doc_type, (0, 0))
        counts[row.stored.trajectory.doc_type] = (right + (not row.edited), answered + 1)
    return Learned(new, last_run, since, before)


def candidates(
    rows: Iterable[Truth], scope: str, reliability: ReliabilityOf, sources: Mapping[str, str] | None = None
) -> list[Candidate]:
    """The rows as selection sees them. ``sources`` names the data manifest of rows that a release learned from already."""
    wanted = Consent.SHARED if scope == SHARED else Consent.TENANT
    out = []
    for row in rows:
        trajectory = row.stored.trajectory
        said = {label: fold(value or "") for label, value in row.answer.items()}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
        out.append(
            Candidate(
                row.row_id, row.tenant, trajectory.doc_type, item="/".join(trajectory.image_sha256), answer=digest, shape=digest,
                consented=row.stored.state.covers(wanted), source=(sources or {}).get(row.row_id, ""),
                reliability=min((reliability(row.tenant, auditor) for auditor in row.auditors), default=1.0),
                parts=tuple(row.answer), longest=max((len(value or "") for value in row.answer.values()), default=0),
            )
        )  # fmt: skip
    return out


def withdrawn(store: Store, row_ids: Iterable[str], scope: str) -> list[str]:
    """Which rows may not be trained on any more: consent taken back, or erased."""
    wanted = Consent.SHARED if scope == SHARED else Consent.TENANT
    gone = []
    for row_id in row_ids:
        tenant, _, traj_id = row_id.partition("/")
        try:
            if not store.for_tenant(tenant).trajectory(traj_id).state.covers(wanted):
                gone.append(row_id)
        except StoreError:
            gone.append(row_id)
    return gone


def _in_order(answer: Mapping[str, str | None], doc_type: DocumentType) -> dict[str, str | None]:
    """As the type's prompt asks for it, whatever an auditor added last: an order that varies cannot be learned."""
    place = {spec.label: n for n, spec in enumerate(doc_type.fields.values())}
    return {label: answer[label] for label in sorted(answer, key=lambda label: place.get(label, len(place)))}


def pack(store: Store, rows: Sequence[tuple[Truth, float]], type_of: TypeOf, folder: Path) -> dict[str, Any]:
    """Write rows and images for the trainer; a row of twice the weight stands there twice. Returns rows and their hash."""
    least = min((weight for _, weight in rows), default=1.0)
    out = []
    for truth, weight in rows:
        trajectory = truth.stored.trajectory
        images = write_images(store.for_tenant(truth.tenant), trajectory.image_sha256, folder / "images")
        answer = _in_order(truth.answer, type_of(trajectory.doc_type))
        row = Row(
            id=truth.row_id,
            prompt=prompt_text(type_of(trajectory.doc_type).prompt),
            images=tuple(Path(image) for image in images),
            completion=answer_json(answer),
            truth=answer,
        )
        out += [replace(row, id=f"{row.id}#{copy}") for copy in range(max(1, min(4, round(weight / least))))]
    write_rows(folder, out, source="approved")
    return {"packed": len(out), "data_sha256": data_sha256(folder)}
