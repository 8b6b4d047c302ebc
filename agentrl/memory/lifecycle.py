"""How an item earns its place. METHODS §9: reliability (passed + 1) / (trials + 2); kept from 0.5, archived below 0.3."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """A trial is in use already: it was replayed before. Archived and removed items are not in use any more."""

    TRIAL = "trial"
    ACTIVE = "active"
    ARCHIVED = "archived"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    trials: int = 3
    min_reliability: float = 0.5
    archive_below: float = 0.3


DEFAULT = LifecycleConfig()


def reliability(passed: int, failed: int) -> float:
    """Laplace's rule: 2 of 3 gives 0.6, 0 of 3 gives 0.2."""
    return (passed + 1) / (passed + failed + 2)


def next_state(state: State, passed: int, failed: int, config: LifecycleConfig = DEFAULT) -> State:
    """Where an item stands after ``passed`` and ``failed`` uses. Removed and archived items stay so."""
    if state in (State.REMOVED, State.ARCHIVED):
        return state
    sure = reliability(passed, failed)
    if state is State.ACTIVE:
        return State.ARCHIVED if sure < config.archive_below else State.ACTIVE
    if passed + failed < config.trials:
        return State.TRIAL
    return State.ACTIVE if sure >= config.min_reliability else State.ARCHIVED
