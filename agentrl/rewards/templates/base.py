"""What a reward template is: a small pluggable task that scores answers and proves, without any model, that it does so sensibly.

Adding one is one file: a frozen dataclass with ``kind``, ``score``, ``gold`` and ``decoys``, registered with :func:`register`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from certloop.agentrl.rewards.errors import RewardError

JUNK = ("", " ", "null", "{}", "[]", "我不知道", "{" * 2000, '{"a": "' + "字" * 20_000, "\x00")
"""Answers that are worth next to nothing on every task: empty, no JSON, cut off, endless."""
JUNK_MAX = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """A reward in [0, 1] and its parts. ``form``: whether the answer had the form that was asked for."""

    reward: float
    form: bool
    parts: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class RewardTemplate(Protocol):
    """One task with its reward. ``decoys`` are tempting answers that must score below the gold one (known reward hacks)."""

    kind: ClassVar[str]

    def score(self, answer: str, /) -> Score: ...

    def gold(self) -> str: ...

    def decoys(self) -> Iterable[str]: ...


T = TypeVar("T", bound=type)
_KINDS: dict[str, type] = {}


def register(template: T) -> T:
    """Make a template known by its ``kind`` (a class decorator). Raises RewardError when the kind is taken."""
    kind = template.kind  # type: ignore[attr-defined]
    if _KINDS.setdefault(kind, template) is not template:
        raise RewardError(f"there is already a reward template of kind {kind!r}")
    return template


def template_kinds() -> tuple[str, ...]:
    return tuple(sorted(_KINDS))


def template_kind(kind: str) -> type:
    """Return the class of a kind. Raises RewardError that lists the known kinds."""
    if kind not in _KINDS:
        raise RewardError(f"unknown reward template {kind!r}; known: {', '.join(template_kinds())}")
    return _KINDS[kind]


def validate(template: RewardTemplate) -> None:
    """Prove a template without a model: gold earns exactly 1.0 in good form, decoys less, junk next to nothing, all twice alike.

    Raises RewardError naming the first answer (by its place, not its text) that is scored wrongly.
    """
    gold = _checked(template, template.gold(), "the gold answer")
    if gold.reward != 1.0 or not gold.form:
        raise RewardError(f"{template.kind}: the gold answer earns {gold.reward:.4f} instead of 1.0 in good form")
    for number, decoy in enumerate(template.decoys()):
        if _checked(template, decoy, f"decoy {number}").reward >= 1.0:
            raise RewardError(f"{template.kind}: decoy {number} earns as much as the gold answer")
    for number, junk in enumerate(JUNK):
        if junk.strip() != template.gold().strip() and _checked(template, junk, f"junk {number}").reward > JUNK_MAX:
            raise RewardError(f"{template.kind}: junk {number} earns more than {JUNK_MAX}")


def _checked(template: RewardTemplate, answer: str, name: str) -> Score:
    first, second = template.score(answer), template.score(answer)
    if not math.isfinite(first.reward) or not 0.0 <= first.reward <= 1.0:
        raise RewardError(f"{template.kind}: the reward of {name} lies outside of [0, 1]")
    if first != second:
        raise RewardError(f"{template.kind}: {name} is not scored the same twice")
    return first
