"""When a run is due, and why: enough was learned, a class fails, or it is time. Too little says so and waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from certloop.agentrl.release.statistics import holm, two_proportions


@dataclass(frozen=True, slots=True)
class TriggerConfig:
    """``min_new`` approved answers since the last run; or a class of answers that fails more than it did (Holm at ``alpha``,
    from ``min_class`` answers on); never within ``min_interval_s`` of the last run, and at least after ``max_interval_s`` where
    anything is new."""

    min_new: int = 200
    min_class: int = 30
    alpha: float = 0.01
    min_interval_s: float = 3600.0
    max_interval_s: float = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Learned:
    """What came in since the last run. ``classes`` are (right, answered) by class since then, ``before`` the same until then."""

    new: int
    last_run: datetime | None
    classes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    before: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Whether a run is due; ``focus`` are the classes that fail."""

    due: bool
    reason: str
    focus: tuple[str, ...] = ()


def look(learned: Learned, now: datetime, config: TriggerConfig | None = None) -> Trigger:
    """Decide. A clock that went back counts as no time at all."""
    config = config or TriggerConfig()
    age = timedelta.max if learned.last_run is None else max(timedelta(0), now - learned.last_run)
    if age < timedelta(seconds=config.min_interval_s):
        return Trigger(False, f"the last run was {age.total_seconds() / 60:.0f} minutes ago")
    failing = _failing(learned, config)
    if failing:
        return Trigger(True, f"fails more than before: {', '.join(failing)}", failing)
    if learned.new >= config.min_new:
        return Trigger(True, f"{learned.new} new approved answers")
    if learned.new and learned.last_run is not None and age >= timedelta(seconds=config.max_interval_s):
        return Trigger(True, f"{age.days} days since the last run, {learned.new} new approved answers")
    return Trigger(False, f"{learned.new} of {config.min_new} new approved answers: too few, waiting")


def _failing(learned: Learned, config: TriggerConfig) -> tuple[str, ...]:
    p_values: dict[str, float] = {}
    for name, (right, answered) in learned.classes.items():
        right_before, answered_before = learned.before.get(name, (0, 0))
        if min(answered, answered_before) >= config.min_class:
            p_values[name] = two_proportions(right, answered, right_before, answered_before)[1]
    return holm(p_values, config.alpha)
