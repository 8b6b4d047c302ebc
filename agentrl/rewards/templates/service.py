"""Customer service: was the problem solved, and was the customer content? Content without solved is worth little.

Resolution is checked on the answer (what it must say, what it must not), satisfaction is the customer's next message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.path import QUALITY_MARGIN
from certloop.agentrl.rewards.templates.base import Score, register
from certloop.agentrl.rewards.text import fold
from certloop.agentrl.signals.implicit import classify_message

MAX_WORDS_RATIO = 10
"""An answer more than this many times as long as the model solution reads as a dump of everything and resolves nothing."""


def service_reward(satisfaction: float, resolution: float, *, weight: float = 0.5) -> float:
    """Return ``weight * satisfaction + (1 - weight) * resolution``, at most ``resolution + 0.1``; all in [0, 1].

    The gate keeps charm from paying: a happy customer with an open problem earns 0.1. Raises RewardError outside of [0, 1].
    """
    if not all(0.0 <= x <= 1.0 for x in (satisfaction, resolution, weight)):
        raise RewardError("satisfaction, resolution and weight must lie in [0, 1]")
    mixed = math.fsum((weight * satisfaction, (1.0 - weight) * resolution))
    return min(1.0, mixed, resolution + QUALITY_MARGIN)


@register
@dataclass(frozen=True)
class ServiceTask:
    """One request. ``required`` are facts of which each must stand in the answer, ``forbidden`` must not.

    ``customer`` turns an answer into the customer's next message: a script, a simulator, or what a real customer wrote; an empty
    message counts as neither content nor not.
    """

    kind: ClassVar[str] = "service"
    required: tuple[str, ...]
    solution: str
    customer: Callable[[str], str]
    forbidden: tuple[str, ...] = ()
    weight: float = 0.5

    def score(self, answer: str, /) -> Score:
        text = fold(answer)
        said = [fold(fact) in text for fact in self.required]
        clean = not any(fold(wrong) in text for wrong in self.forbidden)
        short = len(text) <= MAX_WORDS_RATIO * max(len(fold(self.solution)), 20)
        resolution = sum(said) / len(said) if said and clean and short else 0.0
        found = classify_message(self.customer(answer))
        satisfaction = 0.5 if found is None else (found.value + 1.0) / 2.0
        reward = service_reward(satisfaction, resolution, weight=self.weight)
        return Score(reward, bool(text) and short, {"satisfaction": satisfaction, "resolution": resolution})

    def gold(self) -> str:
        return self.solution

    def decoys(self) -> Iterator[str]:
        """Charm, an apology, half of the facts, and everything at once."""
        yield "非常感谢您的耐心，祝您生活愉快！"
        yield "抱歉给您带来不便，我们会尽快处理。"
        for fact in self.required:
            yield self.solution.replace(fact, "")
        for wrong in self.forbidden:
            yield f"{self.solution}{wrong}"
        yield self.solution * (MAX_WORDS_RATIO * 3)
