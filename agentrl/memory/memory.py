"""A tenant's overlay: rules learned since the last release, each with its evidence, in use at once and removable at any time.

Adding is write-then-read: what ``add`` returned is in the next ``in_use``. A rule is checked by its kind (closed keys, no
values, no orders), then by a replay that the caller hands in, before it is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, func, insert, select

from certloop.agentrl.memory.errors import QuotaError, RuleError, RuleRefusedError, UnknownRuleError
from certloop.agentrl.memory.lifecycle import DEFAULT, LifecycleConfig, State, next_state
from certloop.agentrl.memory.schema import Item, events, metadata
from certloop.agentrl.store.engine import reading, writing
from certloop.agentrl.store.events import canonical, new_id
from certloop.agentrl.store.migrate import run_revisions

Check = Callable[[Mapping[str, Any]], None]
"""Raises RuleRefusedError for a body that its kind does not allow."""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """``kinds`` is the closed list of what can be learned, each with its check. The quotas keep one author or one form from
    filling a tenant's memory."""

    kinds: Mapping[str, Check]
    max_items: int = 500
    max_per_key: int = 100
    max_per_actor_a_day: int = 100
    lifecycle: LifecycleConfig = DEFAULT


class Memory:
    """The memory of all tenants of one database. Methods take the tenant; nothing of another is ever read."""

    def __init__(self, engine: Engine, config: MemoryConfig, clock: Callable[[], datetime]) -> None:
        self._engine, self._config, self._clock = engine, config, clock

    @classmethod
    def open(cls, engine: Engine, config: MemoryConfig, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Self:
        """Bring the table to this release's schema. ``engine`` is a store's."""
        with writing(engine, None) as connection:
            run_revisions(connection, Path(__file__).parent / "migrations", "memory_version", metadata)
        return cls(engine, config, clock)

    def add(
        self,
        tenant: str,
        kind: str,
        key: str,
        body: Mapping[str, Any],
        *,
        evidence: Iterable[str],
        actor: str,
        replay: Callable[[Mapping[str, Any]], None],
        connection: Connection | None = None,
    ) -> Item:
        """Check, replay and keep a rule. The same rule again adds its evidence to the one that is there.

        ``replay`` raises ReplayFailedError when the rule does not help or breaks what works. With ``connection`` (in a write
        transaction of this tenant) the rule commits with the caller's rows. Raises RuleRefusedError, QuotaError, RuleError.
        """
        check = self._config.kinds.get(kind)
        if check is None:
            raise RuleRefusedError(
                f"nothing of kind {kind[:24]} can be learned; kinds are {', '.join(sorted(self._config.kinds))}"
            )
        proof = tuple(evidence)
        if not actor or not proof:
            raise RuleError("a rule names who it comes from and the events it was learned from")
        check(body)
        replay(body)
        if connection is not None:
            return self._add(connection, tenant, Item(new_id(), kind, key, dict(body), proof, actor))
        with writing(self._engine, tenant) as own:
            return self._add(own, tenant, Item(new_id(), kind, key, dict(body), proof, actor))

    def in_use(self, tenant: str, key: str | None = None) -> tuple[Item, ...]:
        """The rules that the next reading follows, oldest first."""
        return tuple(item for item in self.items(tenant) if item.in_use and key in (None, item.key))

    def items(self, tenant: str) -> tuple[Item, ...]:
        """Everything that was ever learned, with its state and record."""
        with reading(self._engine, tenant) as connection:
            return tuple(_fold(connection, tenant, self._config.lifecycle).values())

    def record(self, tenant: str, item_id: str, *, passed: bool, actor: str, evidence: str) -> Item:
        """Note that a rule was followed and the answer was right or wrong; a rule that fails too often is archived."""
        body = {"passed": passed, "evidence": evidence}
        return self._note(tenant, item_id, "passed" if passed else "failed", actor, body)

    def remove(self, tenant: str, item_id: str, *, actor: str, reason: str) -> Item:
        """Take a rule out of use for good. Its history stays."""
        return self._note(tenant, item_id, "removed", actor, {"reason": reason})

    def withdraw(self, tenant: str, evidence: Collection[str], *, actor: str, reason: str) -> tuple[Item, ...]:
        """Remove every rule that rests on nothing but this evidence (an erased document, an auditor found unreliable)."""
        gone = set(evidence)
        doomed = [item for item in self.items(tenant) if item.state is not State.REMOVED and set(item.evidence) <= gone]
        return tuple(self.remove(tenant, item.item_id, actor=actor, reason=reason) for item in doomed)

    def _add(self, connection: Connection, tenant: str, item: Item) -> Item:
        known = _fold(connection, tenant, self._config.lifecycle)
        for other in known.values():
            if (other.kind, other.key, other.body) == (item.kind, item.key, dict(item.body)) and other.in_use:
                fresh = [event for event in item.evidence if event not in other.evidence]
                if fresh:
                    self._write(connection, tenant, other.item_id, "supported", item.actor, {"evidence": fresh})
                return replace(other, evidence=(*other.evidence, *fresh))
        self._check_quota([other for other in known.values() if other.in_use], known.values(), item)
        at = self._now()
        body = {"kind": item.kind, "key": item.key, "body": dict(item.body), "evidence": list(item.evidence)}
        self._write(connection, tenant, item.item_id, "added", item.actor, body, at)
        return replace(item, at=at)

    def _check_quota(self, used: Collection[Item], every: Iterable[Item], item: Item) -> None:
        config, today = self._config, self._now()[:10]
        by_key = Counter(other.key for other in used)
        written = sum(other.actor == item.actor and other.at[:10] == today for other in every)
        for count, limit, what in (
            (len(used), config.max_items, "rules of this tenant"),
            (by_key[item.key], config.max_per_key, "rules for this kind of document"),
            (written, config.max_per_actor_a_day, "rules of one author in a day"),
        ):
            if count >= limit:
                raise QuotaError(f"there are {limit} {what} already; remove some, or release them into the next snapshot")

    def _note(self, tenant: str, item_id: str, what: str, actor: str, body: Mapping[str, Any]) -> Item:
        with writing(self._engine, tenant) as connection:
            if item_id not in _fold(connection, tenant, self._config.lifecycle):
                raise UnknownRuleError("no such rule in this tenant")
            self._write(connection, tenant, item_id, what, actor, body)
            return _fold(connection, tenant, self._config.lifecycle)[item_id]

    def _write(
        self, connection: Connection, tenant: str, item_id: str, what: str, actor: str, body: Mapping[str, Any], at: str = ""
    ) -> None:
        last = connection.execute(select(func.max(events.c.position)).where(events.c.tenant == tenant)).scalar() or 0
        values = {"tenant": tenant, "position": last + 1, "item_id": item_id, "what": what, "actor": actor}
        connection.execute(insert(events), [values | {"at": at or self._now(), "body": canonical(dict(body))}])

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")


def _fold(connection: Connection, tenant: str, config: LifecycleConfig) -> dict[str, Item]:
    """Items by id from what happened to them, in order."""
    out: dict[str, Item] = {}
    for row in connection.execute(select(events).where(events.c.tenant == tenant).order_by(events.c.position)):
        body = json.loads(row.body)
        if row.what == "added":
            proof = tuple(body["evidence"])
            out[row.item_id] = Item(row.item_id, body["kind"], body["key"], body["body"], proof, row.actor, row.at)
            continue
        item = out[row.item_id]
        match row.what:
            case "supported":
                item = replace(item, evidence=(*item.evidence, *body["evidence"]))
            case "passed":
                item = replace(item, passed=item.passed + 1)
            case "failed":
                item = replace(item, failed=item.failed + 1)
            case "removed":
                item = replace(item, state=State.REMOVED, reason=body["reason"])
        out[row.item_id] = replace(item, state=next_state(item.state, item.passed, item.failed, config))
    return out
