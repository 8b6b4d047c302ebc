"""Rewards that need no model: field F1 to a power, tool paths, and what becomes of them inside a group.

Nothing here knows a domain: labels are canonical keys, aliases are passed in.
"""

from certloop.agentrl.rewards.errors import RewardError
from certloop.agentrl.rewards.f1_power import (
    FLOOR,
    F1Reward,
    ParsedAnswer,
    f1_power,
    f1_power_reward,
    f1_power_rewards,
    parse_answer,
)
from certloop.agentrl.rewards.group import group_advantages
from certloop.agentrl.rewards.matching import (
    BLANK,
    SENTINELS,
    UNREADABLE,
    Matching,
    Pair,
    SentinelCount,
    Truth,
    claims_nothing,
    match_fields,
)
from certloop.agentrl.rewards.pairing import KEY_THRESHOLD, assign, optimal_assignment
from certloop.agentrl.rewards.path import Weights, composite_reward, efficiency, path_score
from certloop.agentrl.rewards.text import fold, levenshtein, text_similarity

__all__ = [
    "BLANK", "FLOOR", "KEY_THRESHOLD", "SENTINELS", "UNREADABLE", "F1Reward", "Matching", "Pair", "ParsedAnswer", "RewardError",
    "SentinelCount", "Truth", "Weights", "assign", "claims_nothing", "composite_reward", "efficiency", "f1_power",
    "f1_power_reward", "f1_power_rewards", "fold", "group_advantages", "levenshtein", "match_fields", "optimal_assignment",
    "parse_answer", "path_score", "text_similarity",
]  # fmt: skip
