"""The history of reward versions: what each allowed, and the test that forbids it since. Data: ``history.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class RewardVersion:
    """``test`` is ``path::name``, relative to the root of the source."""

    version: str
    reward: str
    hack: str
    since: str
    test: str


def reward_history() -> tuple[RewardVersion, ...]:
    """Oldest first."""
    text = files("certloop.agentrl.rewards").joinpath("history.toml").read_text(encoding="utf-8")
    return tuple(RewardVersion(**entry) for entry in tomllib.loads(text)["version"])
