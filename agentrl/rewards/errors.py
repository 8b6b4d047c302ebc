"""The one error of the reward functions: a task that cannot be scored. A bad *answer* never raises, it scores low."""

from __future__ import annotations

from certloop.agentrl.errors import CertloopError


class RewardError(CertloopError, ValueError):
    """The ground truth or a setting of the reward is not well formed (code reward_invalid)."""

    code = "reward_invalid"
