"""Guards of a canary: the business against the judge, behaviour, latency. METHODS §1.6.

Business outcomes never become a reward: they are what tells whether the rewards can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from certloop.agentrl.release.statistics import divergence_p, holm, rising_p, two_proportions


class Alarm(StrEnum):
    """Why a canary is taken back."""

    DIVERGENCE = "judge_up_business_down"
    BUSINESS = "business_down"
    TOOL_PATHS = "tool_paths_drift"
    FAILURE_CLASS = "failure_class_up"
    LATENCY = "latency_up"


@dataclass(frozen=True, slots=True)
class ArmWindow:
    """What one release did in the window: ``passed`` of ``decided`` documents went through without an edit (an auditor's first
    approval), ``judge`` the mean judge score a period, oldest first, ``tool_paths`` and ``failures`` how often each came up among
    ``documents``, ``latency_p95_s`` seconds."""

    documents: int
    decided: int
    passed: int
    judge: Sequence[float] = ()
    tool_paths: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    latency_p95_s: float = 0.0

    @property
    def judge_mean(self) -> float | None:
        return sum(self.judge) / len(self.judge) if self.judge else None


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """``min_decided`` documents an arm before the business guard speaks; the alphas are one-sided."""

    min_decided: int = 200
    judge_margin: float = 0.02
    judge_trend_alpha: float = 0.05
    business_alpha: float = 0.01
    business_alone_alpha: float = 0.001
    drift_alpha: float = 0.001
    drift_min: float = 0.02
    failure_alpha: float = 0.01
    latency_ratio: float = 1.5


DEFAULT = GuardConfig()


@dataclass(frozen=True, slots=True)
class Finding:
    """One alarm with the numbers behind it; ``subject`` names the failure class where there is one."""

    alarm: Alarm
    reason: str
    p: float | None = None
    subject: str | None = None


def check(new: ArmWindow, old: ArmWindow, config: GuardConfig = DEFAULT) -> tuple[Finding, ...]:
    """Everything that speaks against ``new``; empty while nothing does."""
    found = [business(new, old, config), _tool_paths(new, old, config), _latency(new, old, config)]
    return tuple(f for f in found if f is not None) + _failures(new, old, config)


def business(new: ArmWindow, old: ArmWindow, config: GuardConfig = DEFAULT) -> Finding | None:
    """The business pass rate against the judge (METHODS §1.6): down while the judge rises, or far down whatever it says."""
    if min(new.decided, old.decided) < config.min_decided:
        return None
    z, p = two_proportions(new.passed, new.decided, old.passed, old.decided)
    numbers = f"{new.passed}/{new.decided} against {old.passed}/{old.decided} passed, z={z:.3f}, p={p:.5f}"
    if p < config.business_alpha and _judge_rose(new, old, config):
        return Finding(Alarm.DIVERGENCE, f"the judge is more pleased and the business less: {numbers}", p)
    if p < config.business_alone_alpha:
        return Finding(Alarm.BUSINESS, f"the business pass rate fell: {numbers}", p)
    return None


def _judge_rose(new: ArmWindow, old: ArmWindow, config: GuardConfig) -> bool:
    if new.judge_mean is None or old.judge_mean is None:
        return False
    return new.judge_mean - old.judge_mean >= config.judge_margin or rising_p(new.judge) < config.judge_trend_alpha


def _tool_paths(new: ArmWindow, old: ArmWindow, config: GuardConfig) -> Finding | None:
    divergence, p = divergence_p(new.tool_paths, old.tool_paths, draws=2000)
    if divergence < config.drift_min or p >= config.drift_alpha:
        return None
    return Finding(Alarm.TOOL_PATHS, f"tools are used in other ways: divergence {divergence:.3f} bits, p={p:.4f}", p)


def _failures(new: ArmWindow, old: ArmWindow, config: GuardConfig) -> tuple[Finding, ...]:
    """The mean may be fine while one class degrades: every class against its own baseline, corrected by Holm."""
    p_values: dict[str, float] = {}
    for name in sorted(set(new.failures) | set(old.failures)):
        good_new, good_old = new.documents - new.failures.get(name, 0), old.documents - old.failures.get(name, 0)
        p_values[name] = two_proportions(good_new, new.documents, good_old, old.documents)[1]
    return tuple(
        Finding(
            Alarm.FAILURE_CLASS,
            f"{name}: {new.failures.get(name, 0)} of {new.documents} against {old.failures.get(name, 0)} of {old.documents}",
            p_values[name],
            name,
        )
        for name in holm(p_values, config.failure_alpha)
    )


def _latency(new: ArmWindow, old: ArmWindow, config: GuardConfig) -> Finding | None:
    if old.latency_p95_s <= 0.0 or new.latency_p95_s <= config.latency_ratio * old.latency_p95_s:
        return None
    return Finding(Alarm.LATENCY, f"p95 {new.latency_p95_s:.2f} s against {old.latency_p95_s:.2f} s")
