"""The second look: a share of approved certificates is decided again, blindly, by another auditor.

It changes nothing about the certificate. On how many fields both answers agree tells how far the first auditor can be believed
(Beta(9, 1) prior, ``agentrl.signals.reliability``); ``fuse`` weighs auditors by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection, insert, select, update

from certloop.agentrl.rewards import fold
from certloop.agentrl.signals import AuditorRecord, Signal, fuse, reliability_of
from certloop.agentrl.store.reader import RewardOf
from certloop.agentrl.trajectory import Trajectory
from certloop.serve.db.access import reading
from certloop.serve.db.schema import reliability
from certloop.serve.review import history
from certloop.serve.review.certificate import Certificate, Fields, by_label
from certloop.serve.review.claims import Review, change
from certloop.serve.review.edits import working_fields
from certloop.serve.review.history import Action

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


class Case(Protocol):
    """What a second look needs of the review being decided."""

    @property
    def service(self) -> Service: ...
    @property
    def connection(self) -> Connection: ...
    @property
    def actor(self) -> Actor: ...
    @property
    def certificate(self) -> Certificate: ...
    @property
    def review(self) -> Review: ...
    @property
    def now(self) -> str: ...


def finish(case: Case, decision: str) -> int:
    """Compare the second auditor's answer with the approved one and write it down; returns the certificate's revision.

    A rejection agrees with nothing.
    """
    kind = case.service.registry.types.get(case.certificate.doc_type)
    second = working_fields(case.connection, case.review, case.certificate, kind)
    differing, checked = disagreements(case.certificate.fields, second)
    if decision != "approved":
        differing = tuple(by_label(case.certificate.fields))
    tenant, certificate_id = case.actor.tenant, case.certificate.certificate_id
    first = str(case.review.decided_by)
    values = {"agreed": checked - min(len(differing), checked), "checked": checked, "at": case.now}
    mine = (reliability.c.tenant == tenant, reliability.c.auditor == first, reliability.c.certificate_id == certificate_id)
    if case.connection.execute(select(reliability.c.at).where(*mine)).first() is None:
        row = {"tenant": tenant, "auditor": first, "certificate_id": certificate_id}
        case.connection.execute(insert(reliability), [row | values])
    else:
        case.connection.execute(update(reliability).where(*mine).values(**values))
    change(case.connection, tenant, certificate_id, double_check=False, claimed_by=None, lease_until=None)
    details = {"decision": decision, "differing": list(differing), "agreed": values["agreed"], "checked": checked}
    history.append(
        case.connection, tenant, certificate_id, at=case.now, actor=case.actor.actor_id, action=Action.DOUBLE_CHECKED,
        details=details,
    )  # fmt: skip
    return case.certificate.revision


def disagreements(first: Fields, second: Fields) -> tuple[tuple[str, ...], int]:
    """The labels on which two answers differ (blind to width and spaces), and how many labels either of them answers."""
    a, b = by_label(first), by_label(second)
    asked = [label for label in dict.fromkeys((*a, *b)) if a.get(label) is not None or b.get(label) is not None]
    return tuple(label for label in asked if fold(a.get(label) or "") != fold(b.get(label) or "")), len(asked)


def auditor_records(connection: Connection, tenant: str) -> dict[str, AuditorRecord]:
    """What is known of each auditor who was checked."""
    out: dict[str, AuditorRecord] = {}
    for row in connection.execute(select(reliability).where(reliability.c.tenant == tenant)):
        before = out.get(row.auditor, AuditorRecord())
        out[row.auditor] = AuditorRecord(before.agreed + row.agreed, before.checked + row.checked)
    return out


def reward_of(service: Service, tenant: str) -> RewardOf:
    """The fold of signals into a reward that weighs each auditor by his reliability; give it to snapshots and exporters."""
    with reading(service, tenant) as connection:
        known = auditor_records(connection, tenant)

    def reward(trajectory: Trajectory, signals: Sequence[Signal]) -> float | None:
        del trajectory
        return fuse(signals, reliability=lambda auditor: reliability_of(known, auditor)).trajectory.value if signals else None

    return reward
