"""The gate: does a candidate get better where it was meant to, and nowhere worse? METHODS §1.7.

Every item was answered by the baseline and by the candidate; scores lie in [0, 1]. Three verdicts: *promote*, *reject*, and
*insufficient evidence*, which says how many items would decide. A gate that can only say no is easy to pass for safe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from certloop.agentrl.release.errors import GateError
from certloop.agentrl.release.statistics import bootstrap_means, holm


class Verdict(StrEnum):
    PROMOTE = "promote"
    REJECT = "reject"
    INSUFFICIENT = "insufficient_evidence"


class Origin(StrEnum):
    """Reports give both side by side: synthetic counts mislead."""

    REAL = "real"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class Pair:
    """One item under both releases. ``group`` is what must not be forgotten (a document type); ``parts`` are scores by part of
    the answer (a field) for the forgetting table: ``{part: (baseline, candidate)}``."""

    item_id: str
    group: str
    baseline: float
    candidate: float
    origin: Origin = Origin.REAL
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        return self.candidate - self.baseline


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person said about the candidate; ``approved=False`` is a veto."""

    actor: str
    approved: bool
    at: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the gate looks at.

    ``target`` are items of what the candidate was trained for, ``retained`` of everything else that works today.
    ``newly_failing`` are regression cases that pass under the baseline and failed under the candidate in every re-run.
    ``checks`` are named tests that must hold whatever the scores say (reward hacking, repair of a check digit)."""

    target: Sequence[Pair]
    retained: Sequence[Pair]
    newly_failing: Sequence[str] = ()
    checks: Mapping[str, bool] = field(default_factory=dict)
    latency_ratio: float | None = None
    memory_bytes: int | None = None
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class GateConfig:
    """Bounds of the gate. Margins are in score (0.005 is half a point); ``alpha`` is one-sided."""

    alpha: float = 0.05
    retained_margin: float = 0.005
    group_alpha: float = 0.05
    worthwhile: float = 0.005
    min_discordant: int = 10
    draws: int = 4000
    seed: int = 0
    required_checks: tuple[str, ...] = ()
    max_latency_ratio: float = 1.25
    max_memory_bytes: int | None = None
    needs_approval: bool = False


DEFAULT = GateConfig()


@dataclass(frozen=True, slots=True)
class Bound:
    """A mean gain with its one-sided bounds. ``n`` items, ``discordant`` of them with different scores."""

    n: int
    discordant: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict, every reason for it, and the numbers. ``needed`` are items that would decide, by suite, at the effect seen."""

    verdict: Verdict
    reasons: tuple[str, ...]
    target: Bound
    retained: Bound
    groups: Mapping[str, Bound]
    alarms: tuple[str, ...] = ()
    needed: Mapping[str, int] = field(default_factory=dict)


def judge(evidence: Evidence, config: GateConfig = DEFAULT) -> GateResult:
    """Judge a candidate. Raises GateError when there is nothing to judge or a score is no number in [0, 1]."""
    if not evidence.target:
        raise GateError("the gate needs target items: what was the candidate trained for?")
    _checked([*evidence.target, *evidence.retained])
    target = bound(evidence.target, config)
    retained = bound(evidence.retained, config) if evidence.retained else Bound(0, 0, 0.0, 0.0, 0.0)
    groups, alarms = _groups(evidence, config)
    refused = _refusals(evidence, config) + _harm(target, retained, alarms, groups, config)
    open_questions, needed = _open_questions(evidence, target, retained, config)
    if refused:
        verdict, reasons = Verdict.REJECT, refused
    elif open_questions:
        verdict, reasons = Verdict.INSUFFICIENT, open_questions
    else:
        verdict = Verdict.PROMOTE
        reasons = [f"{name} {b.mean:+.4f}, at least {b.lower:+.4f}" for name, b in (("target", target), ("retained", retained))]
    return GateResult(verdict, tuple(reasons), target, retained, groups, alarms, needed)


def bound(pairs: Sequence[Pair], config: GateConfig = DEFAULT) -> Bound:
    """The mean gain over all items, bootstrapped within each group so that the mix of groups stays what it is."""
    gains = _by_group(pairs)
    sizes = np.array([len(values) for values in gains.values()], dtype=np.float64)
    means_DG = bootstrap_means(list(gains.values()), draws=config.draws, seed=config.seed)
    pooled_D = means_DG @ (sizes / sizes.sum())
    every = np.concatenate(list(gains.values()))
    return Bound(
        n=len(every),
        discordant=int(np.count_nonzero(every)),
        mean=float(every.mean()),
        lower=float(np.quantile(pooled_D, config.alpha)),
        upper=float(np.quantile(pooled_D, 1.0 - config.alpha)),
    )


def _checked(pairs: Sequence[Pair]) -> None:
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        if not all(math.isfinite(score) and 0.0 <= score <= 1.0 for score in (pair.baseline, pair.candidate)):
            raise GateError(f"item {pair.item_id[:64]} has a score outside [0, 1]")
        if (pair.item_id, pair.group) in seen:
            raise GateError(f"item {pair.item_id[:64]} counts twice: an item has one pair, in one suite")
        seen.add((pair.item_id, pair.group))


