"""Advantages of one group of samples: what a reward is turned into before it reaches the loss (METHODS §2, §3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from certloop.agentrl.rewards.errors import RewardError

Scale = Literal["group", "none"]
SAME = 1e-12
"""Rewards that differ by so small a share of their size are equal but for rounding: no advantage is made of noise."""


def group_advantages(rewards: Sequence[float], *, scale: Scale = "group", sample_std: bool = False) -> list[float]:
    """Return ``(r - mean) / std`` of one prompt's samples; ``scale="none"`` only subtracts the mean.

    ``sample_std`` divides by n - 1 as torch.std does (TRL); the papers divide by n. A group of equal rewards gives zeros.
    Raises RewardError for an empty group, a reward that is not finite or an unknown scale.
    """
    if not rewards or not all(math.isfinite(r) for r in rewards):
        raise RewardError("a group needs at least one reward and every reward must be finite")
    if scale not in ("group", "none"):
        raise RewardError(f"unknown scale {scale!r}; use 'group' or 'none'")
    largest = max(map(abs, rewards))
    if max(rewards) - min(rewards) <= SAME * largest:
        return [0.0] * len(rewards)
    mean = math.fsum(r / len(rewards) for r in rewards)
    centred = [r - mean for r in rewards]
    if scale == "none":
        return centred
    top = max(abs(c) for c in centred)  # scaled first: the squares of tiny differences would vanish
    std = top * math.sqrt(math.fsum((c / top) ** 2 for c in centred) / (len(rewards) - sample_std))
    return [c / std for c in centred]
