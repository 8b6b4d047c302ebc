"""What became of the business: was the supplier accepted, was the contract signed, was there a complaint.

Outcomes guard releases (METHODS §1.6). They are signals of source business, which no fold ever puts into a reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from certloop.agentrl.signals import Origin, business_signal
from certloop.agentrl.store.events import new_id
from certloop.serve.db.access import reading, writing
from certloop.serve.db.schema import outcomes
from certloop.serve.errors import ConflictError, RequestError
from certloop.serve.feedback.signals import write_signals
from certloop.serve.people.roles import Permission
from certloop.serve.review.signals import FIRST_PASS

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor


@dataclass(frozen=True, slots=True)
class Outcome:
    outcome_id: str
    trajectory_id: str
    kind: str
    good: bool
    at: str


def record(
    service: Service, actor: Actor, trajectory_id: str, kind: str, *, good: bool, outcome_id: str | None = None
) -> tuple[Outcome, bool]:
    """Store an outcome and its signal, once: the same ``outcome_id`` again gives what is stored (and False).

    Raises RequestError for the service's own kind, NotFoundError and ErasedError for the trajectory, ConflictError for an
    ``outcome_id`` that stands for another outcome.
    """
    actor.require(Permission.OUTCOMES_WRITE)
    if kind == FIRST_PASS:
        raise RequestError(f"{FIRST_PASS} is told by reviews themselves; take another word")
    with writing(service, actor.tenant) as connection:
        mine = (outcomes.c.tenant == actor.tenant, outcomes.c.outcome_id == outcome_id)
        known = connection.execute(select(outcomes).where(*mine)).first() if outcome_id is not None else None
        if known is not None:
            if (known.trajectory_id, known.kind, known.good) != (trajectory_id, kind, good):
                raise ConflictError("this outcome_id stands for another outcome")
            return _outcome(known), False
        made = Outcome(outcome_id or f"out_{new_id()}", trajectory_id, kind, good, service.now())
        signal = business_signal(Origin(trajectory_id, actor.actor_id, made.at), kind, good=good)
        write_signals(service, connection, actor.tenant, [signal], actor.actor_id)
        row = {"outcome_id": made.outcome_id, "trajectory_id": trajectory_id, "kind": kind, "good": good, "at": made.at}
        connection.execute(insert(outcomes), [{"tenant": actor.tenant} | row])
        return made, True


def rates(service: Service, actor: Actor) -> dict[str, dict[str, int]]:
    """How many good ones of each kind: what the guard compares between releases."""
    actor.require(Permission.LEARNING_READ)
    out: dict[str, dict[str, int]] = {}
    with reading(service, actor.tenant) as connection:
        query = select(outcomes.c.kind, outcomes.c.good).where(outcomes.c.tenant == actor.tenant).order_by(outcomes.c.kind)
        for row in connection.execute(query):
            counts = out.setdefault(row.kind, {"good": 0, "all": 0})
            counts["all"] += 1
            counts["good"] += bool(row.good)
    return out


def _outcome(row: Any) -> Outcome:
    return Outcome(row.outcome_id, row.trajectory_id, row.kind, bool(row.good), row.at)