def _by_group(pairs: Sequence[Pair]) -> dict[str, NDArray[np.float64]]:
    gains: dict[str, list[float]] = {}
    for pair in sorted(pairs, key=lambda p: (p.group, p.item_id)):
        gains.setdefault(pair.group, []).append(pair.gain)
    return {group: np.array(values) for group, values in gains.items()}


def _groups(evidence: Evidence, config: GateConfig) -> tuple[dict[str, Bound], tuple[str, ...]]:
    """Each retained group alone: a bound for the report, and an alarm where Holm's procedure finds it worse than the margin."""
    bounds: dict[str, Bound] = {}
    p_values: dict[str, float] = {}
    for group, gains in _by_group(evidence.retained).items():
        means_D = bootstrap_means([gains], draws=config.draws, seed=config.seed)[:, 0]
        low, high = float(np.quantile(means_D, config.alpha)), float(np.quantile(means_D, 1.0 - config.alpha))
        bounds[group] = Bound(len(gains), int(np.count_nonzero(gains)), float(gains.mean()), low, high)
        p_values[group] = float((1 + np.count_nonzero(means_D >= -config.retained_margin)) / (config.draws + 1))
    return bounds, holm(p_values, config.group_alpha)


def _refusals(evidence: Evidence, config: GateConfig) -> list[str]:
    reasons = [f"regression case {case} fails again and again" for case in evidence.newly_failing]
    reasons += [f"check {name} does not hold" for name, holds in sorted(evidence.checks.items()) if not holds]
    if evidence.latency_ratio is not None and evidence.latency_ratio > config.max_latency_ratio:
        reasons.append(f"latency {evidence.latency_ratio:.2f} times the baseline's, allowed {config.max_latency_ratio:.2f}")
    if (
        evidence.memory_bytes is not None
        and config.max_memory_bytes is not None
        and evidence.memory_bytes > config.max_memory_bytes
    ):
        reasons.append(f"memory {evidence.memory_bytes >> 20} MiB, allowed {config.max_memory_bytes >> 20} MiB")
    if evidence.approval is not None and not evidence.approval.approved:
        reasons.append(f"{evidence.approval.actor} vetoed it")
    return reasons


def _harm(target: Bound, retained: Bound, alarms: Sequence[str], groups: Mapping[str, Bound], config: GateConfig) -> list[str]:
    reasons = [f"{group} is worse: {groups[group].mean:+.4f} over {groups[group].n} items" for group in alarms]
    if retained.n and retained.upper < -config.retained_margin:
        reasons.append(f"what worked got worse: {retained.mean:+.4f}, at most {retained.upper:+.4f}")
    if target.upper < 0.0:
        reasons.append(f"the target got worse: {target.mean:+.4f}, at most {target.upper:+.4f}")
    elif target.lower <= 0.0 and target.upper < config.worthwhile and target.discordant >= config.min_discordant:
        reasons.append(f"no gain worth a release: {target.mean:+.4f}, at most {target.upper:+.4f}")
    return reasons


def _open_questions(evidence: Evidence, target: Bound, retained: Bound, config: GateConfig) -> tuple[list[str], dict[str, int]]:
    questions: list[str] = []
    needed: dict[str, int] = {}
    if target.discordant < config.min_discordant:
        questions.append(f"only {target.discordant} target items tell the two apart; {config.min_discordant} are the least")
        needed["target"] = math.ceil(target.n * config.min_discordant / max(1, target.discordant))
    elif target.lower <= 0.0:
        questions.append(f"the target's gain may be chance: {target.mean:+.4f}, from {target.lower:+.4f} on")
        needed["target"] = _items_for(evidence.target, max(target.mean, config.worthwhile), config)
    if not evidence.retained:
        questions.append("nothing was tested of what works today")
    elif retained.lower < -config.retained_margin:
        questions.append(f"what works may have got worse: {retained.mean:+.4f}, from {retained.lower:+.4f} on")
        room = config.retained_margin + max(retained.mean, -config.retained_margin / 2)
        needed["retained"] = _items_for(evidence.retained, room, config)
    missing = [name for name in config.required_checks if name not in evidence.checks]
    questions += [f"check {name} was not run" for name in missing]
    if config.needs_approval and evidence.approval is None:
        questions.append("a person has to approve it")
    return questions, needed


def _items_for(pairs: Sequence[Pair], effect: float, config: GateConfig) -> int:
    """Items for 80 % power at this effect and the spread seen: ((z_alpha + z_0.8) sd / effect)²."""
    from scipy.stats import norm

    spread = float(np.std([pair.gain for pair in pairs]))
    power = float(norm.ppf(1.0 - config.alpha) + norm.ppf(0.8))
    return max(len(pairs), math.ceil((power * spread / effect) ** 2))
