"""Items of memory, and the one table of what happened to them. Rows are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Column, Index, MetaData, Table, Text

from certloop.agentrl.memory.lifecycle import State

metadata = MetaData()

events = Table(
    "memory_events",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("item_id", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("memory_events_item", "tenant", "item_id"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One rule. ``kind`` is of a closed list, ``key`` says what it is for (a document type), ``body`` is the rule itself,
    ``evidence`` are ids of the events it was learned from, ``actor`` wrote them."""

    item_id: str
    kind: str
    key: str
    body: Mapping[str, Any]
    evidence: tuple[str, ...] = ()
    actor: str = ""
    at: str = ""
    state: State = State.TRIAL
    passed: int = 0
    failed: int = 0
    reason: str = field(default="", compare=False)

    @property
    def in_use(self) -> bool:
        return self.state in (State.TRIAL, State.ACTIVE)
