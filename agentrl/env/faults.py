"""Faults that the world throws at an agent, injected from a seed: the same seed breaks the same calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from certloop.agentrl.env.errors import EnvironmentFault


class Fault(StrEnum):
    """``changed``: the call succeeds with an answer that is not true any more, and nothing says so."""

    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    CHANGED = "changed"
    RATE_LIMIT = "rate_limit"


FaultSource = Callable[[int, str], Fault | None]
"""From the number of the call and its tool to the fault that hits it."""


def no_faults(call: int, tool: str) -> Fault | None:
    """Leave every call alone."""
    return None


def scripted_faults(script: Mapping[int, Fault]) -> FaultSource:
    """Return a source that hits the calls of the script, counted from 0."""
    return lambda call, tool: script.get(call)


def random_faults(rates: Mapping[Fault, float], seed: int, *, tools: frozenset[str] | None = None) -> FaultSource:
    """Return a source that hits each call with these probabilities (of ``tools`` only, when given).

    Call n of a seed always meets the same fate, whatever came before. Raises EnvironmentFault when the rates are no distribution.
    """
    if any(not 0.0 <= rate <= 1.0 for rate in rates.values()) or sum(rates.values()) > 1.0:
        raise EnvironmentFault(f"fault rates must be >= 0 and add up to at most 1, got {dict(rates)}")

    def source(call: int, tool: str) -> Fault | None:
        if tools is not None and tool not in tools:
            return None
        draw = random.Random(f"{seed}/{call}").random()
        for fault, rate in rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None

    return source


def alter(payload: Any, seed: int) -> Any:
    """Return a payload of the same shape with one leaf that says something else."""
    rng = random.Random(f"alter/{seed}")
    if isinstance(payload, Mapping) and payload:
        key = rng.choice(sorted(payload))
        return {**payload, key: alter(payload[key], seed + 1)}
    if isinstance(payload, (list, tuple)) and payload:
        index = rng.randrange(len(payload))
        return [alter(item, seed + 1) if i == index else item for i, item in enumerate(payload)]
    if isinstance(payload, bool) or payload is None:
        return not payload
    if isinstance(payload, (int, float)):
        other = payload + rng.randint(1, 9)
        return other if other != payload else -payload  # a float may be too large to notice
    return _alter_text(payload, rng) if isinstance(payload, str) and payload else "changed"


def _alter_text(text: str, rng: random.Random) -> str:
    index = rng.randrange(len(text))
    options = [c for c in ("0123456789" if text[index].isdigit() else "甲乙丙丁") if c != text[index]]
    return text[:index] + rng.choice(options) + text[index + 1 :]
