"""Who holds a review. A claim ends by itself; while it lasts nobody else can take the review, change it or decide it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select, update

from certloop.agentrl.store import NotFoundError
from certloop.serve.db.access import writing
from certloop.serve.db.schema import reviews
from certloop.serve.errors import ClaimedError, ConflictError
from certloop.serve.people.roles import Permission
from certloop.serve.review import history
from certloop.serve.review.history import Action
from certloop.serve.review.policy import policy_of

if TYPE_CHECKING:
    from certloop.serve.context import Service
    from certloop.serve.people.actor import Actor

MAX_LEASE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Review:
    """A row of the queue. ``second``: it was decided, and waits for (or is held by) a second auditor."""

    certificate_id: str
    state: str
    priority: float
    created_at: str
    claimed_by: str | None
    lease_until: str | None
    decided_by: str | None
    decided_at: str | None
    double_check: bool

    def second(self, undo_until: str) -> bool:
        return self.double_check and self.state == "approved" and str(self.decided_at) <= undo_until

    def held_by_other(self, actor_id: str, now: str) -> bool:
        return self.claimed_by not in (None, actor_id) and str(self.lease_until) > now


def claim(service: Service, actor: Actor, certificate_id: str, lease_s: float | None = None) -> Review:
    """Hold an open review (or one waiting for a second auditor) for ``lease_s`` seconds; again by its holder: longer.

    Raises NotFoundError, ClaimedError while somebody else holds it, ConflictError when it is decided, or when a second look is
    asked of the auditor who decided it.
    """
    actor.require(Permission.REVIEWS_DECIDE)
    with writing(service, actor.tenant) as connection:
        return hold(service, connection, actor, certificate_id, lease_s)


def release(service: Service, actor: Actor, certificate_id: str) -> Review:
    """Give a review back; edits stay. An admin may give back what somebody else holds. Raises NotFoundError, ClaimedError."""
    actor.require(Permission.REVIEWS_DECIDE)
    with writing(service, actor.tenant) as connection:
        review, now = load(connection, actor.tenant, certificate_id), service.now()
        if review.held_by_other(actor.actor_id, now) and not actor.may(Permission.ADMIN):
            raise ClaimedError("somebody else holds this review")
        if review.claimed_by is not None:
            change(connection, actor.tenant, certificate_id, claimed_by=None, lease_until=None)
            _note(connection, actor, certificate_id, now, Action.RELEASED)
        return load(connection, actor.tenant, certificate_id)


def hold(service: Service, connection: Connection, actor: Actor, certificate_id: str, lease_s: float | None = None) -> Review:
    """:func:`claim` inside the caller's transaction: whoever edits or decides holds the review first."""
    policy, now = policy_of(connection, actor.tenant), service.now()
    review = load(connection, actor.tenant, certificate_id)
    second = review.second(earlier(now, policy.undo_s))
    if review.state != "open" and not second:
        raise ConflictError(f"this review is {review.state}; only open ones can be claimed")
    if second and review.decided_by == actor.actor_id:
        raise ConflictError("the second look is for another auditor than the one who decided")
    if review.held_by_other(actor.actor_id, now):
        raise ClaimedError(f"somebody else holds this review until {review.lease_until}")
    lease = min(policy.lease_s if lease_s is None else lease_s, MAX_LEASE_S)
    until = later(now, lease)
    if review.claimed_by == actor.actor_id and str(review.lease_until) > now:
        until = max(until, str(review.lease_until))
    else:
        _note(connection, actor, certificate_id, now, Action.CLAIMED, until=until)
    change(connection, actor.tenant, certificate_id, claimed_by=actor.actor_id, lease_until=until)
    return load(connection, actor.tenant, certificate_id)


def load(connection: Connection, tenant: str, certificate_id: str) -> Review:
    """Raises NotFoundError."""
    query = select(reviews).where(reviews.c.tenant == tenant, reviews.c.certificate_id == certificate_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError("no review with this id in this tenant")
    return from_row(row)


def from_row(row: Any) -> Review:
    return Review(
        row.certificate_id, row.state, row.priority, row.created_at, row.claimed_by, row.lease_until, row.decided_by,
        row.decided_at, row.double_check,
    )  # fmt: skip


def change(connection: Connection, tenant: str, certificate_id: str, **values: Any) -> None:
    mine = (reviews.c.tenant == tenant, reviews.c.certificate_id == certificate_id)
    connection.execute(update(reviews).where(*mine).values(**values))


def later(instant: str, seconds: float) -> str:
    moment = datetime.fromisoformat(instant).astimezone(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds")


def earlier(instant: str, seconds: float) -> str:
    return later(instant, -seconds)


def _note(connection: Connection, actor: Actor, certificate_id: str, at: str, action: Action, **details: str) -> None:
    history.append(connection, actor.tenant, certificate_id, at=at, actor=actor.actor_id, action=action, details=details)
