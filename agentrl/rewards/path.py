"""How well the tools were used, and the 40/30/20/10 reward that mixes it with the answer (METHODS §1.3, §1.4).

The source gives three points and no formula for the path; the formula here is our reading and fits all three. In some
domains the path is nearly fixed, so it must never outweigh the answer: the composite is gated by the answer's quality.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from certloop.agentrl.rewards.errors import RewardError

SURPLUS_COST = 0.1
QUALITY_MARGIN = 0.1
"""How far path, efficiency and form together may lift a reward above the answer's quality."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The shares of the composite; they must add up to 1."""

    quality: float = 0.40
    path: float = 0.30
    efficiency: float = 0.20
    form: float = 0.10

    def __post_init__(self) -> None:
        parts = (self.quality, self.path, self.efficiency, self.form)
        if not (all(part >= 0 for part in parts) and abs(sum(parts) - 1.0) <= 1e-9):  # NaN is neither
            raise RewardError(f"the weights of the composite reward must be >= 0 and add up to 1, got {parts}")


def path_score(taken: Sequence[str], golden_paths: Sequence[Sequence[str]]) -> float:
    """Return max over the golden paths G of clip(LCS(G, taken) / |G| - 0.1 * surplus, 0, 1).

    ``surplus`` counts the steps that remain of ``taken`` after taking away those of G as a multiset. Steps are tool names.
    Raises RewardError when there is no golden path or one is empty.
    """
    return max(_score(taken, golden) for golden in _checked(golden_paths))


def efficiency(taken: Sequence[str], golden_paths: Sequence[Sequence[str]]) -> float:
    """Return min(1, |G| / |taken|) for the shortest golden path that scores best; 0 for an empty path."""
    paths = _checked(golden_paths)
    if not taken:
        return 0.0
    best = path_score(taken, paths)
    shortest = min(len(golden) for golden in paths if _score(taken, golden) == best)
    return min(1.0, shortest / len(taken))


def composite_reward(
    quality: float, path: float, efficiency: float, form: float, *, weights: Weights | None = None, gated: bool = True
) -> float:
    """Return 0.40 quality + 0.30 path + 0.20 efficiency + 0.10 form, all in [0, 1], gated to at most quality + 0.1.

    Without the gate a wrong answer on the right path earns 0.60. Raises RewardError for a part outside [0, 1].
    """
    parts = (quality, path, efficiency, form)
    if not all(0.0 <= part <= 1.0 for part in parts):
        raise RewardError(f"every part of the composite reward must lie in [0, 1], got {parts}")
    w = weights or Weights()
    reward = math.fsum((w.quality * quality, w.path * path, w.efficiency * efficiency, w.form * form))
    return min(1.0, reward, quality + QUALITY_MARGIN) if gated else min(1.0, reward)


def _checked(golden_paths: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    if isinstance(golden_paths, str) or any(isinstance(golden, str) for golden in golden_paths):
        raise RewardError("golden paths must be sequences of tool names, not text; wrap a single path in a list")
    if not golden_paths or not all(golden_paths):
        raise RewardError("a path score needs at least one golden path, and no golden path may be empty")
    return golden_paths


def _score(taken: Sequence[str], golden: Sequence[str]) -> float:
    surplus = sum((Counter(taken) - Counter(golden)).values())
    return min(1.0, max(0.0, _longest_common_subsequence(golden, taken) / len(golden) - SURPLUS_COST * surplus))


def _longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    previous = [0] * (len(b) + 1)
    for x in a:
        current = [0]
        for j, y in enumerate(b):
            current.append(previous[j] + 1 if x == y else max(previous[j + 1], current[j]))
        previous = current
    return previous[-1]
